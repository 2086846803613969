//! The probes of freshly compiled programs are those that llvm-profgen prints of them, and damaged
//! sections end in errors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use image::probes::{Attributes, Guid, Probe, ProbeKind, Probes};
use image::{Image, ImageAddr};

use crate::peers::{self, output_of};

/// Compiles a program with probes; `None`, with a note, when clang is not installed.
fn compile(directory: &Path, sources: &[&str], flags: &[&str]) -> Option<PathBuf> {
    let output = directory.join("program");
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs");
    let sources: Vec<String> =
        sources.iter().map(|source| format!("{programs}/{source}")).collect();
    let mut arguments =
        vec!["-O2", "-gmlt", "-fpseudo-probe-for-profiling", "-o", output.to_str()?];
    arguments.extend(sources.iter().map(String::as_str));
    arguments.extend(flags);
    output_of("clang++-22", &arguments).map(|_| output)
}

/// A small program without libraries, with calls of all kinds and inlined ones.
fn small(directory: &Path, flags: &[&str]) -> Option<PathBuf> {
    let mut arguments =
        vec!["-nostdlib", "-static", "-fuse-ld=lld", "-fpseudo-probe-for-profiling"];
    arguments.extend(flags);
    peers::compile(directory, "small", peers::PROGRAM, &arguments)
}

/// What llvm-profgen prints: descriptors, and probes by address.
struct Printed {
    descriptors: BTreeMap<String, (u64, u64)>,
    probes: BTreeSet<(u64, String)>,
}

fn printed(program: &Path) -> Option<Printed> {
    let directory = program.parent()?;
    let (raw, unused) = (directory.join("raw"), directory.join("unused"));
    std::fs::write(&raw, "1\n0-1:1\n0\n").unwrap();
    let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
    let arguments = [
        "--show-pseudo-probe".to_owned(),
        "--show-disassembly-only".to_owned(),
        option("binary", program),
        option("unsymbolized-profile", &raw),
        option("output", &unused),
    ];
    let text = output_of("llvm-profgen-22", &arguments.each_ref().map(String::as_str))?;
    let mut found = Printed { descriptors: BTreeMap::new(), probes: BTreeSet::new() };
    let (mut guid, mut name, mut waiting) = (0, "", Vec::new());
    for line in text.lines() {
        if let Some((number, rest)) =
            line.strip_prefix("GUID: ").and_then(|rest| rest.split_once(" Name: "))
        {
            (guid, name) = (number.parse().unwrap(), rest);
        } else if let Some(hash) = line.strip_prefix("Hash: ") {
            found.descriptors.insert(name.to_owned(), (guid, hash.parse().unwrap()));
        } else if let Some(probe) = line.strip_prefix(" [Probe]:\t") {
            waiting.push(probe.trim_end().to_owned());
        } else if let Some((address, _)) = line.split_once(":\t") {
            let address = u64::from_str_radix(address.trim(), 16).unwrap();
            found.probes.extend(waiting.drain(..).map(|probe| (address, probe)));
        }
    }
    Some(found)
}

/// A probe in llvm-profgen's words.
fn in_words(probes: &Probes, probe: &Probe) -> String {
    let name = |guid: Guid| probes.descriptor(guid).unwrap().name.as_str();
    let kind = match probe.kind {
        ProbeKind::Block => "Block",
        ProbeKind::IndirectCall => "IndirectCall",
        ProbeKind::DirectCall => "DirectCall",
    };
    let mut text = format!("FUNC: {} Index: {}  ", name(probes.guid(probe)), probe.index);
    if probe.attributes.has(Attributes::DISCRIMINATOR) {
        write!(text, "Discriminator: {}  ", probe.discriminator).unwrap();
    }
    write!(text, "Type: {kind}").unwrap();
    let mut calls: Vec<String> =
        probes.inline_stack(probe).map(|(caller, at)| format!("{}:{at}", name(caller))).collect();
    calls.reverse();
    if !calls.is_empty() {
        write!(text, "  Inlined: @ {}", calls.join(" @ ")).unwrap();
    }
    text
}

/// Compares what is read of a program with what llvm-profgen prints; returns the number of probes.
fn agree(program: &Path) -> Option<usize> {
    let theirs = printed(program)?;
    let probes = Probes::read(&Image::open(program).unwrap()).unwrap();
    let descriptors = probes
        .descriptors()
        .iter()
        .map(|descriptor| (descriptor.name.clone(), (descriptor.guid.0, descriptor.checksum)));
    assert_eq!(descriptors.collect::<BTreeMap<_, _>>(), theirs.descriptors);
    for descriptor in probes.descriptors() {
        assert_eq!(descriptor.guid, Guid::of(&descriptor.name), "{}", descriptor.name);
    }
    let ours: BTreeSet<(u64, String)> =
        probes.iter().map(|probe| (probe.address.0, in_words(&probes, probe))).collect();
    let only = |a: &BTreeSet<(u64, String)>, b: &BTreeSet<(u64, String)>| {
        a.difference(b).take(5).cloned().collect::<Vec<_>>()
    };
    assert!(
        ours == theirs.probes,
        "{} ours, {} theirs; only ours {:#?}; only theirs {:#?}",
        ours.len(),
        theirs.probes.len(),
        only(&ours, &theirs.probes),
        only(&theirs.probes, &ours)
    );
    assert_eq!(probes.unplaced_functions(), 0);
    assert_eq!(probes.conflicting_descriptors(), 0);
    Some(ours.len())
}

#[test]
fn probes_of_a_cxx_program_of_two_files_are_those_that_llvm_profgen_prints() {
    for flags in [
        &["-fuse-ld=lld"][..],
        &["-fuse-ld=lld", "-ffunction-sections", "-Wl,--gc-sections"],
        &["-fuse-ld=bfd"],
        &["-fuse-ld=lld", "-O3", "-funroll-loops", "-fno-pie", "-no-pie"],
        &["-fuse-ld=lld", "-flto=thin"],
        &["-fuse-ld=lld", "-fsplit-machine-functions", "-mllvm", "-mfs-psi-cutoff=0"],
    ] {
        let directory = tempfile::tempdir().unwrap();
        let Some(program) = compile(directory.path(), &["shapes.cc", "other.cc"], flags) else {
            return;
        };
        let Some(number) = agree(&program) else { return };
        assert!(number > 1000, "{flags:?}: {number}");
    }
}

#[test]
fn probes_of_a_program_without_libraries_are_those_that_llvm_profgen_prints() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = small(directory.path(), &[]) else { return };
    let Some(number) = agree(&program) else { return };
    assert!(number > 20, "{number}");
}

#[test]
fn a_function_keeps_its_place_where_another_was_inlined_into_it_without_a_call_probe() {
    // `inner` has a record of its own that is relative to the symbol of `outer`, and comes first.
    let (inner, outer) = (Guid::of("inner"), Guid::of("outer"));
    let mut code = format!(
        ".text\n.globl outer\n.type outer,@function\nouter:\n.pseudoprobe {inner} 1 0 0 outer\nnop\n\
         .pseudoprobe {outer} 1 0 0 outer\nnop\nret\n.size outer, .-outer\n"
    );
    for (guid, name) in [(inner, "inner"), (outer, "outer")] {
        write!(
            code,
            ".section .pseudo_probe_desc,\"\",@progbits\n.quad {guid}\n.quad 7\n.byte 5\n\
             .ascii \"{name}\"\n"
        )
        .unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("two.s"), directory.path().join("two"));
    std::fs::write(&source, code).unwrap();
    let (source, output) = (source.to_str().unwrap(), program.to_str().unwrap());
    let arguments = ["-nostdlib", "-static", "-fuse-ld=lld", "-Wl,-e,outer", source, "-o", output];
    if output_of("clang-22", &arguments).is_none() || agree(&program) != Some(2) {
        return;
    }
    let image = Image::open(&program).unwrap();
    let function = image.functions().iter().find(|function| function.name == "outer").unwrap();
    let probes = Probes::read(&image).unwrap();
    let code = probes.code_at(function.address).unwrap();
    assert!(code.is_entry && code.guid == outer, "{code:?}");
}

#[test]
fn another_processor_has_the_same_section() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = small(directory.path(), &["--target=aarch64-linux-gnu"]) else { return };
    let image = Image::open(&program).unwrap();
    let probes = Probes::read(&image).unwrap();
    let text = image.section_by_name(".text").unwrap();
    assert!(probes.iter().count() > 20);
    for probe in probes.iter() {
        assert!(probe.address.0 % 4 == 0 && probe.address >= text.address, "{probe:?}");
    }
    let entries =
        probes.iter().filter(|probe| probe.index == 1 && probes.inline_stack(probe).count() == 0);
    let names: BTreeSet<&str> =
        entries.map(|probe| probes.descriptor(probes.guid(probe)).unwrap().name.as_str()).collect();
    assert!(names.contains("choose") && names.contains("_start"), "{names:?}");
}

#[test]
fn an_object_file_has_probes_at_the_places_of_its_code() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["-c", "-fpseudo-probe-for-profiling", "-ffunction-sections"];
    let Some(object) = peers::compile(directory.path(), "small.o", peers::PROGRAM, &arguments)
    else {
        return;
    };
    let image = Image::open(&object).unwrap();
    let probes = Probes::read(&image).unwrap();
    assert_eq!(probes.unplaced_functions(), 0);
    for name in ["choose", "cold", "indirect"] {
        let function = image.functions().iter().find(|function| function.name == name).unwrap();
        let code = probes.code_at(function.address).unwrap();
        assert!(code.is_entry && code.range == (function.address..function.end()), "{code:?}");
        assert_eq!(code.guid, Guid::of(name));
        assert!(probes.iter().any(|probe| code.range.contains(&probe.address)));
    }
}

#[test]
fn a_program_without_probes_has_none() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["-nostdlib", "-static", "-fuse-ld=lld"];
    let Some(path) = peers::compile(directory.path(), "plain", peers::PROGRAM, &arguments) else {
        return;
    };
    let image = Image::open(&path).unwrap();
    assert!(!Probes::exist_in(&image) && Probes::read(&image).unwrap().is_empty());
}

#[test]
fn without_symbols_the_probes_are_counted_as_unplaced() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = small(directory.path(), &["-Wl,--strip-all"]) else { return };
    let image = Image::open(&program).unwrap();
    let probes = Probes::read(&image).unwrap();
    assert_eq!(probes.iter().count(), 0);
    assert!(probes.unplaced_functions() >= 6 && probes.unplaced_probes() > 20);
}

/// A file without symbols or code that holds nothing but a probe section.
fn with_section(template: &Image, name: &str, bytes: &[u8]) -> Result<Probes, image::Error> {
    let section = template.section_by_name(name).unwrap();
    let mut file = template.bytes().to_vec();
    // The new bytes go to the end of the file, and the header of the section is pointed to them.
    let header_table = u64::from_le_bytes(file[0x28..0x30].try_into().unwrap()) as usize;
    let header = header_table + section.index as usize * 64;
    let offset = file.len() as u64;
    file[header + 24..header + 32].copy_from_slice(&offset.to_le_bytes());
    file[header + 32..header + 40].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    file.extend_from_slice(bytes);
    Probes::read(&Image::from_bytes("changed", file).unwrap())
}

#[test]
fn every_truncation_and_every_changed_byte_ends_in_probes_or_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = small(directory.path(), &[]) else { return };
    let image = Image::open(&program).unwrap();
    let whole = Probes::read(&image).unwrap();
    for name in [".pseudo_probe", ".pseudo_probe_desc"] {
        let original = image.section(name).unwrap().to_vec();
        assert!(with_section(&image, name, &original).unwrap() == whole);
        let (mut refused, mut other) = (0, 0);
        for length in 0..original.len() {
            match with_section(&image, name, &original[..length]) {
                Ok(probes) => {
                    assert!(probes.iter().count() < whole.iter().count() || probes != whole)
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains(name) && text.contains("section offset 0x"), "{text}");
                    refused += 1;
                }
            }
        }
        assert!(
            refused * 2 > original.len(),
            "{refused} of {} truncations refused",
            original.len()
        );
        for offset in 0..original.len() {
            for mask in [0x01, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff] {
                let mut bytes = original.clone();
                bytes[offset] ^= mask;
                if let Ok(probes) = with_section(&image, name, &bytes) {
                    for probe in probes.iter() {
                        assert!(probes.inline_stack(probe).count() < image::probes::MAX_DEPTH);
                        assert!(probes.at(probe.address).contains(probe));
                    }
                    other += usize::from(probes != whole);
                }
            }
        }
        assert!(other > 0, "{name}: some changes must give other probes");
    }
}

#[test]
fn calls_inlined_without_end_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = small(directory.path(), &[]) else { return };
    let image = Image::open(&program).unwrap();
    // No probes, one copy inlined at probe 2, which has no probes and one copy, and so on.
    let mut bytes = Guid::of("choose").0.to_le_bytes().to_vec();
    for _ in 0..1000 {
        bytes.extend([0, 1, 2]);
        bytes.extend([7; 8]);
    }
    let error = with_section(&image, ".pseudo_probe", &bytes).unwrap_err().to_string();
    assert!(error.contains("more than 256 deep"), "{error}");
}

#[test]
fn the_older_form_with_stated_addresses_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = small(directory.path(), &[]) else { return };
    let image = Image::open(&program).unwrap();
    let choose = image.functions().iter().find(|function| function.name == "choose").unwrap();
    let mut bytes = Guid::of("choose").0.to_le_bytes().to_vec();
    // Two probes, no copies; the first states its address, the second is 5 further on and has
    // discriminator 9.
    bytes.extend([2, 0, 1, 0x00]);
    bytes.extend((choose.address.0 + 4).to_le_bytes());
    bytes.extend([2, 0x80 | 0x40 | 2, 5, 9]);
    let probes = with_section(&image, ".pseudo_probe", &bytes).unwrap();
    let found: Vec<(u64, u32, ProbeKind, u32)> = probes
        .iter()
        .map(|probe| {
            (probe.address.0 - choose.address.0, probe.index, probe.kind, probe.discriminator)
        })
        .collect();
    assert_eq!(found, [(4, 1, ProbeKind::Block, 0), (9, 2, ProbeKind::DirectCall, 9)]);
    assert_eq!(probes.code_at(ImageAddr(choose.address.0 + 1)).unwrap().guid, Guid::of("choose"));
}
