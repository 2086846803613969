//! Can a program get its layout by its link alone, without any compiler?

use super::cc_profile::CcText;
use super::store::functions_of;
use crate::Error;
use crate::target::LayoutFiles;
use object::Object as _;
use relink::{Again, Blocks};
use std::path::Path;

/// The section in which clang notes down the basic blocks (LLVM, "Extensions").
const BLOCK_MAP: &str = ".llvm_bb_addr_map";

/// Links a program to `out` again in a layout, from the archive of its link. Where it has to be
/// built, the result says why.
///
/// # Errors
/// Where the files of the layout cannot be read.
pub fn link_again(
    archive: &Path,
    layout: &LayoutFiles,
    out: &Path,
) -> Result<Option<String>, Error> {
    let clusters = CcText::read(&layout.cc_profile)?;
    // What a build leaves where its link was not seen.
    if archive.metadata().is_ok_and(|about| about.is_file() && about.len() == 0) {
        let archive = archive.display();
        return Ok(Some(format!("{archive} is empty: the link of the program was not kept")));
    }
    let again = match Again::open(archive) {
        Ok(again) => again,
        Err(error) => return Ok(Some(said(&error))),
    };
    // Machine code whose blocks the compiler noted down.
    let compiled = again.objects().into_iter().filter(|object| has_block_map(object));
    let compiled: Vec<String> = compiled.flat_map(functions_of).collect();
    if let Some(lines) = clusters.about(&compiled).filter(|_| !compiled.is_empty()) {
        let named = lines.lines().find_map(|line| line.strip_prefix("f ")).unwrap_or_default();
        let name = named.split(' ').next().unwrap_or_default();
        return Ok(Some(format!("the linker cannot place the blocks of {name}, its compiler can")));
    }
    let directory = out.parent().filter(|path| !path.as_os_str().is_empty());
    let blocks = Blocks { clusters: &layout.cc_profile, order: &layout.ld_profile };
    match again.link(blocks, directory.unwrap_or(Path::new(".")), out) {
        Ok(()) => Ok(None),
        Err(error) => Ok(Some(said(&error))),
    }
}

fn has_block_map(object: &[u8]) -> bool {
    object::File::parse(object).is_ok_and(|file| file.section_by_name(BLOCK_MAP).is_some())
}

/// An error without the newline that ends what lld said.
fn said(error: &relink::Error) -> String {
    error.to_string().trim_end().to_owned()
}
