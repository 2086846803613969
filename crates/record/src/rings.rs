//! How large rings and AUX areas are, as the options say or as the kernel allows: the sizes that
//! are tried, best first.

use crate::settings::RingPages;

/// Bytes of each CPU's ring, and of its AUX area where an event writes AUX data (else 0): powers of
/// two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub ring: usize,
    pub aux: usize,
}

const KIB: usize = 1 << 10;
/// Rings of samples, from 16 MiB a CPU down.
const RINGS: [usize; 11] = [16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 4];
/// Rings and AUX areas of recordings whose data goes into the areas. 256 KiB of both, with the page
/// before them, are what `kernel.perf_event_mlock_kb` allows where nobody changed it (516).
const TRACED: [(usize, usize); 13] = [
    (1024, 16384),
    (1024, 8192),
    (1024, 4096),
    (512, 2048),
    (512, 1024),
    (256, 512),
    (256, 256),
    (128, 256),
    (128, 128),
    (64, 64),
    (32, 32),
    (16, 16),
    (4, 8),
];

/// Arm SPE's driver takes no smaller areas.
const LEAST_AUX_PAGES: usize = 2;

/// The sizes to try, in this order; `traced` where an event writes AUX data. No ring is smaller
/// than a page, and no area than two.
pub(crate) fn attempts(
    ring: Option<RingPages>,
    aux: Option<RingPages>,
    traced: bool,
    page_bytes: usize,
) -> Vec<Sizes> {
    let usual: Vec<(usize, usize)> =
        if traced { TRACED.to_vec() } else { RINGS.iter().map(|ring| (*ring, 0)).collect() };
    let bytes = |asked: Option<RingPages>, usual_kib: usize, least: usize| {
        asked.map_or(usual_kib * KIB, RingPages::bytes).max(least).next_power_of_two()
    };
    let both = |(one, other): (usize, usize)| Sizes {
        ring: bytes(ring, one, page_bytes),
        aux: if traced { bytes(aux, other, LEAST_AUX_PAGES * page_bytes) } else { 0 },
    };
    let mut sizes: Vec<Sizes> = usual.into_iter().map(both).collect();
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    #[test]
    fn sizes_are_powers_of_two_and_only_get_smaller() {
        for page in [PAGE, 16 * KIB, 64 * KIB] {
            for (ring, aux, traced) in [
                (None, None, false),
                (None, None, true),
                (Some(RingPages(8)), None, true),
                (None, Some(RingPages(1024)), true),
                (Some(RingPages(1)), Some(RingPages(2)), true),
            ] {
                let sizes = attempts(ring, aux, traced, page);
                for one in &sizes {
                    assert!(one.ring.is_power_of_two() && one.ring >= page, "{one:?}");
                    assert!(
                        (one.aux.is_power_of_two() && one.aux >= 2 * page) == traced,
                        "{one:?}"
                    );
                }
                let smaller =
                    |pair: &[Sizes]| pair[1].ring + pair[1].aux < pair[0].ring + pair[0].aux;
                assert!(sizes.windows(2).all(smaller), "{sizes:?}");
            }
        }
    }

    #[test]
    fn what_is_asked_for_is_all_that_is_tried() {
        let both = attempts(Some(RingPages(16)), Some(RingPages(256)), true, PAGE);
        assert_eq!(both, [Sizes { ring: 64 * KIB, aux: 1024 * KIB }]);
        assert_eq!(
            attempts(Some(RingPages(16)), None, false, PAGE),
            [Sizes { ring: 64 * KIB, aux: 0 }]
        );
        // Rings may get smaller where only the areas are asked for.
        let areas = attempts(None, Some(RingPages(256)), true, PAGE);
        assert!(areas.len() > 3 && areas.iter().all(|one| one.aux == 1024 * KIB), "{areas:?}");
    }

    #[test]
    fn the_budget_of_an_ordinary_user_is_used_to_the_last_page() {
        let fits = |one: &&Sizes| one.ring + one.aux + PAGE <= 516 * KIB;
        let sizes = attempts(None, None, true, PAGE);
        assert_eq!(sizes.iter().find(fits), Some(&Sizes { ring: 256 * KIB, aux: 256 * KIB }));
        let sizes = attempts(None, None, false, PAGE);
        assert_eq!(sizes.iter().find(fits), Some(&Sizes { ring: 512 * KIB, aux: 0 }));
    }
}
