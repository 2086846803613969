//! Two programs of a measurement of more: the same runs, with one of the later programs as the
//! base.

use crate::runs::{Recorded, Run};

impl Recorded {
    /// The runs of two of the variants alone, `base` first; nothing where one of the names is not
    /// in the design.
    ///
    /// All programs of a round run in random order, so those of any two do: what was measured
    /// against the common base also tells these two apart, without another run.
    pub fn pair(&self, base: &str, variant: &str) -> Option<Recorded> {
        let index = |name: &str| self.design.variants.iter().position(|v| v.name == name);
        let chosen = [index(base)?, index(variant)?];
        let mut pair = self.clone();
        pair.design.variants = chosen.iter().map(|&at| self.design.variants[at].clone()).collect();
        let renumbered = |run: &Run| {
            let variant = chosen.iter().position(|&at| at == run.variant)?;
            Some(Run { variant, ..run.clone() })
        };
        pair.runs = self.runs.iter().filter_map(renumbered).collect();
        pair.stopped.retain(|stopped| stopped.variant == base || stopped.variant == variant);
        if chosen[0] != 0 {
            pair.drop_second_block();
        }
        Some(pair)
    }
}

#[cfg(test)]
mod tests {
    use crate::design::tests::design;
    use crate::{AnalysisOptions, Recorded, Run, Variant, analyse};

    /// Rounds in which `a` takes 100 ms, `b` 80 and `c` 60, give or take a little.
    fn three() -> Recorded {
        let mut design = design(12);
        design.variants = ["a", "b", "c"]
            .into_iter()
            .map(|name| Variant {
                name: name.into(),
                binaries: vec![name.into()],
                ..Variant::default()
            })
            .collect();
        let mut runs = Vec::new();
        for round in 0..=12u32 {
            for variant in 0..3usize {
                let sequence = u64::from(round) * 3 + variant as u64;
                let wall_ns = (100 - 20 * variant as u64) * 1_000_000 + (sequence * 7919) % 400_000;
                runs.push(Run {
                    sequence,
                    round,
                    variant,
                    wall_ns,
                    user_ns: wall_ns,
                    ..Run::default()
                });
            }
        }
        Recorded { design, runs, ..Recorded::default() }
    }

    #[test]
    fn two_of_three_programs_are_compared_without_the_third() {
        let all = three();
        let pair = all.pair("b", "c").unwrap();
        assert_eq!(pair.runs.len(), 2 * 13);
        let found = analyse(&[pair], &AnalysisOptions::default()).unwrap().measurement;
        let [only] = &found.comparisons[..] else { panic!("{:?}", found.comparisons) };
        assert_eq!((only.base.as_str(), only.variant.as_str()), ("b", "c"));
        assert!((only.effect - 0.75).abs() < 0.01, "{}", only.effect);
        let common =
            analyse(std::slice::from_ref(&all), &AnalysisOptions::default()).unwrap().measurement;
        assert!(
            (common.comparisons[1].effect - 0.6).abs() < 0.01,
            "{}",
            common.comparisons[1].effect
        );
        assert!(all.pair("b", "d").is_none());
    }
}
