//! Making a profile smaller: without cold functions, with the hottest only, or with named ones.

use serde::Serialize;

use super::{COLD_SHARE, Summary};
use crate::{Name, SampleProfile};

/// Which functions stay. All conditions that are given must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trim {
    /// Functions with a smaller total go.
    pub min_total: Option<u64>,
    /// Functions whose total is below the smallest count of this share of the profile (millionths,
    /// one of [`super::CUTOFFS`]) go; llvm-profgen's `--trim-cold-profile` takes 999999.
    pub below_share: Option<u32>,
    /// Only this many functions stay, those with the largest totals (by name where totals tie).
    pub keep_top: Option<usize>,
    /// Only these functions stay; empty means all.
    pub keep: Vec<Name>,
    /// These functions go.
    pub drop: Vec<Name>,
}

impl Trim {
    /// What llvm-profgen calls trimming the cold profile.
    pub fn cold() -> Trim {
        Trim { below_share: Some(COLD_SHARE), ..Trim::default() }
    }
}

/// What a trim took away.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct TrimReport {
    /// Functions left.
    pub kept: u64,
    /// Functions gone.
    pub removed: u64,
    /// Sum of the totals left (saturating).
    pub kept_total: u64,
    /// Sum of the totals gone (saturating).
    pub removed_total: u64,
    /// Names asked for that the profile does not have.
    pub unknown_names: Vec<String>,
}

/// Removes functions from a profile. The symbol list stays: it says what the image contains, and a
/// function that is listed there and absent from the profile is cold for the compiler, which is
/// what trimming means.
pub fn trim(profile: &mut SampleProfile, wanted: &Trim) -> TrimReport {
    let threshold = wanted
        .below_share
        .and_then(|share| Summary::of(profile).min_count(share))
        .unwrap_or(0)
        .max(wanted.min_total.unwrap_or(0));
    let top: Option<std::collections::BTreeSet<Name>> = wanted.keep_top.map(|count| {
        let stays = |name: &Name| wanted.passes_names(name);
        let functions = profile.by_total().into_iter().map(|function| &function.name);
        functions.filter(|name| stays(name)).take(count).cloned().collect()
    });
    let asked = wanted.keep.iter().chain(&wanted.drop);
    let unknown = asked.filter(|name| !profile.functions.keys().any(|known| same(known, name)));
    let unknown_names = unknown.map(Name::to_string).collect();
    let mut report = TrimReport { unknown_names, ..TrimReport::default() };
    profile.functions.retain(|name, function| {
        let stays = function.total >= threshold
            && top.as_ref().is_none_or(|top| top.contains(name))
            && wanted.passes_names(name);
        let (number, total) = match stays {
            true => (&mut report.kept, &mut report.kept_total),
            false => (&mut report.removed, &mut report.removed_total),
        };
        *number += 1;
        *total = total.saturating_add(function.total);
        stays
    });
    report
}

impl Trim {
    fn passes_names(&self, name: &Name) -> bool {
        (self.keep.is_empty() || self.keep.iter().any(|kept| same(kept, name)))
            && !self.drop.iter().any(|dropped| same(dropped, name))
    }
}

/// A name given as text matches the hash of it, so that hashed profiles can be trimmed by name.
fn same(a: &Name, b: &Name) -> bool {
    match (a, b) {
        (Name::Text(a), Name::Text(b)) => a == b,
        _ => a.hash() == b.hash(),
    }
}
