//! Which basic blocks a function has, from the address map that clang writes for Propeller.
//!
//! Sections of type `SHT_LLVM_BB_ADDR_MAP` (clang `-fbasic-block-address-map`), of which a file may
//! hold several, and the older `SHT_LLVM_BB_ADDR_MAP_V0`. An entry describes one function; numbers
//! are ULEB128 unless a width is given:
//!
//! ```text
//! entry    = [version u8, features u8 (u16 from version 5)] [number of ranges: feature 3] range… [profile]
//! range    = address (4 or 8 bytes), number of blocks, block… (none with feature 4)
//! block    = [id: version 2] offset [call sites: feature 5] size metadata [hash u64: feature 6]
//! profile  = [entry count: feature 0] per block: [frequency: feature 1 [observed: feature 7]]
//!            [number of successors, (id, probability u32 as ULEB128, [observed: feature 7])…: feature 2]
//! ```
//!
//! Version 0 has neither version nor features, and offsets from the function start; later offsets
//! count from the end of the previous block. Before version 2 a block's number is its position.
//! With call sites (version 3), the stored size begins after the last call. Source: LLVM,
//! "Extensions", `SHT_LLVM_BB_ADDR_MAP`; `llvm/Object/ELFTypes.h`.

use crate::{Error, Image, ImageAddr, Section, leb};

/// `SHT_LLVM_BB_ADDR_MAP`.
const MAP: u32 = 0x6fff_4c0a;
/// `SHT_LLVM_BB_ADDR_MAP_V0`, written by clang before version 15.
const MAP_V0: u32 = 0x6fff_4c08;
/// The newest version that is understood (clang 22).
const NEWEST_VERSION: u8 = 5;

/// The number clang gave a basic block; the clusters of a layout name blocks by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// What else an entry holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features(u16);

impl Features {
    const ENTRY_COUNT: u16 = 1;
    const FREQUENCY: u16 = 1 << 1;
    const PROBABILITY: u16 = 1 << 2;
    const RANGES: u16 = 1 << 3;
    const OMIT_BLOCKS: u16 = 1 << 4;
    const CALL_SITES: u16 = 1 << 5;
    const HASH: u16 = 1 << 6;
    const OBSERVED: u16 = 1 << 7;
    const KNOWN: u16 = 0xff;

    /// The bits as they stand in the file.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Whether blocks carry a hash of their content.
    pub fn has_hashes(self) -> bool {
        self.has(Self::HASH)
    }

    /// Whether only the number of blocks is known, not the blocks.
    pub fn omits_blocks(self) -> bool {
        self.has(Self::OMIT_BLOCKS)
    }

    fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }
}

/// How a block ends and how it is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct BlockFlags(u8);

impl BlockFlags {
    /// Flags from the metadata bits of a map; `None` where a bit is set that is not known.
    pub const fn from_bits(bits: u8) -> Option<BlockFlags> {
        if bits > Self::KNOWN { None } else { Some(BlockFlags(bits)) }
    }

    /// The bits as they stand in a map.
    pub const fn bits(self) -> u8 {
        self.0
    }

    const KNOWN: u8 = 0x1f;

    /// The block ends with a return or a tail call.
    pub fn has_return(self) -> bool {
        self.0 & 1 != 0
    }

    /// The block ends with a tail call.
    pub fn has_tail_call(self) -> bool {
        self.0 & 2 != 0
    }

    /// The block is where an exception lands.
    pub fn is_landing_pad(self) -> bool {
        self.0 & 4 != 0
    }

    /// Control can reach the next block without a taken branch.
    pub fn can_fall_through(self) -> bool {
        self.0 & 8 != 0
    }

    /// The block ends with a branch through a register or memory.
    pub fn has_indirect_branch(self) -> bool {
        self.0 & 16 != 0
    }
}

/// One basic block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its number in its function.
    pub id: BlockId,
    /// Address of its first byte.
    pub address: ImageAddr,
    /// Its size in bytes; 0 is possible.
    pub size: u32,
    /// How it ends and is entered.
    pub flags: BlockFlags,
    /// Large programs have tens of millions of blocks, and few files carry these.
    details: Option<Box<Details>>,
}

/// What only some features give a block.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Details {
    call_ends: Vec<u32>,
    hash: Option<u64>,
}

impl Block {
    /// The first address after the block.
    pub fn end(&self) -> ImageAddr {
        ImageAddr(self.address.0.saturating_add(u64::from(self.size)))
    }

    /// Where its calls end, in bytes from its begin; empty without that feature.
    pub fn call_ends(&self) -> &[u32] {
        self.details.as_ref().map_or(&[], |details| &details.call_ends)
    }

    /// Hash of its content, to recognise it in another build.
    pub fn hash(&self) -> Option<u64> {
        self.details.as_ref()?.hash
    }
}

/// Blocks that follow each other: a function, or one of its basic block sections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockRange {
    /// Address of the range.
    pub address: ImageAddr,
    /// Its blocks in address order.
    pub blocks: Vec<Block>,
    /// How many blocks the compiler counted but did not list.
    pub omitted_blocks: u64,
}

/// What the compiler thought of a block when it made the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockProfile {
    /// Block frequency, relative to the function's entry.
    pub frequency: Option<u64>,
    /// Count seen by an earlier layout tool.
    pub observed: Option<u64>,
    /// Successors in file order.
    pub successors: Vec<Successor>,
}

/// An edge to another block of the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Successor {
    /// The block it leads to.
    pub id: BlockId,
    /// Probability as a fraction of 2^31.
    pub probability: u32,
    /// Count seen by an earlier layout tool.
    pub observed: Option<u64>,
}

/// The blocks of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionBlocks {
    /// Version of the entry, 0 to 5.
    pub version: u8,
    /// What else the entry holds.
    pub features: Features,
    /// Its ranges; the first one holds the entry block. Never empty.
    pub ranges: Vec<BlockRange>,
    /// How often the function was entered, as the compiler knew it.
    pub entry_count: Option<u64>,
    /// One per block, over all ranges; empty without that feature.
    pub profile: Vec<BlockProfile>,
}

impl FunctionBlocks {
    /// Address of the function.
    pub fn address(&self) -> ImageAddr {
        self.ranges.first().map_or(ImageAddr(0), |range| range.address)
    }

    /// All blocks, range by range.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.ranges.iter().flat_map(|range| &range.blocks)
    }
}

/// Whether the image has address maps, whatever they hold.
pub fn are_there(image: &Image) -> bool {
    image.sections().iter().any(is_map)
}

fn is_map(section: &Section) -> bool {
    section.kind == MAP || section.kind == MAP_V0
}

/// Reads the address maps of an image, sorted by function address. Empty when the image was built
/// without them.
///
/// # Errors
/// When an entry is cut off, or has a version, feature or metadata bit that is not known.
pub fn read(image: &Image) -> Result<Vec<FunctionBlocks>, Error> {
    let maps: Vec<&Section> = image.sections().iter().filter(|section| is_map(section)).collect();
    let claimed = maps.iter().fold(0u64, |sum, section| sum.saturating_add(section.size));
    if let (Some(first), true) = (maps.first(), claimed > image.bytes().len() as u64) {
        // Thousands of headers that all state the same bytes would take hours to read.
        let reason = format!(
            "{} sections claim {claimed} bytes of a smaller file; they overlap, it is corrupt",
            maps.len()
        );
        return Err(image.section_error(first, reason));
    }
    let mut functions = Vec::new();
    for section in maps {
        let Some(bytes) = image.section_bytes(section)? else { continue };
        let mut reader = Reader { image, bytes: &bytes, offset: 0 };
        while reader.offset < bytes.len() {
            let start = reader.offset as u64;
            let entry = reader.entry(section);
            functions.push(entry.map_err(|reason| Error::Blocks {
                path: image.path().to_owned(),
                section: image.section_name(section).to_owned(),
                offset: start,
                reason,
            })?);
        }
    }
    functions.sort_by_key(FunctionBlocks::address);
    Ok(functions)
}

/// A position in one address map section.
struct Reader<'b> {
    image: &'b Image,
    bytes: &'b [u8],
    offset: usize,
}

impl Reader<'_> {
    fn entry(&mut self, section: &Section) -> Result<FunctionBlocks, String> {
        let (version, features) =
            if section.kind == MAP_V0 { (0, Features(0)) } else { self.version()? };
        let ranges = if features.has(Features::RANGES) { self.uleb()? } else { 1 };
        if ranges == 0 {
            return Err(
                "expected at least one range of blocks, found 0; the section is corrupt".to_owned()
            );
        }
        let mut function = FunctionBlocks {
            version,
            features,
            ranges: Vec::new(),
            entry_count: None,
            profile: Vec::new(),
        };
        for _ in 0..ranges {
            function.ranges.push(self.range(version, features)?);
        }
        if features.has(Features::ENTRY_COUNT) {
            function.entry_count = Some(self.uleb()?);
        }
        if features.has(Features::FREQUENCY) || features.has(Features::PROBABILITY) {
            let count =
                |range: &BlockRange| range.omitted_blocks.saturating_add(range.blocks.len() as u64);
            let blocks = function.ranges.iter().map(count).fold(0, u64::saturating_add);
            for _ in 0..blocks {
                function.profile.push(self.profile(features)?);
            }
        }
        Ok(function)
    }

    fn version(&mut self) -> Result<(u8, Features), String> {
        let version = self.number(1)? as u8;
        if version > NEWEST_VERSION {
            return Err(format!(
                "expected version 0 to {NEWEST_VERSION}, found {version}; a newer planish may \
                 know it"
            ));
        }
        let features = self.number(if version >= 5 { 2 } else { 1 })? as u16;
        let known = match version {
            // Call sites came with version 3, hashes with 4, observed counts with 5.
            0..=2 => Features::KNOWN >> 3,
            3 => Features::KNOWN >> 2,
            4 => Features::KNOWN >> 1,
            _ => Features::KNOWN,
        };
        if features & !known != 0 {
            return Err(format!(
                "version {version} with feature bits {features:#x}, of which {:#x} are not known; \
                 a newer planish may know them",
                features & !known
            ));
        }
        Ok((version, Features(features)))
    }

    fn range(&mut self, version: u8, features: Features) -> Result<BlockRange, String> {
        let address = ImageAddr(self.number(if self.image.is_64() { 8 } else { 4 })?);
        let count = self.uleb()?;
        let mut range = BlockRange { address, blocks: Vec::new(), omitted_blocks: 0 };
        if features.omits_blocks() {
            range.omitted_blocks = count;
            return Ok(range);
        }
        // A block takes three bytes at least, so a huge count cannot ask for a huge allocation.
        range.blocks.reserve(count.min((self.bytes.len() / 3) as u64).min(1 << 16) as usize);
        let mut previous_end = 0;
        for index in 0..count {
            let (block, end) = self.block(version, features, address, index, previous_end)?;
            previous_end = end;
            range.blocks.push(block);
        }
        Ok(range)
    }

    /// Reads a block; returns it with the offset of its end from the range's begin.
    fn block(
        &mut self,
        version: u8,
        features: Features,
        base: ImageAddr,
        index: u64,
        previous_end: u64,
    ) -> Result<(Block, u64), String> {
        let too_far = || {
            "a block reaches past the end of the address space; the section is corrupt".to_owned()
        };
        let id = if version >= 2 { self.uleb()? } else { index };
        let id = u32::try_from(id)
            .map_err(|_| format!("expected a block number below 2^32, found {id}"))?;
        let mut start = self.uleb()?;
        if version >= 1 {
            start = start.checked_add(previous_end).ok_or_else(too_far)?;
        }
        let mut call_ends = Vec::new();
        let mut last_call_end = 0u32;
        if features.has(Features::CALL_SITES) {
            for _ in 0..self.uleb()? {
                let distance = u32::try_from(self.uleb()?).map_err(|_| too_far())?;
                last_call_end = last_call_end.checked_add(distance).ok_or_else(too_far)?;
                call_ends.push(last_call_end);
            }
        }
        let size = self
            .uleb()?
            .checked_add(u64::from(last_call_end))
            .and_then(|size| u32::try_from(size).ok());
        let size = size.ok_or_else(too_far)?;
        let metadata = self.uleb()?;
        let flags =
            u8::try_from(metadata).ok().and_then(BlockFlags::from_bits).ok_or_else(|| {
                format!(
                    "expected block metadata of 5 bits, found {metadata:#x}; a newer planish may \
                     know it"
                )
            })?;
        let hash = if features.has_hashes() { Some(self.number(8)?) } else { None };
        let end = start.checked_add(u64::from(size)).ok_or_else(too_far)?;
        let address = base
            .checked_add(start)
            .filter(|_| base.checked_add(end).is_some())
            .ok_or_else(too_far)?;
        let details = (hash.is_some() || !call_ends.is_empty())
            .then(|| Box::new(Details { call_ends, hash }));
        Ok((Block { id: BlockId(id), address, size, flags, details }, end))
    }

    fn profile(&mut self, features: Features) -> Result<BlockProfile, String> {
        let observed = features.has(Features::OBSERVED);
        let mut profile = BlockProfile::default();
        if features.has(Features::FREQUENCY) {
            profile.frequency = Some(self.uleb()?);
            if observed {
                profile.observed = Some(self.uleb()?);
            }
        }
        if features.has(Features::PROBABILITY) {
            for _ in 0..self.uleb()? {
                let (id, probability) = (self.uleb()?, self.uleb()?);
                let observed = if observed { Some(self.uleb()?) } else { None };
                let (Ok(id), Ok(probability)) = (u32::try_from(id), u32::try_from(probability))
                else {
                    return Err(format!(
                        "expected a successor below 2^32, found {id} with probability \
                         {probability}"
                    ));
                };
                profile.successors.push(Successor { id: BlockId(id), probability, observed });
            }
        }
        Ok(profile)
    }

    fn number(&mut self, bytes: usize) -> Result<u64, String> {
        let value =
            self.image.number(self.bytes, self.offset, bytes).ok_or_else(|| self.cut_off())?;
        self.offset += bytes;
        Ok(value)
    }

    fn uleb(&mut self) -> Result<u64, String> {
        leb::unsigned(self.bytes, &mut self.offset).map_err(|wrong| match wrong {
            leb::Wrong::CutOff => self.cut_off(),
            leb::Wrong::TooLong => {
                format!(
                    "expected a ULEB128 number of 64 bits before section offset {:#x}",
                    self.offset
                )
            }
        })
    }

    fn cut_off(&self) -> String {
        format!(
            "it ends at section offset {:#x} in the middle of a number; the section is cut off",
            self.bytes.len()
        )
    }
}
