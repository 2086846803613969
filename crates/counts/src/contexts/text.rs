//! Contexts from what `perf script` prints of samples with call chains and branch stacks.
//!
//! Lines understood: those of `perf script --show-mmap-events -F [comm,pid,]ip,brstack` of such a
//! recording. A sample is an optional line with names and numbers (the pid among them), one line
//! for each frame, innermost first, that begins with a blank or tab and a hex number, and one line
//! of `0xFROM/0xTO/…` tokens. The text is read twice, since mappings may follow the samples they
//! explain.

use super::ContextCounts;
use super::line::Line;
use super::recording::{Unwinder, checked};
use crate::aggregate::CountOptions;
use crate::binding::Bindings;
use crate::error::Error;
use crate::script::{ANY_PID, preferred_addresses};
use address_spaces::Timeline;
use image::Image;
use std::io::{BufRead, Seek};
use std::path::Path;
use std::sync::Arc;

/// Counts what `image` did in each of its calling contexts, from a text that `path` names in
/// messages; of the options only the process matters.
///
/// # Errors
/// Where the text cannot be read, or has no sample that has both stacks and touches the image.
pub fn of_text(
    path: &Path,
    mut text: impl BufRead + Seek,
    image: &Arc<Image>,
    options: CountOptions,
) -> Result<ContextCounts, Error> {
    let text = &mut text;
    let mut changes = Vec::new();
    let (mut pids_shown, mut malformed) = (false, 0);
    each_line(path, text, |position, line| match Line::parse(line) {
        Line::Mapping(Some((_, change, any))) => {
            changes.push((position, change, false));
            changes.extend(any.map(|change| (position, change, true)));
        }
        Line::Mapping(None) => malformed += 1,
        Line::Header(pid) => pids_shown |= pid.is_some(),
        Line::Branches(entries) => pids_shown |= entries.pid.is_some(),
        Line::Frame(_) | Line::Blank => {}
    })?;
    if changes.is_empty() {
        // The addresses are those of the image, in whichever process.
        changes = preferred_addresses(ANY_PID, std::slice::from_ref(image));
        pids_shown = false;
    }
    changes.retain(|(_, _, replica)| !(*replica && pids_shown));
    let timeline =
        Timeline::build(changes.into_iter().map(|(time, change, _)| (time, change)).collect());
    let bindings = Bindings::new(timeline.files(), std::slice::from_ref(image), Vec::new());
    let mut unwinder = Unwinder::new(&timeline, &bindings, image, options.pid);
    let (mut chain, mut pid) = (Vec::new(), ANY_PID);
    each_line(path, text, |position, line| match Line::parse(line) {
        Line::Mapping(_) | Line::Blank => chain.clear(),
        Line::Header(shown) => {
            chain.clear();
            pid = shown.filter(|_| pids_shown).unwrap_or(ANY_PID);
        }
        Line::Frame(address) => {
            // The deepest chain that the kernel can record; what is beyond is no chain.
            if chain.len() < MOST_FRAMES {
                chain.push(address);
            }
        }
        Line::Branches(entries) => {
            let pid = entries.pid.filter(|_| pids_shown).unwrap_or(pid);
            let branches = entries.branches.iter().map(|e| (e.from, e.to, e.wrong_path));
            unwinder.sample(pid, position, chain.drain(..), branches);
        }
    })?;
    for _ in 0..malformed {
        unwinder.malformed();
    }
    let ledger = &unwinder.counts.ledger;
    if ledger.unwound > 0 && ledger.foreign_chains == ledger.unwound {
        return Err(Error::Malformed {
            path: path.to_owned(),
            place: format!("call chains of {} samples", ledger.unwound),
            expected: format!("frames that lie in {}", image.path().display()),
            found: "none; perf prints them as offsets in their files where it can: give the \
                    perf.data itself"
                .to_owned(),
        });
    }
    checked(path, image, unwinder.counts)
}

/// A record has at most 64 KiB.
const MOST_FRAMES: usize = 1 << 13;

fn each_line(
    path: &Path,
    text: &mut (impl BufRead + Seek),
    mut see: impl FnMut(u64, &str),
) -> Result<(), Error> {
    text.rewind().map_err(|source| Error::Io { path: path.to_owned(), source })?;
    crate::lines::each(path, text, |position, line| {
        see(position, &String::from_utf8_lossy(line));
        Ok(())
    })
}
