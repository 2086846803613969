//! Cutting a buffer into raw records, and what every record states: kind, mode, who and when.

use crate::bytes::Endian;
use crate::kinds::misc;

/// Which privilege level the processor ran at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum CpuMode {
    /// Not stated.
    #[default]
    Unknown,
    /// The kernel of this machine.
    Kernel,
    /// A process of this machine.
    User,
    /// The hypervisor.
    Hypervisor,
    /// The kernel of a virtual machine.
    GuestKernel,
    /// A process of a virtual machine.
    GuestUser,
}

impl CpuMode {
    /// The mode in a record's `misc`.
    #[inline]
    pub fn of(misc: u16) -> CpuMode {
        match misc & misc::CPUMODE_MASK {
            misc::KERNEL => CpuMode::Kernel,
            misc::USER => CpuMode::User,
            misc::HYPERVISOR => CpuMode::Hypervisor,
            misc::GUEST_KERNEL => CpuMode::GuestKernel,
            misc::GUEST_USER => CpuMode::GuestUser,
            _ => CpuMode::Unknown,
        }
    }

    /// The bits of `misc` that state this mode.
    pub fn bits(self) -> u16 {
        match self {
            CpuMode::Unknown => 0,
            CpuMode::Kernel => misc::KERNEL,
            CpuMode::User => misc::USER,
            CpuMode::Hypervisor => misc::HYPERVISOR,
            CpuMode::GuestKernel => misc::GUEST_KERNEL,
            CpuMode::GuestUser => misc::GUEST_USER,
        }
    }
}

/// One record as it lies in the buffer: header taken apart, body untouched.
#[derive(Clone, Copy, Debug)]
pub struct RawRecord<'a> {
    /// The record type ([`crate::kind`]).
    pub kind: u32,
    /// The header's flag bits ([`misc`]).
    pub misc: u16,
    /// Everything after the 8 bytes of header.
    pub body: &'a [u8],
    /// Where the record starts, in bytes from the start of the file (for messages; of compressed
    /// data it is the place of the compressed record).
    pub offset: u64,
}

/// The records of a buffer that holds whole records only, such as [`crate::Chunk::bytes`].
#[inline]
pub fn raw_records(chunk_bytes: &[u8], base_offset: u64, endian: Endian) -> RawRecords<'_> {
    RawRecords { rest: chunk_bytes, offset: base_offset, endian }
}

/// Iterates over the records of a buffer; it stops at a header that does not fit (the walk that
/// filled the buffer has already reported such a thing).
#[derive(Clone, Debug)]
pub struct RawRecords<'a> {
    rest: &'a [u8],
    offset: u64,
    endian: Endian,
}

impl<'a> RawRecords<'a> {
    /// What is left of the buffer; after the last record it is empty unless a header was wrong.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for RawRecords<'a> {
    type Item = RawRecord<'a>;

    #[inline]
    fn next(&mut self) -> Option<RawRecord<'a>> {
        let &[k0, k1, k2, k3, m0, m1, s0, s1] = self.rest.first_chunk::<8>()?;
        let size = usize::from(self.endian.u16([s0, s1]));
        let body = self.rest.get(8..size)?;
        let record = RawRecord {
            kind: self.endian.u32([k0, k1, k2, k3]),
            misc: self.endian.u16([m0, m1]),
            body,
            offset: self.offset,
        };
        self.rest = self.rest.get(size..)?;
        self.offset = self.offset.wrapping_add(size as u64);
        Some(record)
    }
}

/// Who, when and where a record speaks about: from the trailer that `sample_id_all` adds, or from
/// the sample itself. A field that was not recorded is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SampleId {
    /// Process.
    pub pid: Option<i32>,
    /// Thread.
    pub tid: Option<i32>,
    /// Time in ns of the recording's clock.
    pub time: Option<u64>,
    /// Id of the counter.
    pub id: Option<u64>,
    /// Id of the counter before inheritance.
    pub stream_id: Option<u64>,
    /// Processor.
    pub cpu: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_cut_where_their_headers_say_and_the_rest_is_kept() {
        let mut bytes = vec![9, 0, 0, 0, 2, 0, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        bytes.extend([3, 0, 0, 0, 0, 0, 8, 0]);
        bytes.extend([3, 0, 0, 0, 0, 0, 80, 0]);
        let mut records = raw_records(&bytes, 1000, Endian::Little);
        let first = records.next().unwrap();
        assert_eq!((first.kind, first.misc, first.body.len(), first.offset), (9, 2, 8, 1000));
        assert_eq!(records.next().map(|r| (r.kind, r.body.len(), r.offset)), Some((3, 0, 1016)));
        assert!(records.next().is_none());
        assert_eq!(records.rest().len(), 8);
    }

    #[test]
    fn a_record_size_below_8_ends_the_iteration() {
        let bytes = [9, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 2, 0, 8, 0];
        assert_eq!(raw_records(&bytes, 0, Endian::Little).count(), 0);
    }
}
