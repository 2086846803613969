//! Is a guest's clock fine enough for the times that it states?

use crate::Error;
use record::machine::{Section, Timing};

/// A clock that goes in steps of this many nanoseconds is the kernel's tick, not a counter of the
/// CPU.
const COARSE: u64 = 500_000;
/// Times that are read apart from each other by less are taken for the same, in nanoseconds.
const BLUR: u64 = 1_000;

/// Refuses times that say nothing.
///
/// # Errors
/// A section took no time on the guest's clock, or the clock goes in steps of a tick.
pub(super) fn check(timed: &[(&Section, &Timing)]) -> Result<(), Error> {
    if let Some(step) =
        step(&timed.iter().map(|(_, timing)| timing.nanoseconds).collect::<Vec<_>>())
    {
        return Err(Error::Wanted(format!(
            "the guest's clock goes in steps of {:.1} ms: its kernel found no finer one, as \
             happens when the host is busy while it boots; measure again, with --raw FILE \
             --resume from here",
            step as f64 / 1e6
        )));
    }
    if let Some((section, _)) = timed.iter().find(|(_, timing)| timing.nanoseconds == 0) {
        return Err(Error::Wanted(format!(
            "section {} ({}) took no time on the guest's clock; give it more rounds (--append \
             PLANISH_ROUNDS=200), or name the sections to run without it (--append \
             PLANISH_SECTIONS=…)",
            section.number, section.name
        )));
    }
    Ok(())
}

/// The step that all times are multiples of, where it is a tick; `None` for less than three times,
/// which tell nothing.
fn step(times: &[u64]) -> Option<u64> {
    let common = times.iter().copied().fold(0, common_step);
    (times.len() >= 3 && common >= COARSE).then_some(common)
}

/// Euclid's algorithm, with remainders that are almost nothing taken for nothing.
fn common_step(mut a: u64, mut b: u64) -> u64 {
    while b > BLUR {
        let rest = a % b;
        (a, b) = (b, if b - rest <= BLUR { 0 } else { rest });
    }
    a
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_tick_are_told_from_times_of_a_counter() {
        assert_eq!(step(&[4_000_250, 8_000_500, 84_005_250, 424_026_500, 0]), Some(4_000_250));
        assert_eq!(step(&[4_000_250, 8_000_700, 84_005_000]), Some(4_000_250));
        assert_eq!(step(&[2_922_076, 49_081_233, 94_790_118, 424_026_500]), None);
        assert_eq!(step(&[4_000_250, 8_000_500]), None);
        assert_eq!(step(&[]), None);
    }

    #[test]
    fn a_section_without_time_is_named() {
        let section = |number| Section { number, held_out: false, name: format!("s{number}") };
        let timing = |number, nanoseconds| Timing { number, operations: 1, nanoseconds };
        let (sections, times) = ([section(1), section(2)], [timing(1, 71), timing(2, 0)]);
        let timed: Vec<_> = sections.iter().zip(&times).collect();
        assert!(check(&timed).unwrap_err().to_string().contains("section 2 (s2)"));
        assert!(check(&timed[..1]).is_ok());
    }
}
