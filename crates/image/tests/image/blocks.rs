//! The basic block address map, compared with llvm-readobj, and with hand-read bytes for versions
//! it does not know.

use std::fmt::Write as _;
use std::path::Path;

use image::blocks::{self, FunctionBlocks};
use image::{Image, ImageAddr};

use crate::peers::{self, PROGRAM};

/// Renders blocks as `llvm-readobj --bb-addr-map` does, without indentation and names.
fn render(functions: &[FunctionBlocks]) -> String {
    let mut text = String::new();
    let yes = |value: bool| if value { "Yes" } else { "No" };
    for function in functions {
        writeln!(text, "At: {:#X}", function.address().0).unwrap();
        for range in &function.ranges {
            writeln!(text, "Base Address: {:#X}", range.address.0).unwrap();
            for block in &range.blocks {
                writeln!(
                    text,
                    "ID: {}\nOffset: {:#X}",
                    block.id.0,
                    block.address.0 - range.address.0
                )
                .unwrap();
                if !block.call_ends().is_empty() {
                    writeln!(text, "Callsite End Offsets: {:?}", block.call_ends()).unwrap();
                }
                if let Some(hash) = block.hash() {
                    writeln!(text, "Hash: {hash:#X}").unwrap();
                }
                let flags = block.flags;
                writeln!(text, "Size: {:#X}\nHasReturn: {}", block.size, yes(flags.has_return()))
                    .unwrap();
                writeln!(text, "HasTailCall: {}", yes(flags.has_tail_call())).unwrap();
                writeln!(text, "IsEHPad: {}", yes(flags.is_landing_pad())).unwrap();
                writeln!(text, "CanFallThrough: {}", yes(flags.can_fall_through())).unwrap();
                writeln!(text, "HasIndirectBranch: {}", yes(flags.has_indirect_branch())).unwrap();
            }
        }
        if let Some(count) = function.entry_count {
            writeln!(text, "FuncEntryCount: {count}").unwrap();
        }
        for profile in &function.profile {
            if let Some(frequency) = profile.frequency {
                writeln!(text, "Frequency: {frequency}").unwrap();
            }
            if let Some(observed) = profile.observed {
                writeln!(text, "PostLink Frequency: {observed}").unwrap();
            }
            for successor in &profile.successors {
                writeln!(text, "ID: {}\nProbability: {:#X}", successor.id.0, successor.probability)
                    .unwrap();
                if let Some(observed) = successor.observed {
                    writeln!(text, "PostLink Probability: {observed}").unwrap();
                }
            }
        }
    }
    text.to_uppercase()
}

/// The same lines of what llvm-readobj prints.
fn listed(path: &Path) -> Option<String> {
    let text = peers::output_of("llvm-readobj-22", &["--bb-addr-map", path.to_str().unwrap()])?;
    let (_, map) = text.split_once("BBAddrMap [")?;
    let wanted = |line: &&str| line.contains(": ") && !line.starts_with("Name: ");
    let mut lines = String::new();
    for line in map.lines().map(str::trim).filter(wanted) {
        // The probability is printed as "0x… / 0x80000000 = …%".
        writeln!(lines, "{}", line.split(" / ").next().unwrap()).unwrap();
    }
    Some(lines.to_uppercase())
}

#[track_caller]
fn check(path: &Path) -> Vec<FunctionBlocks> {
    let image = Image::open(path).unwrap();
    let functions = blocks::read(&image).unwrap();
    if let Some(listed) = listed(path) {
        let rendered = render(&functions);
        for (index, (own, theirs)) in rendered.lines().zip(listed.lines()).enumerate() {
            assert_eq!(own, theirs, "line {index}: ours, then llvm-readobj's");
        }
        assert_eq!(rendered.lines().count(), listed.lines().count());
    }
    functions
}

#[test]
fn programs_with_address_maps_read_as_llvm_readobj_shows() {
    let directory = tempfile::tempdir().unwrap();
    let variants: [(&str, &[&str]); 5] = [
        ("plain", &[]),
        ("sections", &["-fbasic-block-sections=all"]),
        ("profile", &["-mllvm", "-pgo-analysis-map=all"]),
        ("omitted", &["-mllvm", "-basic-block-address-map-skip-bb-entries"]),
        ("split", &["-ffunction-sections"]),
    ];
    for (name, arguments) in variants {
        let base = [
            "-fbasic-block-address-map",
            "-nostdlib",
            "-static",
            "-fuse-ld=lld",
            "-Wl,--emit-relocs",
        ];
        let Some(path) =
            peers::compile(directory.path(), name, PROGRAM, &[&base, arguments].concat())
        else {
            return;
        };
        let functions = check(&path);
        let image = Image::open(&path).unwrap();
        for name in ["choose", "cold", "indirect"] {
            let address = image.kernel_symbol(name).unwrap();
            let function = functions.iter().find(|function| function.address() == address);
            assert!(function.is_some_and(|function| function.version == 5), "{name}");
        }
        for block in functions.iter().flat_map(FunctionBlocks::blocks) {
            assert!(image.is_executable_address(block.address), "{block:?}");
        }
    }
}

#[test]
fn blocks_end_where_their_instructions_say() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["-fbasic-block-address-map", "-nostdlib", "-static", "-fuse-ld=lld"];
    let Some(path) = peers::compile(directory.path(), "blocks", PROGRAM, &arguments) else {
        return;
    };
    let image = Image::open(&path).unwrap();
    for block in blocks::read(&image)
        .unwrap()
        .iter()
        .flat_map(FunctionBlocks::blocks)
        .filter(|block| block.size > 0)
    {
        let inside = |instruction: &image::code::Instruction| instruction.address < block.end();
        let last =
            image::code::instructions(&image, block.address).take_while(inside).last().unwrap();
        assert_eq!(ImageAddr(last.address.0 + u64::from(last.len)), block.end());
        assert_eq!(
            last.kind == image::code::InstructionKind::IndirectBranch,
            block.flags.has_indirect_branch()
        );
        assert!(!block.flags.can_fall_through() || !last.kind.ends_straight_line());
    }
}

const SYNTHETIC: &str = "
--- !ELF
FileHeader: {Class: ELFCLASS64, Data: DATA, Type: ET_EXEC, Machine: EM_X86_64}
Sections:
  - {Name: .text, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_EXECINSTR], Address: 0x11111, Size: 0x200}
  - Name: .llvm_bb_addr_map
    Type: SHT_LLVM_BB_ADDR_MAP
    Link: .text
    Entries:
      - Version: VERSION
        Feature: FEATURE
        BBRanges:
          - BaseAddress: 0x11111
            BBEntries:
              - {ID: 12, AddressOffset: 0x1, Size: 0x9, Metadata: 0x1bCALLS HASH}
              - {ID: 15, AddressOffset: 0x2, Size: 0x300000, Metadata: 0x8 HASH}
RANGE
    PGOAnalyses:
      - FuncEntryCount: 1000
        PGOBBEntries:
          - {BBFreq: 1000 POSTBB, Successors: [{ID: 15, BrProb: 0x22222222 POSTBR}, {ID: 16, BrProb: 0x5555 POSTBR}]}
          - {BBFreq: 77 POSTBB, Successors: []}
PROFILE
";

fn synthetic(
    directory: &Path,
    version: u8,
    feature: u16,
    data: &str,
) -> Option<std::path::PathBuf> {
    let range = "          - {BaseAddress: 0x11211, BBEntries: [{ID: 16, AddressOffset: 0, Size: 0x10, Metadata: 0x4 HASH}]}";
    let has = |bit: u16, text: &'static str| if feature & bit != 0 { text } else { "" };
    let yaml = SYNTHETIC
        .replace("RANGE", if feature & 8 != 0 { range } else { "" })
        .replace(
            "PROFILE",
            if feature & 8 != 0 { "          - {BBFreq: 88 POSTBB, Successors: []}" } else { "" },
        )
        .replace("DATA,", &format!("{data},"))
        .replace("VERSION", &version.to_string())
        .replace("FEATURE", &feature.to_string())
        .replace("CALLS", has(0x20, ", CallsiteEndOffsets: [4, 2]"))
        .replace(" HASH", has(0x40, ", Hash: 0x123456789abcdef"))
        .replace(" POSTBB", has(0x80, ", PostLinkBBFreq: 50"))
        .replace(" POSTBR", has(0x80, ", PostLinkBrFreq: 11"));
    let (input, output) = (directory.join("map.yaml"), directory.join("map"));
    std::fs::write(&input, yaml).unwrap();
    peers::output_of("yaml2obj-22", &[input.to_str().unwrap(), "-o", output.to_str().unwrap()])?;
    Some(output)
}

#[test]
fn every_version_with_every_feature_reads_as_llvm_readobj_shows() {
    let directory = tempfile::tempdir().unwrap();
    for (version, feature) in
        [(2, 7), (2, 15), (3, 0x27), (3, 0x2f), (4, 0x67), (4, 0x6f), (5, 0x2f), (5, 0xef)]
    {
        for data in ["ELFDATA2LSB", "ELFDATA2MSB"] {
            let Some(path) = synthetic(directory.path(), version, feature, data) else { return };
            let functions = check(&path);
            assert_eq!((functions.len(), functions[0].features.bits()), (1, feature));
            let first = &functions[0].ranges[0].blocks[0];
            assert_eq!((first.id.0, first.address), (12, ImageAddr(0x11112)));
            let (ends, size): (&[u32], _) =
                if feature & 0x20 != 0 { (&[4, 6], 15) } else { (&[], 9) };
            assert_eq!((first.call_ends(), first.size), (ends, size));
        }
    }
}

#[test]
fn version_1_counts_offsets_from_the_block_before() {
    let image = Image::open(&peers::fixture("autofdo/propeller_sample.bin")).unwrap();
    let functions = blocks::read(&image).unwrap();
    let addresses: Vec<u64> = functions.iter().map(|function| function.address().0).collect();
    assert_eq!(addresses, [0x1770, 0x17d0, 0x1810, 0x1820]);
    let shape = |function: &FunctionBlocks| {
        let block = |block: &blocks::Block| {
            (block.id.0, block.address.0, block.size, block.flags.can_fall_through())
        };
        function.blocks().map(block).collect::<Vec<_>>()
    };
    let flag = [
        (0, 0x17d0, 0x19, true),
        (1, 0x17e9, 0x10, false),
        (2, 0x17f9, 8, true),
        (3, 0x1801, 5, false),
    ];
    assert_eq!(shape(&functions[1]), flag);
    assert_eq!(functions[3].blocks().last().unwrap().end(), ImageAddr(0x1918));
    assert!(functions.iter().all(|function| function.version == 1));
}

/// The fixture with the bytes of its address map replaced; the rest of the section becomes its end.
fn with_map(kind: u32, map: &[u8]) -> Image {
    let mut bytes = std::fs::read(peers::fixture("autofdo/propeller_sample.bin")).unwrap();
    let header = 0x1af8 + 37 * 64;
    bytes[header + 4..header + 8].copy_from_slice(&kind.to_le_bytes());
    bytes[header + 32..header + 40].copy_from_slice(&(map.len() as u64).to_le_bytes());
    bytes[0x1376..0x1376 + map.len()].copy_from_slice(map);
    Image::from_bytes("map", bytes).unwrap()
}

#[test]
fn version_0_counts_offsets_from_the_function() {
    let mut map = 0x17d0u64.to_le_bytes().to_vec();
    map.extend([2, 0, 0x19, 8, 0x31, 5, 1]);
    let functions = blocks::read(&with_map(0x6fff_4c08, &map)).unwrap();
    let [function] = functions.as_slice() else { panic!("{functions:?}") };
    let blocks: Vec<_> =
        function.blocks().map(|block| (block.id.0, block.address.0, block.size)).collect();
    assert_eq!((function.version, blocks), (0, vec![(0, 0x17d0, 0x19), (1, 0x1801, 5)]));
}

#[test]
fn what_is_not_known_is_refused_with_its_place() {
    let message = |map: &[u8]| blocks::read(&with_map(0x6fff_4c0a, map)).unwrap_err().to_string();
    assert!(message(&[6, 0]).contains("expected version 0 to 5, found 6"), "{}", message(&[6, 0]));
    assert!(message(&[5, 0, 1]).contains("0x100 are not known"));
    assert!(message(&[2, 0x20]).contains("0x20 are not known"));
    assert!(message(&[2, 0, 1, 2]).contains("in the middle of a number"));
    let mut map = vec![2, 0];
    map.extend(0x17d0u64.to_le_bytes());
    let start = map.len();
    map.extend([1, 0, 0, 5, 0x20]);
    assert!(message(&map).contains("expected block metadata of 5 bits, found 0x20"));
    map.truncate(start);
    map.extend([0xff; 9]);
    map.extend([0x7f]);
    assert!(message(&map).contains("ULEB128"));
    // A count of 2^40 blocks in a section of a few bytes costs no memory.
    map.truncate(start);
    map.extend([0x80, 0x80, 0x80, 0x80, 0x80, 0x20]);
    assert!(message(&map).contains("cut off"));
    map[0] = 2;
    map[1] = 8;
    map.truncate(2);
    map.push(0);
    assert!(message(&map).contains("at least one range"));
}
