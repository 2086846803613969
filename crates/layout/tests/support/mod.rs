//! What tests of the layout crate share: control flow graphs from fixtures.

#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

pub mod fixtures;
pub mod programs;
pub mod recorded;
pub mod text_proto;
