//! A kernel's branches that were counted where it ran: traces by run-time address to counts of its
//! image.
//!
//! Input: traces with their sums, and where the kernel's text lay; both from an emulator that
//! counted every taken branch. They take the same way as those of a recording: bound by build ID,
//! moved by the slide that KASLR chose, checked against the code. A count is an execution, not a
//! stack entry. Nothing was sampled, so there are no counts of samples.

use crate::aggregate::{Aggregated, names_of};
use crate::binding::Bindings;
use crate::by_name;
use crate::error::Error;
use crate::resolve::{Rules, Spaces, Sums};
use crate::straight_line::Unrecorded;
use crate::traces::TraceCount;
use address_spaces::{Change, KERNEL_PID, Timeline};
use image::Image;
use perfdata::RuntimeAddr;
use std::path::Path;
use std::sync::Arc;

/// Where a kernel's text, or a module's, lay while it ran, and whose it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelText {
    /// Run-time address of the symbol that `name` ends in, or where a module begins.
    pub start: RuntimeAddr,
    /// One past its last address.
    pub end: RuntimeAddr,
    /// The name of its mapping in recordings, as perf has it: `[kernel.kallsyms]_text`, a module's
    /// file, or its name in brackets.
    pub name: String,
    /// The build ID, where it is known.
    pub build_id: Option<Vec<u8>>,
}

impl KernelText {
    /// Whether it is a module's: only the kernel's own mapping states an address as its offset.
    fn is_module(&self) -> bool {
        !self.name.starts_with("[kernel.")
    }
}

/// Counts `traces` of a kernel's texts, its own first, in `images`, the kernel's own first; `path`
/// names the result in messages.
///
/// # Errors
/// Where no branch lies in the images, above all since they are of another build.
pub fn aggregate(
    path: &Path,
    texts: &[KernelText],
    traces: impl Iterator<Item = TraceCount>,
    images: &[Arc<Image>],
) -> Result<Aggregated, Error> {
    let map = |text: &KernelText| {
        let offset = if text.is_module() { 0 } else { text.start.0 };
        let piece = (text.start, text.end.0.saturating_sub(text.start.0), offset);
        let map = Change::mapping(KERNEL_PID, piece, text.name.clone(), text.build_id.clone());
        (0, map)
    };
    let timeline = Timeline::build(texts.iter().map(map).collect());
    let bindings = Bindings::new(timeline.files(), images, Vec::new());
    let mut sums = Sums::new(&timeline, &bindings, Rules::Auto);
    sums.add_traces(Spaces::at(&timeline, KERNEL_PID, 0), traces);
    let by_name = sums.by_name();
    let counts = sums.finish(Unrecorded::default());
    if counts.images.is_empty() {
        return Err(Error::NotOfThisKernel {
            path: path.to_owned(),
            branches: counts.ledger.branches.entered,
            image: names_of(images),
            cause: cause(texts, images),
        });
    }
    let notes = by_name::notes(&by_name, &counts.ledger);
    Ok(Aggregated { samples: 0, notes, ..Aggregated::from(counts) })
}

/// Why nothing lies in the images.
fn cause(texts: &[KernelText], images: &[Arc<Image>]) -> String {
    let ran = texts.first().and_then(|text| text.build_id.as_ref());
    let ids = match (ran, images.first().and_then(|image| image.build_id())) {
        (Some(ran), Some(own)) if !own.matches_padded(ran) => {
            format!("the kernel that ran has build ID {}, the file {own}; ", hex::encode(ran))
        }
        _ => String::new(),
    };
    ids + "give the vmlinux that was built with the kernel's boot image (--binary)"
}
