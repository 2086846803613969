//! Where the qemu plugin and the emulator are.

use crate::Error;
use crate::elf::{self, Architecture};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const NAME: &str = "libplanish_qemu_branches.so";

/// The plugin: as named by the caller, else by PLANISH_QEMU_PLUGIN, else beside the running
/// program, in `../lib/planish` of an installed one, or in cargo's `deps` of a built one.
pub fn plugin(named: Option<&Path>) -> Result<PathBuf, Error> {
    let named = named
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("PLANISH_QEMU_PLUGIN").map(PathBuf::from));
    let looked = match named {
        Some(path) => vec![path],
        None => {
            let program = std::env::current_exe().unwrap_or_default();
            let dir = program.parent().unwrap_or(Path::new("."));
            [dir.to_owned(), dir.join("../lib/planish"), dir.join("deps")]
                .map(|place| place.join(NAME))
                .to_vec()
        }
    };
    match looked.iter().find(|path| path.is_file()) {
        Some(found) => found.canonicalize().map_err(Error::io(found, "find the absolute path")),
        None => Err(Error::NoPlugin { name: NAME, looked }),
    }
}

/// The emulator for a machine's programs, qemu-user, looked for in PATH.
pub fn emulator(machine: Architecture) -> Result<PathBuf, Error> {
    let name = format!("qemu-{}", machine.name());
    elf::find(OsStr::new(&name), None)
        .or_else(|_| elf::find(OsStr::new(&format!("{name}-static")), None))
        .map_err(|_| Error::NoEmulator { name })
}
