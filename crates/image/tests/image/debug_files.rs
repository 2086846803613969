//! Separate debug files: found by build ID and by link, refused when they belong to another build.

use std::path::{Path, PathBuf};

use image::debug_files::has_debug_information;
use image::{DebugSearch, Image};

use crate::peers::{self, PROGRAM};

struct Stripped {
    directory: tempfile::TempDir,
    program: PathBuf,
    debug: PathBuf,
}

/// A program split into a stripped part and `program.debug`.
fn stripped(build_id: &str, link: bool) -> Option<Stripped> {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["-nostdlib", "-static", "-fuse-ld=lld", build_id];
    let full = peers::compile(directory.path(), "full", PROGRAM, &arguments)?;
    let (program, debug) =
        (directory.path().join("program"), directory.path().join("program.debug"));
    let (full, stripped, split) =
        (full.to_str().unwrap(), program.to_str().unwrap(), debug.to_str().unwrap());
    peers::output_of("llvm-objcopy-22", &["--only-keep-debug", full, split])?;
    let link_argument = format!("--add-gnu-debuglink={split}");
    let mut arguments = vec!["--strip-all", full, stripped];
    if link {
        arguments.insert(0, &link_argument);
    }
    peers::output_of("llvm-objcopy-22", &arguments)?;
    Some(Stripped { directory, program, debug })
}

fn search(root: &Path) -> DebugSearch {
    DebugSearch { roots: vec![root.to_owned()], ..DebugSearch::default() }
}

#[test]
fn a_debug_file_is_found_by_build_id() {
    let Some(files) = stripped("-Wl,--build-id=sha1", false) else { return };
    let image = Image::open(&files.program).unwrap();
    assert!(!has_debug_information(&image));
    let root = files.directory.path().join("root");
    let id = image.build_id().unwrap().to_string();
    let place = root.join(".build-id").join(&id[..2]).join(format!("{}.debug", &id[2..]));
    let absent = search(&root).find(&image).unwrap();
    assert!(absent.image.is_none());
    assert_eq!(absent.absent, std::slice::from_ref(&place));
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::fs::copy(&files.debug, &place).unwrap();
    let found = search(&root).find(&image).unwrap().image.unwrap();
    assert_eq!(found.path(), place);
    assert!(has_debug_information(&found));
    // The debug file knows the functions, the program has the code.
    assert!(image.functions().is_empty() && image.has_only_dynamic_symbols());
    let merged = Image::open(&files.program).unwrap().with_symbols_of(found.into());
    let choose = merged.functions().iter().find(|function| function.name == "choose").unwrap();
    assert!(merged.code_at(choose.address).is_some());
    // A file of another build in that place is refused, and said so.
    let other = stripped("-Wl,--build-id=0x1234", false).unwrap();
    std::fs::copy(&other.debug, &place).unwrap();
    let refused = search(&root).find(&image).unwrap();
    assert!(
        refused.image.is_none() && refused.rejected[0].reason.contains("found 1234"),
        "{:?}",
        refused.rejected
    );
}

#[test]
fn a_debug_file_is_found_by_link_and_checked_by_crc() {
    let Some(files) = stripped("-Wl,--build-id=none", true) else { return };
    let image = Image::open(&files.program).unwrap();
    let empty = files.directory.path().join("root");
    assert_eq!(
        search(&empty).find(&image).unwrap().image.unwrap().path().file_name(),
        files.debug.file_name()
    );
    // Below the root, at the path of the program.
    let inside = files.directory.path().canonicalize().unwrap();
    let place = empty.join(inside.strip_prefix("/").unwrap()).join("program.debug");
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::fs::rename(&files.debug, &place).unwrap();
    assert_eq!(search(&empty).find(&image).unwrap().image.unwrap().path(), place);
    let mut bytes = std::fs::read(&place).unwrap();
    let last = bytes.last_mut().unwrap();
    *last ^= 1;
    std::fs::write(&place, bytes).unwrap();
    let refused = search(&empty).find(&image).unwrap();
    assert!(
        refused.image.is_none() && refused.rejected[0].reason.contains("CRC"),
        "{:?}",
        refused.rejected
    );
}

#[test]
fn a_named_debug_file_of_another_build_is_an_error() {
    let Some(files) = stripped("-Wl,--build-id=0xabcd", false) else { return };
    let Some(other) = stripped("-Wl,--build-id=0x1234", false) else { return };
    let image = Image::open(&files.program).unwrap();
    let named = |path: &Path| DebugSearch {
        debug_file: Some(path.to_owned()),
        ..search(Path::new("/nonexistent"))
    };
    assert!(named(&files.debug).find(&image).unwrap().image.is_some());
    let message = named(&other.debug).find(&image).unwrap_err().to_string();
    assert!(message.contains("expected build ID abcd, found 1234"), "{message}");
}

#[test]
fn a_split_debug_file_of_a_module_keeps_the_addresses_of_the_module() {
    let directory = tempfile::tempdir().unwrap();
    let source = format!(
        "{PROGRAM}__attribute__((section(\".modinfo\"), used)) static const char license[] = \"license=GPL\";"
    );
    let Some(full) =
        peers::compile(directory.path(), "full.ko", &source, &["-c", "-ffunction-sections"])
    else {
        return;
    };
    let (module, debug) =
        (directory.path().join("module.ko"), directory.path().join("module.debug"));
    let (full, module_text, debug_text) =
        (full.to_str().unwrap(), module.to_str().unwrap(), debug.to_str().unwrap());
    if peers::output_of("objcopy", &["--only-keep-debug", full, debug_text]).is_none() {
        return;
    }
    peers::output_of("objcopy", &["--strip-debug", full, module_text]);
    let image = Image::open(&module).unwrap();
    let named = DebugSearch { debug_file: Some(debug), ..DebugSearch::default() };
    let debug = named.find(&image).unwrap().image.unwrap();
    let choose = image.functions().iter().find(|function| function.name == "choose").unwrap();
    let table = debug.try_section(".debug_addr").unwrap().unwrap();
    let mut addresses =
        table[8..].chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    assert!(addresses.any(|address| address == choose.address.0));
}

#[test]
fn the_shared_file_of_dwz_is_found_and_verified() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["-gdwarf-4", "-nostdlib", "-static", "-fuse-ld=lld"];
    let Some(first) = peers::compile(directory.path(), "first", PROGRAM, &arguments) else {
        return;
    };
    let second = peers::compile(directory.path(), "second", PROGRAM, &arguments).unwrap();
    let shared = directory.path().join("shared.debug");
    let (first_text, second, shared_text) =
        (first.to_str().unwrap(), second.to_str().unwrap(), shared.to_str().unwrap());
    if peers::output_of("dwz", &["-m", shared_text, "-r", first_text, second]).is_none()
        || !shared.exists()
    {
        eprintln!("skipped: dwz made no shared file");
        return;
    }
    let image = Image::open(&first).unwrap();
    let found = search(Path::new("/nonexistent")).find_supplementary(&image);
    assert_eq!(found.image.unwrap().path().file_name(), shared.file_name());
    std::fs::copy(&first, &shared).unwrap();
    let refused = search(Path::new("/nonexistent")).find_supplementary(&image);
    assert!(refused.image.is_none() && refused.rejected.len() == 1);
}

#[test]
fn packages_and_split_units_are_looked_for_beside_the_image() {
    let Some(files) = stripped("-Wl,--build-id=none", false) else { return };
    let image = Image::open(&files.program).unwrap();
    let search = search(Path::new("/nonexistent"));
    assert!(search.find_package(&image, None).unwrap().image.is_none());
    std::fs::copy(&files.debug, files.directory.path().join("program.dwp")).unwrap();
    assert!(search.find_package(&image, None).unwrap().image.is_some());
    let paths = search.split_unit_paths(&image, Path::new("/build"), Path::new("out/a.dwo"));
    let beside = files.directory.path().canonicalize().unwrap();
    assert_eq!(
        paths,
        [PathBuf::from("/build/out/a.dwo"), beside.join("out/a.dwo"), beside.join("a.dwo")]
    );
}

#[test]
fn a_debug_link_with_a_path_is_not_followed() {
    let Some(files) = stripped("-Wl,--build-id=none", true) else { return };
    let image = Image::open(&files.program).unwrap();
    let elsewhere = search(Path::new("/nonexistent"));
    let bare = elsewhere.find(&image).unwrap();
    let Some(link) = image.section(".gnu_debuglink") else { return };
    let end = link.iter().position(|&byte| byte == 0).unwrap();
    assert!(bare.image.is_some(), "{bare:?}");
    // The same name with a directory in it, which has room where the name is long.
    let mut bytes = std::fs::read(&files.program).unwrap();
    let at = bytes.windows(link.len()).position(|part| part == &link[..]).unwrap();
    for name in ["/", "./", "../"] {
        let short = &link[name.len()..end];
        let path = [name.as_bytes(), short].concat();
        bytes[at..at + end].copy_from_slice(&path);
        let other = files.directory.path().join("other");
        std::fs::write(&other, &bytes).unwrap();
        let there = files.directory.path().join(String::from_utf8_lossy(short).as_ref());
        std::fs::copy(&files.debug, there).unwrap();
        let found = elsewhere.find(&Image::open(&other).unwrap()).unwrap();
        assert!(found.image.is_none(), "{name}");
        assert!(
            found.rejected.iter().any(|rejected| rejected.reason.contains("without directories")),
            "{found:?}"
        );
    }
}
