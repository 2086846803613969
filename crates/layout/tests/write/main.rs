//! Do the files say what the layout says, and do the compilers, linkers and BOLT of this machine
//! read them so?

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod build;
mod check;
mod golden;
mod graph;
mod linkers;
mod round_trip;
