//! A recording that still comes in to the samples of its last seconds, in bounded memory.
//!
//! [`Incoming`] takes the bytes of a recording in pipe form as they come. Each [`Incoming::take`]
//! gives a whole recording in pipe form: what is mapped now, and the samples since the last one.
//! With their functions named (by [`calltrees::read`]) such parts go into a [`Window`], which adds
//! up the last of them.
//!
//! Nothing here opens a file, asks the clock or knows a process.

mod incoming;
mod processes;
mod window;

pub use incoming::{Incoming, Taken, Unreadable};
pub use window::Window;
