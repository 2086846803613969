//! Is an archive refused that was damaged, cut off or made to do harm? And is one made from a link
//! command?

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use common::{Build, Compiler, Sources, said, tools};
use proptest::prelude::*;
use relink::{Error, Inputs, Layout, Linker, relink};

/// One plain entry of a tar file.
fn entry(name: &str, kind: u8, bytes: &[u8]) -> Vec<u8> {
    let mut header = vec![0_u8; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
    header[156] = kind;
    header[257..263].copy_from_slice(b"ustar\0");
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header.extend_from_slice(bytes);
    header.resize(header.len().next_multiple_of(512), 0);
    header
}

fn tar(entries: &[(&str, u8, &[u8])]) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        entries.iter().flat_map(|&(name, kind, bytes)| entry(name, kind, bytes)).collect();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

/// Opens bytes as an archive; what it says, and the files that it left outside of its directory.
fn open(bytes: &[u8]) -> Result<(), Error> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("link.tar");
    fs::write(&path, bytes).unwrap();
    let opened = Inputs::open(&path, &directory.path().join("deep/state")).map(|_| ());
    let left: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "link.tar" || name == "deep"), "{left:?}");
    opened
}

fn has_lld() -> bool {
    Linker::find().map_err(|error| eprintln!("skipped: {error}")).is_ok()
}

#[test]
fn archives_that_reach_out_of_their_directory_are_refused() {
    if !has_lld() {
        return;
    }
    let hostile: [&[(&str, u8, &[u8])]; 9] = [
        &[("link/response.txt", b'0', b"a.o"), ("link/../../../evil", b'0', b"x")],
        &[("link/response.txt", b'0', b"a.o"), ("/tmp/evil", b'0', b"x")],
        &[("link/response.txt", b'0', b"a.o"), ("../evil", b'0', b"x")],
        &[("link/response.txt", b'0', b"a.o"), ("link/a.o", b'2', b"")],
        &[("link/response.txt", b'0', b"a.o"), ("link/a.o", b'1', b"")],
        &[("link/response.txt", b'0', b"a.o"), ("link/a.o", b'3', b"")],
        &[("link/response.txt", b'0', b"a.o"), ("link/response.txt", b'0', b"b.o")],
        &[("link/response.txt", b'0', b"a.o"), ("other/a.o", b'0', b"x")],
        &[("link/response.txt", b'0', b"a.o"), ("link/./a.o/..", b'0', b"x")],
    ];
    for entries in hostile {
        let error = open(&tar(entries)).unwrap_err();
        assert!(matches!(error, Error::Archive { .. }), "{entries:?}: {error}");
    }
}

#[test]
fn links_that_ask_for_more_than_a_program_are_refused_by_name_and_do_nothing() {
    if !has_lld() {
        return;
    }
    let outside = tempfile::tempdir().unwrap();
    let at = |name: &str| outside.path().join(name).display().to_string();
    std::fs::write(outside.path().join("more"), format!("-Map={}\n", at("map"))).unwrap();
    let refused = [
        (format!("a.o\n-mllvm -load={}\n", at("evil.so")), "-load="),
        (format!("a.o --load-pass-plugin={}\n", at("evil.so")), "load-pass-plugin"),
        (format!("a.o --plugin-opt=-load={}\n", at("evil.so")), "-load="),
        (format!("a.o\n@{}\n", at("more")), "@"),
        ("a.o\n-T ../../x.ld\n".to_owned(), "-T"),
        ("../../../../../../etc/passwd\n".to_owned(), "passwd"),
    ];
    for (response, name) in refused {
        let error = open(&tar(&[("link/response.txt", b'0', response.as_bytes())])).unwrap_err();
        assert!(
            matches!(error, Error::Option { .. }) && error.to_string().contains(name),
            "{error}"
        );
    }
    // Left out, also where they stand behind an input or in a line of their own.
    let written = format!(
        "a.o -Map={0} --dependency-file={0} --why-extract={0}\n--reproduce {0}\n-o {0}\n--time-trace={0} --save-temps={0}\n",
        at("written")
    );
    let error = open(&tar(&[("link/response.txt", b'0', written.as_bytes())])).unwrap_err();
    assert!(matches!(&error, Error::Link { said, .. } if said.contains("a.o")), "{error}");
    // Scripts and thin libraries that reach out.
    let script: &[u8] = b"INPUT(../../../etc/passwd)";
    let named = [("link/response.txt", b'0', &b"x.ld\n"[..]), ("link/x.ld", b'0', script)];
    assert!(open(&tar(&named)).unwrap_err().to_string().contains("outside of the archive"));
    let left: Vec<_> =
        fs::read_dir(outside.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["more"]);
}

/// Libraries that an object asks for itself, with `#pragma comment(lib, …)`.
#[test]
fn objects_that_name_libraries_outside_are_refused() {
    let Some(program) = Compiler::Clang.program().filter(|_| has_lld()) else {
        return eprintln!("skipped: clang or lld is not installed");
    };
    let outside = tempfile::tempdir().unwrap();
    let compiled = |library: &str, flags: &[&str]| {
        let (source, object) = (outside.path().join("a.c"), outside.path().join("a.o"));
        fs::write(
            &source,
            format!("#pragma comment(lib, \"{library}\")\nint main(void) {{ return 0; }}\n"),
        )
        .unwrap();
        let mut clang = std::process::Command::new(program);
        let done = clang
            .args(["-c", "-ffunction-sections", "-o"])
            .arg(&object)
            .arg(&source)
            .args(flags)
            .status();
        assert!(done.unwrap().success());
        fs::read(&object).unwrap()
    };
    let response: &[u8] = b"-o program\n-e main\n--dependent-libraries\na.o\n";
    let opened = |object: &[u8]| {
        open(&tar(&[("link/response.txt", b'0', response), ("link/a.o", b'0', object)]))
    };
    let above = "../../../../../../../../etc/passwd";
    let error = opened(&compiled(above, &[])).unwrap_err().to_string();
    assert!(
        error.contains("a.o names \"../../") && error.contains("outside of the archive"),
        "{error}"
    );
    // One that is not there is lld's to refuse; one with a path from the root is looked for in the
    // archive.
    for library in ["nowhere", "/etc/passwd"] {
        let error = opened(&compiled(library, &[])).unwrap_err();
        let Error::Link { said, .. } = &error else { panic!("{error}") };
        assert!(said.contains(library), "{said}");
    }
    // Bitcode keeps the names where only a compiler finds them, so it gets no libraries.
    assert!(opened(&compiled(above, &["-flto"])).is_ok());
}

/// Programs of other languages, with what their compilers hand to the linker.
#[test]
fn archives_of_real_compilers_are_taken_as_they_are() {
    let Ok(linker) = Linker::find() else { return eprintln!("skipped: no lld") };
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::create_dir(path("bin")).unwrap();
    std::os::unix::fs::symlink(linker.path(), path("bin/ld.lld")).unwrap();
    let sections = "-ffunction-sections";
    let prefix = format!("-B{}/", path("bin").display());
    let keep = |name: &str| format!("-Wl,--reproduce={}", path(name).display());
    fs::write(
        path("a.cc"),
        "#include <cstdio>\n#include <map>\n#include <string>\n\
         int main() { std::map<std::string, int> m; m[\"a\"] = 3; std::printf(\"%d\\n\", m[\"a\"]); }\n",
    )
    .unwrap();
    fs::write(path("a.rs"), "fn main() { println!(\"{}\", std::env::args().count() + 2); }\n")
        .unwrap();
    let rust = [
        "-Clink-arg=-fuse-ld=lld".to_owned(),
        format!("-Clink-arg={prefix}"),
        "-Cdebuginfo=0".to_owned(),
    ];
    let of = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let builds = [
        (
            "cxx",
            "clang++-22",
            of(&["-O1", sections, "-fuse-ld=lld", &prefix, "a.cc", &keep("cxx.tar")]),
        ),
        ("gxx", "g++", of(&["-O1", sections, "-fuse-ld=lld", &prefix, "a.cc", &keep("gxx.tar")])),
        (
            "thin",
            "clang++-22",
            of(&[
                "-O1",
                "-flto=thin",
                sections,
                "-fuse-ld=lld",
                &prefix,
                "a.cc",
                &keep("thin.tar"),
            ]),
        ),
        (
            "rs",
            "rustc",
            [of(&["-O", "a.rs", &format!("-Clink-arg={}", keep("rs.tar"))]), rust.to_vec()]
                .concat(),
        ),
    ];
    for (name, compiler, arguments) in builds {
        let built = std::process::Command::new(compiler)
            .args(&arguments)
            .arg("-o")
            .arg(path(name))
            .current_dir(directory.path())
            .output();
        if !built.is_ok_and(|built| built.status.success()) {
            eprintln!("skipped: {compiler} cannot build the {name} program here");
            continue;
        }
        let archive = path(&format!("{name}.tar"));
        let inputs = Inputs::open(&archive, &path("state")).unwrap();
        for layout in [Layout::AsBuilt, Layout::Independent { seed: 3 }] {
            let out = path(&format!("{name}.again"));
            relink(&inputs, &layout, &out).unwrap();
            assert_eq!(said(&out), "3\n", "{name}");
            if matches!(layout, Layout::AsBuilt) && name != "thin" {
                assert_eq!(loaded(&out), loaded(&path(name)), "{name}");
            }
        }
    }
}

/// Hashes of all sections that a program has in memory, by name; lld puts paths of its inputs into
/// others.
fn loaded(program: &Path) -> Vec<(String, u64, u64)> {
    use object::{Object as _, ObjectSection as _};
    use std::hash::{Hash as _, Hasher as _};
    let bytes = fs::read(program).unwrap();
    let file = object::File::parse(&bytes[..]).unwrap();
    let in_memory = |section: &object::Section<'_, '_>| {
        // The build ID is a hash of the whole file.
        section.address() != 0 && section.name() != Ok(".note.gnu.build-id")
    };
    let hashed = |section: object::Section<'_, '_>| {
        let mut hash = std::collections::hash_map::DefaultHasher::new();
        section.data().unwrap().hash(&mut hash);
        (section.name().unwrap().to_owned(), section.address(), hash.finish())
    };
    let sections: Vec<_> = file.sections().filter(in_memory).map(hashed).collect();
    assert!(sections.len() > 10);
    sections
}

#[test]
fn archives_of_something_else_are_refused_with_the_reason() {
    if !has_lld() {
        return;
    }
    let error = open(&tar(&[("link/readme", b'0', b"hello")])).unwrap_err().to_string();
    assert!(error.contains("response.txt"), "{error}");
    let error = open(b"").unwrap_err().to_string();
    assert!(error.contains("cut off"), "{error}");
    let error = open(&tar(&[("link/response.txt", b'0', b"-r\na.o\n")])).unwrap_err();
    assert!(matches!(error, Error::Relocatable { .. }), "{error}");
    let error = open(&tar(&[("link/response.txt", b'0', b"--chroot .\nmissing.o\n")])).unwrap_err();
    assert!(matches!(&error, Error::Link { said, .. } if said.contains("missing.o")), "{error}");
}

/// A whole archive of a small program, written once.
fn whole() -> Option<&'static [u8]> {
    static WHOLE: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let make = || {
        let build = Build::new(*tools().first()?);
        build.inputs("base", |_| ());
        fs::read(build.path("base/link.tar")).ok()
    };
    WHOLE.get_or_init(make).as_deref()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_truncation_is_refused(share in 0.0..1.0_f64, from_end in 1_usize..1100, near_end: bool) {
        let Some(bytes) = whole() else { return Ok(()) };
        let length = if near_end { bytes.len() - from_end } else { (share * bytes.len() as f64) as usize };
        let error = open(&bytes[..length]).unwrap_err();
        prop_assert!(matches!(error, Error::Archive { .. }), "{length}: {error}");
    }

    #[test]
    fn headers_of_any_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
        if Linker::find().is_ok() {
            prop_assert!(open(&bytes).is_err());
        }
    }
}

#[test]
fn truncations_at_every_block_are_refused() {
    let Some(bytes) = whole() else { return };
    // Between two files nothing but the missing end mark gives the cut away.
    let mut cuts: Vec<usize> = (0..bytes.len())
        .step_by(512)
        .filter(|&at| bytes[at..].get(257..262) == Some(b"ustar"))
        .collect();
    cuts.push(bytes.len() - 512);
    cuts.push(bytes.len() - 1024);
    assert!(cuts.len() > 10);
    for cut in cuts {
        assert!(matches!(open(&bytes[..cut]), Err(Error::Archive { .. })), "cut at {cut}");
    }
}

#[test]
fn link_commands_are_run_once_with_lld_and_leave_the_program_alone() {
    for compiler in tools() {
        let build = Build::new(compiler);
        let command = build.compile("base", &Sources::default());
        let inputs =
            Inputs::from_command(&command, &build.path("base"), &build.path("state")).unwrap();
        assert!(!build.path("base/prog").exists());
        assert_eq!(inputs.output_name(), "prog");
        assert!(inputs.survey().share() > 0.95, "{:?}", inputs.survey());
        assert!(inputs.archive().is_file());
        let out = build.path("out");
        relink(&inputs, &Layout::Independent { seed: 1 }, &out).unwrap();
        assert!(said(&out).contains("sum"));
    }
}

#[test]
fn other_commands_are_refused_with_the_reason() {
    if !has_lld() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let said = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        Inputs::from_command(&words, Path::new("."), directory.path()).unwrap_err().to_string()
    };
    for (words, reason) in [
        (&["make", "-o", "x"][..], "neither clang, gcc nor ld"),
        (&[], "empty"),
        (&["gcc", "a.o"], "no output"),
        (&["gcc", "-c", "a.c", "-o", "a.o"], "compiles only"),
    ] {
        let found = said(words);
        assert!(found.contains(reason) && found.contains("--reproduce"), "{found}");
    }
    if !tools().is_empty() {
        let found = said(&["gcc", "missing.o", "-o", "x"]);
        assert!(found.contains("missing.o"), "{found}");
    }
}
