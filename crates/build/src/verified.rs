//! What does a rebuilt program say of the profile it was built with?

use crate::verify::{self, Evidence, Matched};
use crate::{Error, used};
use image::Image;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What `planish build verify` finds.
#[derive(Debug, Serialize, Deserialize)]
pub struct Verified {
    /// How much of the profile fits.
    pub matched: Matched,
    /// What the hot functions show.
    #[serde(default)]
    pub evidence: Evidence,
    /// Build ID of the baseline.
    pub base_build_id: Option<String>,
    /// Build ID of the rebuild.
    pub opt_build_id: Option<String>,
    /// Bytes of machine code of the baseline.
    pub base_code_bytes: u64,
    /// Bytes of machine code of the rebuild.
    pub opt_code_bytes: u64,
}

impl Verified {
    /// Looks at the profile, the program it was recorded on, and the one that was built with it;
    /// `used` is the file that the compiler was given, where that holds other images' too.
    ///
    /// # Errors
    /// Where the profile cannot be read, or was not used.
    pub fn of(
        base: &Image,
        rebuilt: &Image,
        profile: (&Path, &[u8]),
        used: Option<&Path>,
        threads: usize,
    ) -> Result<Verified, Error> {
        let used = used.unwrap_or(profile.0);
        let (matched, evidence) = used::examine(base, rebuilt, profile, used, threads)?;
        verify::judge(&matched, &evidence, same_code(base, rebuilt))?;
        let found = Verified { matched, evidence, ..Verified::without_samples(base, rebuilt) };
        if found.base_build_id.is_some() && found.base_build_id == found.opt_build_id {
            return Err(Error::Unused(
                "baseline and rebuild have the same build ID although their code differs; their \
                 linker options must be wrong"
                    .into(),
            ));
        }
        Ok(found)
    }

    /// An image of which the profile says nothing, since none of its code ran.
    pub fn without_samples(base: &Image, rebuilt: &Image) -> Verified {
        let id = |image: &Image| image.build_id().map(ToString::to_string);
        Verified {
            matched: Matched::default(),
            evidence: Evidence::default(),
            base_build_id: id(base),
            opt_build_id: id(rebuilt),
            base_code_bytes: code_bytes(base),
            opt_code_bytes: code_bytes(rebuilt),
        }
    }
}

impl Verified {
    /// What was found, in one line.
    pub fn told(&self) -> String {
        let matched = &self.matched;
        format!(
            "{} of {} functions (inlined ones too), {:.1} % of the samples match names that the \
             compiler knows; {}",
            matched.functions_matched,
            matched.functions,
            matched.share() * 100.0,
            self.evidence.words()
        )
    }

    /// What may have gone wrong although the profile was used.
    pub fn warnings(&self) -> Vec<String> {
        let no_id = self.base_build_id.is_none().then(|| {
            "the baseline has no build ID; link with -Wl,--build-id (PLANISH_LDFLAGS holds it)"
                .to_owned()
        });
        let unknown = self.matched.cause.as_ref().map(|cause| {
            format!(
                "{:.1} % of the profile's samples have names that the rebuild's compiler does not \
                 know. Likely cause: {cause}",
                (1.0 - self.matched.share()) * 100.0
            )
        });
        no_id.into_iter().chain(self.evidence.stale()).chain(unknown).collect()
    }
}

fn same_code(a: &Image, b: &Image) -> bool {
    code_bytes(a) == code_bytes(b) && {
        let code = |image: &Image| -> Vec<Vec<u8>> {
            let ranges = image.code_ranges();
            ranges.filter_map(|r| Some(image.code_at(r.start)?.to_vec())).collect()
        };
        code(a) == code(b)
    }
}

/// Bytes of machine code.
pub fn code_bytes(image: &Image) -> u64 {
    image
        .code_ranges()
        .map(|range| range.end.0.saturating_sub(range.start.0))
        .fold(0, u64::saturating_add)
}
