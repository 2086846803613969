//! How do a step's outputs come to their places, all of them or none?
//!
//! A program is told the names that its outputs will have, so what it prints of them is true. What
//! lay there is set aside before it runs: so it cannot be taken for what the step made, and comes
//! back where the step fails. Standard output and what is collected go to files of other names,
//! which are renamed when they are whole.

use crate::call::Call;
use crate::error::Error;
use crate::own_libraries;
use crate::pages::Pages;
use crate::plan::STATE_DIRECTORY;
use crate::reuse::link;
use beside::Unfinished;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// In the state directory: what lay where the running step makes its outputs. A run that is killed
/// leaves it behind, and the next one removes it.
const ASIDE: &str = "aside";

/// Most files that are looked at for a program that lies elsewhere.
const MOST_ENTRIES: usize = 200_000;

/// Programs that are named in place of one that is not there.
const MOST_NAMES: usize = 8;

/// What is said of a step that calls no build command and does not make what it promised.
const PROGRAM_FAULT: &str = "this is a fault of the step's program";

/// The outputs of a step that runs. Unless they are kept, all is as it was before.
pub(crate) struct Outputs<'c> {
    call: &'c Call,
    directory: &'c Path,
    stdout: Option<Unfinished>,
    /// Of how many outputs the place is free.
    free: usize,
    kept: bool,
}

impl<'c> Outputs<'c> {
    /// Makes room for what `call` makes in `directory`.
    ///
    /// # Errors
    /// Where what lies there cannot be set aside.
    pub(crate) fn begin(call: &'c Call, directory: &'c Path) -> Result<Outputs<'c>, Error> {
        let mut outputs = Outputs { call, directory, stdout: None, free: 0, kept: false };
        let aside = outputs.aside();
        empty(&aside).map_err(|source| file_error(&aside, "cannot make", source))?;
        for (number, path) in call.written_anew().enumerate() {
            set_aside(&directory.join(path), &aside.join(number.to_string()))
                .map_err(|source| file_error(path, "cannot replace", source))?;
            outputs.free = number + 1;
        }
        let begun = call.stdout().map(|path| {
            let unfinished = Unfinished::at(&directory.join(path));
            unfinished.map_err(|source| file_error(path, "cannot create", source))
        });
        outputs.stdout = begun.transpose()?;
        Ok(outputs)
    }

    /// What the program's standard output goes to, where that is an output.
    ///
    /// # Errors
    /// Where the file cannot be handed over.
    pub(crate) fn stdout(&self) -> Result<Option<File>, Error> {
        let file = self.stdout.as_ref().map(|unfinished| unfinished.file()?.try_clone());
        let path = self.call.stdout().unwrap_or(Path::new(""));
        file.transpose().map_err(|source| file_error(path, "cannot write", source))
    }

    /// Puts all outputs in their places; `told` hears what is said of that.
    ///
    /// # Errors
    /// Where the step named `step` has not made one, or it cannot be put there.
    pub(crate) fn keep(mut self, step: &str, told: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let call = self.call;
        let written = call.written().map(|path| (path, false));
        let collected = call.collect.iter().map(|(made, _)| (made.as_path(), true));
        for (path, collected) in collected.chain(written) {
            let may_lack = call.may_lack.iter().any(|lacking| lacking == path);
            if !may_lack && !self.directory.join(path).is_file() {
                let next = if collected { self.hint(path) } else { PROGRAM_FAULT.to_owned() };
                let (step, path) = (step.to_owned(), path.to_owned());
                return Err(Error::NoOutput { step, path, next });
            }
        }
        if let (Some((program, rule)), Some(out)) =
            (&call.linked_program, call.environment.get("PLANISH_OUT"))
        {
            let made = call.collect.iter().map(|(made, _)| self.directory.join(made));
            let known: Vec<PathBuf> = made.collect();
            let program = self.directory.join(program);
            own_libraries::check(step, Path::new(out), (&program, *rule), &known)?;
        }
        let program = call.linked_program.as_ref().map(|(program, _)| self.directory.join(program));
        if let Some(program) = &program {
            call.described.check(step, program)?;
        }
        for (made, output) in &call.collect {
            let (from, to) = (self.directory.join(made), self.directory.join(output));
            if let Some(parent) = to.parent() {
                std::fs::create_dir_all(parent)
                    .map_err(|source| file_error(parent, "cannot create", source))?;
            }
            // Else a program on superpages would be written to where a link leads.
            if to.is_symlink() {
                std::fs::remove_file(&to)
                    .map_err(|source| file_error(output.as_ref(), "cannot replace", source))?;
            }
            // A build may go on with what was linked, or link another program of the name.
            if call.may_lack.contains(made)
                && !program.as_deref().is_some_and(|p| link::made(&from, p))
            {
                beside::write(&to, b"")
                    .map_err(|source| file_error(&to, "cannot write", source))?;
                continue;
            }
            match call.pages_of(output) {
                Pages::Off => beside::copy(&from, &to)
                    .map_err(|source| file_error(&to, "cannot copy to", source))?,
                pages => pages.write(&from, &to)?.iter().for_each(|line| told(line)),
            }
        }
        if let Some((program, pages)) = call.rewritten() {
            let made = self.directory.join(program);
            pages.write(&made, &made)?.iter().for_each(|line| told(line));
        }
        if let Some(unfinished) = self.stdout.take() {
            let path = call.stdout().unwrap_or(Path::new(""));
            unfinished.finish().map_err(|source| file_error(path, "cannot rename to", source))?;
        }
        self.kept = true;
        Ok(())
    }

    /// What to do where a build has not made what is collected.
    fn hint(&self, made: &Path) -> String {
        match self.call.environment.get("PLANISH_OUT") {
            None => PROGRAM_FAULT.to_owned(),
            Some(_) if made.ends_with(crate::reuse::LOG) => {
                "the layout is applied by what PLANISH_CC and PLANISH_CXX name: the build command \
                 must compile with them"
                    .to_owned()
            }
            Some(_) if made.ends_with(crate::reuse::LINK) => {
                "[evaluate] layouts repeats the link, whose inputs are kept by what PLANISH_CC and \
                 PLANISH_CXX name: the build command must link the program with one of them, or \
                 leave layouts out"
                    .to_owned()
            }
            Some(out) => format!(
                "check [build] binary and libraries in planish.toml, and that the command writes below \
                 $PLANISH_OUT ({out}){}",
                self.elsewhere(made, out).unwrap_or_else(|| self.beside(made))
            ),
        }
    }

    /// Where below `out` a program of the name lies that was looked for in another directory: the
    /// uppermost one.
    fn elsewhere(&self, made: &Path, out: &str) -> Option<String> {
        let (name, out) = (made.file_name()?, self.directory.join(out));
        let mut folders = vec![out.clone()];
        let mut found: Option<(usize, PathBuf)> = None;
        let mut looked = 0;
        while let Some(folder) = folders.pop().filter(|_| looked < MOST_ENTRIES) {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                looked += 1;
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(entry.path());
                } else if entry.file_name() == name && runs(&entry) {
                    let path = entry.path().strip_prefix(&out).map_or(entry.path(), Path::to_owned);
                    let this = (path.components().count(), path);
                    found = found.into_iter().chain([this]).min();
                }
            }
        }
        let (depth, path) = found?;
        // A name without a directory is looked for where build systems put programs.
        let given = if depth == 1 { Path::new(".").join(path) } else { path };
        let given = crate::bounded_log::shown(&given.to_string_lossy());
        Some(match name.to_string_lossy().contains(".so") {
            true => format!("; one of that name lies at {given} there"),
            false => format!(
                "; one of that name lies at {given} there: say --program {given}, or binary = \"{given}\" \
                 in planish.toml"
            ),
        })
    }

    /// Which other programs lie where one was looked for.
    fn beside(&self, made: &Path) -> String {
        let folder = made.parent().unwrap_or(Path::new(""));
        let entries = std::fs::read_dir(self.directory.join(folder));
        let found = entries.into_iter().flatten().flatten().filter(runs);
        let mut names: Vec<String> =
            found.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names.truncate(MOST_NAMES);
        let shown: Vec<String> = names.iter().map(|name| crate::bounded_log::shown(name)).collect();
        match shown.is_empty() {
            true => String::new(),
            false => format!("; programs that lie in the same directory: {}", shown.join(", ")),
        }
    }

    fn aside(&self) -> PathBuf {
        self.directory.join(STATE_DIRECTORY).join(ASIDE)
    }
}

impl Drop for Outputs<'_> {
    fn drop(&mut self) {
        let aside = self.aside();
        if !self.kept {
            // Half-made outputs help nobody. Where one cannot be put back, the step runs again.
            for (number, path) in self.call.written_anew().enumerate().take(self.free) {
                let place = self.directory.join(path);
                let _ = std::fs::remove_file(&place);
                let _ = std::fs::rename(aside.join(number.to_string()), &place);
            }
        }
        let _ = std::fs::remove_dir_all(&aside);
    }
}

/// Whether a file may be executed.
fn runs(entry: &std::fs::DirEntry) -> bool {
    use std::os::unix::fs::PermissionsExt;
    entry.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// An empty directory of this name; what is planted there is removed, never followed.
fn empty(directory: &Path) -> io::Result<()> {
    let removed = match std::fs::symlink_metadata(directory) {
        Ok(about) if about.is_dir() => std::fs::remove_dir_all(directory),
        Ok(_) => std::fs::remove_file(directory),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    removed.and_then(|()| std::fs::create_dir(directory))
}

fn set_aside(place: &Path, aside: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(place) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(about) if about.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(_) => std::fs::rename(place, aside),
    }
}

pub(crate) fn file_error(path: &Path, action: &'static str, source: io::Error) -> Error {
    Error::File { path: path.to_owned(), action, source }
}
