//! Which objects of a build must be compiled anew for a layout, and which are as they were?
//!
//! A relink in a new layout changes only objects with functions of the layout, most of a program's
//! objects have none. [`compiler`] stands in the compiler's place (a script calls it). In the build
//! that is recorded it keeps every object with what it was made from; in the relink it takes the
//! kept object where command, compiler and every file read are still the same and no function of it
//! is in the cc profile, and else compiles with the lines of the cc profile that are about the
//! object. Whatever it does not understand it hands to the compiler, with the whole cc profile.
//! gcc gets what it needs besides a sample profile, and falls back step by step where it crashes over
//! one.
//!
//! The names of files that hold parts of a cc profile contain their hash: other caches (ccache,
//! ThinLTO's) look at names of such files alone.

mod again;
mod cc_profile;
mod command;
pub(crate) mod link;
pub(crate) mod probes;
mod sampled;
mod store;

use crate::Error;
pub use again::link_again;
use cc_profile::CcText;
use command::Compile;
pub(crate) use command::is_code;
pub use sampled::TOLD as CRASHED;
pub(crate) use sampled::{FLAGS as GCC_FLAGS, is_without_profile};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use store::Store;

/// The variable with the directory that objects are kept in.
pub const OBJECTS: &str = "PLANISH_OBJECTS";
/// The variable with the cc profile to apply; without it objects are only kept.
pub const CC_PROFILE: &str = "PLANISH_CC_PROFILE";
/// In PLANISH_OUT: a line for each object of a relink, see [`Reused::read`].
pub const LOG: &str = "planish-reuse.log";

/// The variable with the file that gets what the program's link reads.
pub const LINK_INPUTS: &str = "PLANISH_LINK_INPUTS";
/// The variable with the file name of the program whose link is kept.
pub const LINK_PROGRAM: &str = "PLANISH_LINK_PROGRAM";
/// In PLANISH_OUT: what the program's link reads.
pub const LINK: &str = "planish-link.tar";

/// What a relink did with the objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Reused {
    /// Taken as they were.
    pub reused: u64,
    /// Compiled with their part of the layout, or taken from such a compilation.
    pub laid_out: u64,
    /// Compiled because they were not kept or what they were made from changed.
    pub compiled: u64,
}

impl Reused {
    /// Counts the lines of a log; none where there is no log.
    pub fn read(path: &Path) -> Option<Reused> {
        let text = std::fs::read_to_string(path).ok()?;
        let count =
            |word: &str| text.lines().filter(|l| l.split(' ').next() == Some(word)).count() as u64;
        Some(Reused {
            reused: count("reused"),
            laid_out: count("laid-out"),
            compiled: count("compiled"),
        })
    }
}

/// Runs `compiler` with `arguments`, or does without; the result is the exit code. `warn` hears
/// what costs time later.
///
/// # Errors
/// The compiler cannot be started, or the cc profile cannot be read.
pub fn compiler(
    compiler: &OsStr,
    arguments: &[OsString],
    warn: &dyn Fn(String),
) -> Result<u8, Error> {
    let inputs = variable(LINK_PROGRAM)
        .zip(variable(LINK_INPUTS))
        .filter(|(program, _)| link::makes(arguments, program))
        .map(|(_, inputs)| inputs);
    let Some(inputs) = inputs else { return compile(compiler, arguments, warn) };
    let code = compile(compiler, &with_options(link::reproduce(&inputs), arguments), warn)?;
    if code == 0 {
        link::note(Path::new(&inputs), arguments);
    }
    Ok(code)
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn compile(compiler: &OsStr, arguments: &[OsString], warn: &dyn Fn(String)) -> Result<u8, Error> {
    let Some(objects) = variable(OBJECTS) else {
        return match sampled::is_used(arguments) {
            true => sampled::compile(compiler, arguments, warn),
            false => run(compiler, arguments),
        };
    };
    let store = Store::new(PathBuf::from(objects));
    let profile = variable(CC_PROFILE).map(|path| CcText::read(Path::new(&path))).transpose()?;
    let compile = Compile::of(arguments);
    // What is compiled here is laid out, or recorded for a layout.
    let without_probes = (compile.is_some() && probes::can_go(arguments))
        .then(|| with_options(["-mllvm", probes::LEAVE_OUT].map(OsString::from), arguments));
    let arguments = without_probes.as_deref().unwrap_or(arguments);
    let key = match &compile {
        Some(compile) if compile.can_be_kept() => store.key(compiler, compile, arguments),
        _ => None,
    };
    match (compile, key, profile) {
        (Some(compile), Some(key), None) => {
            keep(&store, compiler, arguments, (&compile, &key), warn)
        }
        (Some(compile), Some(key), Some(profile)) => {
            lay_out(&store, compiler, arguments, (&compile, &key), &profile, warn)
        }
        (Some(_), None, Some(profile)) => {
            note("compiled", arguments);
            run(compiler, &with_list(arguments, &store.list(&profile.whole)?))
        }
        (None, _, Some(profile)) => {
            // With ThinLTO the linker compiles, so the layout is applied although no object was
            // noted.
            if profile.is_named_in(arguments) {
                log("");
            }
            run(compiler, &profile.renamed(arguments, &store)?)
        }
        (_, _, None) => run(compiler, arguments),
    }
}

/// Compiles and keeps the object.
fn keep(
    store: &Store,
    compiler: &OsStr,
    arguments: &[OsString],
    (compile, key): (&Compile, &str),
    warn: &dyn Fn(String),
) -> Result<u8, Error> {
    let own = store.dependency_file(key);
    let all = match compile.dependencies {
        Some(_) => arguments.to_vec(),
        None => with_options(["-MD".into(), "-MF".into(), own.clone().into_os_string()], arguments),
    };
    let code = run(compiler, &all)?;
    if code == 0
        && let Err(error) = store.put(key, compile, &own)
    {
        // The build is as good as without planish; only the relink will take longer.
        warn(format!("{} is not kept for the relink: {error}", compile.output.display()));
    }
    let _ = std::fs::remove_file(own);
    Ok(code)
}

/// Takes a kept object, or compiles with the part of the profile that is about it.
fn lay_out(
    store: &Store,
    compiler: &OsStr,
    arguments: &[OsString],
    (compile, key): (&Compile, &str),
    profile: &CcText,
    warn: &dyn Fn(String),
) -> Result<u8, Error> {
    let Some(kept) = store.get(key) else {
        note("compiled", arguments);
        return run(compiler, &with_list(arguments, &store.list(&profile.whole)?));
    };
    let Some(part) = profile.about(&kept.functions) else {
        note("reused", &[compile.output.clone().into()]);
        store.copy(key, &kept, compile)?;
        return Ok(0);
    };
    note("laid-out", &[compile.output.clone().into()]);
    let key = store.key_with(key, &part);
    if let Some(kept) = store.get(&key) {
        store.copy(&key, &kept, compile)?;
        return Ok(0);
    }
    keep(store, compiler, &with_list(arguments, &store.list(&part)?), (compile, &key), warn)
}

fn with_list(arguments: &[OsString], list: &Path) -> Vec<OsString> {
    let mut flag = OsString::from("-fbasic-block-sections=list=");
    flag.push(list);
    with_options([flag], arguments)
}

/// In front: behind `--` stand files alone.
fn with_options<const N: usize>(options: [OsString; N], arguments: &[OsString]) -> Vec<OsString> {
    options.into_iter().chain(arguments.iter().cloned()).collect()
}

/// A line of the log; none for what build systems compile to try the compiler out.
fn note(word: &str, what: &[OsString]) {
    let trials = [
        "CMakeCCompilerId.",
        "CMakeCXXCompilerId.",
        "CMakeCCompilerABI.",
        "CMakeCXXCompilerABI.",
        "conftest.",
    ];
    let is_trial = |word: &OsString| {
        let path = Path::new(word);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        trials.iter().any(|trial| name.starts_with(trial))
            || path == "/dev/null"
            || path.iter().any(|part| part == "CMakeScratch")
    };
    if what.iter().any(is_trial) {
        return;
    }
    let what: Vec<String> = what.iter().map(|w| w.to_string_lossy().replace('\n', " ")).collect();
    log(&format!("{word} {}\n", what.join(" ")));
}

/// Makes the log and appends to it. Several compilers write at once: a short line appended to a
/// file arrives whole.
fn log(text: &str) {
    let Some(out) = std::env::var_os("PLANISH_OUT") else { return };
    let path = Path::new(&out).join(LOG);
    if let Ok(mut file) = beside::append(&path) {
        let _ = file.write_all(text.as_bytes());
    }
}

fn run(compiler: &OsStr, arguments: &[OsString]) -> Result<u8, Error> {
    let status = Command::new(compiler).args(arguments).status();
    let status = status.map_err(|source| Error::File {
        path: PathBuf::from(compiler),
        action: "cannot start the compiler",
        source,
    })?;
    Ok(code_of(status))
}

/// The exit code of a program as a shell tells it: 128 and the signal that ended it.
pub fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_kept_whose_source_is_named_behind_two_dashes() {
        if Command::new("clang-22").arg("--version").output().is_err() {
            return eprintln!("skipped: clang-22 is not installed");
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).into_os_string();
        std::fs::write(at("a.c"), "int f(void) { return 1; }\n").unwrap();
        std::fs::create_dir(at("objects")).unwrap();
        let arguments = ["-c".into(), "-o".into(), at("a.o"), "--".into(), at("a.c")];
        let compile = Compile::of(&arguments).unwrap();
        assert!(compile.can_be_kept());
        let (store, compiler) = (Store::new(PathBuf::from(at("objects"))), OsStr::new("clang-22"));
        let key = store.key(compiler, &compile, &arguments).unwrap();
        assert_eq!(keep(&store, compiler, &arguments, (&compile, &key), &|_| ()).unwrap(), 0);
        assert!(store.get(&key).is_some());
    }

    #[test]
    fn an_object_is_taken_for_another_directory_too() {
        if Command::new("clang-22").arg("--version").output().is_err() {
            return eprintln!("skipped: clang-22 is not installed");
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a.c"), "int f(void) { return 1; }\n").unwrap();
        for name in ["objects", "flags 1", "flags 2"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        let (store, compiler) = (Store::new(at("objects")), OsStr::new("clang-22"));
        let call = |directory: &str| {
            let object = at(directory).join("a.o").into_os_string();
            let words = ["-c".into(), "-MMD".into(), "-o".into(), object, at("a.c").into()];
            let compile = Compile::of(&words).unwrap();
            let key = store.key(compiler, &compile, &words).unwrap();
            (words, compile, key)
        };
        let (words, compile, key) = call("flags 1");
        assert_eq!(keep(&store, compiler, &words, (&compile, &key), &|_| ()).unwrap(), 0);
        let (_, other, same) = call("flags 2");
        assert_eq!(key, same);
        store.copy(&key, &store.get(&key).unwrap(), &other).unwrap();
        let read = |name: &str| std::fs::read(at(name)).unwrap();
        assert_eq!(read("flags 1/a.o"), read("flags 2/a.o"));
        let listed = |name: &str| String::from_utf8(read(name)).unwrap();
        assert_eq!(listed("flags 1/a.d").replace("flags\\ 1", "flags\\ 2"), listed("flags 2/a.d"));
        assert!(listed("flags 2/a.d").contains("flags\\ 2/a.o:"));
    }
}
