//! A kernel and its modules are many images, and one build reads one profile and one layout for all
//! of them.
//!
//! Modules in which nothing was counted, or hardly anything, are left out; the kernel itself must be
//! in the counts.

use crate::Error;
use crate::modules::built;
use counts::aggregate::Aggregated;
use counts::evidence::Evidence;
use image::Image;
use image::debug::DebugInfo;
use image::debug_files::DebugSearch;
use layout::write::files::{FileKind, FileOptions, files};
use layout::write::merge::{Merged, Part, merge};
use layout::{Mode, PlanOptions};
use profile::attribute::{AttributeOptions, attribute};
use profile::{Provenance, SampleProfile};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What an image gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Given {
    /// Its file.
    pub path: String,
    /// Its functions that have a part in the result.
    pub functions: u64,
    /// Executions of them in the profile, or of their blocks in the layout.
    pub executions: u64,
}

/// What all images gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Together {
    /// The kernel, and then the modules with a part in the result.
    pub images: Vec<Given>,
    /// Modules in which hardly anything was counted.
    pub hardly: Vec<String>,
    /// How many modules were not counted in at all.
    pub idle: usize,
}

/// The kernel of a build and its modules, and further ones.
///
/// # Errors
/// Where one is missing or cannot be read.
pub fn images(build: &Path, more: &[PathBuf]) -> Result<Vec<Arc<Image>>, Error> {
    if !build.join("vmlinux").is_file() {
        let wanted = "there is no vmlinux in it; give the directory of a finished build";
        return Err(Error::of_file(build, wanted));
    }
    let modules = built(build)?;
    let paths = [build.join("vmlinux")].into_iter().chain(modules).chain(more.iter().cloned());
    paths.map(|path| Ok(Arc::new(Image::open(&path)?))).collect()
}

/// What the result rests on: the kernel's own counts. None where there are none.
pub fn evidence(images: &[Arc<Image>], found: &Aggregated, input: &Path) -> Option<Evidence> {
    let kernel = images.first()?;
    found.of(kernel, input).ok().map(|counts| Evidence::of(counts, kernel))
}

/// One profile of all images; `input` names the counts in messages.
///
/// # Errors
/// Where the kernel is not in the counts, or an image has no debug information.
pub fn profile(
    images: &[Arc<Image>],
    found: &Aggregated,
    input: &Path,
    threads: usize,
) -> Result<(SampleProfile, Together), Error> {
    let options = AttributeOptions { threads, ..AttributeOptions::default() };
    let mut all = Vec::new();
    let mut told = Together::default();
    for (place, image) in images.iter().enumerate() {
        let named = || image.path().display().to_string();
        let counts = match found.of(image, input) {
            Err(counts::Error::OtherImage { .. }) if place > 0 => {
                told.idle += 1;
                continue;
            }
            other => other.map_err(Error::Counts)?,
        };
        let debug = DebugInfo::load(image, &DebugSearch::default());
        let debug = debug.map_err(Error::doing("the profile"))?;
        let own = match attribute(image, &debug, counts, &options) {
            Err(error) if place > 0 && error.is_of_hardly_anything() => {
                told.hardly.push(named());
                continue;
            }
            other => other.map_err(Error::doing("the profile"))?,
        };
        let mut own = own.0;
        own.provenance = Provenance::of(image);
        let executions = own.functions.values().fold(0u64, |sum, of| sum.saturating_add(of.total));
        let functions = own.functions.len() as u64;
        told.images.push(Given { path: named(), functions, executions });
        all.push(own);
    }
    let (merged, _) = profile::operations::merge(all.iter().map(|own| (own, 1)));
    Ok((merged, told))
}

/// One layout of all images, likewise.
///
/// # Errors
/// Where the kernel is not in the counts, an image has no address map, or nothing can be laid out.
pub fn layout(
    images: &[Arc<Image>],
    found: &Aggregated,
    input: &Path,
) -> Result<(Merged, Together), Error> {
    let options =
        PlanOptions { mode: Mode::PerFunction, upstream: false, blocks_needed: true, clone: None };
    let mut parts = Vec::new();
    let mut told = Together::default();
    for (place, image) in images.iter().enumerate() {
        let named = || image.path().display().to_string();
        if place > 0 && found.of(image, input).is_err() {
            told.idle += 1;
            continue;
        }
        let plan = layout::plan(Arc::clone(image), None, found.only(image), input, options);
        let plan = match plan {
            Err(error) if place > 0 && error.is_of_hardly_anything() => {
                told.hardly.push(named());
                continue;
            }
            other => other.map_err(Error::doing("the layout"))?,
        };
        let written = files(&plan, FileKind::Propeller, FileOptions::default());
        let written = written.map_err(Error::doing("the layout"))?;
        let text = |ending: &str| {
            let file = written.iter().find(|file| file.suffix == ending);
            file.map(|file| file.text.clone()).unwrap_or_default()
        };
        let [cc, ld] = FileKind::PROPELLER_SUFFIXES;
        parts.push(Part { cc: text(cc), ld: text(ld) });
        let blocks = plan.cfg.functions.iter().flat_map(|function| &function.blocks);
        let executions = blocks.fold(0u64, |sum, block| sum.saturating_add(block.frequency));
        told.images.push(Given { path: named(), functions: plan.worth.functions, executions });
    }
    let merged = merge(&parts).map_err(|error| {
        let about = error.part().and_then(|part| told.images.get(part));
        let path = about.map_or_else(|| input.display().to_string(), |image| image.path.clone());
        Error::doing(path)(error)
    });
    Ok((merged?, told))
}
