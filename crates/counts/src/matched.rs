//! What a result rests on: files known by their names alone, and whether enough was counted at all.

use crate::aggregate::{ANOTHER_BUILD, Aggregated};
use crate::binding::{HIDDEN, Lacking};
use crate::error::Error;
use crate::ledger::{Book, Ledger, Reason};
use image::Image;
use std::path::PathBuf;
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
const BY_NAME: &str = "matched by its name only";
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

/// Counts below this are too few, where they are also less than a hundredth of what was recorded. A
/// share of a program's time that rests on n counts is known to ±1/√n, so below a thousand not even
/// a tenth of it is known to a tenth; and where 99 % of a recording lie elsewhere, it was most
/// likely made of something else.
const FEW: u64 = 1000;

/// Whether so little of what was recorded was used that the result says nothing.
pub fn is_too_few(used: u64, recorded: u64) -> bool {
    used < FEW && used.saturating_mul(100) < recorded
}

/// Refuses counts of `inputs` that rest on almost nothing.
///
/// # Errors
/// Where fewer than a thousand branches (samples, where none has a branch) and less than 1 % of
/// them could be used.
pub fn refuse_too_few(found: &Aggregated, inputs: &[PathBuf]) -> Result<(), Error> {
    let ledger = &found.counts.ledger;
    let (what, book) = if ledger.branches.is_empty() {
        ("samples", &ledger.samples)
    } else {
        ("branches", &ledger.branches)
    };
    let others = book.unused.get(&Reason::OtherProcess).copied().unwrap_or(0);
    let recorded = book.entered.saturating_sub(others);
    if !is_too_few(book.used, recorded) {
        return Ok(());
    }
    let path = match inputs {
        [one] => one.clone(),
        _ => PathBuf::from(format!("{} inputs", inputs.len())),
    };
    let images: Vec<String> = found.counts.images.iter().take(4).map(|i| i.path.clone()).collect();
    Err(Error::TooFew {
        path,
        used: book.used,
        recorded,
        what,
        images: images.join(", "),
        cause: cause(found),
    })
}

fn cause(found: &Aggregated) -> String {
    let told = |part: &str| found.notes.iter().find(|note| note.contains(part)).cloned();
    if let Some(note) = told(ANOTHER_BUILD).or_else(|| told(HIDDEN)) {
        return note;
    }
    let by_name = if told(BY_NAME).is_some() {
        "the files were matched by their names only, and may not be the recorded ones; "
    } else {
        ""
    };
    let most = found.elsewhere.iter().take(3).map(|(path, count)| format!("{path} ({count})"));
    let most: Vec<String> = most.collect();
    let lie = if most.is_empty() {
        String::new()
    } else {
        format!("most samples lie in {}; ", most.join(", "))
    };
    format!(
        "{by_name}{lie}give the recorded files with --binary, or record the program alone and for \
         longer"
    )
}
