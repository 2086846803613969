//! Which steps are finished, and is what they were made from still the same?

use crate::plan::STATE_DIRECTORY;
use crate::sources::{is_made_by_planish, is_own_output};
use crate::{Error, Outlook, Plan, Step, small_file};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// What `.planish/state.json` holds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct State {
    version: u32,
    /// The finished steps by name.
    pub steps: BTreeMap<String, Done>,
    /// Hashes of files, valid while size and time of change stay.
    files: BTreeMap<PathBuf, Known>,
    /// What the steps were made from that go on with what they left when they were interrupted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) begun: BTreeMap<String, String>,
    /// Files that commands of the user's name and write.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    written: BTreeSet<PathBuf>,
}

/// A finished step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// SHA-256 over the step's request, as it is rendered, and the contents of its inputs.
    pub made_from: String,
    /// SHA-256 of each output.
    pub outputs: BTreeMap<PathBuf, String>,
    /// How long it took.
    pub seconds: f64,
    /// The sources of a build that lie outside the project, with the SHA-256 of each when it ended.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outside: BTreeMap<PathBuf, String>,
}

/// What decides what a step makes, as it was when somebody looked.
pub(crate) struct Looked {
    /// Over the request and its inputs.
    asked: Sha256,
    /// The files that its commands name, with the SHA-256 of each.
    named: BTreeMap<PathBuf, String>,
}

impl Looked {
    /// The hash over it.
    pub(crate) fn made_from(&self) -> String {
        let mut hash = self.asked.clone();
        for (path, sha256) in &self.named {
            hash.update(path.to_string_lossy().as_bytes());
            hash.update(sha256);
        }
        hex::encode(hash.finalize())
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Known {
    bytes: u64,
    changed_ns: u64,
    sha256: String,
}

/// State files of other versions are ignored: everything is made once more.
const VERSION: u32 = 1;

impl State {
    /// Reads the state of a directory; an absent or foreign one is an empty state.
    pub fn read(directory: &Path) -> State {
        let path = directory.join(STATE_DIRECTORY).join("state.json");
        let read = beside::given::read(&path, beside::given::TEXT)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<State>(&bytes).ok());
        read.filter(|s| s.version == VERSION)
            .unwrap_or_else(|| State { version: VERSION, ..State::default() })
    }

    /// Writes the state: beside, then renamed.
    pub fn write(&self, directory: &Path) -> Result<(), Error> {
        let path = directory.join(STATE_DIRECTORY).join("state.json");
        let fail = |source| Error::File { path: path.clone(), action: "cannot write", source };
        let mut bytes = serde_json::to_vec_pretty(self).map_err(|e| fail(e.into()))?;
        bytes.push(b'\n');
        beside::write(&path, bytes).map_err(fail)
    }

    /// Whether a step was finished from the same inputs and its outputs are still what it made.
    pub fn is_done(&mut self, step: &Step, directory: &Path) -> Result<bool, Error> {
        let Some(done) = self.steps.get(&step.name).cloned() else { return Ok(false) };
        if done.outputs.len() != step.outputs().len()
            || done.made_from != self.made_from(step, directory)?
        {
            return Ok(false);
        }
        for (path, sha256) in &done.outputs {
            let full = directory.join(path);
            if !full.is_file() || self.file_hash(path, &full)? != *sha256 {
                return Ok(false);
            }
        }
        Ok(self.changed(&done.outside).is_empty())
    }

    /// Those of some files, named by their whole paths, that are no longer what they were.
    pub(crate) fn changed(&mut self, files: &BTreeMap<PathBuf, String>) -> Vec<PathBuf> {
        let now = self.hashes(files.keys().cloned().collect());
        let differs = |(path, sha256): &(&PathBuf, &String)| now.get(*path) != Some(*sha256);
        files.iter().filter(differs).map(|(path, _)| path.clone()).collect()
    }

    /// What files hold that are named by their whole paths; those that cannot be read are left out.
    pub(crate) fn hashes(&mut self, files: BTreeSet<PathBuf>) -> BTreeMap<PathBuf, String> {
        let hashed = |path: PathBuf| Some((self.file_hash(&path, &path).ok()?, path));
        files.into_iter().filter_map(hashed).map(|(sha256, path)| (path, sha256)).collect()
    }

    /// What a step's programs were built from outside the project; none of a step that is not done.
    pub(crate) fn outside(&self, step: &Step) -> Option<&BTreeMap<PathBuf, String>> {
        self.steps.get(&step.name).map(|done| &done.outside)
    }

    /// Notes a finished step. `made_from` is taken before the step runs, so that a source file that
    /// changes meanwhile counts as changed. `outside` are its sources outside the project; they count as
    /// they are now, since nobody knew them.
    pub fn note(
        &mut self,
        step: &Step,
        directory: &Path,
        made_from: String,
        seconds: f64,
        outside: BTreeSet<PathBuf>,
    ) -> Result<(), Error> {
        let mut outputs = BTreeMap::new();
        for path in step.outputs() {
            let hash = self.file_hash(&path, &directory.join(&path))?;
            outputs.insert(path, hash);
        }
        let outside = self.hashes(outside);
        self.begun.remove(&step.name);
        self.steps.insert(step.name.clone(), Done { made_from, outputs, seconds, outside });
        Ok(())
    }

    /// The hash over everything that decides what a step makes.
    pub fn made_from(&mut self, step: &Step, directory: &Path) -> Result<String, Error> {
        Ok(self.look(step, directory)?.made_from())
    }

    /// Looks at everything that decides what a step makes.
    pub(crate) fn look(&mut self, step: &Step, directory: &Path) -> Result<Looked, Error> {
        let mut hash = Sha256::new();
        hash.update(crate::PLANISH.concat());
        let asked = (&step.name, step.call(), &step.besides, step.optional);
        hash.update(serde_json::to_vec(&asked).unwrap_or_default());
        let written: Vec<PathBuf> = self.written.iter().cloned().collect();
        let left_out = [step.not_inputs.clone(), step.outputs(), written].concat();
        for input in &step.inputs() {
            let full = directory.join(input);
            hash.update(input.to_string_lossy().as_bytes());
            if full.is_dir() {
                self.directory_hash(&full, directory, &left_out, &mut hash)?;
            } else {
                hash.update(self.file_hash(input, &full)?);
            }
        }
        Ok(Looked { asked: hash, named: self.named(step, directory)? })
    }

    /// The files that a step's commands name, with the SHA-256 of each, but those that they write.
    fn named(&mut self, step: &Step, directory: &Path) -> Result<BTreeMap<PathBuf, String>, Error> {
        let mut all = BTreeMap::new();
        for path in step.named.iter().filter(|path| !path.starts_with(STATE_DIRECTORY)) {
            let full = directory.join(path);
            // What cannot be read is the command's to tell.
            if !self.is_written(path) && full.is_file() && File::open(&full).is_ok() {
                let held = match large(&full) {
                    Some(told) => told,
                    None => self.file_hash(path, &full)?,
                };
                all.insert(path.clone(), held);
            }
        }
        Ok(all)
    }

    /// Whether commands write a file that they name.
    pub(crate) fn is_written(&self, path: &Path) -> bool {
        self.written.contains(path)
    }

    /// Of the files that a step's commands name, those are written by them that changed while it ran:
    /// they no longer decide what it is made from. Told are those that were there before.
    pub(crate) fn note_written(
        &mut self,
        step: &Step,
        directory: &Path,
        looked: &mut Looked,
    ) -> Result<Vec<PathBuf>, Error> {
        let after = self.named(step, directory)?;
        let before = &mut looked.named;
        self.written.extend(after.keys().filter(|path| !before.contains_key(*path)).cloned());
        let differs = |(path, sha256): &(&PathBuf, &String)| after.get(*path) != Some(*sha256);
        let changed: Vec<PathBuf> =
            before.iter().filter(differs).map(|(path, _)| path.clone()).collect();
        before.retain(|path, _| !changed.contains(path));
        self.written.extend(changed.iter().cloned());
        Ok(changed)
    }

    /// The files that were looked at, each with the SHA-256 of what it held then.
    pub(crate) fn known(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.files.iter().map(|(path, known)| (path.as_path(), known.sha256.as_str()))
    }

    /// A file that is gone.
    pub(crate) fn forget(&mut self, path: &Path) {
        self.files.remove(path);
    }

    /// Everything below a directory but hidden names, `target`, what is no plain file, what is
    /// `left_out` and what planish wrote.
    fn directory_hash(
        &mut self,
        folder: &Path,
        directory: &Path,
        left_out: &[PathBuf],
        hash: &mut Sha256,
    ) -> Result<(), Error> {
        let fail = |source| Error::File { path: folder.to_owned(), action: "cannot list", source };
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            names.push((entry.file_name(), entry.file_type().map_err(fail)?));
        }
        names.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, kind) in names {
            if name.as_encoded_bytes().starts_with(b".") || name == "target" {
                continue;
            }
            let path = folder.join(&name);
            if kind.is_dir() {
                self.directory_hash(&path, directory, left_out, hash)?;
            } else if path.is_file() {
                // Components, because the folder "." would else stay in the name.
                let path: PathBuf = path.components().collect();
                let short = path.strip_prefix(directory).unwrap_or(&path).to_owned();
                if left_out.iter().any(|file| *file == short || *file == path)
                    || is_made_by_planish(&path)
                    || is_own_output(&path)
                {
                    continue;
                }
                hash.update(short.to_string_lossy().as_bytes());
                hash.update(self.file_hash(&short, &path)?);
            }
        }
        Ok(())
    }

    fn file_hash(&mut self, name: &Path, full: &Path) -> Result<String, Error> {
        let fail = |source| Error::File { path: name.to_owned(), action: "cannot read", source };
        let about = match std::fs::metadata(full) {
            Ok(about) => about,
            // Optional steps may have made nothing. A file that a step really needs is asked for by
            // its program.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok("absent".into()),
            Err(e) => return Err(fail(e)),
        };
        let changed = about.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        let changed_ns = changed.map_or(0, |t| t.as_nanos() as u64);
        if let Some(known) = self.files.get(name)
            && (known.bytes, known.changed_ns) == (about.len(), changed_ns)
        {
            return Ok(known.sha256.clone());
        }
        let mut file = beside::given::open(full).map_err(fail)?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 18];
        loop {
            match file.read(&mut buffer).map_err(fail)? {
                0 => break,
                got => hash.update(&buffer[..got]),
            }
        }
        let sha256 = hex::encode(hash.finalize());
        self.files.insert(
            name.to_owned(),
            Known { bytes: about.len(), changed_ns, sha256: sha256.clone() },
        );
        Ok(sha256)
    }
}

/// Larger files that a command names are known by their size and time of change: to hash them takes
/// seconds and more.
const LARGE: u64 = 1 << 30;

/// Size and time of change of a large file.
fn large(path: &Path) -> Option<String> {
    let about = std::fs::metadata(path).ok().filter(|about| about.len() > LARGE)?;
    Some(format!("{} bytes of {:?}", about.len(), about.modified().ok()?))
}

/// Where it stands which step a run was in that has not come to its report.
fn mark(directory: &Path) -> PathBuf {
    directory.join(STATE_DIRECTORY).join("unfinished")
}

/// The step in which the last run was that ends in a report, where it has not come to that: the report
/// that lies here is of an earlier one.
pub fn unfinished(directory: &Path) -> Option<String> {
    small_file::text(&mark(directory)).map(|step| step.trim().to_owned())
}

/// Notes in which step a run is; none when it has come to its end.
pub(crate) fn note_unfinished(directory: &Path, step: Option<&str>) -> Result<(), Error> {
    let path = mark(directory);
    let done = match step {
        Some(step) => beside::write(&path, format!("{step}\n")),
        None => std::fs::remove_file(&path).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        }),
    };
    done.map_err(|source| Error::File { path, action: "cannot write", source })
}

/// What is known of a plan's steps before any runs: all run where `again`, else those that are not
/// up to date.
///
/// # Errors
/// Where what a step reads cannot be read.
pub fn outlook(plan: &Plan, directory: &Path, again: bool) -> Result<Vec<Outlook>, Error> {
    let mut state = State::read(directory);
    let done = plan.steps.iter().map(|step| Ok(!again && state.is_done(step, directory)?));
    Ok(plan.outlook(&done.collect::<Result<Vec<bool>, Error>>()?))
}
