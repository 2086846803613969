//! The file that a layout began with, for `planish report lines --before`.

use annotate::Before;
use anyhow::Context as _;
use image::{Image, blocks};
use std::path::Path;

/// The file that a layout began with.
pub struct Earlier {
    image: Image,
    blocks: Vec<blocks::FunctionBlocks>,
}

impl Earlier {
    /// Opens it and reads its map of blocks.
    ///
    /// # Errors
    /// Where it is no ELF file, or its map is damaged.
    pub fn open(path: &Path) -> anyhow::Result<Earlier> {
        let image = Image::open(path)?;
        let blocks = if blocks::are_there(&image) { blocks::read(&image) } else { Ok(Vec::new()) };
        let blocks = blocks.with_context(|| path.display().to_string())?;
        Ok(Earlier { image, blocks })
    }

    /// What [`annotate::annotate`] needs of it.
    pub fn of(&self) -> Before<'_> {
        Before { image: &self.image, blocks: &self.blocks }
    }
}
