//! How does a program behave when its functions fall elsewhere? Links the same objects again in
//! other layouts.
//!
//! The inputs of a link come as the archive that lld writes with `--reproduce`, so that later links
//! need no build tree. [`Layout::Independent`] puts sections in a random order, but for those that the
//! link itself orders, which it moves within cache lines; [`Layout::Matched`] gives several variants of a program one common random order, with what differs between them
//! last, so that what is the same in all of them keeps its address modulo a page.
//! [`share_at_equal_address`] says whether that worked.
//!
//! ```no_run
//! # fn main() -> Result<(), relink::Error> {
//! use std::path::Path;
//! use relink::{Inputs, Layout, MatchPlan};
//! let a = Inputs::open(Path::new("a.tar"), Path::new("state/a"))?;
//! let b = Inputs::open(Path::new("b.tar"), Path::new("state/b"))?;
//! let plan = MatchPlan::new(&[&a, &b])?;
//! for seed in 1..=16 {
//!     let a = relink::relink_in(&a, &Layout::Matched { seed, plan: &plan, variant: 0 }, Path::new("links"))?;
//!     let b = relink::relink_in(&b, &Layout::Matched { seed, plan: &plan, variant: 1 }, Path::new("links"))?;
//!     let matched = relink::share_at_equal_address(&a.path, &b.path)?;
//!     assert!(matched.share() >= relink::SHARE_NEEDED);
//! }
//! # Ok(()) }
//! ```

mod again;
mod archive;
mod error;
mod inputs;
mod kept;
mod layout;
mod linker;
mod map;
mod measure;
mod names;
mod options;
mod own_order;
mod pad;
mod plan;
mod random;
mod reach;
mod relocatable;
mod response;
mod tar;
mod units;

/// The files that an archive of a link holds, with their places in it.
///
/// # Errors
/// What is wrong with the archive, and where.
pub fn files_of(
    archive: &[u8],
) -> Result<Vec<(std::path::PathBuf, std::ops::Range<usize>)>, String> {
    let entries = tar::entries(archive)
        .map_err(|damage| format!("at {}: {}", damage.offset, damage.found))?;
    Ok(entries.into_iter().map(|entry| (entry.path, entry.bytes)).collect())
}

/// Name, size and alignment of each section that could be moved, of an object or of all objects of a
/// library: as they are, and as they are read once more when local symbols have got new names and the
/// library is written anew.
///
/// # Errors
/// What is wrong with one of them.
#[allow(clippy::type_complexity, reason = "two lists of the same plain numbers")]
pub fn sections_renamed(file: &[u8]) -> Result<[Vec<(String, u64, u64)>; 2], String> {
    use std::path::Path;
    let members = |file: &[u8]| match archive::is_archive(file) {
        // Those of a thin library lie in other files.
        true if file.starts_with(b"!<thin>") => Err("a thin library".to_owned()),
        true => archive::members(Path::new("library"), file).map_err(|error| error.to_string()),
        false => Ok(vec![archive::Member { name: String::new(), bytes: file.to_vec() }]),
    };
    let sections = |members: &[archive::Member]| {
        let mut all = Vec::new();
        for member in members {
            let live = relocatable::section_names(&member.bytes)?;
            for section in relocatable::parse(&member.bytes, &live)?.sections {
                all.push((section.name, section.size, section.align));
            }
        }
        Ok::<_, String>(all)
    };
    let mut found = members(file)?;
    let before = sections(&found)?;
    for member in &mut found {
        let live = relocatable::section_names(&member.bytes)?;
        let spare = relocatable::parse(&member.bytes, &live)?.sections.into_iter();
        let names =
            spare.filter_map(|s| s.spare).enumerate().map(|(n, at)| (at, format!("new.{n}")));
        member.bytes = relocatable::rename(&member.bytes, &names.collect::<Vec<_>>())?;
    }
    let written = match archive::is_archive(file) {
        true => members(&archive::write(&found))?,
        false => found,
    };
    Ok([before, sections(&written)?])
}

pub use again::{Again, Blocks};
pub use error::Error;
pub use inputs::{Inputs, Survey};
pub use layout::{Freedom, Layout, Relinked, relink, relink_in};
pub use linker::{Linker, is_compiler};
pub use measure::{Match, SHARE_NEEDED, Sizes, same_code, share_at_equal_address, sizes};
pub use plan::MatchPlan;
