//! What it takes to unwind a kernel's stacks from outside: its unwind data, a machine that can be
//! stopped, the walk.

pub mod machine;
pub mod orc;
pub mod stub;
pub mod walk;
