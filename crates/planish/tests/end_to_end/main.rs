//! From recording to compiler, on real programs built here, and from damaged input to an error: the
//! whole command.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod bad_input;
mod bench;
mod compilers;
mod damage;
mod recordings;
