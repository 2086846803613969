//! What an ELF file says about its code: segments, functions, blocks, inline stacks,
//! discriminators, build ID.
//!
//! A cast of characters:
//! * [`Image`] is an opened ELF file: memory-mapped, its headers read, everything else read when
//!   first asked for.
//! * [`Segment`] and [`Section`] say which file bytes stand at which [`ImageAddr`].
//! * [`Functions`] is the symbol table as an address map; [`code`] decodes instructions; [`blocks`]
//!   reads the basic block address map that clang writes for Propeller.
//! * [`probes`] reads where the numbered blocks of `-fpseudo-probe-for-profiling` ended up.
//! * [`Image::compilers`] names the compilers that made it.
//! * [`debug_files`] finds the file that holds the debug information; [`debug`] reads it.
//! * [`Image::unwind_rules`] unwinds a frame by `.eh_frame`.
//! * [`module_layout`] says where the kernel puts the executable sections of a module.
//!
//! This crate knows addresses as the file states them, never where a process has mapped them.

mod address;
pub mod blocks;
mod build_id;
mod bytes;
pub mod code;
mod compilers;
pub mod debug;
pub mod debug_files;
mod error;
mod function_table;
mod functions;
mod headers;
mod image;
mod leb;
mod memory_map;
mod mini_debug;
pub mod module_layout;
mod patched;
pub mod probes;
mod relocation;
mod sections;
mod soname;
mod stubs;
mod symbols;
mod unwind;
mod unwind_gaps;

pub use address::{FileOffset, ImageAddr};
pub use build_id::{BuildId, ParseBuildIdError};
pub use debug_files::DebugSearch;
pub use error::Error;
pub use function_table::{Function, Functions};
pub use headers::{Arch, Endian, ImageKind, Section, Segment};
pub use image::Image;
pub use symbols::Label;
pub use unwind::{UnwindRegisters, UnwindRules};
