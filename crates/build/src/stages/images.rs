//! The steps that are done once for each image of a project: profile, layout and their checks; and
//! those that put what they made together, since one build command makes all images.

use super::Stages;
use crate::STATE_DIRECTORY;
use crate::Step;
use crate::call::{Input, Output};
use crate::config::Compiler;
use crate::files::Round;
use crate::images::{self, LIBRARY_PATH, ProjectImage};
use crate::request::{
    Layout, LayoutKind, LayoutVerify, Libraries, MergeLayouts, MergeProfiles, Profile, Request,
    Verify,
};
use crate::target::LayoutFiles;
use ::profile::format::Format;
use std::path::{Path, PathBuf};

impl Stages<'_> {
    /// The images of the project, the program first.
    fn images(&self) -> Vec<ProjectImage> {
        images::images(&self.config.build)
    }

    fn has_several(&self) -> bool {
        !self.config.build.libraries.is_empty()
    }

    /// The name of a step about an image: the program's has none added.
    fn named(step: &str, image: &ProjectImage) -> String {
        if image.is_program { step.to_owned() } else { format!("{step}-{}", image.name) }
    }

    /// The libraries of a variant, by its ending, and how its program finds them.
    pub(super) fn libraries(&self, ending: &str) -> Libraries {
        let build = &self.config.build;
        let inherited = std::env::var(LIBRARY_PATH).ok();
        Libraries {
            files: self.library_files(ending),
            path: images::library_path(build, self.directory, ending, inherited.as_deref()),
        }
    }

    /// The files of the libraries of a variant.
    pub(super) fn library_files(&self, ending: &str) -> Vec<Input> {
        let libraries = images::libraries(&self.config.build);
        libraries.iter().map(|image| Input::from(&self.files.image(ending, image))).collect()
    }

    /// The steps that make the profile of a round, and the profile.
    pub(super) fn profiles(&self, round: Round) -> (Vec<Step>, PathBuf) {
        let (files, several) = (self.files, self.has_several());
        let whole = round.named(&files.profile);
        let gcc = self.config.build.compiler == Compiler::Gcc;
        let mut steps = Vec::new();
        let mut parts = Vec::new();
        for image in self.images() {
            let made = round.named(&files.profile_of(&image));
            let summary = round.named(&files.of_image(&image, &files.profile_summary));
            let request = Profile {
                counts: Input::from(&round.counts()),
                binary: Input::from(&files.image(round.recorded(), &image)),
                emit: Some(if gcc { Format::Gcov } else { Format::ExtBinary }),
                symbol_list: self.config.record.symbol_list.unwrap_or(gcc),
                allow_empty: several,
                profile: Output::from(&made),
                summary: Some(Output::from(&summary)),
            };
            parts.push(Input::from(&made));
            let name = Stages::named(&format!("{}profile", round.ordinal()), &image);
            steps.push(Step::new(name, Request::Profile(request)));
        }
        if several {
            let request = MergeProfiles { parts, profile: Output::from(&whole) };
            let name = format!("{}merge-profiles", round.ordinal());
            steps.push(Step::new(name, Request::MergeProfiles(request)));
        }
        (steps, whole)
    }

    /// The steps that check whether the rebuilt images of a round used their profile.
    pub(super) fn verifications(&self, round: Round, whole: &Path) -> Vec<Step> {
        let (files, several) = (self.files, self.has_several());
        let of = |image: ProjectImage| {
            let made = round.named(&files.profile_of(&image));
            let found = round.named(&files.of_image(&image, &files.verify));
            let request = Verify {
                binary: Input::from(&files.image(round.rebuilt(), &image)),
                baseline: Input::from(&files.image("base", &image)),
                profile: Input::from(&made),
                used: several.then(|| Input::from(whole)),
                found: Output::from(&found),
            };
            let name = Stages::named(&format!("{}verify", round.ordinal()), &image);
            Step::new(name, Request::Verify(request))
        };
        self.images().into_iter().map(of).collect()
    }

    /// The start of the names of the layout's files of one image alone.
    fn layout_part(&self, round: Round, image: &ProjectImage) -> PathBuf {
        round.path_of_relink(&match self.has_several() {
            false => self.files.layout_prefix(),
            true => Path::new(STATE_DIRECTORY).join(format!("{}.part", image.name)),
        })
    }

    /// The steps that compute the layout of a round's images, and its files.
    pub(super) fn layouts(&self, round: Round) -> (Vec<Step>, LayoutFiles) {
        let (files, several) = (self.files, self.has_several());
        let whole = LayoutFiles::of(&round.path_of_relink(&files.layout_prefix()));
        let folder = round.of_relink("layout");
        let outputs =
            |made: &LayoutFiles| [&made.cc_profile, &made.ld_profile].map(Output::from).to_vec();
        let of = |image: &ProjectImage| {
            let request = Layout {
                binary: Input::from(&files.image(round.recorded(), image)),
                clone: self.config.optimize.clone,
                allow_empty: several,
                files: outputs(&LayoutFiles::of(&self.layout_part(round, image))),
                summary: Some(Output::from(
                    &round.path_of_relink(&files.of_image(image, &files.layout)),
                )),
                ..self.layout(round, &folder, LayoutKind::Propeller)
            };
            Step::new(Stages::named(&folder, image), Request::Layout(request))
        };
        let mut steps: Vec<Step> = self.images().iter().map(of).collect();
        if several {
            let request = MergeLayouts {
                parts: self.images().iter().map(|image| self.layout_part(round, image)).collect(),
                prefix: Path::new(STATE_DIRECTORY).join(&folder).join(&files.name),
                files: outputs(&whole),
                found: Output::from(&round.path_of_relink(&files.merged_layouts())),
            };
            steps.push(Step::new(round.of_relink("merge-layouts"), Request::MergeLayouts(request)));
        }
        (steps, whole)
    }

    /// The steps that check whether the relinked images have their layout.
    pub(super) fn layout_verifications(&self, round: Round) -> Vec<Step> {
        let files = self.files;
        let of = |image: ProjectImage| {
            let request = LayoutVerify {
                counts: Input::from(&round.counts()),
                binary: Input::from(&files.image(round.recorded(), &image)),
                clone: self.config.optimize.clone,
                allow_empty: self.has_several(),
                new: Input::from(&files.image(&round.of_relink("layout"), &image)),
                found: Output::from(
                    &round.path_of_relink(&files.of_image(&image, &files.layout_verify)),
                ),
            };
            let name = Stages::named(&round.of_relink("layout-verify"), &image);
            Step::new(name, Request::LayoutVerify(request))
        };
        self.images().into_iter().map(of).collect()
    }

    /// What the report reads of each library.
    pub(super) fn found_of_libraries(&self) -> Vec<PathBuf> {
        let (files, last) = (self.files, crate::files::last_round(self.config));
        let mut found = Vec::new();
        for image in images::libraries(&self.config.build) {
            let mut of = |path: &Path| found.push(files.of_image(&image, path));
            of(&files.verify);
            of(&files.profile_summary);
            if self.config.optimize.lays_out() {
                of(&files.layout);
                of(&files.layout_verify);
            }
            if last != Round::FIRST {
                let second = |path: &Path| last.named(&files.of_image(&image, path));
                found.extend([second(&files.verify), second(&files.profile_summary)]);
            }
        }
        if self.has_several() && self.config.optimize.lays_out() {
            found.push(files.merged_layouts());
        }
        found
    }
}
