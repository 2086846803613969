//! Do the files of an archive reach out of it? Looks at what linker scripts, thin libraries and
//! objects name.
//!
//! lld opens the paths that these name: those from the root below the archive's directory, as it is
//! told, but relative ones wherever they lead. Objects name libraries in a section of their own
//! (`#pragma comment(lib, …)`). Source: LLVM 22, `lld/ELF/InputFiles.cpp` (`addDependentLibrary`)
//! and `llvm/docs/Extensions.rst`, "SHT_LLVM_DEPENDENT_LIBRARIES".

use std::path::{Component, Path};

use object::read::archive::ArchiveFile;
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, elf};

use crate::relocatable::is_bitcode;
use crate::tar::{Damage, Entry};

/// A linker script that is longer is none: the kernel's, one of the longest, has some 30 KB.
const MAX_SCRIPT: usize = 1 << 20;

/// Checks all files; true where one is LLVM bitcode, whose libraries cannot be looked at from here.
pub(crate) fn check(archive: &[u8], entries: &[Entry]) -> Result<bool, Damage> {
    let mut bitcode = false;
    for entry in entries {
        let bytes = archive.get(entry.bytes.clone()).unwrap_or_default();
        let found = if bytes.starts_with(b"!<thin>\n") {
            thin(&entry.path, bytes)
        } else if entry.path == Path::new("response.txt") {
            None
        } else if let Ok(library) = ArchiveFile::parse(bytes) {
            let members = library.members().filter_map(|member| member.ok()?.data(bytes).ok());
            members.filter_map(|member| object(member, &mut bitcode)).next()
        } else {
            object(bytes, &mut bitcode).or_else(|| script(bytes))
        };
        if let Some(name) = found {
            let found = format!(
                "{} names {name:?}, which lies outside of the archive",
                entry.path.display()
            );
            return Err(Damage { offset: entry.bytes.start as u64, found });
        }
    }
    Ok(bitcode)
}

/// A library that an object names and that lies outside. What is not an ELF object names none.
fn object(bytes: &[u8], bitcode: &mut bool) -> Option<String> {
    *bitcode |= is_bitcode(bytes);
    match bytes.get(..5)? {
        b"\x7fELF\x01" => dependent::<elf::FileHeader32<Endianness>>(bytes),
        b"\x7fELF\x02" => dependent::<elf::FileHeader64<Endianness>>(bytes),
        _ => None,
    }
}

fn dependent<Elf: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<String> {
    let header = Elf::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.section_headers(endian, bytes).ok()?;
    let named = sections.iter().filter(|s| s.sh_type(endian) == elf::SHT_LLVM_DEPENDENT_LIBRARIES);
    // lld refuses an object whose section does not lie in the file.
    let names = named.flat_map(|section| {
        section.data(endian, bytes).unwrap_or_default().split(|&byte| byte == 0)
    });
    names.map(String::from_utf8_lossy).find(|name| upwards(name)).map(|name| name.into_owned())
}

fn upwards(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// A member of a thin library that lies outside.
fn thin(library: &Path, bytes: &[u8]) -> Option<String> {
    let Ok(parsed) = ArchiveFile::parse(bytes) else {
        return Some("a thin library that cannot be read".to_owned());
    };
    let names = parsed.members().map(|member| {
        member.map_or_else(
            |error| format!("/{error}"),
            |m| String::from_utf8_lossy(m.name()).into_owned(),
        )
    });
    let directory = library.parent().unwrap_or(Path::new(""));
    names.into_iter().find(|name| leaves(directory, name))
}

/// Does a path from a directory lead out of the directory that this one is in?
fn leaves(directory: &Path, path: &str) -> bool {
    let mut depth = directory.components().count();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            _ => return true,
        }
    }
    false
}

/// A word of a linker script that goes upwards.
fn script(bytes: &[u8]) -> Option<String> {
    if bytes.len() > MAX_SCRIPT {
        return None;
    }
    // Objects and libraries hold zeros; what is no text is no script.
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))?;
    let ends = |c: char| c.is_whitespace() || "(){},;\"=".contains(c);
    without_comments(text).split(ends).find(|word| upwards(word)).map(str::to_owned)
}

/// The text with blanks for `/* … */`.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        kept.push_str(before);
        kept.push(' ');
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(path: &str, bytes: &[u8]) -> Result<(), String> {
        let entry = Entry { path: path.into(), bytes: 0..bytes.len() };
        check(bytes, &[entry]).map(|_| ()).map_err(|damage| damage.found)
    }

    #[test]
    fn scripts_that_go_upwards_are_refused_and_real_ones_are_not() {
        for text in [
            "INPUT(../../etc/x.o)",
            "GROUP ( a.o AS_NEEDED(/lib/../../x) )",
            "INCLUDE ../x",
            "SEARCH_DIR(\"../a\")",
        ] {
            assert!(checked("lib/x.so", text.as_bytes()).unwrap_err().contains(".."), "{text}");
        }
        let real = "/* GNU ld script, see ../../README */\nOUTPUT_FORMAT(elf64-x86-64)\nGROUP ( \
                    /lib/libc.so.6 /usr/lib/libc_nonshared.a AS_NEEDED ( /lib64/ld.so ) \
                    )\nSECTIONS { .text : { *(.text..ref) } }";
        assert_eq!(checked("lib/libc.so", real.as_bytes()), Ok(()));
        // A comment that does not end hides nothing of a script that lld would take.
        assert_eq!(checked("order", b"main\n_ZN3a..bE\n"), Ok(()));
    }

    #[test]
    fn thin_libraries_may_name_files_of_the_archive_alone() {
        let thin = |name: &str| {
            let names = format!("{name}/\n");
            let mut bytes = b"!<thin>\n".to_vec();
            bytes.extend(format!("{:<48}{:<10}`\n{names}", "//", names.len()).bytes());
            bytes.extend((names.len() % 2 == 1).then_some(b'\n'));
            bytes.extend(
                format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", "/0", 0, 0, 0, 644, 8).bytes(),
            );
            bytes
        };
        assert_eq!(checked("build/lib/libx.a", &thin("../obj/a.o")), Ok(()));
        assert_eq!(checked("build/lib/libx.a", &thin("a.o")), Ok(()));
        for name in ["../../../a.o", "/etc/passwd", "x/../../../../a.o"] {
            assert!(checked("build/lib/libx.a", &thin(name)).is_err(), "{name}");
        }
    }
}
