//! Which files does a command run: the program behind its scripts, its dynamic linker, its libraries?
//!
//! The program's own dynamic linker is asked (`--list`, as `ldd` does), so search paths, RUNPATH and the linker's
//! cache count as they will when it runs. Libraries that a program opens later by itself are not known before.

use std::env;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Error;
use crate::elf::Headers;

/// Scripts that run scripts; the kernel allows four.
const MAX_SCRIPTS: usize = 5;

/// Finds a program as a shell would: a name with `/` is a path, any other is looked for in `PATH`.
///
/// # Errors
/// When there is none.
pub fn find_program(name: &str) -> Result<PathBuf, Error> {
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let runnable = |path: &PathBuf| {
        use std::os::unix::fs::PermissionsExt;
        path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    let found = env::split_paths(&path).map(|folder| folder.join(name)).find(runnable);
    found.ok_or_else(|| Error::NotAProgram { path: name.into(), what: "is in no folder of PATH".into() })
}

/// The ELF program that a file is run by: itself, or the interpreter of a script.
///
/// # Errors
/// When a file cannot be read or scripts run each other.
pub fn elf_program(path: &Path) -> Result<PathBuf, Error> {
    let mut path = path.to_owned();
    for _ in 0..MAX_SCRIPTS {
        let mut start = Vec::new();
        let file = crate::elf::open(&path)?;
        file.take(256)
            .read_to_end(&mut start)
            .map_err(|source| Error::Read { path: path.clone(), source })?;
        let Some(line) = start.strip_prefix(b"#!") else { return Ok(path) };
        let line = String::from_utf8_lossy(line.split(|&byte| byte == b'\n').next().unwrap_or_default())
            .into_owned();
        let mut words = line.split_whitespace();
        let interpreter = words.next().unwrap_or_default();
        // `#!/usr/bin/env python3`: env only looks the next word up.
        let named = words.find(|word| !word.starts_with('-') && !word.contains('='));
        path = match named {
            Some(name) if interpreter.ends_with("/env") => find_program(name)?,
            _ => PathBuf::from(interpreter),
        };
    }
    Err(Error::NotAProgram {
        path,
        what: "is a script of a script of a script; the kernel gives up here too".into(),
    })
}

/// The program and everything its dynamic linker loads before it runs; for a static program itself alone.
/// `library_path` stands for `LD_LIBRARY_PATH` where given.
///
/// # Errors
/// When the program cannot be read, or its dynamic linker does not answer.
pub fn files_of(program: &Path, library_path: Option<&Path>) -> Result<Vec<PathBuf>, Error> {
    let failed = |what: String| Error::Libraries { path: program.to_owned(), what };
    let file = crate::elf::open(program)?;
    let headers = Headers::read(program, &file)?;
    let mut files = vec![program.to_owned()];
    let Some(linker) = headers.interpreter() else { return Ok(files) };
    // `$ORIGIN` is the folder of the file itself, not of a link to it.
    let absolute = program.canonicalize().map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(linker);
    command.arg("--list").arg(&absolute).stdin(Stdio::null());
    if let Some(folder) = library_path {
        command.env("LD_LIBRARY_PATH", folder);
    }
    let done = command.output().map_err(|error| failed(format!("{linker}: {error}")))?;
    if !done.status.success() {
        return Err(failed(format!("{linker} says: {}", String::from_utf8_lossy(&done.stderr).trim())));
    }
    for line in String::from_utf8_lossy(&done.stdout).lines() {
        let line = line.trim();
        if let Some(missing) = line.strip_suffix("=> not found") {
            return Err(failed(format!("{} is not found", missing.trim())));
        }
        // `libm.so.6 => /lib/libm.so.6 (0x7f…)`, or `/lib64/ld-linux-x86-64.so.2 (0x7f…)`.
        let place = line.split_once("=> ").map_or(line, |(_, place)| place);
        let path = place.rsplit_once(" (0x").map_or(place, |(path, _)| path);
        if path.starts_with('/') && !files.iter().any(|known| known.as_os_str() == path) {
            files.push(PathBuf::from(path));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_script_leads_to_its_interpreter_and_a_program_to_its_libraries() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/usr/bin/env sh\ntrue\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = elf_program(&script).unwrap();
        assert!(program.ends_with("sh"), "{program:?}");
        let files = files_of(&program, None).unwrap();
        assert!(files.iter().any(|file| file.to_string_lossy().contains("libc")), "{files:?}");
    }

    #[test]
    fn a_program_that_is_nowhere_is_named() {
        let error = find_program("no-such-program-here").unwrap_err();
        assert!(error.to_string().contains("no-such-program-here"), "{error}");
    }
}
