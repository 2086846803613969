//! Kernel trees: recognise them, give them the options for AutoFDO and Propeller, take these back,
//! say what a configuration needs, and check in a build what the options did.
//!
//! Linux has `AUTOFDO_CLANG` and `PROPELLER_CLANG` since 6.13. [`prepare::standing`] says what
//! gives them to an older tree, as values; [`write::write`] makes it so, [`patch::unified`] prints
//! it. Nothing here prints.
//!
//! [`make::variables`] says with which variables a build uses a profile or a layout, [`objects`]
//! which objects it is for, and [`compiler`] whether the profile is one of the build's compiler.
//! [`workload::build`] compiles the programs that a kernel is trained and judged with, and makes an
//! initramfs of them; what they say is read by `record::machine`. Only the compiler of the workload
//! is a program that is run here.

pub mod anchor;
pub mod check;
pub mod command;
pub mod compiler;
pub mod config;
pub mod edits;
mod error;
pub mod initrd;
pub mod make;
pub mod objects;
pub mod patch;
pub mod prepare;
pub mod requirements;
mod text_order;
pub mod tree;
pub mod workload;
pub mod write;

pub use error::Error;

/// The start of what was found, for messages.
pub(crate) fn shortened(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
