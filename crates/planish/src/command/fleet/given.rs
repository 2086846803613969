//! Which files do the inputs of a fleet command name? Files, directories and patterns here; objects in
//! stores are fetched into a directory for a while, and go by their addresses in all that is told.

use super::remote::{Remote, open};
use crate::cli::Global;
use crate::progress;
use anyhow::{Context as _, anyhow, bail};
use beside::scratch::Scratch;
use fleet::Recording;
use fleet::inputs::{self, ENDING};
use report::fleet::{Aside, MergedFleet};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use stores::{Address, Listing, Object, Store};

/// Most objects of one input.
const MOST_OBJECTS: usize = 1 << 20;

/// The files of all inputs.
#[derive(Default)]
pub struct Given {
    /// How many inputs there are.
    pub inputs: usize,
    /// Each once, with the number of the first input that names it.
    pub files: Vec<(PathBuf, usize)>,
    /// What could not be fetched.
    pub rejected: Vec<Aside>,
    objects: Option<Objects>,
}

/// Objects in files.
struct Objects {
    folder: Scratch,
    /// That of each file, which has its number as its name.
    addresses: Vec<Address>,
    /// How many came, and their bytes.
    fetched: (usize, u64),
}

/// Objects of one bucket, with the number of the input that names them.
struct Bucket {
    address: Address,
    store: Store,
    wanted: Vec<(Object, usize)>,
}

impl Given {
    /// Finds the files, and fetches the objects; `output` is refused where it is one of them.
    ///
    /// # Errors
    /// Where an input names nothing, a store cannot be asked at all, or there is no room.
    pub fn take(
        named: &[PathBuf],
        output: Option<&Path>,
        remote: &Remote,
        global: &Global,
    ) -> anyhow::Result<Given> {
        let mut given = Given { inputs: named.len(), ..Given::default() };
        let mut buckets: Vec<Bucket> = Vec::new();
        let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
        for (number, input) in named.iter().enumerate() {
            if !Address::is_meant(input) {
                for path in inputs::expand(input)? {
                    if seen.insert(path.clone()) {
                        given.files.push((path, number));
                    }
                }
                continue;
            }
            let address = Address::of(input)?;
            let bucket = bucket_of(&mut buckets, &address, remote)?;
            let Listing { objects, ended } = found(&address, &bucket.store)?;
            if let Some(error) = ended {
                given.rejected.push(Aside { path: input.clone(), why: error.to_string() });
            }
            let whole = &bucket.address;
            let new = objects.into_iter().filter(|object| {
                seen.insert(PathBuf::from(whole.with_key(&object.key).to_string()))
            });
            bucket.wanted.extend(new.map(|object| (object, number)));
        }
        if let Some(output) = output.filter(|output| seen.contains(*output)) {
            bail!(
                "{}: is one of the inputs, which would be replaced; name another output",
                output.display()
            );
        }
        given.fetch(&buckets, remote, global)?;
        Ok(given)
    }

    /// Files that were given before.
    pub fn of(files: Vec<PathBuf>) -> Given {
        let inputs = files.len();
        Given { inputs, files: files.into_iter().zip(0..).collect(), ..Given::default() }
    }

    /// The shards that were merged.
    ///
    /// # Errors
    /// Where one cannot be looked at any more.
    pub fn chosen(&self, merged: &MergedFleet) -> anyhow::Result<Vec<Chosen>> {
        let aside = [&merged.rejected, &merged.duplicates, &merged.left_out];
        let aside: BTreeSet<&PathBuf> = aside.into_iter().flatten().map(|one| &one.path).collect();
        let mut chosen = Vec::new();
        for (path, _) in self.files.iter().filter(|(path, _)| !aside.contains(&self.named(path))) {
            let Some(shard) = super::look(path, &mut Vec::new())? else { continue };
            let has_stacks = shard.about.ledger.branches.entered > 0;
            let Some(first) = shard.description.recordings.into_iter().next() else { continue };
            chosen.push(Chosen { path: path.clone(), first, has_stacks });
        }
        Ok(chosen)
    }

    fn fetch(
        &mut self,
        buckets: &[Bucket],
        remote: &Remote,
        global: &Global,
    ) -> anyhow::Result<()> {
        let all = || buckets.iter().flat_map(|bucket| &bucket.wanted);
        let bytes = all().fold(0u64, |sum, (object, _)| sum.saturating_add(object.bytes));
        let number = all().count();
        if number == 0 {
            return Ok(());
        }
        let mib = bytes.div_ceil(1 << 20);
        if mib > remote.disk {
            bail!(
                "{number} objects have {mib} MiB, and --disk lets them take {}; merge parts of \
                 them, or give --disk {mib} if {} has the room",
                remote.disk,
                std::env::temp_dir().display()
            );
        }
        let folder = Scratch::new().context("a directory for objects of stores")?;
        let mut objects = Objects { folder, addresses: Vec::new(), fetched: (0, 0) };
        let bar = progress::Bytes::new("fetch", bytes, global.quiet);
        for bucket in buckets {
            let mut files: Vec<(Object, PathBuf)> = Vec::with_capacity(bucket.wanted.len());
            for (object, _) in &bucket.wanted {
                let name = format!("{}.{ENDING}", objects.addresses.len());
                objects.addresses.push(bucket.address.with_key(&object.key));
                files.push((object.clone(), objects.folder.path().join(name)));
            }
            let done = bucket.store.fetch(&files, &|bytes| bar.add(bytes));
            for ((done, (object, place)), (_, input)) in
                done.into_iter().zip(files).zip(&bucket.wanted)
            {
                match done {
                    Ok(()) => {
                        let (number, bytes) = objects.fetched;
                        objects.fetched = (number + 1, bytes.saturating_add(object.bytes));
                        self.files.push((place, *input));
                    }
                    // A full disk here is no fault of the objects.
                    Err(error @ stores::Error::File { .. }) => return Err(error.into()),
                    Err(error) => self.rejected.push(Aside {
                        path: bucket.address.with_key(&object.key).to_string().into(),
                        why: error.to_string(),
                    }),
                }
            }
        }
        // As the inputs stand, whatever is where.
        self.files.sort_by_key(|(_, input)| *input);
        self.objects = Some(objects);
        Ok(())
    }

    /// The address of a file that was fetched, or its own name.
    pub fn named(&self, path: &Path) -> PathBuf {
        PathBuf::from(self.told(&path.to_string_lossy()))
    }

    /// A text with addresses in the place of the files' names.
    pub fn told(&self, text: &str) -> String {
        let Some(objects) = &self.objects else { return text.to_owned() };
        let before = format!("{}/", objects.folder.path().display());
        let after = format!(".{ENDING}");
        let mut told = String::new();
        let mut rest = text;
        while let Some((head, tail)) = rest.split_once(&before) {
            told += head;
            let address = tail.split_once(&after).and_then(|(number, tail)| {
                Some((objects.addresses.get(number.parse::<usize>().ok()?)?, tail))
            });
            rest = match address {
                Some((address, tail)) => {
                    told += &address.to_string();
                    tail
                }
                None => {
                    told += &before;
                    tail
                }
            };
        }
        told + rest
    }

    /// An error with addresses in the place of the files' names.
    pub fn error(&self, error: anyhow::Error) -> anyhow::Error {
        match &self.objects {
            Some(_) => anyhow!("{}", self.told(&crate::message(&error))),
            None => error,
        }
    }

    /// What was merged, with addresses in the place of the files' names.
    pub fn merged(&self, mut merged: MergedFleet) -> MergedFleet {
        let lists = [&mut merged.duplicates, &mut merged.left_out, &mut merged.rejected];
        for aside in lists.into_iter().flatten() {
            *aside = Aside { path: self.named(&aside.path), why: self.told(&aside.why) };
        }
        let outweighs = merged.outweighs.iter_mut().map(|(path, _)| path);
        let paths = merged.capped.iter_mut().chain(&mut merged.ahead).chain(outweighs);
        paths.for_each(|path| *path = self.named(path));
        merged.fetched = self.objects.as_ref().map_or((0, 0), |objects| objects.fetched);
        merged
    }
}

/// A shard that was merged.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Its file.
    pub path: PathBuf,
    /// Its first recording.
    pub first: Recording,
    /// Whether it has branch stacks.
    pub has_stacks: bool,
}

/// Those of merged shards by which it is told whether there are enough: where they are of several sources, those
/// with branch stacks alone, if there are any. A stack and a sample of a clock say different things.
pub fn judged(chosen: &[Chosen], merged: &MergedFleet) -> Vec<Chosen> {
    let stacks_alone = merged.sources.len() > 1 && chosen.iter().any(|one| one.has_stacks);
    chosen.iter().filter(|one| one.has_stacks || !stacks_alone).cloned().collect()
}

/// The bucket of an address, opened once.
fn bucket_of<'b>(
    buckets: &'b mut Vec<Bucket>,
    address: &Address,
    remote: &Remote,
) -> anyhow::Result<&'b mut Bucket> {
    let whole = address.whole_bucket();
    let at = match buckets.iter().position(|bucket| bucket.address == whole) {
        Some(at) => at,
        None => {
            let store = open(&whole, remote.retry)?;
            buckets.push(Bucket { address: whole, store, wanted: Vec::new() });
            buckets.len() - 1
        }
    };
    buckets.get_mut(at).context("a bucket that was just opened")
}

/// The objects that an address names: one of that name, those below it that are called *.counts, or
/// those that its pattern fits.
fn found(address: &Address, store: &Store) -> anyhow::Result<Listing> {
    let key = address.key();
    if inputs::is_pattern(Path::new(key)) {
        let (before, _) = key.split_at(key.find(['*', '?']).unwrap_or(key.len()));
        let listing = store.list(before, MOST_OBJECTS);
        return kept(address, listing, "no object fits this pattern", |object| {
            fits_key(key, &object.key)
        });
    }
    let one = || -> anyhow::Result<Option<Listing>> {
        let found = if address.is_folder() { None } else { store.head(key)? };
        let object = |found: stores::Found| Object { key: key.to_owned(), bytes: found.bytes };
        Ok(found.map(|found| Listing { objects: vec![object(found)], ended: None }))
    };
    // What is called like a file is one; what is not seldom is.
    let is_file = inputs::is_counts(Path::new(key));
    if let (true, Some(one)) = (is_file, one()?) {
        return Ok(one);
    }
    let before = if key.is_empty() { String::new() } else { format!("{key}/") };
    let mut listing = store.list(&before, MOST_OBJECTS);
    listing.objects.retain(|object| inputs::is_counts(Path::new(&object.key)));
    if let (false, true, true) = (is_file, listing.objects.is_empty(), listing.ended.is_none())
        && let Some(one) = one()?
    {
        return Ok(one);
    }
    kept(address, listing, "no object of that name, and none called *.counts below it", |_| true)
}

/// The objects of a list that are meant; an error where there are none.
fn kept(
    address: &Address,
    mut listing: Listing,
    none: &str,
    is_meant: impl Fn(&Object) -> bool,
) -> anyhow::Result<Listing> {
    listing.objects.retain(is_meant);
    match (listing.objects.is_empty(), listing.ended) {
        (true, Some(error)) => Err(error.into()),
        (true, None) => bail!("{address}: {none}"),
        (false, ended) => Ok(Listing { objects: listing.objects, ended }),
    }
}

/// Whether a pattern fits a key: part by part between slashes, and, where it fits a beginning, what is
/// called *.counts below that.
fn fits_key(pattern: &str, key: &str) -> bool {
    let mut own = key.split('/');
    let fits = pattern.split('/').all(|part| own.next().is_some_and(|own| inputs::fits(part, own)));
    fits && (own.next().is_none() || inputs::is_counts(Path::new(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_keys_as_they_fit_files() {
        for (pattern, key) in [
            ("a/*.counts", "a/1.counts"),
            ("a/*", "a/notes.txt"),
            ("a/2026-*", "a/2026-11/x/1.counts"),
            ("*", "1.counts"),
        ] {
            assert!(fits_key(pattern, key), "{pattern} {key}");
        }
        for (pattern, key) in [
            ("a/*.counts", "a/b/1.counts"),
            ("a/2026-*", "a/2026-11/x/notes.txt"),
            ("a/*/x", "a/1"),
            ("a/*", "a/.new.counts"),
        ] {
            assert!(!fits_key(pattern, key), "{pattern} {key}");
        }
    }
}
