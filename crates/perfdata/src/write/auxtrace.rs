//! AUX data as perf writes it: who made it (AUXTRACE_INFO), how its times become the recording's
//! (TIME_CONV), each piece of it (AUXTRACE, whose bytes follow the record), and where the pieces
//! lie (feature AUXTRACE).
//!
//! Facts: tools/perf/util/auxtrace.c, arm-spe.h and tsc.c; kernel 6.1 to 6.12.

use super::encode::{Body, put_record};
use crate::bytes::Endian;
use crate::error::Error;
use crate::kinds::kind;

/// How the ticks of a tracer's timer become ns of the recording's clock, as the kernel says it
/// beside each ring (`struct perf_event_mmap_page`, include/uapi/linux/perf_event.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeConversion {
    /// Bits by which a product is shifted.
    pub shift: u16,
    /// Factor.
    pub mult: u32,
    /// What the clock shows at 0 ticks, in ns.
    pub zero: u64,
    /// A value that the timer had, and the mask of its bits, where it has fewer than 64.
    pub short: Option<(u64, u64)>,
}

/// A piece of AUX data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuxPiece {
    /// Its size, in bytes, without the padding behind it.
    pub size_bytes: u64,
    /// Where it begins in the AUX stream of its buffer, in bytes.
    pub aux_offset: u64,
    /// Tells pieces apart that have the same place.
    pub reference: u64,
    /// Number of the buffer.
    pub index: u32,
    /// The thread whose buffer it is; −1 of a processor's.
    pub tid: i32,
    /// The processor whose buffer it is; −1 of a thread's.
    pub cpu: i32,
}

/// Payloads are padded with zeros to a multiple of so many bytes.
const PAYLOAD_ALIGN: u64 = 8;

impl AuxPiece {
    /// Zero bytes that follow its data.
    pub fn padding(&self) -> usize {
        // Less than 8.
        (self.size_bytes.wrapping_neg() % PAYLOAD_ALIGN) as usize
    }

    /// Appends the record; its data and [`AuxPiece::padding`] have to follow.
    pub fn put(&self, out: &mut Vec<u8>, endian: Endian) -> Result<(), Error> {
        let mut b = Body::begin(out, endian, kind::AUXTRACE, 0);
        b.words(&[
            self.size_bytes.saturating_add(self.padding() as u64),
            self.aux_offset,
            self.reference,
        ]);
        b.u32(self.index);
        b.i32(self.tid);
        b.i32(self.cpu);
        b.u32(0);
        b.end()
    }
}

/// Appends who makes the recording's AUX data ([`crate::tracer`]), with the words that its decoder
/// needs.
pub fn auxtrace_info(
    out: &mut Vec<u8>,
    tracer: u32,
    private: &[u64],
    endian: Endian,
) -> Result<(), Error> {
    let mut b = Body::begin(out, endian, kind::AUXTRACE_INFO, 0);
    b.u32(tracer);
    b.u32(0);
    b.words(private);
    b.end()
}

/// Appends how ticks become ns.
pub fn time_conversion(
    out: &mut Vec<u8>,
    conversion: &TimeConversion,
    endian: Endian,
) -> Result<(), Error> {
    let (cycles, mask) = conversion.short.unwrap_or((0, u64::MAX));
    let words =
        [u64::from(conversion.shift), u64::from(conversion.mult), conversion.zero, cycles, mask];
    let mut body: Vec<u8> = words.iter().flat_map(|word| endian.put_u64(*word)).collect();
    // cap_user_time_zero, cap_user_time_short, and bytes of no use.
    body.extend([1, u8::from(conversion.short.is_some()), 0, 0, 0, 0, 0, 0]);
    put_record(out, endian, kind::TIME_CONV, 0, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_ends_at_a_multiple_of_eight() {
        for (size_bytes, padding) in [(0, 0), (1, 7), (7, 1), (8, 0), (4095, 1), (u64::MAX - 7, 0)]
        {
            let piece =
                AuxPiece { size_bytes, aux_offset: 0, reference: 0, index: 0, tid: -1, cpu: 0 };
            assert_eq!(piece.padding(), padding, "{size_bytes}");
        }
    }
}
