//! Does a program say what its profile and its layout are computed from?
//!
//! The compiler writes its lines, and where its basic blocks lie; with LTO the linker does. A build
//! that loses either's flags is refused when it ends, before its program is recorded: a recording
//! takes long, and nothing could be computed from it.

use crate::Error;
use image::debug_files::has_debug_information;
use image::{Image, blocks};
use serde::Serialize;
use std::path::Path;

/// What to check where a compiler of C or C++ has made a program without a map of its blocks.
const FLAGS: &str = "the build command must hand PLANISH_CFLAGS and PLANISH_CXXFLAGS on to every \
                     compilation and PLANISH_LDFLAGS to the link: with link-time optimisation \
                     (-flto, INTERPROCEDURAL_OPTIMIZATION) lld writes the map, and no other \
                     linker does";

/// What to check where rustc has.
const RUST_FLAGS: &str = "rustc's code gets one from the linker alone: the build command must \
                          hand PLANISH_RUSTFLAGS on to rustc, for the link too, and turn no other \
                          link-time optimisation on (docs/reference/build.md)";

/// By which sections a program without lines of its own names what its samples are of, or where its
/// lines are.
const OTHER_LINES: [&str; 2] = [".pseudo_probe", ".gnu_debuglink"];

/// What a program must say of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Described {
    /// Which lines its instructions are of, for a profile.
    pub lines: bool,
    /// Where its basic blocks lie, for a layout.
    pub blocks: bool,
}

impl Described {
    /// Looks for it in `program`, which the step named `step` has made.
    ///
    /// # Errors
    /// Where something is missing, with what to check, or the program is no ELF file that can be
    /// read.
    pub(crate) fn check(self, step: &str, program: &Path) -> Result<(), Error> {
        if self == Described::default() {
            return Ok(());
        }
        let image = Image::open(program)?;
        let has = |name: &&str| image.section_by_name(name).is_some();
        if self.lines && !has_debug_information(&image) && !OTHER_LINES.iter().any(has) {
            return Err(Error::NoLines { step: step.to_owned(), program: program.to_owned() });
        }
        if self.blocks && !blocks::are_there(&image) {
            return Err(Error::NoBlockMap {
                step: step.to_owned(),
                program: program.to_owned(),
                next: if image.has_code_of_rustc() { RUST_FLAGS } else { FLAGS },
            });
        }
        Ok(())
    }
}
