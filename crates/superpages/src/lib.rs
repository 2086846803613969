//! Which program text can lie and does lie on superpages: check, rewrite, warm, verify, probe.
//!
//! A superpage is one entry of the page tables for 2 MiB (on x86-64): one entry of the instruction
//! TLB instead of 512, and one page fault instead of many. The kernel maps file-backed text so,
//! shared by all processes, when two things hold: file offset and address agree modulo 2 MiB
//! ([`check()`] says it, [`align()`] makes it so without changing an address), and the page cache
//! holds the text in superpages ([`warm()`] brings it about, [`keep()`] holds it). [`verify()`]
//! looks at a process, [`probe()`] tries what this kernel and file system can do. A [`Request`]
//! asks `crates/hugetext` for a copy in memory of one process instead.
//!
//! Addresses in results are plain numbers in bytes, as the file or the process states them; no
//! function takes one.

mod align;
mod cache;
mod check;
mod copies;
mod copying;
mod elf;
mod error;
mod libraries;
mod links;
mod probe;
mod process;
mod read_elf;
mod rewrite;
mod sys;
mod system;
mod unit;
mod verify;

pub use cache::{Kept, Warmed, keep, warm, warm_all};
pub use check::{
    Assessment, Reason, SUPERPAGE, Segment, Share, Size, SizeShare, check, percent, text_bytes,
};
pub use copies::Copies;
pub use copying::{Memory, Request, copying_library, copying_works};
pub use elf::{Arch, Kind};
pub use error::Error;
pub use libraries::{Loading, elf_program, files_of, find_program};
pub use links::{Advice, link_flags};
pub use probe::{Backed, Backing, Probe, Tried, host_backing, probe};
pub use process::{User, text_files, users};
pub use rewrite::{Aligned, Writes, Written, align, align_or_copy, copy};
pub use system::{Found, find};
pub use unit::unit;
pub use verify::{Cell, Text, Verification, own_superpage_bytes, verify};
