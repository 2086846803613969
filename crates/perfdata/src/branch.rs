//! The branch stack of a sample: the last taken branches, newest first (`struct
//! perf_branch_entry`).

use crate::bytes::{Endian, RuntimeAddr, Words, eight};
use crate::sys;
use std::fmt;

/// What the processor knew about speculation when it recorded the entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Spec {
    /// The processor does not say.
    NotAvailable,
    /// Speculative, and on the wrong path: the branch never retired.
    WrongPath,
    /// Not speculative, on the correct path.
    NonSpecCorrect,
    /// Speculative, and on the correct path.
    SpecCorrect,
}

/// The third word of a branch entry, with the bits numbered as on a little-endian machine.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct BranchFlags(pub u64);

impl BranchFlags {
    /// The flags from the recorded word. On big-endian machines C allocates bit fields from the
    /// high bit, so each field sits mirrored in place but with its own bits in normal order.
    #[inline]
    pub fn from_recorded(word: u64, endian: Endian) -> Self {
        if endian == Endian::Little { BranchFlags(word) } else { BranchFlags(mirror_fields(word)) }
    }

    /// The word to record for these flags.
    pub fn to_recorded(self, endian: Endian) -> u64 {
        if endian == Endian::Little { self.0 } else { unmirror_fields(self.0) }
    }

    /// The target was mispredicted.
    #[inline]
    pub fn mispredicted(self) -> bool {
        self.0 & 1 != 0
    }

    /// The target was predicted. Neither flag set: the processor does not say.
    #[inline]
    pub fn predicted(self) -> bool {
        self.0 & 2 != 0
    }

    /// The branch lies in a hardware transaction.
    pub fn in_tx(self) -> bool {
        self.0 & 4 != 0
    }

    /// The branch is a transaction abort.
    pub fn abort(self) -> bool {
        self.0 & 8 != 0
    }

    /// Cycles since the branch before, 0 when unknown.
    pub fn cycles(self) -> u16 {
        (self.0 >> 4) as u16
    }

    /// `PERF_BR_…`: unknown 0, cond 1, uncond 2, ind 3, call 4, ind_call 5, ret 6, … 15 means: see
    /// [`Self::new_type`].
    pub fn branch_type(self) -> u8 {
        (self.0 >> 20) as u8 & 15
    }

    /// What is known about speculation.
    #[inline]
    pub fn spec(self) -> Spec {
        match (self.0 >> 24) & 3 {
            0 => Spec::NotAvailable,
            1 => Spec::WrongPath,
            2 => Spec::NonSpecCorrect,
            _ => Spec::SpecCorrect,
        }
    }

    /// `PERF_BR_NEW_…`: the additional branch type when [`Self::branch_type`] is 15.
    pub fn new_type(self) -> u8 {
        (self.0 >> 26) as u8 & 15
    }

    /// `PERF_BR_PRIV_…`: unknown 0, user 1, kernel 2, hypervisor 3.
    pub fn privilege(self) -> u8 {
        (self.0 >> 30) as u8 & 7
    }
}

/// Widths of the bit field's members from the first on; the rest is reserved.
const FIELD_BITS: [u32; 9] = [1, 1, 1, 1, 16, 4, 2, 4, 3];

fn mirror_fields(word: u64) -> u64 {
    let (mut flags, mut low) = (0u64, 0u32);
    for bits in FIELD_BITS {
        let value = (word >> (64 - low - bits)) & ((1 << bits) - 1);
        flags |= value << low;
        low += bits;
    }
    flags
}

fn unmirror_fields(flags: u64) -> u64 {
    let (mut word, mut low) = (0u64, 0u32);
    for bits in FIELD_BITS {
        let value = (flags >> low) & ((1 << bits) - 1);
        word |= value << (64 - low - bits);
        low += bits;
    }
    word
}

impl fmt::Debug for BranchFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BranchFlags({:#x})", self.0)
    }
}

/// One taken branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BranchEntry {
    /// Address of the branch instruction.
    pub from: RuntimeAddr,
    /// Address it went to.
    pub to: RuntimeAddr,
    /// Prediction, cycles, type, speculation.
    pub flags: BranchFlags,
}

/// A branch stack where it lies in the record: entries of 24 bytes, newest first.
#[derive(Clone, Copy)]
pub struct BranchStack<'a> {
    raw: &'a [u8],
    hw_idx: Option<u64>,
    endian: Endian,
    counters: Option<&'a [u8]>,
}

impl<'a> BranchStack<'a> {
    /// Bytes of one entry.
    pub const ENTRY_BYTES: usize = 24;

    pub(crate) fn new(
        raw: &'a [u8],
        hw_idx: Option<u64>,
        endian: Endian,
        counters: Option<&'a [u8]>,
    ) -> Self {
        BranchStack { raw, hw_idx, endian, counters }
    }

    /// A stack without entries.
    pub const EMPTY: BranchStack<'static> =
        BranchStack { raw: &[], hw_idx: None, endian: Endian::NATIVE, counters: None };

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.raw.len() / Self::ENTRY_BYTES
    }

    /// Whether there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.raw.len() < Self::ENTRY_BYTES
    }

    /// Position of the newest entry in the hardware's ring, when recorded and known.
    pub fn hw_idx(&self) -> Option<u64> {
        self.hw_idx.filter(|&index| index != u64::MAX)
    }

    /// One word of event counts per entry (Linux 6.8 and newer), in the order of the entries; how
    /// many bits each counter has stands in the feature PMU_CAPS.
    pub fn counters(&self) -> Option<Words<'a>> {
        self.counters.map(|raw| Words::new(raw, self.endian))
    }

    /// The entry at `index`, 0 being the newest.
    pub fn get(&self, index: usize) -> Option<BranchEntry> {
        let at = index.checked_mul(Self::ENTRY_BYTES)?;
        self.raw
            .get(at..at.checked_add(Self::ENTRY_BYTES)?)
            .map(|entry| read_entry(entry, self.endian))
    }

    /// The entries, newest first.
    #[inline]
    pub fn iter(&self) -> BranchIter<'a> {
        BranchIter { raw: self.raw, endian: self.endian }
    }

    /// The entries' bytes.
    pub fn raw_bytes(&self) -> &'a [u8] {
        self.raw
    }

    /// The entries as `[from, to, flags]`, without a copy, when the recording has this machine's
    /// byte order and the bytes lie aligned; else `None`, and [`Self::iter`] is the way.
    #[inline]
    pub fn raw_entries(&self) -> Option<&'a [[u64; 3]]> {
        if self.endian == Endian::NATIVE { sys::as_entries(self.raw) } else { None }
    }
}

impl Default for BranchStack<'_> {
    fn default() -> Self {
        BranchStack::EMPTY
    }
}

impl fmt::Debug for BranchStack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for BranchStack<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.hw_idx == other.hw_idx
            && self.iter().eq(other.iter())
            && self.counters() == other.counters()
    }
}

impl<'a> IntoIterator for BranchStack<'a> {
    type Item = BranchEntry;
    type IntoIter = BranchIter<'a>;

    fn into_iter(self) -> BranchIter<'a> {
        self.iter()
    }
}

/// Iterates over a branch stack, newest entry first.
#[derive(Clone, Debug)]
pub struct BranchIter<'a> {
    raw: &'a [u8],
    endian: Endian,
}

impl Iterator for BranchIter<'_> {
    type Item = BranchEntry;

    #[inline]
    fn next(&mut self) -> Option<BranchEntry> {
        let (entry, tail) = self.raw.split_at_checked(BranchStack::ENTRY_BYTES)?;
        self.raw = tail;
        Some(read_entry(entry, self.endian))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let entries = self.raw.len() / BranchStack::ENTRY_BYTES;
        (entries, Some(entries))
    }
}

impl ExactSizeIterator for BranchIter<'_> {}

#[inline]
fn read_entry(entry: &[u8], endian: Endian) -> BranchEntry {
    let word = |at: usize| eight(entry, at).map_or(0, |b| endian.u64(b));
    BranchEntry {
        from: RuntimeAddr(word(0)),
        to: RuntimeAddr(word(8)),
        flags: BranchFlags::from_recorded(word(16), endian),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_an_entry_reads_from_its_own_bits() {
        let flags = BranchFlags(1 | 4 | 0x1234 << 4 | 15 << 20 | 1 << 24 | 6 << 26 | 2 << 30);
        assert!(flags.mispredicted() && !flags.predicted() && flags.in_tx() && !flags.abort());
        assert_eq!(
            (flags.cycles(), flags.branch_type(), flags.spec()),
            (0x1234, 15, Spec::WrongPath)
        );
        assert_eq!((flags.new_type(), flags.privilege()), (6, 2));
    }

    #[test]
    fn big_endian_flags_mean_the_same() {
        let flags = BranchFlags(2 | 8 | 0xabcd << 4 | 3 << 20 | 3 << 24 | 9 << 26 | 5 << 30);
        let word = flags.to_recorded(Endian::Big);
        assert_eq!(word >> 62, 1, "`predicted` is the second bit from the top");
        assert_eq!((word >> 44) & 0xffff, 0xabcd);
        assert_eq!(BranchFlags::from_recorded(word, Endian::Big), flags);
    }

    #[test]
    fn raw_entries_are_refused_for_a_foreign_byte_order_and_unaligned_bytes() {
        let words = [1u64, 2, 3, 4, 5, 6, 7];
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        let start = bytes.as_ptr().align_offset(8);
        let aligned = &bytes[start..start + 48];
        let stack = BranchStack::new(aligned, None, Endian::NATIVE, None);
        assert!(stack.raw_entries().is_some_and(|entries| entries.len() == 2));
        let unaligned = &bytes[start + 1..start + 49];
        assert_eq!(BranchStack::new(unaligned, None, Endian::NATIVE, None).raw_entries(), None);
        assert_eq!(BranchStack::new(unaligned, None, Endian::NATIVE, None).iter().count(), 2);
    }
}
