//! Packets gathered into records, across the blocks in which a buffer is read, and over damaged
//! places.
//!
//! A record ends with a timestamp or an end packet. Where the bytes are no packet, everything up to
//! the next such end is left out and the place is counted. What is found there by chance inside a
//! payload does no harm: the pieces of a record that follow lack packets, and whoever asks for a
//! branch gets none ([`SpeRecord::branch`]).

use super::packet::{LONGEST_BYTES, Packet, PacketFault, SpeAddress, operation, read_packet};

/// Events that are of interest for branches: bits of an events packet.
mod event {
    pub(super) const RETIRED: u64 = 1 << 1;
    pub(super) const NOT_TAKEN: u64 = 1 << 6;
    pub(super) const MISPREDICTED: u64 = 1 << 7;
}

/// What the processor saw of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpeRecord {
    /// Where its first packet lies, in bytes from the start of the AUX stream.
    pub aux_offset: u64,
    /// Address of the instruction.
    pub address: Option<SpeAddress>,
    /// Where the branch goes, or would go.
    pub target: Option<SpeAddress>,
    /// Target of the branch that was taken last before this operation (FEAT_SPE_PBT, from Armv8.7
    /// on).
    pub previous_target: Option<SpeAddress>,
    /// What happened to it, as recorded.
    pub events: Option<u64>,
    /// Class and details of the operation, as recorded.
    pub operation: Option<(u8, u8)>,
    /// The context register: under Linux the thread, in the numbers of the first PID namespace.
    pub context: Option<u32>,
    /// Ticks of the generic timer.
    pub timestamp: Option<u64>,
}

/// A branch that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenBranch {
    /// Address of the branch instruction.
    pub from: SpeAddress,
    /// Address it went to.
    pub to: SpeAddress,
    /// The processor had expected another one.
    pub mispredicted: bool,
}

impl SpeRecord {
    /// Whether the operation is one that the program really ran. Others were begun on a wrong path.
    pub fn retired(&self) -> bool {
        self.events.is_some_and(|events| events & event::RETIRED != 0)
    }

    /// Whether it is a branch, taken or not.
    pub fn is_branch(&self) -> bool {
        self.operation.is_some_and(|(class, _)| class == operation::BRANCH)
    }

    /// The taken branch that this record tells of, if it does: it needs address, target, events and
    /// operation type.
    pub fn branch(&self) -> Option<TakenBranch> {
        let events = self.events?;
        if !self.is_branch() || events & event::NOT_TAKEN != 0 {
            return None;
        }
        let mispredicted = events & event::MISPREDICTED != 0;
        Some(TakenBranch { from: self.address?, to: self.target?, mispredicted })
    }
}

/// What the decoding of a buffer met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Records handed out.
    pub records: u64,
    /// Records without the address of an instruction, or that end before their end.
    pub incomplete: u64,
    /// Places where the bytes are no packet; each is skipped up to the end of a record.
    pub damaged: u64,
    /// The first of them, in bytes from the start of the AUX stream.
    pub first_damage: Option<u64>,
}

/// Decodes one buffer, given in blocks of any size.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// Where the next byte lies in the AUX stream.
    at: u64,
    /// Bytes to pass over before the next packet.
    skip: u64,
    current: SpeRecord,
    /// The current record has a packet.
    open: bool,
    /// Within a damaged place.
    lost: bool,
    decoded: Decoded,
}

impl Decoder {
    /// Begins a buffer whose first byte lies at `aux_offset` of the AUX stream.
    pub fn new(aux_offset: u64) -> Decoder {
        Decoder {
            at: aux_offset,
            skip: 0,
            current: SpeRecord::default(),
            open: false,
            lost: false,
            decoded: Decoded::default(),
        }
    }

    /// Decodes `bytes`, which follow those consumed before, and hands out each record that ends in
    /// them. Gives the number of bytes consumed; the rest, less than one packet, must stand
    /// before the next block. Where `last` is set nothing follows, and all is consumed.
    pub fn decode(&mut self, bytes: &[u8], last: bool, mut each: impl FnMut(SpeRecord)) -> usize {
        let mut rest = bytes;
        loop {
            let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(rest.len());
            rest = self.advance(rest, skipped);
            self.skip -= skipped as u64;
            // Whole buffers are padded at their ends.
            let padding = rest.iter().take_while(|&&byte| byte == 0).count();
            rest = self.advance(rest, padding);
            match read_packet(rest, self.at) {
                Ok((packet, size)) => {
                    let here = usize::try_from(size).unwrap_or(usize::MAX).min(rest.len());
                    self.take(packet, &mut each);
                    self.skip = size - here as u64;
                    rest = self.advance(rest, here);
                }
                Err(PacketFault::Short) if rest.is_empty() => break,
                Err(PacketFault::Short) if !last && rest.len() < LONGEST_BYTES => break,
                Err(PacketFault::Short) => {
                    // The buffer ends within a packet, so its record does not end.
                    self.open = true;
                    rest = self.advance(rest, rest.len());
                }
                Err(PacketFault::Unknown) => {
                    self.lose();
                    rest = self.advance(rest, 1);
                }
            }
        }
        if last {
            self.decoded.incomplete += u64::from(self.open && !self.lost);
            self.open = false;
        }
        bytes.len() - rest.len()
    }

    /// What was met so far.
    pub fn decoded(&self) -> Decoded {
        self.decoded
    }

    fn advance<'b>(&mut self, bytes: &'b [u8], count: usize) -> &'b [u8] {
        self.at = self.at.wrapping_add(count as u64);
        bytes.get(count..).unwrap_or_default()
    }

    fn lose(&mut self) {
        if !self.lost {
            self.decoded.damaged += 1;
            self.decoded.first_damage.get_or_insert(self.at);
        }
        self.lost = true;
        self.close();
    }

    fn close(&mut self) {
        self.current = SpeRecord::default();
        self.open = false;
    }

    fn take(&mut self, packet: Packet, each: &mut impl FnMut(SpeRecord)) {
        if packet == Packet::Padding {
            return;
        }
        if matches!(packet, Packet::End | Packet::Timestamp(_)) {
            if let Packet::Timestamp(ticks) = packet {
                self.current.timestamp = Some(ticks);
            }
            self.end(each);
            return;
        }
        if self.lost {
            return;
        }
        if self.repeats(packet) {
            // The record before was broken off: a full buffer, or a profiling stop.
            self.decoded.incomplete += 1;
            self.close();
        }
        if !self.open {
            self.open = true;
            self.current.aux_offset = self.at;
        }
        let record = &mut self.current;
        match packet {
            Packet::Address { index: 0, value } => record.address = Some(SpeAddress(value)),
            Packet::Address { index: 1, value } => record.target = Some(SpeAddress(value)),
            Packet::Address { index: 4, value } => record.previous_target = Some(SpeAddress(value)),
            Packet::Events(events) => record.events = Some(events),
            Packet::Operation { class, details } => record.operation = Some((class, details)),
            Packet::Context { id, .. } => record.context = Some(id),
            _ => {}
        }
    }

    fn end(&mut self, each: &mut impl FnMut(SpeRecord)) {
        match (self.lost, self.current.address) {
            (true, _) => {}
            (false, Some(_)) => {
                self.decoded.records += 1;
                each(self.current);
            }
            (false, None) => self.decoded.incomplete += 1,
        }
        self.lost = false;
        self.close();
    }

    /// Whether the current record has such a packet already, which a record has once at most.
    fn repeats(&self, packet: Packet) -> bool {
        let record = &self.current;
        match packet {
            Packet::Address { index: 0, .. } => record.address.is_some(),
            Packet::Address { index: 1, .. } => record.target.is_some(),
            Packet::Address { index: 4, .. } => record.previous_target.is_some(),
            Packet::Events(_) => record.events.is_some(),
            Packet::Operation { .. } => record.operation.is_some(),
            _ => false,
        }
    }
}
