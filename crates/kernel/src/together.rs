//! A kernel and its modules are many images, and one build reads one profile and one layout for all
//! of them.
//!
//! Modules in which nothing was counted, or hardly anything, are left out; the kernel itself must be
//! in the counts.

use crate::Error;
use crate::modules::{built, name_of};
use address_spaces::{KernelPart, module_name};
use counts::aggregate::Aggregated;
use counts::evidence::Evidence;
use image::debug::DebugInfo;
use image::debug_files::DebugSearch;
use image::{Image, ImageKind};
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
    /// Modules in which nothing was counted.
    pub idle: Vec<String>,
    /// Modules of which another build was counted.
    pub other_build: Vec<String>,
    /// Modules that were recorded and whose files are not among the images, with their samples.
    pub unknown: Vec<(String, u64)>,
    /// Functions that several images have and a layout names once: as the first of these has it.
    pub shared: Vec<String>,
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
    let mut images = vec![Arc::new(Image::open(&build.join("vmlinux"))?)];
    for path in modules.iter().chain(more) {
        let image = Image::open(path)?;
        if image.kind() != ImageKind::KernelModule {
            return Err(Error::of_file(path, "no module of Linux"));
        }
        let same = |known: &Arc<Image>| match (known.build_id(), image.build_id()) {
            (Some(known), Some(own)) => known == own,
            _ => known.path() == image.path(),
        };
        // A module of the build may be named, too.
        if !images.iter().any(same) {
            images.push(Arc::new(image));
        }
    }
    Ok(images)
}

impl Together {
    /// Notes a module without counts: nothing of it was counted, or another build of it.
    fn without(&mut self, image: &Image, found: &Aggregated) {
        let path = image.path().display().to_string();
        let name = name_of(image.path());
        let elsewhere = found.elsewhere.iter().map(|(path, _)| path.as_str());
        let counted = found.counts.images.iter().map(|counts| counts.path.as_str());
        let other = elsewhere.chain(counted).any(|path| mapped_name(path) == Some(name.clone()));
        if other { self.other_build.push(path) } else { self.idle.push(path) }
    }

    /// Notes modules that were recorded, and that none of the images is.
    fn unknown(&mut self, images: &[Arc<Image>], found: &Aggregated) {
        let known = |name: &String| images.iter().any(|image| name_of(image.path()) == *name);
        let modules = found.elsewhere.iter().filter_map(|(path, samples)| {
            mapped_name(path).filter(|name| !known(name)).map(|name| (name, *samples))
        });
        self.unknown = modules.collect();
    }
}

/// Code that the kernel maps into processes, under names like those of modules.
const OF_PROCESSES: [&str; 3] = ["[vdso]", "[vsyscall]", "[uprobes]"];

/// The name of the module whose mapping is called so; none of other files.
fn mapped_name(path: &str) -> Option<String> {
    let module = KernelPart::of(path) == KernelPart::Module && !OF_PROCESSES.contains(&path);
    module.then(|| module_name(path))
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
                told.without(image, found);
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
    told.unknown(images, found);
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
        match found.of(image, input) {
            Err(counts::Error::OtherImage { .. }) if place > 0 => {
                told.without(image, found);
                continue;
            }
            other => other.map_err(Error::Counts)?,
        };
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
    told.unknown(images, found);
    let merged = merge(&parts).map_err(|error| {
        let about = error.part().and_then(|part| told.images.get(part));
        let path = about.map_or_else(|| input.display().to_string(), |image| image.path.clone());
        Error::doing(path)(error)
    });
    let merged = merged?;
    told.shared = merged.shared.iter().map(|(name, ..)| name.clone()).collect();
    Ok((merged, told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_known_by_how_recorders_call_their_mappings() {
        let name = |path: &str| mapped_name(path);
        assert_eq!(name("[snd_hda]").as_deref(), Some("snd_hda"));
        assert_eq!(name("/lib/modules/6.1/snd-hda.ko.xz").as_deref(), Some("snd_hda"));
        assert_eq!(name("/out/fat.ko").as_deref(), Some("fat"));
        assert_eq!([name("[kernel.kallsyms]_text"), name("[kernel.kallsyms]")], [None, None]);
        assert_eq!([name("/usr/bin/app"), name("[vdso]")], [None, None]);
    }
}
