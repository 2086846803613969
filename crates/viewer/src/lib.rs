//! What a terminal shows of a recording: keys in, drawn cells out.
//!
//! [`Viewer`] holds a recording and what the user chose to see of it. [`Viewer::key`] takes a key
//! and says what the program around it is to do ([`Ask`]): end, fetch the lines of a function, read
//! another part of the recording. [`Viewer::draw`] puts the screen into a buffer of cells of any
//! size. Nothing here reads a file, asks the clock or knows a terminal.
//!
//! The modules, from below: what text looks like in cells (`text`); keys and what they are for
//! (`keys`, `help`); lines of a table (`row`); the data and how it is narrowed (`data`); the tables
//! of each view (`views`); what the user chose (`state`, `prompt`, `acting`); the screen (`draw`).

mod acting;
mod data;
mod draw;
mod help;
mod keys;
mod prompt;
mod row;
mod state;
mod text;
mod views;

pub use data::{ByName, Lines, Setup};
pub use keys::Key;
pub use state::{Ask, Viewer};
pub use views::View;
