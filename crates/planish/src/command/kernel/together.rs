//! What `planish kernel profile` and `layout` read: a build, and counts of its kernel and modules.

use crate::cli::Global;
use crate::command::inputs::{self, Selection};
use counts::aggregate::Aggregated;
use image::Image;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The build that was recorded, and what was recorded of it.
#[derive(Debug, clap::Args)]
pub struct Counted {
    /// The directory of the build that was recorded, with vmlinux and the modules of modules.order
    #[arg(value_name = "BUILD")]
    pub build: PathBuf,
    /// perf.data, counts artefacts, perf script text or pre-aggregated text; several are added up
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// A module that was built outside of the tree; repeatable
    #[arg(long = "module", value_name = "FILE")]
    modules: Vec<PathBuf>,
    #[command(flatten)]
    selection: Selection,
}

impl Counted {
    /// The input that messages about all of them name.
    pub fn first_input(&self) -> &Path {
        self.inputs.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// The files that are named.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.inputs.iter().chain(&self.modules).map(PathBuf::as_path)
    }

    /// What is to be done for modules outside of the tree, behind the next step.
    pub fn outside(&self) -> &'static str {
        match self.modules.is_empty() {
            true => "",
            false => "; then the same with -- M=DIRECTORY modules, for those outside of the tree",
        }
    }

    /// The kernel and its modules, and what was counted in them.
    pub fn read(&self, global: &Global) -> anyhow::Result<(Vec<Arc<Image>>, Aggregated)> {
        let images = kernel::together::images(&self.build, &self.modules)?;
        if !self.build.join("modules.order").is_file() && !global.quiet {
            let build = self.build.display();
            eprintln!("note: {build}: there is no modules.order, so no modules of the build");
        }
        let found = inputs::read_all(&self.inputs, &images, self.selection, global)?;
        Ok((images, found))
    }
}
