//! Did a source change between two builds, whose programs are to differ by their flags alone?

use crate::call::Input;
use crate::request::Request;
use crate::reuse::is_code;
use crate::state::State;
use crate::{Error, Step};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How files end that compilers read, beside those that they compile. Others may change while planish
/// works: logs, objects.
const ENDINGS: [&str; 18] = [
    "h", "H", "hh", "hpp", "hxx", "inc", "inl", "ipp", "tcc", "def", "s", "S", "asm", "rs", "l",
    "y", "ixx", "cppm",
];

/// The sources as the last build left them, which may have made some itself.
#[derive(Default)]
pub(crate) struct BuiltFrom {
    last: Option<Built>,
}

struct Built {
    step: String,
    files: BTreeMap<PathBuf, String>,
}

impl BuiltFrom {
    /// Refuses a build of other sources than the one before had when it ended.
    pub(crate) fn check(
        &self,
        step: &Step,
        state: &mut State,
        directory: &Path,
    ) -> Result<(), Error> {
        let (Some(last), Some(sources)) = (&self.last, sources(step)) else { return Ok(()) };
        let now = state.files_of(sources, directory)?;
        let differs = |(path, sha256): &(&PathBuf, &String)| {
            now.get(*path).is_some_and(|now| now != *sha256) && is_source(path)
        };
        let changed: Vec<&PathBuf> =
            last.files.iter().filter(differs).map(|(path, _)| path).collect();
        let Some((first, others)) = changed.split_first() else { return Ok(()) };
        Err(Error::SourceChanged {
            file: (*first).clone(),
            others: others.len(),
            before: last.step.clone(),
            step: step.name.clone(),
        })
    }

    /// Notes what the sources are after a build, or where one is up to date.
    pub(crate) fn note(
        &mut self,
        step: &Step,
        state: &mut State,
        directory: &Path,
    ) -> Result<(), Error> {
        let Some(sources) = sources(step) else { return Ok(()) };
        let files = state.files_of(sources, directory)?;
        self.last = Some(Built { step: step.name.clone(), files });
        Ok(())
    }
}

fn sources(step: &Step) -> Option<&[Input]> {
    match &step.request {
        Request::Build(build) => Some(&build.sources),
        _ => None,
    }
}

fn is_source(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    is_code(ending) || ENDINGS.contains(&ending)
}
