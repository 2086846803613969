//! Which files are in the archive of a link? Reads the tar form that lld writes, and refuses
//! everything else.
//!
//! Strict where tar readers are lenient: a missing end mark, links, devices, a path that leaves the
//! directory or comes twice, or a wrong checksum is an error. An archive that was cut off anywhere
//! is therefore noticed.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

const BLOCK: usize = 512;

/// Longest path that is accepted; longer ones are no file of a link.
const MAX_PATH: usize = 4096;

/// One file of the archive.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its path below the archive's own directory; only plain components.
    pub(crate) path: PathBuf,
    /// Where its bytes lie in the archive.
    pub(crate) bytes: Range<usize>,
}

/// What is wrong, and where.
#[derive(Debug)]
pub(crate) struct Damage {
    pub(crate) offset: u64,
    pub(crate) found: String,
}

fn damage<T>(offset: usize, found: impl Into<String>) -> Result<T, Damage> {
    Err(Damage { offset: offset as u64, found: found.into() })
}

/// A number in octal digits, ended by a blank or a zero.
fn octal(field: &[u8]) -> Option<u64> {
    let digits: Vec<u8> = field.iter().copied().skip_while(|&byte| byte == b' ').collect();
    let end = digits.iter().position(|byte| !(b'0'..=b'7').contains(byte)).unwrap_or(digits.len());
    let (number, rest) = digits.split_at(end);
    if number.is_empty() || number.len() > 20 || rest.iter().any(|&byte| byte != 0 && byte != b' ')
    {
        return None;
    }
    number
        .iter()
        .try_fold(0_u64, |sum, &digit| sum.checked_mul(8)?.checked_add(u64::from(digit - b'0')))
}

/// The text of a field up to its first zero.
fn text(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or(field)
}

/// The header block, its checksum verified.
struct Header<'a>(&'a [u8; BLOCK]);

impl<'a> Header<'a> {
    fn parse(block: &'a [u8; BLOCK], offset: usize) -> Result<Header<'a>, Damage> {
        if &block[257..262] != b"ustar" {
            return damage(offset, "no tar header");
        }
        let sum: u64 = block
            .iter()
            .enumerate()
            .map(|(place, &byte)| u64::from(if (148..156).contains(&place) { b' ' } else { byte }))
            .sum();
        match octal(&block[148..156]) {
            Some(expected) if expected == sum => Ok(Header(block)),
            _ => damage(offset, "the header's checksum is wrong"),
        }
    }

    fn path(&self) -> Vec<u8> {
        let name = text(&self.0[..100]);
        let prefix = text(&self.0[345..500]);
        if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
    }
}

/// The `path` of an extended header: records of "LENGTH KEY=VALUE\n".
fn extended_path(mut records: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut path = None;
    while !records.is_empty() {
        let blank = records.iter().position(|&byte| byte == b' ')?;
        let length: usize = std::str::from_utf8(records.get(..blank)?).ok()?.parse().ok()?;
        let record = records.get(blank + 1..length)?.strip_suffix(b"\n")?;
        let equals = record.iter().position(|&byte| byte == b'=')?;
        if record.get(..equals)? == b"path" {
            path = Some(record.get(equals + 1..)?.to_vec());
        }
        records = records.get(length..)?;
    }
    Some(path)
}

/// A path of plain components, or what is wrong with it.
fn plain_path(bytes: &[u8]) -> Result<PathBuf, String> {
    let shown = String::from_utf8_lossy(bytes).into_owned();
    if bytes.is_empty() || bytes.len() > MAX_PATH || bytes.contains(&0) {
        return Err(format!("a file name of {} bytes", bytes.len()));
    }
    let Ok(name) = std::str::from_utf8(bytes) else {
        return Err(format!("the file name {shown:?} is not UTF-8"));
    };
    let path = Path::new(name);
    if path.components().all(|part| matches!(part, Component::Normal(_))) && !name.ends_with('/') {
        Ok(path.to_owned())
    } else {
        Err(format!("the path {shown:?} could leave the directory"))
    }
}

/// The files of an archive, in its order, with the name of its one top directory taken off.
pub(crate) fn entries(archive: &[u8]) -> Result<Vec<Entry>, Damage> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut offset = 0;
    let mut long_path: Option<Vec<u8>> = None;
    let mut top: Option<PathBuf> = None;
    loop {
        let Some(block) = archive.get(offset..).and_then(|rest| rest.first_chunk::<BLOCK>()) else {
            return damage(offset, "the archive is cut off, its end mark is missing");
        };
        if block.iter().all(|&byte| byte == 0) {
            break;
        }
        let header = Header::parse(block, offset)?;
        let Some(size) = octal(&block[124..136]).and_then(|size| usize::try_from(size).ok()) else {
            return damage(offset, "the header's size is no number");
        };
        let start = offset + BLOCK;
        let padded =
            size.checked_next_multiple_of(BLOCK).and_then(|padded| start.checked_add(padded));
        let Some(next) = padded.filter(|&next| next <= archive.len()) else {
            return damage(offset, "the archive is cut off inside of a file");
        };
        let bytes = start..start + size;
        match block[156] {
            b'x' => match extended_path(&archive[bytes]) {
                Some(path) => long_path = path.or(long_path),
                None => return damage(start, "an extended header that cannot be read"),
            },
            b'0' | 0 => {
                let raw = long_path.take().unwrap_or_else(|| header.path());
                let path = plain_path(&raw).or_else(|found| damage(offset, found))?;
                let first = path.components().next().map(|part| PathBuf::from(part.as_os_str()));
                let top = top.get_or_insert_with(|| first.clone().unwrap_or_default());
                let Ok(below) = path.strip_prefix(&*top) else {
                    return damage(
                        offset,
                        format!("{} lies outside of {}", path.display(), top.display()),
                    );
                };
                if below.as_os_str().is_empty() {
                    let found = format!(
                        "{} is in no directory; lld --reproduce puts every file of a link into one",
                        path.display()
                    );
                    return damage(offset, found);
                }
                if !seen.insert(below.to_owned()) {
                    return damage(offset, format!("{} comes twice", path.display()));
                }
                found.push(Entry { path: below.to_owned(), bytes });
            }
            // GNU tar and lld alike store directories only implicitly; some repackers add them.
            b'5' if size == 0 => long_path = None,
            other => {
                return damage(
                    offset,
                    format!("an entry of kind {:?}, not a plain file", char::from(other)),
                );
            }
        }
        offset = next;
    }
    // The end mark is two blocks of zeros; what follows is at most more of them.
    let rest = &archive[offset..];
    if rest.len() < 2 * BLOCK {
        return damage(archive.len(), "the archive is cut off in its end mark");
    }
    if let Some(place) = rest.iter().position(|&byte| byte != 0) {
        return damage(offset + place, "data after the end mark");
    }
    Ok(found)
}
