//! Where are the symbols and pseudo probes of a recorded program, and are its probes to be counted
//! or its lines?

use crate::Provenance;
use counts::ImageCounts;
use image::debug_files::DebugSearch;
use image::probes::Probes;
use image::{Error, Image};
use std::sync::Arc;

/// Whether probes are counted where the program has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeUse {
    /// Probes where the program has them, the recording has branch stacks and the format a place
    /// for them.
    Auto,
    /// Probes, or an error.
    Use,
    /// Lines, also where the program has probes.
    Ignore,
}

/// What is counted.
#[derive(Debug)]
pub enum Counting {
    /// The probes.
    Probes(Probes),
    /// The lines.
    Lines,
    /// The lines, though there are probes, for this reason.
    LinesSince(&'static str),
}

/// The recorded program, with the symbols and probes of its debug file where it has none itself.
#[derive(Debug)]
pub struct Recorded {
    /// The program.
    pub image: Arc<Image>,
    /// The file that has the probes, if any.
    probes: Option<Arc<Image>>,
    /// What the profile is to say of the program: its build ID and its compilers.
    pub provenance: Provenance,
}

impl Recorded {
    /// Looks where symbols and probes are. Only a debug file that the user named can be a wrong
    /// one.
    ///
    /// # Errors
    /// Where that is of another build, or cannot be read.
    pub fn find(image: Image, search: &DebugSearch) -> Result<Recorded, Error> {
        let mut provenance = Provenance::of(&image);
        let (own_probes, own_symbols) =
            (Probes::exist_in(&image), !image.has_only_dynamic_symbols());
        if own_symbols && (own_probes || search.debug_file.is_none()) {
            let image = Arc::new(image);
            let probes = own_probes.then(|| Arc::clone(&image));
            return Ok(Recorded { image, probes, provenance });
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
        Ok(Recorded { image, probes, provenance })
    }

    /// The probes, of the program or of its debug file.
    ///
    /// # Errors
    /// Where they are damaged.
    pub fn read_probes(&self) -> Result<Probes, Error> {
        Probes::read(self.probes.as_ref().unwrap_or(&self.image))
    }

    /// What of the program is counted for a format that has a place for probes or none.
    ///
    /// # Errors
    /// Where the probes are wanted and there are none, or they are damaged.
    pub fn counting(
        &self,
        wanted: ProbeUse,
        has_place: bool,
        counts: &ImageCounts,
    ) -> Result<Counting, Error> {
        match (wanted, &self.probes) {
            (ProbeUse::Ignore, _) | (ProbeUse::Auto, None) => return Ok(Counting::Lines),
            (ProbeUse::Auto, Some(_)) if !has_place => {
                return Ok(Counting::LinesSince("the format has no place for them"));
            }
            (ProbeUse::Auto, Some(_)) if !counts.has_branches() => {
                return Ok(Counting::LinesSince("the recording has no branch stacks"));
            }
            (ProbeUse::Auto, Some(_)) | (ProbeUse::Use, _) => {}
        }
        Ok(Counting::Probes(self.read_probes()?))
    }
}
