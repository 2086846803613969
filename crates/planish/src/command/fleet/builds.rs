//! The counts of each build of a service to a profile by source, which fits its newest build.

use super::at_hand::AtHand;
use counts::ImageCounts;
use image::debug::DebugInfo;
use profile::SampleProfile;
use profile::attribute::{AttributeOptions, attribute, attribute_probes};
use profile::matching::{ProgramShape, match_profile};
use profile::recorded::{Counting, ProbeUse, Recorded};
use report::fleet::{Build, Fate};
use std::cell::OnceCell;
use std::path::Path;

/// The newest build, and what is known of it.
pub struct Newest<'n> {
    pub recorded: &'n Recorded,
    pub threads: usize,
    /// Whether the format of the profile has a place for pseudo probes.
    pub has_probes: bool,
    shape: OnceCell<ProgramShape>,
}

impl<'n> Newest<'n> {
    /// Nothing of it is read before it is needed.
    pub fn new(recorded: &'n Recorded, threads: usize, has_probes: bool) -> Newest<'n> {
        Newest { recorded, threads, has_probes, shape: OnceCell::new() }
    }

    fn shape(&self, store: &AtHand) -> anyhow::Result<&ProgramShape> {
        if let Some(shape) = self.shape.get() {
            return Ok(shape);
        }
        let image = &self.recorded.image;
        let debug = DebugInfo::load(image, store.search())?;
        let shape = ProgramShape::read(image, &debug, self.threads)?;
        Ok(self.shape.get_or_init(|| shape))
    }

    /// Whether these counts are of it: by build ID, or by the file name where neither has one.
    pub fn is(&self, counts: &ImageCounts) -> bool {
        let image = &self.recorded.image;
        match (&counts.build_id, image.build_id()) {
            (None, None) => Path::new(&counts.path).file_name() == image.path().file_name(),
            (recorded, own) => recorded.as_ref() == own,
        }
    }
}

/// The profile of a build's counts that fits the newest one, and what became of them.
pub fn profile_of(
    counts: &ImageCounts,
    newest: &Newest<'_>,
    store: &AtHand,
) -> (Option<SampleProfile>, Build) {
    let build = |fate: Fate| Build {
        id: counts.build_id.map(|id| id.to_string()),
        path: counts.path.clone(),
        counted: if counts.has_branches() { counts.branch_total() } else { counts.sample_total() },
        fate,
    };
    let left = |why: String| (None, build(Fate::LeftOut(why)));
    if newest.is(counts) {
        return match attributed(newest.recorded, counts, newest, store) {
            Ok(profile) => (Some(profile), build(Fate::Newest)),
            Err(error) => left(format!("{error:#}")),
        };
    }
    let Some(id) = &counts.build_id else {
        return left("it has no build ID, so nothing tells which program it was".to_owned());
    };
    let image = match store.find(id, &counts.path) {
        Ok(image) => image,
        Err(why) => return left(why),
    };
    let old = Recorded::find(image, store.search()).map_err(anyhow::Error::from);
    let made = old.and_then(|old| carried(attributed(&old, counts, newest, store)?, newest, store));
    match made {
        Ok((profile, fate)) => (Some(profile), build(fate)),
        Err(error) => left(format!("{error:#}")),
    }
}

/// The profile of an older build as one of the newest.
pub fn carried(
    profile: SampleProfile,
    newest: &Newest<'_>,
    store: &AtHand,
) -> anyhow::Result<(SampleProfile, Fate)> {
    if profile.is_probe_based() {
        // The compiler knows functions that changed by the checksums of their probes.
        return Ok((profile, Fate::Unmatched));
    }
    let (matched, report) = match_profile(&profile, newest.shape(store)?)?;
    Ok((matched, Fate::Matched(report.carried_pct())))
}

fn attributed(
    recorded: &Recorded,
    counts: &ImageCounts,
    newest: &Newest<'_>,
    store: &AtHand,
) -> anyhow::Result<SampleProfile> {
    let options = AttributeOptions { threads: newest.threads, ..AttributeOptions::default() };
    let image = &recorded.image;
    let counting = recorded.counting(ProbeUse::Auto, newest.has_probes, counts)?;
    let (mut profile, _) = match counting {
        Counting::Probes(probes) => attribute_probes(image, &probes, counts, &options)?,
        _ => attribute(image, &DebugInfo::load(image, store.search())?, counts, &options)?,
    };
    profile.provenance = recorded.provenance.clone();
    Ok(profile)
}
