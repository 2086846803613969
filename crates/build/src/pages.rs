//! How does a program come to lie on superpages? `pages` in `[build]`: flags for the linker, and
//! how the program that it made is written.
//!
//! Text is mapped on superpages from the file when offset and address agree modulo 2 MiB and the
//! page cache holds it in superpages. lld and mold do the first for no byte of file size, so they
//! are always asked. GNU ld gives every segment 2 MiB of its own, 4 to 6 MiB in a file of any size;
//! there the offsets are rewritten afterwards, where the text has a whole superpage
//! (`superpages::align`: addresses stay, a few KiB at most). The second comes about when a file is
//! written 2 MiB at a time.

use crate::Error;
use crate::config::{Build, Compiler};
use serde::{Deserialize, Serialize};
use std::path::Path;
use superpages::{Writes, Written};

/// What is done so that text can lie on superpages. It holds for all programs of a plan alike, so
/// it decides no comparison between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// What costs no space: at most a few KiB in files with at least 2 MiB of text, nothing in
    /// others.
    #[default]
    Auto,
    /// Text on superpages of its own, all of it, in files that are up to 8 MiB larger.
    Always,
    /// What the linker does by itself.
    Off,
}

/// Linkers that differ in what superpages cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linker {
    /// lld and mold.
    Free,
    /// GNU ld and gold.
    Costly,
}

impl Linker {
    /// The one that the flags name, else the compiler's.
    fn of(build: &Build) -> Linker {
        let named = build
            .flags
            .split_whitespace()
            .filter_map(|flag| flag.strip_prefix("-fuse-ld="))
            .next_back();
        let free = match named {
            Some(name) => name.contains("lld") || name.contains("mold"),
            None => build.compiler == Compiler::Clang,
        };
        if free { Linker::Free } else { Linker::Costly }
    }
}

impl Pages {
    /// Flags for the compiler that calls the linker; empty where there are none.
    pub(crate) fn link_flags(self, build: &Build) -> &'static str {
        match (self, Linker::of(build)) {
            (Pages::Off, _) | (Pages::Auto, Linker::Costly) => "",
            (Pages::Auto, Linker::Free) => "-Wl,-z,max-page-size=0x200000",
            (Pages::Always, Linker::Free) => {
                "-Wl,-z,max-page-size=0x200000 -Wl,-z,separate-loadable-segments"
            }
            (Pages::Always, Linker::Costly) => "-Wl,-z,max-page-size=0x200000 -Wl,-z,separate-code",
        }
    }

    /// The command that does what [`Pages::write`] does, for a dry run.
    pub(crate) fn command(self, made: &str, kept: &str) -> String {
        let fill = if self == Pages::Always { " --fill" } else { "" };
        match self {
            Pages::Off => format!("cp {made} {kept}"),
            _ if made == kept => format!("planish pages align{fill} {made} -o {kept} || true"),
            Pages::Auto | Pages::Always => {
                format!("planish pages align{fill} {made} -o {kept} || cp {made} {kept}")
            }
        }
    }

    /// Writes the program that was made to where it is kept, which may be the same place, 2 MiB at
    /// a time. Returns a sentence when its offsets were rewritten, or could not be although it
    /// has text of 2 MiB.
    ///
    /// # Errors
    /// When the one cannot be read or the other not written. A program that cannot be rewritten is
    /// copied.
    pub(crate) fn write(self, made: &Path, kept: &Path) -> Result<Option<String>, Error> {
        if self == Pages::Off {
            return superpages::copy(made, kept, Writes::Large)
                .map(|()| None)
                .map_err(Error::Pages);
        }
        let fill = self == Pages::Always;
        Ok(
            match superpages::align_or_copy(made, kept, fill, Writes::Large)
                .map_err(Error::Pages)?
            {
                Written::Aligned(done) => Some(format!(
                    "{:.1} % of its text can lie on superpages (as linked: {:.1} %), file {:+} \
                     bytes",
                    done.eligible_pct,
                    superpages::percent(done.eligible_before, done.text_bytes),
                    done.growth_bytes
                )),
                Written::Copied => None,
                Written::Refused(error) => Some(error.to_string()),
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Command;

    fn flags(pages: Pages, compiler: Compiler, flags: &str) -> &'static str {
        let build = Build {
            command: Command::Line("make".into()),
            binary: "app".into(),
            release: None,
            libraries: Vec::new(),
            compiler,
            cc: None,
            cxx: None,
            optimize: "-O2".into(),
            flags: flags.into(),
            profiled_flags: String::new(),
            thinlto: false,
            pages,
            sources: vec![],
        };
        pages.link_flags(&build)
    }

    #[test]
    fn what_costs_space_is_asked_of_a_linker_only_when_it_is_wanted() {
        let size = "-Wl,-z,max-page-size=0x200000";
        assert_eq!(flags(Pages::Auto, Compiler::Clang, "-O2"), size);
        assert_eq!(flags(Pages::Auto, Compiler::Gcc, ""), "");
        assert_eq!(flags(Pages::Auto, Compiler::Gcc, "-fuse-ld=lld"), size);
        // The last one named is the one that links.
        assert_eq!(flags(Pages::Auto, Compiler::Clang, "-fuse-ld=lld -fuse-ld=bfd"), "");
        assert!(flags(Pages::Always, Compiler::Gcc, "").contains("separate-code"));
        assert!(flags(Pages::Always, Compiler::Clang, "").contains("separate-loadable-segments"));
        for compiler in [Compiler::Clang, Compiler::Gcc] {
            assert_eq!(flags(Pages::Off, compiler, ""), "");
        }
    }

    #[test]
    fn what_is_no_program_is_copied_as_it_is() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (made, kept) = (folder.path().join("made"), folder.path().join("kept"));
        std::fs::write(&made, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o750)).unwrap();
        for pages in [Pages::Auto, Pages::Always, Pages::Off] {
            assert_eq!(pages.write(&made, &kept).unwrap(), None);
            assert_eq!(std::fs::read(&kept).unwrap(), b"#!/bin/sh\n");
            let mode = std::fs::metadata(&kept).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o750);
        }
        // In its own place, too.
        assert_eq!(Pages::Auto.write(&made, &made).unwrap(), None);
        assert_eq!(std::fs::read(&made).unwrap(), b"#!/bin/sh\n");
    }
}
