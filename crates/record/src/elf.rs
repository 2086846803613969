//! What kind of program a command names: its file, its architecture, its interpreter.

use crate::Error;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Architectures that the plugin knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Architecture {
    /// x86-64.
    X86_64,
    /// AArch64, little-endian.
    Aarch64,
}

impl Architecture {
    /// As uname and qemu name it.
    pub fn name(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
        }
    }
}

/// A program ready to be emulated.
#[derive(Debug)]
pub struct Program {
    /// Its file; a script's is its interpreter.
    pub path: PathBuf,
    /// Its name for itself, then its arguments.
    pub argv: Vec<OsString>,
    /// What it runs on.
    pub machine: Architecture,
}

/// Finds the file that a shell would run.
pub(crate) fn find(program: &OsStr, dir: Option<&Path>) -> Result<PathBuf, Error> {
    let runs = |path: &Path| {
        std::fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let none = || Error::NoProgram { program: program.to_string_lossy().into_owned() };
    let found = if program.as_bytes().contains(&b'/') {
        dir.map_or_else(|| PathBuf::from(program), |dir| dir.join(program))
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .map(|dir| dir.join(program))
            .find(|path| runs(path))
            .ok_or_else(none)?
    };
    if !runs(&found) {
        let reason = match std::fs::metadata(&found) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(none()),
            Err(error) => error.to_string(),
            Ok(metadata) if metadata.is_dir() => "it is a directory".into(),
            Ok(metadata) if !metadata.is_file() => "it is not a regular file".into(),
            Ok(_) => "nobody may execute it; chmod +x it".into(),
        };
        return Err(Error::NotHere { path: found, reason });
    }
    std::path::absolute(&found).map_err(Error::io(&found, "find the absolute path"))
}

/// Refuses a file that the kernel would not run: the C library would give it to sh instead, which
/// reads it as a script.
pub(crate) fn check_runs_here(path: &Path) -> Result<(), Error> {
    let Ok(start) = start_of(path) else { return Ok(()) };
    let here = Path::new("/proc/sys/fs/binfmt_misc");
    let handlers = std::fs::read_dir(here).into_iter().flatten().flatten();
    // Where the kernel is told of further formats, it is asked.
    if handlers
        .into_iter()
        .any(|entry| entry.file_name() != "register" && entry.file_name() != "status")
    {
        return Ok(());
    }
    match why_not_here(&start) {
        Some(reason) => Err(Error::NotHere { path: path.to_owned(), reason }),
        None => Ok(()),
    }
}

fn why_not_here(start: &[u8]) -> Option<String> {
    // A text file without `#!` is what sh runs as a script.
    let Some(ident) = start.get(..20).filter(|start| start.starts_with(b"\x7fELF")) else {
        let text = start.starts_with(b"#!") || !start.is_empty() && !start.contains(&0);
        return (!text).then(|| "neither an ELF program nor a script".into());
    };
    let (name, emulated) = match u16::from_le_bytes([ident[18], ident[19]]) {
        3 | 62 if cfg!(target_arch = "x86_64") => return None,
        40 | 183 if cfg!(target_arch = "aarch64") => return None,
        62 => ("x86-64".to_owned(), true),
        183 => ("AArch64".to_owned(), true),
        other => (format!("ELF machine number {other}"), false),
    };
    Some(if emulated { format!("{name}; use --branches=emulated") } else { name })
}

/// Finds the program that a command runs: a script's is its interpreter.
pub fn program(argv: &[OsString], dir: Option<&Path>) -> Result<Program, Error> {
    let name = argv.first().ok_or(Error::NoCommand)?;
    let path = find(name, dir)?;
    let start = start_of(&path)?;
    if let Some(line) = start.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
        let mut words = line.splitn(2, |byte| byte.is_ascii_whitespace());
        let interpreter = PathBuf::from(OsStr::from_bytes(words.next().unwrap_or_default()));
        let machine = machine(&interpreter, &start_of(&interpreter)?)?;
        let mut full = vec![interpreter.clone().into_os_string()];
        full.extend(words.next().map(|word| OsStr::from_bytes(word.trim_ascii()).to_owned()));
        full.push(path.into_os_string());
        full.extend(argv.iter().skip(1).cloned());
        return Ok(Program { path: interpreter, argv: full, machine });
    }
    Ok(Program { machine: machine(&path, &start)?, path, argv: argv.to_vec() })
}

fn start_of(path: &Path) -> Result<Vec<u8>, Error> {
    let mut start = Vec::new();
    let file = File::open(path).map_err(Error::io(path, "open"))?;
    file.take(256).read_to_end(&mut start).map_err(Error::io(path, "read"))?;
    Ok(start)
}

fn machine(path: &Path, start: &[u8]) -> Result<Architecture, Error> {
    let not = |found: String| Error::NotEmulatable { path: path.to_owned(), found };
    let ident = start.get(..20).filter(|start| start.starts_with(b"\x7fELF"));
    let Some(ident) = ident else { return Err(not("it is not an ELF file".into())) };
    if ident[4..6] != [2, 1] {
        return Err(not("it is not 64-bit and little-endian".into()));
    }
    match u16::from_le_bytes([ident[18], ident[19]]) {
        62 => Ok(Architecture::X86_64),
        183 => Ok(Architecture::Aarch64),
        other => Err(not(format!("its ELF machine number is {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_recorded_as_its_interpreter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("script");
        std::fs::write(&path, "#!/bin/sh -e\ntrue\n").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        let found = program(&[path.clone().into(), "x".into()], None).unwrap();
        let argv: Vec<_> = found.argv.iter().map(|word| word.to_string_lossy()).collect();
        assert_eq!(argv, ["/bin/sh", "-e", &path.to_string_lossy(), "x"]);
    }

    #[test]
    fn a_program_of_another_machine_is_not_left_to_sh() {
        let mut header = [0u8; 64];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        header[18] = if cfg!(target_arch = "aarch64") { 62 } else { 183 };
        assert!(why_not_here(&header).unwrap().contains("--branches=emulated"));
        header[18] = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
        assert_eq!(why_not_here(&header), None);
        assert_eq!(why_not_here(b"echo no first line\n"), None);
        assert!(why_not_here(b"\0asm").is_some());
    }

    #[test]
    fn a_missing_program_and_a_wrong_machine_are_named() {
        let missing = program(&["no-such-program-here".into()], None).unwrap_err();
        assert!(missing.to_string().contains("no-such-program-here"), "{missing}");
        let mut header = [0u8; 64];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        header[18] = 243;
        let riscv = machine(Path::new("/x"), &header).unwrap_err();
        assert!(riscv.to_string().contains("243"), "{riscv}");
    }
}
