//! Which files does a command run: the program behind its scripts, its dynamic linker, its
//! libraries?
//!
//! The program's own dynamic linker is asked (`--list`, as `ldd` does), so search paths, RUNPATH
//! and the linker's cache count as they will when it runs. Libraries that a program opens later by
//! itself are not known before. Of a program that is only looked at, nothing is run but the
//! system's dynamic linker ([`Loading::Looked`]).

use std::env;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Error;
use crate::elf::Headers;

/// Scripts that run scripts; the kernel allows four.
const MAX_SCRIPTS: usize = 5;

/// Where a system's dynamic linkers lie.
const SYSTEM: [&str; 6] = ["/lib", "/lib32", "/lib64", "/usr", "/nix/store", "/gnu/store"];

/// Whether the program is to run, so that its own dynamic linker may, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loading {
    /// It will run.
    Runs,
    /// It is looked at: nothing that it names may run.
    Looked,
}

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
        path.metadata()
            .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    let found = env::split_paths(&path).map(|folder| folder.join(name)).find(runnable);
    found.ok_or_else(|| Error::NotAProgram {
        path: name.into(),
        what: "is in no folder of PATH".into(),
    })
}

/// The ELF program that a file is run by: itself, or the interpreter of a script.
///
/// # Errors
/// When a file cannot be read or scripts run each other.
pub fn elf_program(path: &Path) -> Result<PathBuf, Error> {
    let mut path = path.to_owned();
    for _ in 0..MAX_SCRIPTS {
        let mut start = Vec::new();
        let file = crate::read_elf::open(&path)?;
        file.take(256)
            .read_to_end(&mut start)
            .map_err(|source| Error::Read { path: path.clone(), source })?;
        let Some(line) = start.strip_prefix(b"#!") else { return Ok(path) };
        let line =
            String::from_utf8_lossy(line.split(|&byte| byte == b'\n').next().unwrap_or_default())
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

/// Why the dynamic linker of a program that is only looked at is not asked.
fn asks_too_much(headers: &Headers, linker: &str) -> Option<String> {
    if headers.audited {
        return Some("it names libraries that run while it is loaded (DT_AUDIT)".to_owned());
    }
    let real = Path::new(linker).canonicalize().ok();
    let known = real.is_some_and(|real| SYSTEM.iter().any(|system| real.starts_with(system)));
    let foreign = Some(format!("its dynamic linker {linker:?} is none of the system's"));
    foreign.filter(|_| !known || !linker.starts_with('/'))
}

/// The program and everything its dynamic linker loads before it runs; for a static program itself
/// alone. `library_path` stands for `LD_LIBRARY_PATH` where given.
///
/// # Errors
/// When the program cannot be read, or its dynamic linker does not answer, or may not be asked.
pub fn files_of(
    program: &Path,
    library_path: Option<&Path>,
    loading: Loading,
) -> Result<Vec<PathBuf>, Error> {
    let failed = |what: String| Error::Libraries { path: program.to_owned(), what };
    let file = crate::read_elf::open(program)?;
    let headers = Headers::read(program, &file)?;
    let mut files = vec![program.to_owned()];
    let Some(linker) = headers.interpreter() else { return Ok(files) };
    if let Some(why) = asks_too_much(&headers, linker).filter(|_| loading == Loading::Looked) {
        let next = "nothing of it runs for a look; --alone takes the file without its libraries";
        return Err(failed(format!("{why}; {next}")));
    }
    // `$ORIGIN` is the folder of the file itself, not of a link to it.
    let absolute = program.canonicalize().map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(linker);
    command.arg("--list").arg(&absolute).stdin(Stdio::null());
    if let Some(folder) = library_path {
        command.env("LD_LIBRARY_PATH", folder);
    }
    let done = command.output().map_err(|error| failed(format!("{linker}: {error}")))?;
    if !done.status.success() {
        return Err(failed(format!(
            "{linker} says: {}",
            String::from_utf8_lossy(&done.stderr).trim()
        )));
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
        let files = files_of(&program, None, Loading::Looked).unwrap();
        assert!(files.iter().any(|file| file.to_string_lossy().contains("libc")), "{files:?}");
    }

    #[test]
    fn a_foreign_dynamic_linker_does_not_run_for_a_look() {
        let folder = tempfile::tempdir().unwrap();
        let (marker, evil) = (folder.path().join("ran"), folder.path().join("ld.so"));
        std::fs::write(&evil, format!("#!/bin/sh\ntouch {}\n", marker.display())).unwrap();
        std::fs::set_permissions(&evil, std::fs::Permissions::from_mode(0o755)).unwrap();
        let sh = elf_program(&find_program("sh").unwrap()).unwrap();
        let mut bytes = std::fs::read(&sh).unwrap();
        let old: &[u8] = if cfg!(target_arch = "x86_64") { b"/lib64/ld-" } else { b"/lib/ld-" };
        let Some(at) = bytes.windows(old.len()).position(|part| part == old) else {
            return eprintln!("skipped: sh has no dynamic linker");
        };
        let end = at + bytes[at..].iter().position(|&byte| byte == 0).unwrap();
        // A short name for the long one of the folder, which the place in the file has no room for.
        let short = Path::new("/tmp/planish.ld");
        let _ = std::fs::remove_file(short);
        std::os::unix::fs::symlink(&evil, short).unwrap();
        let mut name = short.to_str().unwrap().as_bytes().to_vec();
        name.resize(end - at, 0);
        bytes[at..end].copy_from_slice(&name);
        let program = folder.path().join("program");
        std::fs::write(&program, bytes).unwrap();
        let looked = files_of(&program, None, Loading::Looked);
        let ran = marker.exists();
        // What runs the program anyway asks it.
        let _ = files_of(&program, None, Loading::Runs);
        std::fs::remove_file(short).unwrap();
        assert!(looked.unwrap_err().to_string().contains("none of the system's"));
        assert!(!ran && marker.exists());
    }

    #[test]
    fn a_program_that_is_nowhere_is_named() {
        let error = find_program("no-such-program-here").unwrap_err();
        assert!(error.to_string().contains("no-such-program-here"), "{error}");
    }
}
