//! Layout metrics of programs and of kernels under emulation.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test")]

mod layout;
mod machine;
mod program;
mod support;
