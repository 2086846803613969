//! Does a program that is to be laid out say where its basic blocks lie?
//!
//! The compiler writes the map, with LTO the linker does. A build that loses either's flags is
//! refused when it ends, before its program is recorded: a recording takes long, and no layout could
//! be computed from it.

use crate::Error;
use image::{Image, blocks};
use std::path::Path;

/// What to check where a compiler of C or C++ has made the program.
const FLAGS: &str = "the build command must hand PLANISH_CFLAGS and PLANISH_CXXFLAGS on to every \
                     compilation and PLANISH_LDFLAGS to the link: with link-time optimisation \
                     (-flto, INTERPROCEDURAL_OPTIMIZATION) lld writes the map, and no other \
                     linker does";

/// What to check where rustc has.
const RUST_FLAGS: &str = "rustc's code gets one from the linker alone: the build command must \
                          hand PLANISH_RUSTFLAGS on to rustc, for the link too, and turn no other \
                          link-time optimisation on (docs/reference/build.md)";

/// Looks for the map of `program`, which the step named `step` has made.
///
/// # Errors
/// Where there is none, with what to check, or the program is no ELF file that can be read.
pub(crate) fn check(step: &str, program: &Path) -> Result<(), Error> {
    let image = Image::open(program)?;
    if blocks::are_there(&image) {
        return Ok(());
    }
    Err(Error::NoBlockMap {
        step: step.to_owned(),
        program: program.to_owned(),
        next: if image.has_code_of_rustc() { RUST_FLAGS } else { FLAGS },
    })
}
