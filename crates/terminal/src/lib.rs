//! The streams of a command, progress, and files that users name.
//!
//! Everything that `crates/planish` prints goes through the macros of this crate, which take the
//! place of the standard library's: nothing here panics on a full disk, and what is printed holds
//! nothing that a terminal obeys. Files that users name are opened by [`input`] and written by
//! [`write_file`].

mod files;
pub mod full_screen;
pub mod input;
pub mod progress;
mod screen;
mod signals;
mod streams;
mod sys;

pub use files::{refuse_inputs, refuse_without_directory, write_file};
pub use screen::screen;
pub use signals::{
    end_whole_on_interrupt, heeded, restore_broken_pipe, survive_lost_connections,
    wait_where_ending,
};
pub use streams::{
    Raw, Shown, Stream, error_text, failed, print, print_json, raw, say_line, say_text, text,
};
