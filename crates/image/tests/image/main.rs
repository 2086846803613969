//! Whether images say what the LLVM tools say about the same files, and survive files that lie.

#![allow(clippy::unwrap_used)] // A helper that cannot go on shall fail its test, as in the tests themselves.

mod blocks;
mod built;
mod debug_files;
mod golden;
mod mutations;
mod peers;
mod probes;
mod relocatable;
