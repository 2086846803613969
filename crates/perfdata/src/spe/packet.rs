//! One packet: a header of one or two bytes that says what follows, and a payload of 1, 2, 4 or 8
//! bytes.
//!
//! ```text
//! 0000 0000            padding            0000 0001            end
//! 01ss 0010  payload   events             01ss 0011  payload   data source
//! 0110 01ii  payload   context            0100 10ii  payload   operation type
//! 1011 0iii  payload   address            1001 1iii  payload   counter
//! 0111 0001  payload   timestamp
//! 0010 00jj  header    extended: jj are the upper bits of the index of the address or counter packet that follows
//! 0010 nnnn  0000 0000 alignment: padding up to a multiple of 2^(n + 1) bytes
//! ```
//!
//! Bits 5 and 4 of a header with a payload are the logarithm of the payload's size.

use crate::bytes::RuntimeAddr;
use crate::raw::CpuMode;

/// Classes of operations: the index of an operation type packet.
pub mod operation {
    /// Anything that is neither of the others.
    pub const OTHER: u8 = 0;
    /// Loads, stores and atomics.
    pub const LOAD_STORE: u8 = 1;
    /// Branches and exception returns.
    pub const BRANCH: u8 = 2;
}

/// An instruction's address with the processor's state, as address packets 0, 1 and 4 hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeAddress(pub u64);

impl SpeAddress {
    /// Exception level, 0 to 3 (bits 61 and 62).
    pub fn exception_level(self) -> u8 {
        (self.0 >> 61) as u8 & 3
    }

    /// Whether the address is one of the normal world, where Linux runs (bit 63).
    pub fn non_secure(self) -> bool {
        self.0 >> 63 != 0
    }

    /// Who ran there: level 0 is a program; Linux is at 1, or at 2 where it can host virtual
    /// machines.
    pub fn cpumode(self) -> CpuMode {
        match self.exception_level() {
            0 => CpuMode::User,
            3 => CpuMode::Hypervisor,
            _ => CpuMode::Kernel,
        }
    }

    /// The virtual address. The record holds its lower 56 bits; of a program's address the upper
    /// ones are 0 (tags are not part of it), of the kernel's they are 1, so that nothing that
    /// the kernel runs at low addresses passes for the program's.
    pub fn runtime(self) -> RuntimeAddr {
        let low = self.0 & ((1 << 56) - 1);
        RuntimeAddr(if self.exception_level() == 0 { low } else { low | 0xff << 56 })
    }
}

/// What a packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Nothing.
    Padding,
    /// The record ends, without a timestamp.
    End,
    /// The record ends; its time in ticks of the generic timer.
    Timestamp(u64),
    /// What happened to the operation, one bit each.
    Events(u64),
    /// Where loaded data came from; the values are the processor's own.
    DataSource(u64),
    /// The context register of an exception level; Linux keeps the thread's id there, if it was
    /// built to.
    Context {
        /// 0: of level 1; 1: of level 2.
        index: u8,
        /// The register's value.
        id: u32,
    },
    /// What kind of operation it was.
    Operation {
        /// See [`operation`].
        class: u8,
        /// Details by class; of branches bit 0 conditional, bit 1 indirect.
        details: u8,
    },
    /// A latency in cycles.
    Counter {
        /// 0 total, 1 until issue, 2 of address translation; others are the processor's own.
        index: u8,
        /// Cycles.
        cycles: u16,
    },
    /// An address.
    Address {
        /// 0 the instruction, 1 the branch's target, 2 and 3 data (virtual, physical), 4 the
        /// target of the branch before.
        index: u8,
        /// All 64 bits; of 0, 1 and 4 a [`SpeAddress`].
        value: u64,
    },
}

/// Why there is no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketFault {
    /// The bytes end within it.
    Short,
    /// No packet begins with these bytes.
    Unknown,
}

/// The longest packet without what follows an alignment header, in bytes.
pub(super) const LONGEST_BYTES: usize = 10;

/// Reads the packet at the start of `bytes`, which lies at `aux_offset` of the AUX buffer
/// (alignment counts from its begin). Gives the packet and its size in bytes, which for an
/// alignment packet may reach beyond `bytes`.
///
/// # Errors
/// Where the bytes end too early or are no packet.
pub fn read_packet(bytes: &[u8], aux_offset: u64) -> Result<(Packet, u64), PacketFault> {
    let (&header, rest) = bytes.split_first().ok_or(PacketFault::Short)?;
    match header {
        0 => return Ok((Packet::Padding, 1)),
        1 => return Ok((Packet::End, 1)),
        0x71 => return Ok((Packet::Timestamp(payload(rest, 8)?), 9)),
        _ => {}
    }
    if header & 0xf0 == 0x20 {
        return extended(header, rest, aux_offset);
    }
    let size = 1usize << (header >> 4 & 3);
    let value = || payload(rest, size);
    let packet = match header {
        h if h & 0xcf == 0x42 => Packet::Events(value()?),
        h if h & 0xcf == 0x43 => Packet::DataSource(value()?),
        // The sizes that these headers name are 4 bytes and 1.
        h if h & 0xfc == 0x64 => Packet::Context { index: h & 3, id: value()? as u32 },
        h if h & 0xfc == 0x48 => Packet::Operation { class: h & 3, details: value()? as u8 },
        h => indexed(h, 0, rest)?,
    };
    Ok((packet, 1 + size as u64))
}

fn extended(first: u8, rest: &[u8], aux_offset: u64) -> Result<(Packet, u64), PacketFault> {
    let (&second, rest) = rest.split_first().ok_or(PacketFault::Short)?;
    if second == 0 {
        let multiple = 2u64 << (first & 15);
        return Ok((Packet::Padding, (multiple - aux_offset % multiple).max(2)));
    }
    if first & 0xfc != 0x20 {
        return Err(PacketFault::Unknown);
    }
    let size = 1u64 << (second >> 4 & 3);
    Ok((indexed(second, (first & 3) << 3, rest)?, 2 + size))
}

/// An address or a counter; `upper` are the bits of its index that an extended header adds.
fn indexed(header: u8, upper: u8, rest: &[u8]) -> Result<Packet, PacketFault> {
    let index = upper | header & 7;
    match header & 0xf8 {
        0xb0 => Ok(Packet::Address { index, value: payload(rest, 8)? }),
        0x98 => Ok(Packet::Counter { index, cycles: payload(rest, 2)? as u16 }),
        _ => Err(PacketFault::Unknown),
    }
}

fn payload(bytes: &[u8], size: usize) -> Result<u64, PacketFault> {
    let bytes = bytes.get(..size).ok_or(PacketFault::Short)?;
    Ok(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is(bytes: &[u8], packet: Packet) {
        assert_eq!(read_packet(bytes, 0), Ok((packet, bytes.len() as u64)));
        for cut in 0..bytes.len() {
            assert_eq!(read_packet(&bytes[..cut], 0), Err(PacketFault::Short), "cut at {cut}");
        }
    }

    #[test]
    fn each_kind_of_packet_is_read_with_its_size() {
        is(&[0], Packet::Padding);
        is(&[1], Packet::End);
        is(&[0x71, 1, 2, 3, 4, 5, 6, 7, 8], Packet::Timestamp(0x0807_0605_0403_0201));
        is(&[0x42, 0x82], Packet::Events(0x82));
        is(&[0x52, 0x82, 1], Packet::Events(0x182));
        is(&[0x62, 1, 0, 4, 0], Packet::Events(0x4_0001));
        is(&[0x72, 0, 0, 0, 0, 0, 0, 0, 1], Packet::Events(1 << 56));
        is(&[0x43, 9], Packet::DataSource(9));
        is(&[0x53, 9, 1], Packet::DataSource(0x109));
        is(&[0x64, 1, 2, 0, 0], Packet::Context { index: 0, id: 0x201 });
        is(&[0x65, 1, 2, 0, 0], Packet::Context { index: 1, id: 0x201 });
        is(&[0x4a, 1], Packet::Operation { class: operation::BRANCH, details: 1 });
        is(&[0x49, 0], Packet::Operation { class: operation::LOAD_STORE, details: 0 });
        is(&[0x98, 3, 1], Packet::Counter { index: 0, cycles: 0x103 });
        is(&[0x20, 0x9f, 3, 1], Packet::Counter { index: 7, cycles: 0x103 });
        is(&[0x21, 0x98, 3, 1], Packet::Counter { index: 8, cycles: 0x103 });
        is(&[0xb4, 1, 0, 0, 0, 0, 0, 0, 0], Packet::Address { index: 4, value: 1 });
        is(&[0x20, 0xb4, 1, 0, 0, 0, 0, 0, 0, 0], Packet::Address { index: 4, value: 1 });
    }

    #[test]
    fn alignment_reaches_to_the_next_multiple_and_includes_its_own_header() {
        for (header, at, size) in
            [(0x20, 0, 2), (0x23, 0, 16), (0x23, 5, 11), (0x23, 15, 2), (0x25, 1, 63)]
        {
            assert_eq!(
                read_packet(&[header, 0], at),
                Ok((Packet::Padding, size)),
                "{header:#x} at {at}"
            );
        }
    }

    #[test]
    fn what_is_no_packet_is_said_to_be_none() {
        for bytes in
            [[2, 0, 0], [0x3f, 0, 0], [0x80, 0, 0], [0xff; 3], [0x20, 0x42, 0], [0x2f, 0xb0, 0]]
        {
            assert_eq!(read_packet(&bytes, 0), Err(PacketFault::Unknown), "{bytes:x?}");
        }
    }

    #[test]
    fn addresses_lose_their_state_and_tag_and_the_kernels_are_filled_up() {
        let user = SpeAddress(0x8000_0000_0040_1234);
        assert_eq!((user.runtime(), user.cpumode()), (RuntimeAddr(0x40_1234), CpuMode::User));
        assert!(user.non_secure());
        for (level, top) in [(1, 0xa0), (2, 0xc0)] {
            let kernel = SpeAddress(top << 56 | 0x00ff_8000_1010_0040);
            assert_eq!(kernel.exception_level(), level);
            assert_eq!(
                (kernel.runtime().0, kernel.cpumode()),
                (0xffff_8000_1010_0040, CpuMode::Kernel)
            );
        }
    }
}
