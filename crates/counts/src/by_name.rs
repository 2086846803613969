//! Files that are known by their names alone: what rests on them, in words.

use crate::binding::Lacking;
use crate::ledger::{Book, Ledger};
use image::Image;
use std::sync::Arc;

/// A file that was counted in, with nothing but its name to say that it is the recorded one.
pub(crate) struct ByName {
    pub path: String,
    pub image: Arc<Image>,
    pub lacking: Lacking,
    pub samples: u64,
    pub branches: u64,
}

/// In the notes of files that only their names tell.
pub(crate) const BY_NAME: &str = "matched by its name only";
/// Files that are noted one by one.
const MOST_NOTES: usize = 8;

/// A note for each of these files, with its share of what was recorded.
pub(crate) fn notes(found: &[ByName], ledger: &Ledger) -> Vec<String> {
    let mut notes: Vec<String> =
        found.iter().take(MOST_NOTES).map(|file| note(file, ledger)).collect();
    if let Some(more) = found.get(MOST_NOTES..).filter(|more| !more.is_empty()) {
        let sum = |count: fn(&ByName) -> u64| more.iter().map(count).fold(0, u64::saturating_add);
        let share = shares(sum(|f| f.samples), sum(|f| f.branches), ledger);
        notes.push(format!("{} more files were {BY_NAME}: {share} lie there", more.len()));
    }
    notes
}

fn note(file: &ByName, ledger: &Ledger) -> String {
    let own = file.image.path().display();
    let why = match file.lacking {
        Lacking::Recording => "the recording holds no build ID of it".to_owned(),
        Lacking::File => format!("{own} has no build ID"),
        Lacking::Both => "neither the recording nor the file has a build ID of it".to_owned(),
    };
    let share = shares(file.samples, file.branches, ledger);
    format!(
        "{}: {BY_NAME} with {own}, as {why}: {share} rest on that; another build would give false \
         counts",
        file.path
    )
}

fn shares(samples: u64, branches: u64, ledger: &Ledger) -> String {
    let of = |count: u64, book: &Book, what: &str| {
        (!book.is_empty()).then(|| format!("{count} of {} {what}", book.entered))
    };
    let both =
        [of(samples, &ledger.samples, "samples"), of(branches, &ledger.branches, "branches")];
    both.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}
