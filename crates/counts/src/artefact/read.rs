//! Reads a counts artefact, damaged ones included.

use super::columns::{Rows, Segment};
use super::open::{Opened, open, quietly};
use super::{bad_pages, malformed};
use crate::error::Error;
use crate::model::{Branch, Counts, FallThrough, ImageCounts, Path, SampleCount};
use image::{BuildId, ImageAddr};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Rows that are read at once.
const BATCH_ROWS: usize = 1 << 16;
/// Most images of a file; a machine with many programs has some thousands.
const MOST_IMAGES: usize = 1 << 16;
/// Most bytes of an image's path: `PATH_MAX` of Linux, each byte shown as the sign of one that is
/// no text.
pub(super) const MOST_NAME: usize = 3 * 4096;
/// Most bytes of the name of an architecture.
pub(super) const MOST_ARCHITECTURE: usize = 64;

/// What [`read`] expects of counts: larger ones are for [`super::rows`] alone.
pub const NARROW: &str = "counts below 2^64";

/// Reads an artefact; `path` names it in messages.
///
/// # Errors
/// Where `file` is no counts artefact of this version, or damaged.
pub fn read(path: &std::path::Path, file: std::fs::File) -> Result<Counts, Error> {
    let (about, opened) = quietly(path, || open(path, file))?;
    let mut images = Images::default();
    for number in 0..opened.metadata.num_row_groups() {
        read_group(path, number, &opened, &mut images)?;
    }
    let mut counts = Counts { images: images.list, ledger: about.ledger };
    crate::merge::normalise(&mut counts)?;
    Ok(counts)
}

fn read_group(
    path: &std::path::Path,
    number: usize,
    opened: &Opened,
    images: &mut Images,
) -> Result<(), Error> {
    let fault = |what: String| bad_pages(path, number + 1, &what);
    let (mut columns, rows) = opened.group(number).map_err(fault)?;
    let mut batch = Rows::default();
    let mut first = 0;
    while first < rows {
        let wanted = BATCH_ROWS.min(rows - first);
        columns.next(wanted, &mut batch).map_err(fault)?.map_err(|found| {
            let place = format!("row group {}, from row {first}", number + 1);
            malformed(path, &place, &format!("{wanted} rows in each column"), &format!("{found:?}"))
        })?;
        batch.segments(|segment| read_rows(&batch, segment, images)).map_err(
            |(row, expected)| {
                let place = format!("row group {}, row {}", number + 1, first + row);
                malformed(path, &place, expected, "another row")
            },
        )?;
        first += wanted;
    }
    Ok(())
}

/// Adds rows to their image; else the number of the row that is none, from 0, and what belongs
/// there.
fn read_rows(
    batch: &Rows,
    segment: Segment<'_>,
    images: &mut Images,
) -> Result<(), (usize, &'static str)> {
    let machine = segment.architecture.unwrap_or_default();
    let place = images.place([segment.id, segment.path, machine]);
    let at = place.map_err(|expected| (segment.rows.start, expected))?;
    let Some(image) = images.list.get_mut(at) else { return Ok(()) };
    let [firsts, seconds, befores, afters] = batch.ends();
    for row in segment.rows {
        let ends = Ends {
            first: firsts.at(row),
            second: seconds.at(row),
            before: befores.at(row),
            after: afters.at(row),
        };
        let counted = batch.sums.values.get(row).zip(batch.missed.values.get(row));
        let Some((&sum, &miss)) = counted else { return Err((row, "a row in each column")) };
        add_row(image, segment.kind, ends, sum, miss).map_err(|expected| (row, expected))?;
    }
    Ok(())
}

/// The images that the rows so far belong to. Rows of one image need not lie together, and each
/// image is kept once, so that rows which name images in turn take no more memory than others.
#[derive(Default)]
struct Images {
    list: Vec<ImageCounts>,
    /// Where they are in the list: by build ID, and by path and architecture where they have none,
    /// as [`crate::merge`] tells them apart.
    places: HashMap<(Option<BuildId>, String, String), usize>,
}

impl Images {
    /// The place of an image in the list, or what belongs into its row.
    fn place(&mut self, [id, name, machine]: [&[u8]; 3]) -> Result<usize, &'static str> {
        if name.len() > MOST_NAME {
            return Err("a path of at most 12288 bytes");
        }
        if machine.len() > MOST_ARCHITECTURE {
            return Err("an architecture of at most 64 bytes");
        }
        let build_id = match std::str::from_utf8(id) {
            Ok("") => None,
            Ok(hex) => hex.parse::<BuildId>().ok(),
            Err(_) => None,
        };
        let name = String::from_utf8_lossy(name).into_owned();
        let architecture = String::from_utf8_lossy(machine).into_owned();
        let key = match build_id {
            Some(_) => (build_id, String::new(), String::new()),
            None => (None, name.clone(), architecture.clone()),
        };
        match self.places.entry(key) {
            Entry::Occupied(known) => {
                let at = *known.get();
                if let Some(image) = self.list.get_mut(at) {
                    // The first path of the alphabet stands for all.
                    if name < image.path {
                        image.path = name;
                    }
                    if architecture > image.architecture {
                        image.architecture = architecture;
                    }
                }
                Ok(at)
            }
            Entry::Vacant(_) if self.list.len() >= MOST_IMAGES => {
                Err("rows of at most 65536 images")
            }
            Entry::Vacant(free) => {
                let at = *free.insert(self.list.len());
                let path = name;
                self.list.push(ImageCounts {
                    build_id,
                    path,
                    architecture,
                    ..ImageCounts::default()
                });
                Ok(at)
            }
        }
    }
}

/// The addresses of a row.
struct Ends {
    first: Option<ImageAddr>,
    second: Option<ImageAddr>,
    before: Option<ImageAddr>,
    after: Option<ImageAddr>,
}

fn add_row(
    image: &mut ImageCounts,
    kind: &[u8],
    ends: Ends,
    count: u128,
    mispredicted: u128,
) -> Result<(), &'static str> {
    let narrow = |n: u128| u64::try_from(n).map_err(|_| NARROW);
    let (count, mispredicted) = (narrow(count)?, narrow(mispredicted)?);
    match (kind, ends.first, ends.second) {
        (b"sample", Some(address), None) => image.samples.push(SampleCount { address, count }),
        (b"branch", from, to) => image.branches.push(Branch { from, to, count, mispredicted }),
        (b"fall-through", Some(first), Some(last)) => {
            image.fall_throughs.push(FallThrough { first, last, count })
        }
        (b"path", Some(first), Some(last)) => {
            image.paths.push(Path { from: ends.before, first, last, to: ends.after, count });
        }
        (b"first-half-sample", Some(address), None) => {
            image.first_half.samples.push(SampleCount { address, count });
        }
        (b"first-half-branch", from, to) => {
            image.first_half.branches.push(Branch { from, to, count, mispredicted });
        }
        (b"first-half-fall-through", Some(first), Some(last)) => {
            image.first_half.fall_throughs.push(FallThrough { first, last, count });
        }
        _ => {
            return Err("kind sample, branch, fall-through, path or one of the first half with \
                        its addresses");
        }
    }
    Ok(())
}
