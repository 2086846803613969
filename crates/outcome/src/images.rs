//! What did the run find of each image of a project that has libraries? And all of them together.

use crate::{Error, Finished, matched, read_json};
use build::images::ProjectImage;
use build::plan::{self, Files, Measured};
use build::verified::{Verified, code_bytes};
use build::{images, shared_names};
use image::Image;
use report::layout::{LayoutSummary, MergedLayouts, VerifyResult};
use report::{Evidence, ImageFound, LaidOut, Matched, Profile, Program};
use std::path::Path;

/// Largest number of functions that are named of those without a match.
const MOST_UNMATCHED: usize = 10;

impl Finished<'_> {
    /// Each image; none where the project has only its program. `measured` are the variants that
    /// are there.
    pub(crate) fn images(
        &self,
        files: &Files,
        counted: &serde_json::Value,
        measured: &[Measured],
    ) -> Result<Vec<ImageFound>, Error> {
        let config = &self.project.config;
        if config.build.libraries.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for image in images::images(&config.build) {
            found.push(self.image(files, counted, measured, &image)?);
        }
        let all: u64 = found.iter().map(|image| image.samples).sum();
        for image in &mut found {
            image.share = image.samples as f64 / all.max(1) as f64;
        }
        Ok(found)
    }

    fn image(
        &self,
        files: &Files,
        counted: &serde_json::Value,
        measured: &[Measured],
        image: &ProjectImage,
    ) -> Result<ImageFound, Error> {
        let config = &self.project.config;
        let at = |path: &Path| self.project.directory.join(path);
        let last = |path: &Path| at(&plan::last(config, &files.of_image(image, path)));
        let verified: Verified = read_json(&last(&files.verify))?;
        let summary: serde_json::Value = read_json(&last(&files.profile_summary))?;
        let evidence = summary.get("evidence").cloned().unwrap_or_default();
        let profile = plan::last(config, &files.profile_of(image));
        let program = |one: &Measured| {
            let path = files.image(one.ending, image);
            let opened = Image::open(&at(&path))?;
            let program = Program {
                path: path.display().to_string(),
                build_id: opened.build_id().map(ToString::to_string),
                code_bytes: code_bytes(&opened),
            };
            Ok::<_, Error>((one.ending.to_owned(), program))
        };
        let programs = measured.iter().map(program).collect::<Result<Vec<_>, _>>()?;
        let base_id = programs.first().and_then(|(_, base)| base.build_id.as_deref());
        let own =
            images_of(counted).find(|one| base_id.is_some() && text(one, "build_id") == base_id);
        let number = |key: &str| own.and_then(|one| one.get(key)?.as_u64()).unwrap_or(0);
        let laid_out = || {
            Ok::<_, Error>(LaidOut {
                summary: read_json(&at(&files.of_image(image, &files.layout)))?,
                verified: read_json(&at(&files.of_image(image, &files.layout_verify)))?,
                objects: None,
            })
        };
        Ok(ImageFound {
            name: image.name.clone(),
            path: image.below_out.display().to_string(),
            samples: number("samples"),
            share: 0.0,
            branches: number("branches"),
            profile: Profile {
                file_bytes: std::fs::metadata(at(&profile)).map_or(0, |about| about.len()),
                path: profile.display().to_string(),
                evidence: serde_json::from_value(evidence).ok(),
                // The images were recorded together; the whole run tells how.
                training: None,
            },
            matched: matched(verified.matched, &verified.evidence),
            programs,
            layout: config.optimize.lays_out().then(laid_out).transpose()?,
        })
    }

    /// What the reader must know of several images: those that did not run, and the functions that
    /// several of them have.
    pub(crate) fn image_warnings(
        &self,
        files: &Files,
        found: &[ImageFound],
    ) -> Result<Vec<String>, Error> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let at = |path: &Path| self.project.directory.join(path);
        let idle = found.iter().filter(|image| !image.ran()).map(|image| {
            format!(
                "{}: no sample hit its functions: it has neither profile nor layout; {}",
                image.path,
                match found.first().is_some_and(|program| program.path == image.path)
                    && found.iter().any(ImageFound::ran)
                {
                    true => "the work is done in the libraries",
                    false => "train on work that uses it, or leave it out of [build] libraries",
                }
            )
        });
        let profiles: Vec<_> =
            found.iter().map(|image| at(Path::new(&image.profile.path))).collect();
        let names: Vec<&str> = found.iter().map(|image| image.name.as_str()).collect();
        let shared = shared_names::told(&shared_names::read(&profiles)?, &names);
        let mut warnings: Vec<String> = idle.chain(shared).collect();
        if self.project.config.optimize.lays_out() {
            let merged: MergedLayouts = read_json(&at(&files.merged_layouts()))?;
            let functions: Vec<&str> =
                merged.shared.iter().take(5).map(|one| one.0.as_str()).collect();
            if !functions.is_empty() {
                warnings.push(format!(
                    "{} functions are hot in several images, as {}: a layout is by name, so all of \
                     them have the first image's",
                    merged.shared.len(),
                    functions.join(", ")
                ));
            }
        }
        Ok(warnings)
    }
}

fn images_of(counted: &serde_json::Value) -> impl Iterator<Item = &serde_json::Value> {
    counted.get("images").and_then(|images| images.as_array()).into_iter().flatten()
}

fn text<'v>(value: &'v serde_json::Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

/// The image with the most samples: what is said of one image alone is said of that.
fn main(found: &[ImageFound]) -> Option<&ImageFound> {
    found.iter().max_by_key(|image| image.samples)
}

/// The libraries that the program of this path was measured with; the first image is the program.
pub(crate) fn others_of(found: &[ImageFound], path: &str) -> Vec<String> {
    let Some((program, libraries)) = found.split_first() else { return Vec::new() };
    let variant = program.programs.iter().find(|(_, one)| one.path == path).map(|one| &one.0);
    let of_variant = |image: &ImageFound| {
        let mut programs = image.programs.iter();
        programs.find(|(name, _)| Some(name) == variant).map(|(_, one)| one.path.clone())
    };
    libraries.iter().filter_map(of_variant).collect()
}

/// What the profile of all images rests on: the evidence of the one with the most samples.
pub(crate) fn evidence(found: &[ImageFound], program: Evidence) -> Evidence {
    let most = main(found).and_then(|image| Some((&image.name, image.profile.evidence.as_ref()?)));
    most.map_or(program, |(name, evidence)| {
        let line = format!("{name}: {}", evidence.line);
        let warning = evidence.warning.as_ref().map(|warning| format!("{name}: {warning}"));
        Evidence { line, warning, ..evidence.clone() }
    })
}

/// How much of the profiles of all images fits.
pub(crate) fn all_matched(found: &[ImageFound], program: Matched) -> Matched {
    let Some(most) = main(found) else { return program };
    let sum = |of: fn(&Matched) -> u64| found.iter().map(|image| of(&image.matched)).sum();
    let mut largest: Vec<(String, u64)> =
        found.iter().flat_map(|image| image.matched.largest_unmatched.clone()).collect();
    largest.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    largest.truncate(MOST_UNMATCHED);
    Matched {
        functions: sum(|matched| matched.functions),
        functions_matched: sum(|matched| matched.functions_matched),
        samples: sum(|matched| matched.samples),
        samples_matched: sum(|matched| matched.samples_matched),
        largest_unmatched: largest,
        cause: found.iter().find_map(|image| image.matched.cause.clone()),
        evidence: format!("in {}: {}", most.name, most.matched.evidence),
    }
}

/// The layouts of all images: sums of what is counted, and whether all of them are there.
pub(crate) fn all_laid_out(found: &[ImageFound], program: LaidOut) -> LaidOut {
    let layouts: Vec<&LaidOut> = found.iter().filter_map(|image| image.layout.as_ref()).collect();
    let (Some(first), true) = (layouts.first(), layouts.len() > 1) else { return program };
    let mut summary = first.summary.clone();
    let mut verified = first.verified.clone();
    for layout in layouts.iter().skip(1) {
        add_summary(&mut summary, &layout.summary);
        add_verified(&mut verified, &layout.verified);
    }
    LaidOut { summary, verified, objects: program.objects }
}

fn add_summary(into: &mut LayoutSummary, from: &LayoutSummary) {
    into.mapped_functions += from.mapped_functions;
    into.functions += from.functions;
    into.clusters += from.clusters;
    into.clones += from.clones;
    for (into, from) in [(&mut into.before, &from.before), (&mut into.after, &from.after)] {
        into.score_within += from.score_within;
        into.score_calls += from.score_calls;
        into.taken += from.taken;
        into.fall_throughs += from.fall_throughs;
        add_pair(&mut into.pages_4k, from.pages_4k);
        add_pair(&mut into.pages_2m, from.pages_2m);
    }
    add_pair(&mut into.hot_blocks, from.hot_blocks);
    add_pair(&mut into.cold_blocks, from.cold_blocks);
}

fn add_verified(into: &mut VerifyResult, from: &VerifyResult) {
    into.applied &= from.applied;
    into.asked += from.asked;
    into.found += from.found;
    into.in_order += from.in_order;
    into.deviations += from.deviations;
    add_pair(&mut into.blocks, from.blocks);
    add_pair(&mut into.hot_bytes, from.hot_bytes);
    into.not_checked.0 += from.not_checked.0;
    into.not_checked.1 = into.not_checked.1.saturating_add(from.not_checked.1);
    into.not_checked.2 = into.not_checked.2.saturating_add(from.not_checked.2);
    into.first.extend(from.first.iter().cloned());
}

fn add_pair(into: &mut (u64, u64), from: (u64, u64)) {
    into.0 += from.0;
    into.1 += from.1;
}
