//! Whether a profile is made of pseudo probes or of lines, and where the probes are read from;
//! and that profiles of different kinds are not mixed.

use super::profile::ProfileFormat;
use anyhow::bail;
use counts::ImageCounts;
use image::Image;
use image::debug_files::DebugSearch;
use image::probes::Probes;
use profile::{Provenance, SampleProfile};
use std::path::PathBuf;
use std::sync::Arc;

/// Whether probes are counted where the binary has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ProbeUse {
    /// Probes where the binary has them, the recording has branch stacks and the format a place for
    /// them
    #[default]
    Auto,
    /// Probes, or an error
    Use,
    /// Lines, also where the binary has probes
    Ignore,
}

/// The recorded binary, with the symbols and probes of its debug file where it has none itself.
pub struct Binary {
    /// The binary.
    pub image: Arc<Image>,
    /// The file that has the probes, if any.
    probes: Option<Arc<Image>>,
    /// What the profile is to say of the binary: its build ID and its compilers.
    pub provenance: Provenance,
}

impl Binary {
    /// Looks where symbols and probes are. Only a debug file that the user named can be a wrong
    /// one; that is an error.
    pub fn find(image: Image, search: &DebugSearch) -> anyhow::Result<Binary> {
        let mut provenance = Provenance::of(&image);
        let (own_probes, own_symbols) =
            (Probes::exist_in(&image), !image.has_only_dynamic_symbols());
        if own_symbols && (own_probes || search.debug_file.is_none()) {
            let image = Arc::new(image);
            let probes = own_probes.then(|| Arc::clone(&image));
            return Ok(Binary { image, probes, provenance });
        }
        let debug = search.find(&image)?.image.map(Arc::new);
        // Where `.comment` was stripped, the debug file may have it.
        if let Some(debug) = debug.as_ref().filter(|_| provenance.compilers().len() == 0) {
            provenance.add(&Provenance::of(debug));
        }
        let image = match &debug {
            Some(debug) if !own_symbols => image.with_symbols_of(Arc::clone(debug)),
            _ => image,
        };
        let image = Arc::new(image);
        let probes = if own_probes {
            Some(Arc::clone(&image))
        } else {
            debug.filter(|d| Probes::exist_in(d))
        };
        Ok(Binary { image, probes, provenance })
    }

    /// The probes, of the binary or of its debug file.
    pub fn read_probes(&self) -> anyhow::Result<Probes> {
        Ok(Probes::read(self.probes.as_ref().unwrap_or(&self.image))?)
    }

    /// The probes to count; `None` where lines are to be counted.
    pub fn probes(
        &self,
        wanted: ProbeUse,
        format: ProfileFormat,
        counts: &ImageCounts,
        quiet: bool,
    ) -> anyhow::Result<Option<Probes>> {
        let has_place = matches!(format, ProfileFormat::Text | ProfileFormat::Extbinary);
        let holder = match wanted {
            ProbeUse::Ignore => return Ok(None),
            ProbeUse::Use if !has_place => {
                bail!(
                    "--probes use is for --format extbinary and text; the other formats have no \
                     place for probes"
                )
            }
            ProbeUse::Use => self.probes.as_ref().unwrap_or(&self.image),
            ProbeUse::Auto => match &self.probes {
                Some(holder) if has_place && counts.has_branches() => holder,
                Some(_) if !quiet => {
                    let why = if has_place {
                        "the recording has no branch stacks"
                    } else {
                        "the format has no place for them"
                    };
                    eprintln!(
                        "note: the binary has pseudo probes, but {why}, so lines are counted"
                    );
                    return Ok(None);
                }
                _ => return Ok(None),
            },
        };
        Ok(Some(Probes::read(holder)?))
    }
}

/// Lines and probe numbers look alike in a profile, and mean different places. A context that one
/// profile names and another has as a call inlined into its caller would stand there twice.
pub fn refuse_mixture<'p>(
    profiles: impl Iterator<Item = (&'p SampleProfile, &'p PathBuf)>,
) -> anyhow::Result<()> {
    let (mut of_probes, mut of_lines) = (None, None);
    let (mut by_context, mut by_function) = (None, None);
    for (profile, path) in profiles {
        *(if profile.is_probe_based() { &mut of_probes } else { &mut of_lines }) = Some(path);
        *(if profile.context_sensitive { &mut by_context } else { &mut by_function }) = Some(path);
    }
    if let (Some(probes), Some(lines)) = (of_probes, of_lines) {
        bail!(
            "{} counts pseudo probes and {} lines; they cannot be put together, give profiles of \
             one kind",
            probes.display(),
            lines.display()
        );
    }
    if let (Some(contexts), Some(functions)) = (by_context, by_function) {
        bail!(
            "{} keeps calling contexts (--contexts full) and {} does not (--contexts nested or \
             off); they cannot be put together, make all of them with the same --contexts",
            contexts.display(),
            functions.display()
        );
    }
    Ok(())
}
