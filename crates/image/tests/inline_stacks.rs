//! Every instruction of real programs has the inline stack that llvm-symbolizer prints.

#![allow(clippy::unwrap_used)]

mod symbolizer;

use std::path::{Path, PathBuf};
use symbolizer::{compare, has, programs, run};

/// Compiles the two-unit program; returns its path.
fn shapes(directory: &Path, compiler: &str, flags: &[&str]) -> PathBuf {
    let (shapes, other) = (programs().join("shapes.cc"), programs().join("other.cc"));
    let sources = [shapes.to_str().unwrap(), other.to_str().unwrap(), "-o", "shapes"];
    run(directory, compiler, &[&sources[..], flags].concat());
    directory.join("shapes")
}

/// Compiles with each list of flags and compares.
fn shapes_agree(compiler: &str, variants: &[&[&str]]) {
    if !has(compiler) || !has("llvm-symbolizer-22") {
        return;
    }
    for flags in variants {
        let directory = tempfile::tempdir().unwrap();
        let (stacks, deepest) = compare(&shapes(directory.path(), compiler, flags), &[]);
        assert!(stacks > 500 && deepest > 2, "{flags:?}: {stacks} stacks, deepest {deepest}");
    }
}

#[test]
fn the_recorded_gcc_program_with_dwarf_2_agrees() {
    if has("llvm-symbolizer-22") {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/autofdo/test.binary");
        let (stacks, deepest) = compare(Path::new(path), &[]);
        assert!(stacks > 5000 && deepest > 1, "{stacks} stacks, deepest {deepest}");
    }
}

#[test]
fn clang_programs_with_dwarf_4_and_5_agree() {
    let plain: &[&str] = &["-O2", "-g", "-gdwarf-5", "-fdebug-info-for-profiling"];
    let older: &[&str] =
        &["-O2", "-g", "-gdwarf-4", "-fdebug-info-for-profiling", "-ffunction-sections"];
    let lines: &[&str] = &["-O3", "-gmlt", "-fdebug-info-for-profiling", "-gdwarf-aranges"];
    shapes_agree("clang++-22", &[plain, older, lines]);
}

#[test]
fn clang_programs_linked_by_lld_with_dropped_and_folded_functions_agree() {
    let flags: &[&str] =
        &["-O2", "-g", "-fuse-ld=lld", "-ffunction-sections", "-Wl,--gc-sections,--icf=all"];
    if has("ld.lld-22") {
        shapes_agree("clang++-22", &[flags]);
    }
}

#[test]
fn compressed_debug_sections_agree() {
    shapes_agree("clang++-22", &[&["-O2", "-g", "-gz=zlib"]]);
}

#[test]
fn references_across_units_under_link_time_optimisation_agree() {
    let flags: &[&str] = &["-O2", "-g", "-flto", "-fuse-ld=lld", "-fdebug-info-for-profiling"];
    if has("ld.lld-22") {
        shapes_agree("clang++-22", &[flags]);
    }
}

#[test]
fn gcc_programs_agree() {
    shapes_agree(
        "g++",
        &[&["-O2", "-g", "-gdwarf-5"], &["-O2", "-g", "-gdwarf-4"], &["-O3", "-g1", "-flto"]],
    );
}

#[test]
fn type_units_are_passed_over() {
    shapes_agree("g++", &[&["-O2", "-g", "-fdebug-types-section"]]);
    shapes_agree("clang++-22", &[&["-O2", "-g", "-gdwarf-4", "-fdebug-types-section"]]);
}

#[test]
fn split_units_in_dwo_files_agree() {
    let newer: &[&str] = &["-O2", "-g", "-gdwarf-5", "-gsplit-dwarf", "-ffunction-sections"];
    let older: &[&str] = &["-O2", "-g", "-gdwarf-4", "-gsplit-dwarf", "-ffunction-sections"];
    let skeletons: &[&str] = &["-O2", "-g", "-gdwarf-5", "-gsplit-dwarf", "-fsplit-dwarf-inlining"];
    shapes_agree("clang++-22", &[newer, older, skeletons]);
}

#[test]
fn split_units_in_a_package_agree() {
    let tools = ["clang++-22", "llvm-dwp-22", "llvm-symbolizer-22"];
    if !tools.iter().all(|tool| has(tool)) {
        return;
    }
    for version in ["-gdwarf-5", "-gdwarf-4"] {
        let directory = tempfile::tempdir().unwrap();
        let program =
            shapes(directory.path(), "clang++-22", &["-O2", "-g", version, "-gsplit-dwarf"]);
        run(directory.path(), "llvm-dwp-22", &["-e", "shapes", "-o", "shapes.dwp"]);
        for entry in std::fs::read_dir(directory.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "dwo") {
                std::fs::remove_file(path).unwrap();
            }
        }
        let (stacks, deepest) = compare(&program, &[]);
        assert!(stacks > 500 && deepest > 2, "{stacks} stacks, deepest {deepest}");
    }
}

#[test]
fn debug_information_shared_by_dwz_agrees() {
    if !has("g++") || !has("dwz") || !has("llvm-symbolizer-22") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = shapes(directory.path(), "g++", &["-O2", "-g", "-gdwarf-4"]);
    let before = compare(&program, &[]);
    // dwz with one file moves entries to partial units; llvm-symbolizer reads these.
    run(directory.path(), "dwz", &["shapes"]);
    assert_eq!(compare(&program, &[]), before);
}

#[test]
fn a_supplementary_file_of_dwz_changes_nothing() {
    if !has("g++") || !has("dwz") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = shapes(directory.path(), "g++", &["-O2", "-g", "-gdwarf-4", "-Wl,--build-id"]);
    let stacks = |path: &Path| {
        let image = image::Image::open(path).unwrap();
        let debug = image::debug::DebugInfo::load(&image, &image::DebugSearch::default()).unwrap();
        debug.resolve(&symbolizer::instruction_addresses(&image), 2).unwrap()
    };
    let before = stacks(&program);
    std::fs::copy(&program, directory.path().join("copy")).unwrap();
    run(directory.path(), "dwz", &["-m", "shared.dwz", "shapes", "copy"]);
    let link =
        image::Image::open(&program).unwrap().section(".gnu_debugaltlink").map(|link| link.len());
    assert!(link.is_some(), "dwz must have made a supplementary file");
    assert_eq!(stacks(&program), before);
}

#[test]
fn functions_inside_functions_agree() {
    if !has("gcc") || !has("llvm-symbolizer-22") {
        return;
    }
    for flags in [["-O2", "-gdwarf-5"], ["-O3", "-gdwarf-4"]] {
        let directory = tempfile::tempdir().unwrap();
        let source = programs().join("nested.c");
        run(
            directory.path(),
            "gcc",
            &[source.to_str().unwrap(), flags[0], "-g", flags[1], "-o", "nested"],
        );
        let (stacks, deepest) = compare(&directory.path().join("nested"), &[]);
        assert!(stacks > 50 && deepest > 1, "{stacks} stacks, deepest {deepest}");
    }
}

#[test]
fn a_separate_debug_file_is_found_by_its_link() {
    if !has("g++") || !has("objcopy") || !has("llvm-symbolizer-22") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = shapes(directory.path(), "g++", &["-O2", "-g"]);
    let before = compare(&program, &[]);
    run(directory.path(), "objcopy", &["--only-keep-debug", "shapes", "shapes.debug"]);
    run(
        directory.path(),
        "objcopy",
        &["--strip-debug", "--add-gnu-debuglink=shapes.debug", "shapes"],
    );
    assert_eq!(compare(&program, &[]), before);
}
