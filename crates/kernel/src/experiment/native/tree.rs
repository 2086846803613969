//! Which tree is such a kernel built from? Links to everything in the user's tree, except for `arch/um`, which is a copy
//! with edits and with the workload.
//!
//! So a change in the user's tree counts in the next build, and nothing is written there. A file of the copy is written only
//! where it differs, since make looks at times.

use crate::Error;
use crate::anchor::{Change, Edit, Line, Place, apply};
use crate::prepare::unfit;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The architecture of the copy.
const ARCHITECTURE: &str = "arch/um";
/// Where the workload lies in it.
const WORKLOAD: &str = "planish";
/// The workload's door to the host, which is compiled as the host's code of `um` is.
const HOST: &str = "os-Linux/planish_host.c";

/// The workload's files.
const SOURCES: &[(&str, &str)] = &[
    ("Makefile", include_str!("../../../../../kernel/native/Makefile")),
    ("files.c", include_str!("../../../../../kernel/native/files.c")),
    ("held_files.c", include_str!("../../../../../kernel/native/held_files.c")),
    ("held_net.c", include_str!("../../../../../kernel/native/held_net.c")),
    ("net.c", include_str!("../../../../../kernel/native/net.c")),
    ("runner.c", include_str!("../../../../../kernel/native/runner.c")),
    ("support.c", include_str!("../../../../../kernel/native/support.c")),
    ("threads.c", include_str!("../../../../../kernel/native/threads.c")),
    ("workload.h", include_str!("../../../../../kernel/native/workload.h")),
];
const HOST_SOURCE: &str = include_str!("../../../../../kernel/native/host.c");

/// What is added to files of the copy, in front and behind.
const ADDED: &[(&str, &str, &str)] = &[
    ("Kbuild", "", "\nobj-y += planish/\n"),
    (
        "Makefile",
        "",
        "\n# The linker that planish chose, and the order of a layout, which only other architectures hand on.\n\
         CFLAGS_vmlinux += $(PLANISH_LINK)\n\
         CFLAGS_vmlinux += $(foreach word,$(filter --symbol-ordering-file=% \
         --no-warn-symbol-ordering,$(LDFLAGS_vmlinux)),-Wl,$(word))\n",
    ),
    ("os-Linux/Makefile", "user-objs-y += planish_host.o\n", "\nobj-y += planish_host.o\n"),
    (
        "Kconfig",
        "",
        "\n# The code is that of x86, and so are profiles and layouts.\nconfig PLANISH_NATIVE\n\tdef_bool y\n\
         \tselect ARCH_SUPPORTS_AUTOFDO_CLANG\n\tselect ARCH_SUPPORTS_PROPELLER_CLANG\n",
    ),
];

/// The linker script. Its text takes functions that have sections of their own, and lld links by it: in one segment with
/// the headers of the file in it, where the C library looks for them, and with the relocations that resolve the library's
/// own functions where it looks for those.
const SCRIPT: &str = "kernel/uml.lds.S";
const SCRIPT_EDITS: &[Edit] = &[
    Edit {
        construct: "the text of the linker script",
        change: Change::Insert {
            anchor: Line::Is("TEXT_TEXT"),
            place: Place::After,
            text: "    *(.text.[0-9a-zA-Z_]*)\n",
        },
    },
    Edit {
        construct: "the segments of the linker script",
        change: Change::Replace {
            old: "\nSECTIONS\n{\n",
            new: "\nPHDRS\n{\n  planish_all PT_LOAD FILEHDR PHDRS FLAGS(7);\n  planish_tls PT_TLS FLAGS(4);\n  \
                  planish_stack PT_GNU_STACK FLAGS(6);\n}\n\nSECTIONS\n{\n",
        },
    },
    Edit {
        construct: "the relocations of the linker script",
        change: Change::Replace { old: "\t*(.rela.iplt)\n", new: "\t*(.rela.iplt .rela.dyn)\n" },
    },
    Edit {
        construct: "thread-local data in the linker script",
        change: Change::Replace {
            old: "  .tdata\t  : { *(.tdata .tdata.* .gnu.linkonce.td.*) }\n",
            new: "  .tdata\t  : { *(.tdata .tdata.* .gnu.linkonce.td.*) } :planish_all :planish_tls\n",
        },
    },
    Edit {
        construct: "zeroed thread-local data in the linker script",
        change: Change::Replace {
            old: "  .tbss\t\t  : { *(.tbss .tbss.* .gnu.linkonce.tb.*) *(.tcommon) }\n",
            new: "  .tbss\t\t  : { *(.tbss .tbss.* .gnu.linkonce.tb.*) *(.tcommon) } :planish_all :planish_tls\n",
        },
    },
    Edit {
        construct: "small data in the linker script",
        change: Change::Replace {
            old: "  .sdata     : { *(.sdata) }\n",
            new: "  .sdata     : { *(.sdata) } :planish_all\n",
        },
    },
];

/// The tree at `into`, made or brought up to date from the user's. Both are absolute.
///
/// # Errors
/// Where a file cannot be read or written, or the user's tree has another linker script of `um`.
pub fn of(tree: &Path, into: &Path) -> Result<PathBuf, Error> {
    std::fs::create_dir_all(into.join("arch")).map_err(Error::io(into))?;
    link_all(tree, into, "arch")?;
    link_all(&tree.join("arch"), &into.join("arch"), "um")?;
    let (from, to) = (tree.join(ARCHITECTURE), into.join(ARCHITECTURE));
    let mut kept = BTreeSet::new();
    for file in files(&from)? {
        let path = from.join(&file);
        let mut bytes =
            beside::given::read(&path, beside::given::TEXT).map_err(Error::io(&path))?;
        if let Some((_, before, after)) = ADDED.iter().find(|(name, ..)| file == Path::new(name)) {
            bytes = [before.as_bytes(), &bytes, after.as_bytes()].concat();
        }
        if file == Path::new(SCRIPT) {
            bytes = script(&path, bytes)?.into_bytes();
        }
        write_if_new(&to.join(&file), &bytes)?;
        kept.insert(file);
    }
    for (name, text) in SOURCES {
        let file = Path::new(WORKLOAD).join(name);
        write_if_new(&to.join(&file), text.as_bytes())?;
        kept.insert(file);
    }
    write_if_new(&to.join(HOST), HOST_SOURCE.as_bytes())?;
    kept.insert(PathBuf::from(HOST));
    for gone in files(&to)?.iter().filter(|file| !kept.contains(*file)) {
        let path = to.join(gone);
        std::fs::remove_file(&path).map_err(Error::io(&path))?;
    }
    Ok(into.to_owned())
}

fn script(path: &Path, bytes: Vec<u8>) -> Result<String, Error> {
    let text = String::from_utf8(bytes).map_err(|_| Error::NotText { path: path.to_owned() })?;
    apply(&text, SCRIPT_EDITS)
        .map_err(|(construct, misfit)| unfit(path.to_owned(), construct, misfit))
}

/// Links in `into` to all that is in `from`, but for one name, which is left out.
fn link_all(from: &Path, into: &Path, left_out: &str) -> Result<(), Error> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(from).map_err(Error::io(from))? {
        let entry = entry.map_err(Error::io(from))?;
        let name = entry.file_name();
        if name == left_out || name == ".git" {
            continue;
        }
        let (link, target) = (into.join(&name), entry.path());
        if std::fs::read_link(&link).is_ok_and(|there| there == target) {
            names.insert(name);
            continue;
        }
        drop(std::fs::remove_file(&link));
        std::os::unix::fs::symlink(&target, &link).map_err(Error::io(&link))?;
        names.insert(name);
    }
    for entry in std::fs::read_dir(into).map_err(Error::io(into))? {
        let entry = entry.map_err(Error::io(into))?;
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if is_link && !names.contains(&entry.file_name()) {
            std::fs::remove_file(entry.path()).map_err(Error::io(entry.path()))?;
        }
    }
    Ok(())
}

/// The files below a directory, as paths from there.
fn files(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(inner) = open.pop() {
        let path = directory.join(&inner);
        let entries = match std::fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io(&path)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(Error::io(&path))?;
            let name = inner.join(entry.file_name());
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => open.push(name),
                false => found.push(name),
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn write_if_new(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(Error::io(parent))?;
    }
    beside::write(path, bytes).map_err(Error::io(path))
}
