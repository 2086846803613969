//! What is one input of a merge? A counts file with what it says of itself, looked at once and
//! opened again where its rows are needed.

use crate::recording::{Description, KEY, Recording, VERSION, Wrong};
use crate::{Error, digest};
use counts::Counts;
use counts::artefact::row::Kind;
use counts::artefact::rows::{Block, Rows};
use counts::artefact::{self, About};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The first version of counts files that tells counts apart by halves of the samples.
const WITH_HALVES: u32 = 3;

/// A counts file, closed.
#[derive(Clone, Debug)]
pub struct Shard {
    /// Its name.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// What the file says of its form.
    pub about: About,
    /// What it says of its recordings.
    pub description: Description,
    /// Whether it named its recordings itself; else it is known by its bytes.
    pub is_named: bool,
    /// Tells it from other files.
    pub(crate) footer: [u8; 32],
}

impl Shard {
    /// Looks at a file.
    ///
    /// # Errors
    /// Where it is none that can be merged.
    pub fn open(path: &Path) -> Result<Shard, Error> {
        let file = opened(path)?;
        let failed = failed(path);
        let about = artefact::about(path, file.try_clone().map_err(&failed)?);
        let mut about = about.map_err(|source| Error::of_shard(path, source))?;
        let bytes = file.metadata().map_err(&failed)?.len();
        let footer = digest::of_footer(&file).map_err(&failed)?;
        let stated = about.value(KEY).map(|text| described(path, text)).transpose()?;
        let is_named = stated.is_some();
        let description = match stated {
            Some(description) => description,
            None => {
                let digest = digest::of_file(&file).map_err(&failed)?;
                let id = format!("sha256-{}", digest::hex(&digest));
                let recording = Recording { id, ..Recording::default() };
                Description::of(vec![recording], about.version >= WITH_HALVES)
            }
        };
        // Kept once, read.
        about.more.retain(|(key, _)| key != KEY);
        Ok(Shard { path: path.to_owned(), bytes, about, description, is_named, footer })
    }

    /// Whether both have the same rows, whatever they say of them; false where that cannot be read.
    pub(crate) fn has_the_rows_of(&self, other: &Shard) -> bool {
        let pages = |shard: &Shard| digest::of_pages(&File::open(&shard.path).ok()?).ok();
        pages(self).is_some_and(|own| pages(other) == Some(own))
    }

    /// Its rows, from the first on.
    ///
    /// # Errors
    /// Where the file cannot be opened, or is another one by now.
    pub(crate) fn rows(&self) -> Result<Rows, Error> {
        let path = &self.path;
        let file = opened(path)?;
        if digest::of_footer(&file).map_err(failed(path))? != self.footer {
            return Err(Error::Changed { path: path.clone() });
        }
        let rows = Rows::open(path, file, self.description.architecture());
        Ok(rows.map_err(|source| Error::of_shard(path, source))?.1)
    }

    /// What its rows may add up to, where its recordings say what they had.
    pub(crate) fn claim(&self) -> Claim {
        let own = &self.description;
        let is_raw = !own.executions && own.recordings.iter().all(|one| one.weights.is_empty());
        let laws = own.recordings.iter().map(|one| one.law.map(|law| u128::from(law.counts)));
        // A shard of a recording without a law has the ledger of its samples.
        let ledger = &self.about.ledger;
        let entered = u128::from(ledger.branches.entered.max(ledger.samples.entered));
        let sampled = own.recordings.iter().all(|one| !one.source.is_empty()) && entered > 0;
        let stated = laws.sum::<Option<u128>>().or(sampled.then_some(entered));
        let stated = stated.filter(|_| is_raw);
        // The rows of a part are of any kind.
        Claim { stated, has_wholes: own.partition.is_none(), ..Claim::NONE }
    }

    /// Whether rows of it name an architecture once it is merged.
    pub(crate) fn tells_architectures(&self) -> bool {
        self.about.architectures || !self.description.architecture().is_empty()
    }
}

/// What the rows of a shard add up to, and what its recordings had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// Entries of branch stacks, or samples where there are none; absent where nobody says.
    pub(crate) stated: Option<u128>,
    /// Whether rows of halves have those of the whole beside them.
    has_wholes: bool,
    /// Branches, samples and ranges.
    sums: [Sum; 3],
}

/// The counts of one kind.
#[derive(Clone, Copy, Debug)]
struct Sum {
    /// All that the recording had, of an image or more.
    claimed: u128,
    /// All rows.
    whole: u128,
    /// Rows of the first half of the samples.
    half: u128,
}

impl Claim {
    /// Where nothing is stated.
    pub(crate) const NONE: Claim =
        Claim { stated: None, has_wholes: false, sums: [Sum { claimed: 0, whole: 0, half: 0 }; 3] };

    /// Adds rows.
    ///
    /// # Errors
    /// Where they are more than the recordings had, or a half is more than the whole, which comes before it.
    pub(crate) fn add(&mut self, path: &Path, block: &Block) -> Result<(), Error> {
        if self.stated.is_none() && !self.has_wholes {
            return Ok(());
        }
        let [branches, samples, ranges] = &mut self.sums;
        for row in &block.rows {
            let (sum, is_half) = match row.key.kind {
                Kind::Branch => (&mut *branches, false),
                Kind::Sample => (&mut *samples, false),
                Kind::FallThrough => (&mut *ranges, false),
                Kind::FirstHalfBranch => (&mut *branches, true),
                Kind::FirstHalfSample => (&mut *samples, true),
                Kind::FirstHalfFallThrough => (&mut *ranges, true),
                Kind::Path => continue,
            };
            if is_half {
                sum.half = sum.half.saturating_add(row.count);
                continue;
            }
            sum.whole = sum.whole.saturating_add(row.count);
            // What comes from another image stands there, too.
            if row.key.kind != Kind::Branch || row.key.first.is_some() {
                sum.claimed = sum.claimed.saturating_add(row.count);
            }
        }
        if self.has_wholes && self.sums.iter().any(|sum| sum.half > sum.whole) {
            return Err(Error::Overhalved { path: path.to_owned() });
        }
        // Stacks have several branches for each sample, and a range between two of them.
        match self.stated {
            Some(stated) if self.sums.iter().any(|sum| sum.claimed > stated) => {
                Err(Error::Overclaimed { path: path.to_owned(), stated })
            }
            _ => Ok(()),
        }
    }
}

/// Reads all rows of a shard, and says what is wrong with the first bad one.
///
/// # Errors
/// Where there is one.
pub fn check(shard: &Shard) -> Result<(), Error> {
    let (mut rows, mut spare) = (shard.rows()?, Vec::new());
    let mut claim = shard.claim();
    loop {
        match rows.next_block(spare) {
            Ok(Some(block)) => {
                claim.add(&shard.path, &block)?;
                spare = block.rows;
            }
            Ok(None) => return Ok(()),
            Err(source) => return Err(Error::of_shard(&shard.path, source)),
        }
    }
}

/// Writes the counts of a recording as a shard; `path` names it in messages.
///
/// # Errors
/// Where the recording has no ID, or `out` refuses.
pub fn write(
    path: &Path,
    counts: &Counts,
    recording: Recording,
    out: impl Write + Send,
) -> Result<(), Error> {
    // A recording tells all of its samples apart or none; an image may have too few to have some of both.
    let some = counts.images.iter().any(|image| !image.first_half.is_empty());
    let description = Description::of(vec![recording], some || counts.is_divided());
    let wrong =
        |(expected, found)| Error::Description { path: path.to_owned(), key: KEY, expected, found };
    description.check().map_err(wrong)?;
    let more = vec![(KEY.to_owned(), description.text())];
    Ok(artefact::write_with(path, counts, more, out)?)
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> Error {
    |source| Error::of_shard(path, counts::Error::Io { path: path.to_owned(), source })
}

fn opened(path: &Path) -> Result<File, Error> {
    beside::given::open(path).map_err(failed(path))
}

fn described(path: &Path, text: &str) -> Result<Description, Error> {
    Description::read(text).map_err(|wrong| match wrong {
        Wrong::Newer(found) => Error::Newer { path: path.to_owned(), found, expected: VERSION },
        Wrong::Other(expected, found) => {
            Error::Description { path: path.to_owned(), key: KEY, expected, found }
        }
    })
}
