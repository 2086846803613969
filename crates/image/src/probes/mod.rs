//! The pseudo probes of an image: which block of which function, inlined where, begins at which
//! address.
//!
//! `clang -fpseudo-probe-for-profiling` numbers the blocks and calls of every function before it
//! optimises, and keeps the numbers beside the code: `.pseudo_probe` says where each of them ended
//! up, `.pseudo_probe_desc` has name and checksum of each function. A probe names the same place in
//! every build of the same source, which lines do not.
//!
//! Input: the two sections and the symbol table, which says where a function begins. Output:
//! [`Probes`], sorted by address. The format is described in `read.rs`. Cost: one pass over the
//! sections, one MD5 per function symbol.
//!
//! The sections hold no duplication factor: copies of a block are probes of their own, and their
//! counts add up.

mod bytes;
mod descriptors;
mod place;
mod read;

use std::fmt;
use std::ops::Range;

use md5::Digest;

use crate::ImageAddr;
pub use descriptors::Descriptor;
pub use read::MAX_DEPTH;

/// The hash by which probes name a function: the first eight bytes of the MD5 of its name,
/// little-endian.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Guid(pub u64);

impl Guid {
    /// The hash of a name.
    pub fn of(name: &str) -> Guid {
        let digest = md5::Md5::digest(name.as_bytes());
        Guid(digest.iter().take(8).rev().fold(0, |hash, byte| hash << 8 | u64::from(*byte)))
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guid({:#018x})", self.0)
    }
}

impl fmt::Display for Guid {
    /// In decimal, as LLVM's tools print it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a probe stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProbeKind {
    /// A basic block begins here.
    Block,
    /// This instruction calls a function from a register or memory.
    IndirectCall,
    /// This instruction calls a function that it states.
    DirectCall,
}

impl ProbeKind {
    /// Whether it is one of the two kinds of call.
    pub fn is_call(self) -> bool {
        self != ProbeKind::Block
    }
}

/// Attributes of a probe as the section has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Attributes(pub u8);

impl Attributes {
    /// Stands for no block, but says to which symbol the following probes are relative. Never among
    /// [`Probes`].
    pub const SENTINEL: Attributes = Attributes(2);
    /// A discriminator follows.
    pub const DISCRIMINATOR: Attributes = Attributes(4);

    /// Whether all bits of `wanted` are set.
    pub fn has(self, wanted: Attributes) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

/// One probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The instruction it stands at. A block that became empty shares the address of what follows.
    pub address: ImageAddr,
    /// Its number in its function, from 1; 1 is the entry block.
    pub index: u32,
    /// What it stands for.
    pub kind: ProbeKind,
    /// Its attributes.
    pub attributes: Attributes,
    /// Flow-sensitive discriminator, 0 without.
    pub discriminator: u32,
    /// Which inlined copy of which function it belongs to, see [`Probes::copy`].
    pub copy: CopyId,
}

/// Number of a function or inlined copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyId(u32);

impl CopyId {
    /// Position among [`Probes::copies`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A function, or a copy of one that was inlined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InlinedCopy {
    /// The function.
    pub guid: Guid,
    /// Into what it was inlined, and at which call probe there, 0 for a call without one (calls
    /// while an exception is passed on have none); `None` for code of its own.
    pub caller: Option<(CopyId, u32)>,
}

/// A stretch of code whose probes are known: a function, or a part that was split off (`foo.cold`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedCode {
    /// The function.
    pub guid: Guid,
    /// The extent of its symbol.
    pub range: Range<ImageAddr>,
    /// Whether the function begins here: false for parts that were split off.
    pub is_entry: bool,
}

/// The probes of an image, see [`Probes::read`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Probes {
    /// Sorted by address; at one address in the order of the section.
    probes: Vec<Probe>,
    /// A copy comes after the one it is inlined into.
    copies: Vec<InlinedCopy>,
    /// Sorted by start.
    code: Vec<ProbedCode>,
    /// Sorted by hash.
    descriptors: Vec<Descriptor>,
    unplaced_functions: u64,
    unplaced_probes: u64,
    conflicting_descriptors: u64,
}

impl Probes {
    /// Whether the image has neither probes nor descriptors.
    pub fn is_empty(&self) -> bool {
        self.probes.is_empty() && self.descriptors.is_empty()
    }

    /// All probes by address; at one address in the order in which the section lists them.
    pub fn iter(&self) -> std::slice::Iter<'_, Probe> {
        self.probes.iter()
    }

    /// The probes at exactly this address.
    pub fn at(&self, address: ImageAddr) -> &[Probe] {
        let first = self.probes.partition_point(|probe| probe.address < address);
        let tail = self.probes.get(first..).unwrap_or_default();
        tail.get(..tail.partition_point(|probe| probe.address == address)).unwrap_or_default()
    }

    /// Functions and inlined copies, each after the one it is inlined into.
    pub fn copies(&self) -> &[InlinedCopy] {
        &self.copies
    }

    /// The numbers of all functions and inlined copies, in the order of [`Probes::copies`].
    pub fn copy_ids(&self) -> impl Iterator<Item = CopyId> + use<> {
        (0..self.copies.len() as u32).map(CopyId)
    }

    /// The function or inlined copy that a probe belongs to.
    pub fn copy(&self, id: CopyId) -> Option<&InlinedCopy> {
        self.copies.get(id.index())
    }

    /// The function that a probe belongs to, 0 for a probe of another image.
    pub fn guid(&self, probe: &Probe) -> Guid {
        self.copy(probe.copy).map_or(Guid(0), |copy| copy.guid)
    }

    /// The calls that were inlined around a probe, innermost first: caller, and call probe in it.
    pub fn inline_stack(&self, probe: &Probe) -> impl Iterator<Item = (Guid, u32)> + '_ {
        let mut inside = self.copy(probe.copy);
        std::iter::from_fn(move || {
            let (caller, callsite) = inside?.caller?;
            inside = self.copy(caller);
            Some((inside?.guid, callsite))
        })
    }

    /// The code whose probes are known, by address.
    pub fn code(&self) -> &[ProbedCode] {
        &self.code
    }

    /// The code that contains an address. Where several functions share code, the one that begins
    /// there, else the first one in the section.
    pub fn code_at(&self, address: ImageAddr) -> Option<&ProbedCode> {
        let after = self.code.partition_point(|code| code.range.start <= address);
        let start = self.code.get(after.checked_sub(1)?)?.range.start;
        let first = self.code.partition_point(|code| code.range.start < start);
        self.code.get(first).filter(|code| address < code.range.end)
    }

    /// Name and checksum of every function that was compiled with probes, also of those that were
    /// inlined everywhere, by hash.
    pub fn descriptors(&self) -> &[Descriptor] {
        &self.descriptors
    }

    /// Name and checksum of a function.
    pub fn descriptor(&self, guid: Guid) -> Option<&Descriptor> {
        let found = self.descriptors.binary_search_by_key(&guid, |descriptor| descriptor.guid);
        self.descriptors.get(found.ok()?)
    }

    /// Functions of the section that no symbol says the place of, so that their probes are unknown:
    /// the symbol was stripped, or several local functions share the name.
    pub fn unplaced_functions(&self) -> u64 {
        self.unplaced_functions
    }

    /// Probes of these functions.
    pub fn unplaced_probes(&self) -> u64 {
        self.unplaced_probes
    }

    /// Descriptors that give another checksum or name for a function than an earlier one; the first
    /// one is kept.
    pub fn conflicting_descriptors(&self) -> u64 {
        self.conflicting_descriptors
    }
}
