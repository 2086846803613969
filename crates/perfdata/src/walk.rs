//! The walk over record headers that finds where a buffer's last whole record ends. It touches one
//! header per record and nothing else, so that it runs at memory speed.

use crate::bytes::Endian;
use crate::kinds::kind;

/// Why a walk ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// The buffer ends within a record, or right after one.
    End,
    /// A record that needs more than being handed out: compressed, or followed by a payload.
    Special {
        /// Its kind.
        kind: u32,
    },
    /// A header that cannot be one.
    Bad {
        /// Its size field, which is below 8.
        size: u16,
    },
}

/// Whether a walk must stop before records of this kind.
#[inline]
pub(crate) fn is_special(kind: u32) -> bool {
    matches!(
        kind,
        kind::COMPRESSED | kind::COMPRESSED2 | kind::AUXTRACE | kind::HEADER_TRACING_DATA
    )
}

/// Whether this crate has heard of the kind.
#[inline]
pub(crate) fn is_known(kind: u32) -> bool {
    kind.wrapping_sub(1) < kind::CALLCHAIN_DEFERRED || kind.wrapping_sub(kind::USER) <= 22
}

/// Walks over whole records from the start of `bytes`; gives the number of bytes they take and why
/// it stopped. `unknown` is called with each kind this crate does not know.
pub(crate) fn walk(bytes: &[u8], endian: Endian, unknown: impl FnMut(u32)) -> (usize, Stop) {
    match endian {
        Endian::Little => walk_as::<true>(bytes, unknown),
        Endian::Big => walk_as::<false>(bytes, unknown),
    }
}

fn walk_as<const LITTLE: bool>(bytes: &[u8], mut unknown: impl FnMut(u32)) -> (usize, Stop) {
    let endian = if LITTLE { Endian::Little } else { Endian::Big };
    let mut at = 0;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(&[k0, k1, k2, k3, _, _, s0, s1]) = rest.first_chunk::<8>() else {
            return (at, Stop::End);
        };
        let (kind, size) = (endian.u32([k0, k1, k2, k3]), endian.u16([s0, s1]));
        // The two tests of the common case, a sample, first.
        if kind != kind::SAMPLE {
            if is_special(kind) {
                return (at, Stop::Special { kind });
            }
            if !is_known(kind) && size >= 8 && usize::from(size) <= rest.len() {
                unknown(kind);
            }
        }
        if size < 8 {
            return (at, Stop::Bad { size });
        }
        if usize::from(size) > rest.len() {
            return (at, Stop::End);
        }
        at += usize::from(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, size: u16) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(size.to_le_bytes());
        bytes.resize(usize::from(size).max(8), 0);
        bytes
    }

    #[test]
    fn the_walk_ends_before_the_partial_record_and_counts_unknown_kinds() {
        let mut bytes = [record(9, 24), record(77, 16), record(1234, 8)].concat();
        bytes.extend(&record(9, 40)[..39]);
        let mut seen = Vec::new();
        assert_eq!(walk(&bytes, Endian::Little, |kind| seen.push(kind)), (48, Stop::End));
        assert_eq!(seen, [1234]);
    }

    #[test]
    fn the_walk_stops_at_compressed_records_and_at_sizes_below_8() {
        let bytes = [record(9, 24), record(81, 16)].concat();
        assert_eq!(walk(&bytes, Endian::Little, |_| ()), (24, Stop::Special { kind: 81 }));
        let bytes = [record(9, 24), record(3, 7)].concat();
        assert_eq!(walk(&bytes, Endian::Little, |_| ()), (24, Stop::Bad { size: 7 }));
    }
}
