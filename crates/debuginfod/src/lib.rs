//! Programs and debug files by build ID, from debuginfod servers: which one has it, is it the right
//! one, and is it kept for the next time?
//!
//! A server may be anybody's, and its answers are taken as such: they end at a size and a time,
//! redirects are few, and a file is kept only if it is an ELF file of the build ID that was asked
//! for. Kept files lie where all clients of debuginfod look
//! (`~/.cache/debuginfod_client/BUILDID/executable`). Source: `debuginfod(8)` ("WEBAPI") and
//! `debuginfod_find_debuginfo(3)` of elfutils.
//!
//! Nothing is asked of a server unless the caller makes a [`Client`].

mod client;
mod roots;

pub use client::{Client, Error, Kind, Settings, default_cache};
