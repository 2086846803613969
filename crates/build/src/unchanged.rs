//! Did a source change between two builds, whose programs are to differ by their flags alone?

use crate::call::Input;
use crate::request::Request;
use crate::reuse::is_code;
use crate::state::State;
use crate::{Error, Step, outside};
use std::collections::{BTreeMap, BTreeSet};
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
    last: Option<(String, BTreeMap<PathBuf, String>)>,
    /// The sources outside the project of that build, and of those before it.
    outside: BTreeMap<PathBuf, String>,
}

impl BuiltFrom {
    /// Refuses a build of other sources than the one before had when it ended. What the step is made
    /// from was just looked at.
    pub(crate) fn check(
        &self,
        step: &Step,
        state: &mut State,
        directory: &Path,
    ) -> Result<(), Error> {
        let Some((before, then)) = &self.last else { return Ok(()) };
        if !matches!(step.request, Request::Build(_)) {
            return Ok(());
        }
        let outside = state.changed(&self.outside);
        let differs = |(path, now): &(&Path, &str)| then.get(*path).is_some_and(|then| then != now);
        let inside =
            sources(step, state, directory).filter(differs).map(|(path, _)| path.to_owned());
        let mut changed = inside.chain(outside);
        let Some(file) = changed.next() else { return Ok(()) };
        Err(Error::SourceChanged {
            file,
            others: changed.count(),
            before: before.clone(),
            step: step.name.clone(),
        })
    }

    /// Looks at the sources of a build again, which may have made some of them, and notes them.
    pub(crate) fn note_again(
        &mut self,
        step: &Step,
        state: &mut State,
        directory: &Path,
    ) -> Result<(), Error> {
        if matches!(step.request, Request::Build(_)) {
            state.made_from(step, directory)?;
            self.note(step, state, directory);
            self.outside = state.hashes(self.outside.keys().cloned().collect());
        }
        Ok(())
    }

    /// Notes what the sources of a build are, which were just looked at.
    pub(crate) fn note(&mut self, step: &Step, state: &State, directory: &Path) {
        if matches!(step.request, Request::Build(_)) {
            let files = sources(step, state, directory);
            let files = files.map(|(path, sha256)| (path.to_owned(), sha256.to_owned()));
            self.last = Some((step.name.clone(), files.collect()));
            self.outside.extend(state.outside(step).cloned().unwrap_or_default());
        }
    }

    /// The sources of a build that lie outside the project: those that its programs name, and those of
    /// the builds before it, since not every program says what it was built from. None of other steps.
    pub(crate) fn outside(&self, step: &Step, directory: &Path) -> BTreeSet<PathBuf> {
        let mut all = BTreeSet::new();
        if matches!(step.request, Request::Build(_)) {
            all.extend(self.outside.keys().cloned());
            let made = step.outputs().into_iter().map(|path| directory.join(path));
            all.extend(made.flat_map(|program| outside::sources(&program, directory)));
        }
        all
    }
}

/// What compilers read of the sources of a build; nothing of other steps.
fn sources<'s>(
    step: &'s Step,
    state: &'s State,
    directory: &'s Path,
) -> impl Iterator<Item = (&'s Path, &'s str)> {
    let below: &[Input] = match &step.request {
        Request::Build(build) => &build.sources,
        _ => &[],
    };
    let is_below = move |path: &Path| {
        below.iter().map(AsRef::<Path>::as_ref).any(|source| {
            source == "." || path.starts_with(source) || path.starts_with(directory.join(source))
        })
    };
    state.known().filter(move |(path, _)| is_source(path) && is_below(path))
}

fn is_source(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    is_code(ending) || ENDINGS.contains(&ending)
}
