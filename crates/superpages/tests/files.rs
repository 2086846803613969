//! Linked programs, rewritten: do they run, do other tools like them, is every section as it was?
//! Damaged files: are they refused with the reason?

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use superpages::{Arch, Kind, Reason, SUPERPAGE, Writes, align, check, verify, warm};

/// Four functions of two mebibytes each, and a program that calls them.
const BIG: &str = "\
int printf(const char *, ...);
#define BIG(n) __attribute__((noinline)) int f##n(int x) { __asm__ volatile(\"jmp 1f\\n.fill 2097152, 1, 0x90\\n1:\"); return x + n; }
BIG(1) BIG(2) BIG(3) BIG(4)
#ifndef LIBRARY
int main(void) { printf(\"%d\\n\", f1(f2(f3(f4(0))))); return 0; }
#endif
";

fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let done = Command::new(program).args(arguments).output().ok()?;
    let said = [done.stdout, done.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .concat();
    assert!(done.status.success(), "{program} {arguments:?}: {said}");
    Some(said)
}

/// Compiles the large program; nothing, with a note, where there is no such compiler or linker.
fn compiled(folder: &Path, compiler: &str, flags: &[&str]) -> Option<PathBuf> {
    let (source, program) = (folder.join("big.c"), folder.join("big"));
    fs::write(&source, BIG).unwrap();
    let done = Command::new(compiler)
        .args(["-O1", "-g", "-o"])
        .arg(&program)
        .arg(&source)
        .args(flags)
        .output();
    match done {
        Ok(done) if done.status.success() => Some(program),
        other => {
            eprintln!("skipped: {compiler} {flags:?} cannot link: {other:?}");
            None
        }
    }
}

/// Name, address, size and content of every section, and the content of every loaded segment at its
/// address.
fn content(path: &Path) -> Vec<(String, Vec<u8>)> {
    let bytes = fs::read(path).unwrap();
    let number = |at: usize, size: usize| {
        bytes[at..at + size]
            .iter()
            .rev()
            .fold(0usize, |value, &byte| value << 8 | usize::from(byte))
    };
    let (table, count, names) = (number(40, 8), number(60, 2), number(62, 2));
    let field = |index: usize, at: usize, size: usize| number(table + index * 64 + at, size);
    let mut found = Vec::new();
    for index in 0..count {
        let name_at = field(names, 24, 8) + field(index, 0, 4);
        let name: Vec<u8> =
            bytes[name_at..].iter().copied().take_while(|&byte| byte != 0).collect();
        let (offset, size) = (field(index, 24, 8), field(index, 32, 8));
        let there = if matches!(field(index, 4, 4), 0 | 8) {
            vec![]
        } else {
            bytes[offset..offset + size].to_vec()
        };
        let label = format!("{} {:x} {size}", String::from_utf8_lossy(&name), field(index, 16, 8));
        found.push((label, there));
    }
    found
}

fn linkers() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        ("gcc", vec!["-fuse-ld=bfd"]),
        ("gcc", vec!["-fuse-ld=bfd", "-no-pie", "-Wl,-z,noseparate-code"]),
        ("gcc", vec!["-fuse-ld=bfd", "-static-pie"]),
        ("clang-22", vec!["-fuse-ld=lld"]),
        ("clang-22", vec!["-fuse-ld=lld", "-no-pie"]),
        ("clang-22", vec!["-fuse-ld=lld", "-Wl,-z,max-page-size=0x200000"]),
    ]
}

#[test]
fn rewritten_programs_run_and_keep_every_section_and_other_tools_read_them() {
    for (compiler, flags) in linkers() {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compiled(folder.path(), compiler, &flags) else { continue };
        let aligned = folder.path().join("aligned");
        let done = align(&program, &aligned, false, Writes::Large).unwrap();
        // 8 MiB of text hold three whole superpages at least.
        assert!(done.eligible_bytes >= 3 * SUPERPAGE, "{flags:?}: {done:?}");
        assert!(done.growth_bytes <= 16 << 10, "{flags:?}: {done:?}");
        let after = check(&aligned).unwrap();
        assert_eq!(after.eligible_bytes, done.eligible_bytes, "{flags:?}");
        assert!(
            !after.losses.contains_key(&Reason::OffsetSkew)
                && !after.losses.contains_key(&Reason::PieBase)
        );
        assert!(content(&program) == content(&aligned), "{flags:?}: a section differs");
        let path = aligned.to_str().unwrap();
        assert_eq!(run(path, &[]).unwrap(), "10\n", "{flags:?}");
        if let Some(said) = run("readelf", &["-aW", path]) {
            assert!(!said.contains("Warning") && !said.contains("Error"), "{flags:?}: {said}");
        }
        let lines =
            |path: &Path| run("gdb", &["-batch", "-ex", "info line f3", path.to_str().unwrap()]);
        if let (Some(before), Some(now)) = (lines(&program), lines(&aligned)) {
            assert!(now.contains("big.c"), "{now}");
            assert_eq!(before, now);
        } else {
            eprintln!("skipped: gdb is not installed");
        }
        if run("strip", &[path]).is_some() {
            assert_eq!(run(path, &[]).unwrap(), "10\n", "{flags:?} stripped");
            assert_eq!(
                check(&aligned).unwrap().eligible_bytes,
                done.eligible_bytes,
                "{flags:?} stripped"
            );
        }
    }
}

#[test]
fn filler_behind_the_text_becomes_text_when_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let flags =
        ["-fuse-ld=lld", "-Wl,-z,max-page-size=0x200000", "-Wl,-z,separate-loadable-segments"];
    let Some(program) = compiled(folder.path(), "clang-22", &flags) else { return };
    let before = check(&program).unwrap();
    assert!(before.losses.contains_key(&Reason::TailFiller), "{before:?}");
    let aligned = folder.path().join("aligned");
    let done = align(&program, &aligned, true, Writes::Large).unwrap();
    assert_eq!(done.eligible_pct, 100.0, "{done:?}");
    assert!(done.filled_bytes > 0 && done.growth_bytes == 0, "{done:?}");
    assert!(content(&program) == content(&aligned));
    assert_eq!(run(aligned.to_str().unwrap(), &[]).unwrap(), "10\n");
}

#[test]
fn what_is_lost_and_what_is_eligible_are_all_of_the_text() {
    for (compiler, flags) in linkers() {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compiled(folder.path(), compiler, &flags) else { continue };
        let found = check(&program).unwrap();
        assert_eq!(
            found.eligible_bytes + found.losses.values().sum::<u64>(),
            found.text_bytes,
            "{found:?}"
        );
        let fixed = flags.contains(&"-no-pie");
        assert_eq!(found.kind, if fixed { Kind::Fixed } else { Kind::Pie }, "{flags:?}");
        assert!(found.aligned_pct.unwrap() >= found.eligible_pct, "{found:?}");
    }
}

#[test]
fn what_is_warmed_is_what_the_check_calls_eligible() {
    for (compiler, flags) in linkers() {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compiled(folder.path(), compiler, &flags) else { continue };
        let found = check(&program).unwrap();
        match warm(&program) {
            // It counts whole superpages, of which the text's first page may begin with other
            // bytes.
            Ok(warmed) => {
                let whole = found.eligible_bytes.next_multiple_of(SUPERPAGE);
                assert_eq!(warmed.eligible_bytes, whole, "{flags:?}: {found:?}");
            }
            Err(error) => {
                assert!(error.to_string().contains("MADV_HUGEPAGE"), "{error}");
                return eprintln!("skipped: {error}");
            }
        }
        if flags == ["-fuse-ld=bfd"] {
            // Offsets agree with addresses, but the kernel may put it at any page.
            assert!(found.losses.contains_key(&Reason::PieBase), "{found:?}");
            assert_eq!(found.eligible_bytes, 0, "{found:?}");
        }
    }
}

#[test]
fn a_folder_that_is_given_twice_is_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let made = file(folder.path(), 1, &[[0, 0, 4096]], 4096);
    let found = superpages::find(&[folder.path().to_owned(), folder.path().to_owned()], 1);
    assert_eq!((found.files.len(), found.unreadable, found.other_elf), (0, 0, 1), "{found:?}");
    // What is no folder cannot be listed.
    assert_eq!(superpages::find(&[made.clone(), made], 1).unreadable, 1);
}

#[test]
fn warm_text_of_a_running_program_lies_on_superpages_where_the_kernel_can() {
    let folder = tempfile::tempdir().unwrap();
    let probe = superpages::probe(folder.path()).unwrap();
    if !probe.file_backed {
        return eprintln!(
            "skipped: no file-backed superpages on this kernel and file system: {probe:?}"
        );
    }
    let Some(program) = compiled(folder.path(), "gcc", &["-fuse-ld=bfd"]) else { return };
    let aligned = folder.path().join("aligned");
    align(&program, &aligned, false, Writes::Small).unwrap();
    let done = warm(&aligned).unwrap();
    assert!(done.eligible_bytes >= 3 * SUPERPAGE, "{done:?}");
    if !done.is_whole() {
        return eprintln!("skipped: memory gave no superpages: {done:?}");
    }
    assert!(done.before_bytes < done.after_bytes, "small writes give small pages: {done:?}");
    let script = "break main\nrun\nprint f1(f2(f3(f4(0))))\npython print('pid', gdb.selected_inferior().pid)\n\
                  shell touch stopped\nshell while [ ! -e go ]; do sleep 0.05; done\nkill\n";
    fs::write(folder.path().join("script"), script).unwrap();
    let spawned = Command::new("gdb")
        .args(["-batch", "-ex", "set startup-with-shell off", "-x", "script"])
        .arg(&aligned)
        .current_dir(folder.path())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    let Ok(mut gdb) = spawned else { return eprintln!("skipped: gdb is not installed") };
    while !folder.path().join("stopped").exists() && gdb.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let users = superpages::users(&aligned);
    let seen = users
        .iter()
        .find(|user| user.pid != gdb.id())
        .map(|user| verify(user.pid, Some("aligned")));
    fs::write(folder.path().join("go"), "").unwrap();
    gdb.wait().unwrap();
    let Some(seen) = seen else { return eprintln!("skipped: gdb may not run programs here") };
    let seen = seen.unwrap();
    // The breakpoint in main made its page a private one; the functions in other superpages were
    // all run.
    assert!(seen.superpage_bytes >= 2 * SUPERPAGE, "{seen:?}");
    let scanned: Option<u64> = seen.mappings.iter().map(|text| text.scanned_superpage_bytes).sum();
    assert!(scanned.is_none_or(|bytes| bytes == seen.superpage_bytes), "{seen:?}");
}

#[test]
fn a_kept_file_is_locked_and_noticed_when_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "gcc", &["-fuse-ld=bfd"]) else { return };
    let aligned = folder.path().join("aligned");
    let done = align(&program, &aligned, false, Writes::Large).unwrap();
    match superpages::keep(&aligned) {
        Ok(kept) => {
            assert_eq!(kept.locked_bytes, done.eligible_bytes);
            assert!(!kept.is_replaced());
            align(&program, &aligned, false, Writes::Large).unwrap();
            assert!(kept.is_replaced());
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.contains("RLIMIT_MEMLOCK") || said.contains("MADV_HUGEPAGE"), "{said}");
            eprintln!("skipped: {said}");
        }
    }
}

/// A minimal file: header, program headers, bytes up to `size`.
fn file(folder: &Path, kind: u16, segments: &[[u64; 3]], size: usize) -> PathBuf {
    let mut bytes = vec![0; size.max(64 + segments.len() * 56)];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    bytes[16..18].copy_from_slice(&kind.to_le_bytes());
    bytes[18] = 62;
    bytes[20] = 1;
    bytes[32] = if segments.is_empty() { 0 } else { 64 };
    bytes[52] = 64;
    bytes[54] = 56;
    bytes[56] = u8::try_from(segments.len()).unwrap();
    bytes[58] = 64;
    for (index, &[offset, address, count]) in segments.iter().enumerate() {
        let at = 64 + index * 56;
        bytes[at] = 1;
        bytes[at + 4] = 5;
        for (field, value) in
            [(8, offset), (16, address), (24, address), (32, count), (40, count), (48, 4096)]
        {
            bytes[at + field..at + field + 8].copy_from_slice(&value.to_le_bytes());
        }
    }
    let path = folder.join("made");
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn programs_of_32_bits_are_judged_and_not_rewritten() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("a.s");
    fs::write(&source, ".globl _start\n.text\n_start:\n.zero 0x600000\n").unwrap();
    for (target, arch) in [("i686-linux-gnu", Arch::X86), ("armv7-linux-gnueabihf", Arch::Arm)] {
        let build = |name: &str, page: &str| {
            let path = folder.path().join(name);
            let link =
                ["-nostdlib", "-static", "-fuse-ld=lld", page, "-Wl,-z,separate-loadable-segments"];
            let mut clang = Command::new("clang-22");
            clang.arg(format!("--target={target}")).args(link).arg(&source).arg("-o").arg(&path);
            let done = clang.output();
            done.is_ok_and(|done| done.status.success()).then_some(path)
        };
        let (Some(small), Some(large)) = (
            build("small", "-Wl,-z,max-page-size=4096"),
            build("large", "-Wl,-z,max-page-size=0x200000"),
        ) else {
            eprintln!("skipped: clang-22 does not link for {target}");
            continue;
        };
        let found = check(&large).unwrap();
        assert_eq!(
            (found.arch, found.kind, found.text_bytes),
            (arch, Kind::Fixed, 0x60_0000),
            "{target}"
        );
        assert_eq!(found.eligible_bytes, 0x60_0000, "{target}: {found:?}");
        let found = check(&small).unwrap();
        assert!(found.eligible_bytes < 0x60_0000, "{target}: {found:?}");
        assert!(found.refused.unwrap().contains("only files of 64 bits are rewritten"), "{target}");
        let output = folder.path().join("out");
        assert!(align(&small, &output, false, Writes::Large).is_err() && !output.exists());
    }
}

#[test]
fn bad_files_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |path: &Path, why: &str| {
        let said = check(path).unwrap_err().to_string();
        assert!(said.contains(why) && said.contains(path.to_str().unwrap()), "{said}");
        let output = folder.path().join("out");
        assert!(align(path, &output, true, Writes::Large).is_err());
        assert!(warm(path).is_err());
        assert!(!output.exists());
    };
    refused(
        &file(folder.path(), 2, &[[0, 0x40_0000, 4096], [4096, 0x40_0800, 4096]], 8192),
        "overlap",
    );
    refused(&file(folder.path(), 3, &[], 4096), "no program headers");
    refused(
        &file(folder.path(), 2, &[[0, 0xffff_ffff_8100_0000, 4096]], 4096),
        "addresses of a kernel",
    );
    refused(&file(folder.path(), 4, &[[0, 0, 4096]], 4096), "core file");
    refused(&file(folder.path(), 1, &[[0, 0, 4096]], 4096), "object file");
    refused(&file(folder.path(), 3, &[[0, 0, 1 << 40]], 4096), "the file has 4096 bytes");
    refused(&file(folder.path(), 3, &[[0, u64::MAX - 4096, 4096]], 4096), "in memory");
    let script = folder.path().join("script");
    fs::write(&script, "#!/bin/sh\ntrue\n").unwrap();
    refused(&script, "is a script, run by /bin/sh");
    fs::write(&script, "").unwrap();
    refused(&script, "no ELF file");
    refused(folder.path(), "no regular file");
    // Nobody ever writes to it.
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    refused(&pipe, "no regular file");
    refused(Path::new("/proc/self/maps"), "no ELF file");
    refused(&folder.path().join("absent"), "cannot be read");
}

#[test]
fn more_program_headers_than_linux_loads_and_more_sections_than_any_program_has_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 3, &[[0, 0, 4 << 20]], 4 << 20);
    let mut bytes = fs::read(&path).unwrap();
    bytes[56..58].copy_from_slice(&1171u16.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    assert!(check(&path).unwrap_err().to_string().contains("1171 program headers of 56 bytes"));
    bytes[56..58].copy_from_slice(&1u16.to_le_bytes());
    bytes[40..48].copy_from_slice(&4096u64.to_le_bytes());
    bytes[60..62].copy_from_slice(&20_000u16.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let found = check(&path).unwrap();
    assert_eq!(found.eligible_bytes, 4 << 20);
    assert!(found.refused.unwrap().contains("20000 sections"));
}

#[test]
fn small_text_is_no_error_to_check_and_refused_to_align() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 3, &[[0, 0, 4096]], 4096);
    let found = check(&path).unwrap();
    assert_eq!((found.eligible_bytes, found.losses.get(&Reason::SmallSegment)), (0, Some(&4096)));
    let error = align(&path, &folder.path().join("out"), false, Writes::Large).unwrap_err();
    assert!(error.to_string().contains("2 MiB"), "{error}");
}

#[test]
fn data_that_no_header_names_stays_or_the_rewrite_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    const TEXT: u64 = 5 << 20;
    let size = (4096 + TEXT + 5000) as usize;
    let output = folder.path().join("out");
    for (address, moves) in [(0x1000, false), (0x3000, true)] {
        let path = file(folder.path(), 3, &[[0, 0, 176], [4096, address, TEXT]], size);
        let mut bytes = fs::read(&path).unwrap();
        bytes[size - 8..].copy_from_slice(b"ARCHIVE!");
        fs::write(&path, &bytes).unwrap();
        let done = align(&path, &output, false, Writes::Large);
        if moves {
            assert!(done.unwrap_err().to_string().contains("belong to no segment"));
        } else {
            // Of 5 MiB that begin behind a boundary, one superpage lies between boundaries.
            assert_eq!(done.unwrap().eligible_bytes, SUPERPAGE);
            // Only the alignment of the text changed.
            let after = fs::read(&output).unwrap();
            assert_eq!(bytes.iter().zip(&after).filter(|(a, b)| a != b).count(), 2);
            assert_eq!(after.len(), bytes.len());
        }
    }
}

#[test]
fn set_user_id_programs_and_places_that_cannot_be_written_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 3, &[[0, 0, 4 << 20]], 4 << 20);
    let absent = folder.path().join("no/such/folder");
    let said = align(&path, &absent, false, Writes::Large).unwrap_err().to_string();
    assert!(said.contains("cannot be written") && said.contains("no/such/folder"), "{said}");
    let said = align(&path, folder.path(), false, Writes::Large).unwrap_err().to_string();
    assert!(said.contains("no file has this name"), "{said}");
    // sysfs takes no new files from anyone.
    let said =
        align(&path, Path::new("/sys/planish"), false, Writes::Large).unwrap_err().to_string();
    assert!(said.contains("/sys/planish: cannot be written"), "{said}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
    let said =
        align(&path, &folder.path().join("out"), false, Writes::Large).unwrap_err().to_string();
    assert!(said.contains("set-user-id"), "{said}");
}

#[test]
fn a_link_as_output_leads_to_a_file_or_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "cc", &[]) else { return };
    let (kept, link) = (folder.path().join("kept"), folder.path().join("link"));
    fs::write(&kept, "old").unwrap();
    std::os::unix::fs::symlink(&kept, &link).unwrap();
    align(&program, &link, false, Writes::Large).unwrap();
    assert!(
        fs::symlink_metadata(&link).unwrap().is_symlink()
            && fs::metadata(&kept).unwrap().len() > SUPERPAGE
    );
    // To nothing, and to what is no file, as /dev/stdout does.
    for target in [folder.path().join("nothing"), folder.path().to_owned()] {
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let refused = align(&program, &link, false, Writes::Large).unwrap_err().to_string();
        assert!(refused.contains("a link that leads to no file"), "{refused}");
        assert_eq!(fs::read_link(&link).unwrap(), target);
    }
}

#[test]
fn text_that_cannot_move_is_refused_where_nothing_would_be_gained() {
    let folder = tempfile::tempdir().unwrap();
    let flags = [
        "-no-pie",
        "-static",
        "-Wl,-z,noseparate-code",
        "-Wl,-Ttext-segment=0x401000",
        "-fuse-ld=bfd",
    ];
    let Some(program) = compiled(folder.path(), "gcc", &flags) else { return };
    let refused =
        align(&program, &folder.path().join("out"), false, Writes::Large).unwrap_err().to_string();
    assert!(refused.contains("separate-code"), "{refused}");
    assert_eq!(check(&program).unwrap().aligned_pct, None);
}
