//! Linux kernels, from the tree to the numbers: give trees the options for AutoFDO and Propeller,
//! configure, build, boot, record, count and time.
//!
//! Linux has `AUTOFDO_CLANG` and `PROPELLER_CLANG` since 6.13. [`prepare::standing`] says what
//! gives them to an older tree, as values; [`write::write`] makes it so, [`patch::unified`] prints
//! it. Nothing here prints.
//!
//! [`make::variables`] says with which variables a build uses a profile or a layout, [`objects`]
//! which objects it is for, and [`compiler`] whether the profile is one of the build's compiler.
//! [`build`] puts them together to a call of make. [`workload::build`] compiles the programs that a
//! kernel is trained and judged with, and makes an initramfs of them; what they say is read by
//! `record::machine`. [`recording`], [`cost`] and [`time`] boot kernels with it; [`experiment`] builds
//! variants in many orders and compares what they cost; [`here`] boots this machine into one after
//! another.

pub mod anchor;
pub mod architecture;
pub mod build;
pub mod check;
pub mod command;
pub mod compiler;
pub mod config;
pub mod cost;
pub mod edits;
mod error;
pub mod experiment;
pub mod here;
pub mod initrd;
pub mod machine;
pub mod make;
pub mod modules;
pub mod objects;
pub mod packages;
pub mod patch;
pub mod prepare;
pub mod recording;
pub mod requirements;
pub mod sample_profile;
mod text_order;
pub mod time;
pub mod together;
pub mod tree;
pub mod workload;
pub mod write;

pub use architecture::Architecture;
pub use error::Error;

/// The start of what was found, for messages.
pub(crate) fn shortened(text: &str) -> String {
    shortened_to(text, 80)
}

/// The first so many characters of what was found.
pub(crate) fn shortened_to(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
