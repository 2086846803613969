//! How does the workload become a guest that runs it? Its sources, the configuration of a small
//! kernel for it, and the initramfs with the program as `/init`.
//!
//! The program is linked statically, so the archive needs nothing else: no distribution, no block
//! device.

use crate::error::Error;
use crate::initrd::Archive;
use crate::requirements::{Purpose, fragment};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Options of a small kernel that boots and runs the workload, for `make KCONFIG_ALLCONFIG=…
/// allnoconfig` on x86-64.
pub const SMALL_CONFIG: &str = include_str!("../../../kernel/small.config");

/// A whole small configuration, which profiles work with.
pub fn small_config(purpose: Purpose) -> String {
    SMALL_CONFIG.to_owned() + "\n" + &fragment(purpose)
}

/// Name of the archive that [`build`] writes.
pub const INITRD: &str = "initrd.cpio";

/// The sources of the workload, by file name.
pub const SOURCES: &[(&str, &str)] = &[
    ("held_file.c", include_str!("../../../kernel/workload/held_file.c")),
    ("held_memory.c", include_str!("../../../kernel/workload/held_memory.c")),
    ("held_net.c", include_str!("../../../kernel/workload/held_net.c")),
    ("held_process.c", include_str!("../../../kernel/workload/held_process.c")),
    ("init.c", include_str!("../../../kernel/workload/init.c")),
    ("odd.c", include_str!("../../../kernel/workload/odd.c")),
    ("runner.c", include_str!("../../../kernel/workload/runner.c")),
    ("sections.h", include_str!("../../../kernel/workload/sections.h")),
    ("stacks.c", include_str!("../../../kernel/workload/stacks.c")),
    ("support.c", include_str!("../../../kernel/workload/support.c")),
    ("train_event.c", include_str!("../../../kernel/workload/train_event.c")),
    ("train_file.c", include_str!("../../../kernel/workload/train_file.c")),
    ("train_memory.c", include_str!("../../../kernel/workload/train_memory.c")),
    ("train_net.c", include_str!("../../../kernel/workload/train_net.c")),
    ("train_pipe.c", include_str!("../../../kernel/workload/train_pipe.c")),
    ("train_process.c", include_str!("../../../kernel/workload/train_process.c")),
    ("train_unix.c", include_str!("../../../kernel/workload/train_unix.c")),
    ("workload.h", include_str!("../../../kernel/workload/workload.h")),
];

/// Compilers that are tried in this order when none is named.
const COMPILERS: &[&str] = &["clang-22", "clang", "cc"];

/// Flags of the compilation; the sources follow.
const FLAGS: &[&str] =
    &["-std=gnu11", "-O2", "-Wall", "-Wextra", "-static", "-pthread", "-o", "init"];

/// Compiles the workload and writes `dir/initrd.cpio`, beside and renamed; `dir` is made if it is
/// missing. Gives its path. The same compiler and C library give the same bytes.
///
/// # Errors
/// When there is no compiler, it cannot compile or link the sources statically, or the archive
/// cannot be written.
pub fn build(compiler: Option<&OsStr>, dir: &Path) -> Result<PathBuf, Error> {
    std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
    let path = dir.join(INITRD);
    let program = program(compiler)?;
    let bytes = archive(&program).map_err(Error::io(&path))?;
    let mut file = beside::Unfinished::at(&path).map_err(Error::io(dir))?.with_mode(0o644);
    file.write_all(&bytes).and_then(|()| file.finish()).map_err(Error::io(&path))?;
    Ok(path)
}

/// Compiles the workload; gives the program's bytes.
///
/// # Errors
/// As [`build`].
pub fn program(compiler: Option<&OsStr>) -> Result<Vec<u8>, Error> {
    let scratch =
        TempDir::with_prefix("planish-workload-").map_err(Error::io(std::env::temp_dir()))?;
    for (name, text) in SOURCES {
        let path = scratch.path().join(name);
        beside::write(&path, text).map_err(Error::io(&path))?;
    }
    let named = compiler.map(OsStr::to_owned);
    let tried: Vec<OsString> = match named {
        Some(name) => vec![name],
        None => COMPILERS.iter().map(OsString::from).collect(),
    };
    for compiler in &tried {
        if compile(compiler, scratch.path())? {
            let path = scratch.path().join("init");
            return std::fs::read(&path).map_err(Error::io(path));
        }
    }
    let names: Vec<_> = tried.iter().map(|name| name.to_string_lossy()).collect();
    Err(Error::NoCompiler { tried: names.join(", ") })
}

/// Whether this compiler is there; if it is, it has compiled `init` in the directory.
fn compile(compiler: &OsStr, directory: &Path) -> Result<bool, Error> {
    // Names without a directory, so that the program does not say where it was compiled.
    let sources = SOURCES.iter().map(|(name, _)| name).filter(|name| name.ends_with(".c"));
    let mut command = Command::new(compiler);
    command
        .args(FLAGS)
        .args(sources)
        .current_dir(directory)
        .stdin(Stdio::null())
        .env("LC_ALL", "C");
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(Error::Io { path: compiler.into(), source }),
    };
    if output.status.success() {
        return Ok(true);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let telling = |line: &&str| line.contains("error") || line.contains("cannot find");
    let line = said.lines().find(telling).or(said.lines().last()).unwrap_or("nothing");
    Err(Error::Workload {
        compiler: compiler.to_string_lossy().into_owned(),
        status: output.status.to_string(),
        said: crate::shortened(line),
    })
}

/// The initramfs: `/init`, the directories it mounts on, and the devices it needs where there is no
/// devtmpfs.
fn archive(program: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut archive = Archive::default();
    for directory in ["dev", "proc", "sys", "tmp"] {
        archive.directory(directory);
    }
    // Numbers: Documentation/admin-guide/devices.txt.
    archive.device("dev/console", 5, 1);
    archive.device("dev/null", 1, 3);
    archive.program("init", program)?;
    Ok(archive.finish())
}
