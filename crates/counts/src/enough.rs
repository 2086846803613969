//! Whether enough of a recording was counted for the result to say anything.

use crate::aggregate::Aggregated;
use crate::binding::{ANOTHER_BUILD, HIDDEN};
use crate::by_name::BY_NAME;
use crate::error::Error;
use crate::ledger::Reason;
use std::path::PathBuf;

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
