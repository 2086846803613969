//! Kernel modules as Debian ships them with debug information: every instruction's stack, compared
//! with llvm-symbolizer.
//!
//! The addresses of a module are file offsets. llvm-symbolizer cannot tell the sections of a
//! relocatable file apart, so it gets the module linked with every code section at exactly that
//! address.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod symbolizer;

use std::path::{Path, PathBuf};

use image::{Image, ImageKind};
use symbolizer::{compare_with, has, run};

/// Larger modules take longer than a test may.
const LARGEST_BYTES: u64 = 400_000;

/// Modules with debug information on this machine: in the folder that PLANISH_TEST_MODULES names,
/// where Debian's debug packages put them, and where `make bench-kernel` unpacks a few.
fn modules() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::env::var_os("PLANISH_TEST_MODULES").map(PathBuf::from).into_iter().collect();
    folders.push("/usr/lib/debug/lib/modules".into());
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    folders.push(workspace.join("target/bench/kernel/usr/lib/debug/lib/modules"));
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(_) if path.extension().is_some_and(|extension| extension == "ko") => {
                    found.push(path)
                }
                _ => {}
            }
        }
    }
    found.retain(|path| path.metadata().is_ok_and(|file| file.len() < LARGEST_BYTES));
    found.sort();
    found.truncate(12);
    found
}

/// Links a module so that its code stands at the addresses that the image states.
fn linked(image: &Image, directory: &Path) -> PathBuf {
    let code = image.sections().iter().filter(|section| section.is_code());
    let places: String = code
        .map(|section| (image.section_name(section), section.address.0))
        .map(|(name, address)| format!("{name} {address:#x} : {{ *({name}) }}\n"))
        .collect();
    // Unloaded and data sections, which the script does not name, follow the code.
    std::fs::write(directory.join("layout.ld"), format!("SECTIONS {{\n{places}}}\n")).unwrap();
    let module = image.path().display().to_string();
    let arguments =
        ["-o", "linked", "-e", "0", "--unresolved-symbols=ignore-all", "-T", "layout.ld", &module];
    run(directory, "ld", &arguments);
    directory.join("linked")
}

#[test]
fn every_instruction_of_kernel_modules_has_the_stack_that_llvm_symbolizer_shows() {
    if !has("llvm-symbolizer-22") || !has("ld") {
        return;
    }
    let modules = modules();
    if modules.is_empty() {
        eprintln!(
            "skipped: no kernel module with debug information is here; `make bench-kernel` unpacks some"
        );
    }
    for path in modules {
        let image = Image::open(&path).unwrap();
        assert_eq!(image.kind(), ImageKind::KernelModule, "{}", path.display());
        assert!(image.build_id().is_some(), "{}", path.display());
        if !image.sections().iter().any(image::Section::is_code) {
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let (stacks, deepest) = compare_with(&path, &linked(&image, directory.path()), &[]);
        eprintln!("{}: {stacks} instructions with a stack, up to {deepest} deep", path.display());
        assert!(stacks > 0, "{}", path.display());
    }
}
