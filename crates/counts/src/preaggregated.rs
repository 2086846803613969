//! Reads BOLT's pre-aggregated text: one count a line, addresses of an image.
//!
//! Grammar (<https://github.com/llvm/llvm-project/blob/main/bolt/docs/profiles.md> and `--pa` of
//! perf2bolt), fields separated by blanks, `#` begins a comment:
//!
//! ```text
//! E event                      name of the event, no effect
//! S address n                  sampled address
//! B from to n mispredicted     branch
//! F first last n               fall-through range;  f: entered from outside;  r: entered by a return from outside
//! T from to last n             branch with the range that follows it;  R: its source is a return
//! ```
//! An address is `[BUILDID:]HEX`; `X:0` stands for outside.

use crate::aggregate::Aggregated;
use crate::error::Error;
use crate::merge::normalise;
use crate::model::{Branch, Counts, FallThrough, ImageCounts, SampleCount};
use image::{BuildId, Image, ImageAddr};
use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

/// The image that addresses without a build ID belong to.
#[derive(Clone, Debug)]
pub struct DefaultImage {
    /// Its build ID.
    pub build_id: Option<BuildId>,
    /// Its path.
    pub path: String,
}

/// Most fields of a line.
const MOST_FIELDS: usize = 5;

/// Reads pre-aggregated counts from `text`.
///
/// # Errors
/// At the first line that is not of the grammar, with its number.
pub fn read(path: &Path, text: impl BufRead, default: &DefaultImage) -> Result<Counts, Error> {
    let mut reader = Reader { images: BTreeMap::new(), default, ledger: crate::Ledger::default() };
    crate::lines::each(path, text, |position, line| {
        let malformed = || Error::Malformed {
            path: path.to_owned(),
            place: format!("line {}", position + 1),
            expected: "S address n, B from to n mispredicted, F|f|r first last n, or T|R from to \
                       last n"
                .into(),
            found: String::from_utf8_lossy(line).chars().take(80).collect(),
        };
        let text = std::str::from_utf8(line).map_err(|_| malformed())?;
        // One field more than any line has tells it from all that are understood.
        let fields: Vec<&str> =
            text.split('#').next().unwrap_or("").split_whitespace().take(MOST_FIELDS + 1).collect();
        if fields.is_empty() || fields.first() == Some(&"E") {
            return Ok(());
        }
        reader.line(&fields).ok_or_else(malformed)
    })?;
    let mut counts =
        Counts { images: reader.images.into_values().collect(), ledger: reader.ledger };
    normalise(&mut counts)?;
    if counts.images.is_empty() {
        return Err(Error::NoSamples { path: path.to_owned() });
    }
    Ok(counts)
}

/// Reads pre-aggregated counts, whose addresses are those of the one image named.
///
/// # Errors
/// Where none or several are named, and as [`read`].
pub fn aggregate(
    path: &Path,
    text: impl BufRead,
    images: &[Arc<Image>],
) -> Result<Aggregated, Error> {
    let [image] = images else { return Err(Error::NotOneImage { path: path.to_owned() }) };
    let default = DefaultImage {
        build_id: image.build_id().copied(),
        path: image.path().display().to_string(),
    };
    Ok(read(path, text, &default)?.into())
}

/// Whether `line` could be of this format.
pub fn looks_like(line: &str) -> bool {
    let mut fields = line.split_whitespace();
    let kind = fields.next().unwrap_or("");
    let rest = fields.count();
    matches!((kind, rest), ("E", 1) | ("S", 2) | ("B", 4) | ("F" | "f" | "r", 3) | ("T" | "R", 4))
}

struct Reader<'d> {
    images: BTreeMap<Option<BuildId>, ImageCounts>,
    default: &'d DefaultImage,
    ledger: crate::Ledger,
}

/// An address of an image; `None` for outside.
type Place = Option<(Option<BuildId>, ImageAddr)>;

impl Reader<'_> {
    fn line(&mut self, fields: &[&str]) -> Option<()> {
        match *fields {
            ["S", address, n] => {
                let (place, count) = (place(address)?, n.parse().ok()?);
                self.ledger.samples.use_up(count);
                let (id, address) = place?;
                self.image(id).samples.push(SampleCount { address, count });
            }
            ["B", from, to, n, m] => {
                let (count, mispredicted) = (n.parse().ok()?, m.parse().ok()?);
                // No more mispredicted than counted.
                (mispredicted <= count).then_some(())?;
                self.branch(place(from)?, place(to)?, count, mispredicted)
            }
            ["F" | "f" | "r", first, last, n] => {
                self.range(place(first)?, place(last)?, n.parse().ok()?)
            }
            ["T" | "R", from, to, last, n] => {
                let (to, count) = (place(to)?, n.parse().ok()?);
                self.branch(place(from)?, to, count, 0);
                self.range(to, place(last)?, count);
            }
            _ => return None,
        }
        Some(())
    }

    fn image(&mut self, id: Option<BuildId>) -> &mut ImageCounts {
        let id = id.or(self.default.build_id);
        let path =
            if id == self.default.build_id { self.default.path.clone() } else { String::new() };
        self.images.entry(id).or_insert_with(|| ImageCounts {
            build_id: id,
            path,
            ..ImageCounts::default()
        })
    }

    fn branch(&mut self, from: Place, to: Place, count: u64, mispredicted: u64) {
        self.ledger.branches.use_up(count);
        let same = matches!((&from, &to), (Some(f), Some(t)) if f.0 == t.0);
        if let (true, Some((id, from)), Some((_, to))) = (same, &from, &to) {
            let branch = Branch { from: Some(*from), to: Some(*to), count, mispredicted };
            return self.image(*id).branches.push(branch);
        }
        if let Some((id, from)) = from {
            self.image(id).branches.push(Branch {
                from: Some(from),
                to: None,
                count,
                mispredicted,
            });
        }
        if let Some((id, to)) = to {
            self.image(id).branches.push(Branch { from: None, to: Some(to), count, mispredicted });
        }
    }

    fn range(&mut self, first: Place, last: Place, count: u64) {
        match (first, last) {
            (Some((id, first)), Some((other, last))) if id == other && first <= last => {
                self.ledger.fall_throughs.use_up(count);
                self.image(id).fall_throughs.push(FallThrough { first, last, count });
            }
            (Some((id, _)), Some((other, _))) if id == other => {
                self.ledger.fall_throughs.write_off(crate::Reason::Backwards, count);
            }
            _ => self.ledger.fall_throughs.write_off(crate::Reason::CrossesImages, count),
        }
    }
}

/// `None` where the text is no address.
fn place(text: &str) -> Option<Place> {
    let (id, hex) = match text.split_once(':') {
        Some(("X" | "x", _)) => return Some(None),
        Some((id, hex)) => (Some(id.parse::<BuildId>().ok()?), hex),
        None => (None, text),
    };
    let address = u64::from_str_radix(hex.trim_start_matches("0x"), 16).ok()?;
    Some(Some((id, ImageAddr(address))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Counts, Error> {
        let default = DefaultImage { build_id: None, path: "a.out".into() };
        read(Path::new("pa.txt"), text.as_bytes(), &default)
    }

    #[test]
    fn a_trace_is_a_branch_and_a_range() {
        let counts = parse("E cycles\nT 10 20 28 5\nB 28 10 7 2\nB X:0 20 1 0 # entry\nS 24 3\n")
            .expect("parses");
        let image = &counts.images[0];
        assert_eq!(
            image.fall_throughs,
            [FallThrough { first: ImageAddr(0x20), last: ImageAddr(0x28), count: 5 }]
        );
        assert_eq!(image.branches.len(), 3);
        assert_eq!(image.branches[0].from, None);
        assert_eq!(image.branches[2].mispredicted, 2);
        assert_eq!(image.samples[0].count, 3);
        assert!(counts.ledger.balances());
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        for bad in ["B 1 2", "B 10 20 5 9"] {
            let error = parse(&format!("S 10 1\n{bad}\n")).expect_err("malformed").to_string();
            assert!(error.contains("line 2"), "{error}");
        }
    }
}
