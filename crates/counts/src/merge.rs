//! Adding counts of several runs: commutative, associative, and refusing to wrap.

use crate::error::Error;
use crate::model::{Branch, Counts, FallThrough, ImageCounts, Path, SampleCount};
use image::{BuildId, ImageAddr};
use std::collections::BTreeMap;

/// Adds counts up, image by image. Images are the same where their build IDs are, or, where they
/// have none, path and architecture; the alphabetically first path of a build ID stands for all.
///
/// # Errors
/// Where a sum exceeds 64 bits.
pub fn merge(parts: impl IntoIterator<Item = Counts>) -> Result<Counts, Error> {
    let mut all = Counts::default();
    for part in parts {
        all.ledger.add(&part.ledger);
        all.images.extend(part.images);
    }
    normalise(&mut all)?;
    Ok(all)
}

/// Brings counts into the order that the model promises: one entry per image and address, sorted.
pub(crate) fn normalise(counts: &mut Counts) -> Result<(), Error> {
    let mut images: BTreeMap<(Option<BuildId>, String, String), ImageCounts> = BTreeMap::new();
    for image in std::mem::take(&mut counts.images) {
        let key = if image.build_id.is_some() {
            (image.build_id, String::new(), String::new())
        } else {
            (None, image.path.clone(), image.architecture.clone())
        };
        match images.entry(key) {
            std::collections::btree_map::Entry::Vacant(free) => drop(free.insert(image)),
            std::collections::btree_map::Entry::Occupied(mut taken) => {
                let sum = taken.get_mut();
                let undivided = sum.is_undivided() || image.is_undivided();
                sum.add_halves(image.first_half, undivided);
                sum.path = sum.path.clone().min(image.path);
                // A file that does not tell says nothing against one that does.
                sum.architecture = std::mem::take(&mut sum.architecture).max(image.architecture);
                sum.samples.extend(image.samples);
                sum.branches.extend(image.branches);
                sum.fall_throughs.extend(image.fall_throughs);
                sum.paths.extend(image.paths);
            }
        }
    }
    for mut image in images.into_values() {
        let samples = |list| {
            let sum = add_up(
                list,
                |s: &SampleCount| s.address,
                |s| s.count,
                |a, b| Some(SampleCount { count: a.count.checked_add(b.count)?, ..*a }),
            );
            sum.map_err(|s| overflow(&image.path, s.address))
        };
        image.samples = samples(image.samples)?;
        image.first_half.samples = samples(image.first_half.samples)?;
        let ranges = |list| {
            let sum = add_up(
                list,
                |r: &FallThrough| (r.first, r.last),
                |r| r.count,
                |a, b| Some(FallThrough { count: a.count.checked_add(b.count)?, ..*a }),
            );
            sum.map_err(|r| overflow(&image.path, r.first))
        };
        image.fall_throughs = ranges(image.fall_throughs)?;
        image.first_half.fall_throughs = ranges(image.first_half.fall_throughs)?;
        let branches = |list| {
            let sum = add_up(
                list,
                |b: &Branch| (b.from, b.to),
                |b| b.count,
                |a, b| {
                    let mispredicted = a.mispredicted.checked_add(b.mispredicted)?;
                    Some(Branch { count: a.count.checked_add(b.count)?, mispredicted, ..*a })
                },
            );
            sum.map_err(|b| overflow(&image.path, b.from.or(b.to).unwrap_or_default()))
        };
        image.branches = branches(image.branches)?;
        image.first_half.branches = branches(image.first_half.branches)?;
        image.paths = add_up(
            image.paths,
            |p: &Path| (p.from, p.first, p.last, p.to),
            |p| p.count,
            |a, b| Some(Path { count: a.count.checked_add(b.count)?, ..*a }),
        )
        .map_err(|p| overflow(&image.path, p.first))?;
        if !image.is_empty() {
            counts.images.push(image);
        }
    }
    counts.images.sort_by(|a, b| {
        (&a.build_id, &a.path, &a.architecture).cmp(&(&b.build_id, &b.path, &b.architecture))
    });
    Ok(())
}

fn overflow(path: &str, address: ImageAddr) -> Error {
    Error::Overflow { place: format!("{path} {:#x}", address.0) }
}

/// Sorts by key and adds entries of equal keys; entries of count 0 fall away. Fails with the entry
/// that overflowed.
fn add_up<T: Copy, K: Ord>(
    mut entries: Vec<T>,
    key: impl Fn(&T) -> K,
    count: impl Fn(&T) -> u64,
    add: impl Fn(&T, &T) -> Option<T>,
) -> Result<Vec<T>, T> {
    entries.retain(|e| count(e) != 0);
    entries.sort_by_key(|e| key(e));
    let mut out: Vec<T> = Vec::with_capacity(entries.len());
    for entry in entries {
        match out.last_mut() {
            Some(last) if key(last) == key(&entry) => *last = add(last, &entry).ok_or(entry)?,
            _ => out.push(entry),
        }
    }
    Ok(out)
}
