//! Is a project recognised by its files, and can planish read what is made of it?

use super::*;
use crate::Config;

fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn of(files: &[(&str, &str)]) -> Result<Recognised, String> {
    recognise(project(files).path(), &Wish::default()).map_err(|error| error.to_string())
}

fn asked(files: &[(&str, &str)], kind: Option<Kind>, program: &str) -> Result<Recognised, String> {
    let wish = Wish { kind, program: Some(program) };
    recognise(project(files).path(), &wish).map_err(|error| error.to_string())
}

#[test]
fn the_programs_of_a_workspace_are_found_and_its_own_come_first() {
    let files = [
        (
            "Cargo.toml",
            "[workspace]\nmembers = ['crates/*', 'xtask']\nexclude = ['crates/old']\n[package]\nname = 'tool'\n",
        ),
        ("src/main.rs", ""),
        (
            "crates/a/Cargo.toml",
            "[package]\nname = 'a'\n[[bin]]\nname = 'alpha'\npath = 'src/main.rs'\n",
        ),
        ("crates/a/src/main.rs", ""),
        ("crates/lib/Cargo.toml", "[package]\nname = 'lib'\n"),
        ("crates/lib/src/lib.rs", ""),
        ("crates/old/Cargo.toml", "[package]\nname = 'old'\n"),
        ("crates/old/src/main.rs", ""),
        ("xtask/Cargo.toml", "[package]\nname = 'xtask'\n"),
        ("xtask/src/main.rs", ""),
        ("src/bin/extra.rs", ""),
        ("src/bin/many/main.rs", ""),
    ];
    let found = of(&files).unwrap();
    assert_eq!((found.kind, found.program.as_str()), (Kind::Cargo, "tool"));
    assert_eq!(found.others, ["extra", "many", "alpha", "xtask"]);
    assert!(found.binary.ends_with("release/tool"), "{}", found.binary);
    assert!(found.command.contains("--bin tool") && found.command.contains("RUSTC_BOOTSTRAP=1"));
    let alpha = asked(&files, None, "alpha").unwrap();
    assert!(alpha.command.contains("--bin alpha") && alpha.binary.ends_with("release/alpha"));
    let message = asked(&files, None, "beta").unwrap_err();
    assert!(message.contains("\"beta\"") && message.contains("tool, extra, many"), "{message}");
}

#[test]
fn a_nightly_project_needs_no_bootstrap() {
    let toolchain = ("rust-toolchain.toml", "[toolchain]\nchannel = 'nightly'\n");
    let manifest = ("Cargo.toml", "[package]\nname = 'a'\n");
    let found = of(&[manifest, ("src/main.rs", ""), toolchain]).unwrap();
    assert!(!found.command.contains("BOOTSTRAP"), "{}", found.command);
}

#[test]
fn executables_of_cmake_are_found_with_their_variables() {
    let found = of(&[
        (
            "CMakeLists.txt",
            "project(app CXX) # add_executable(no a.c)\nset(TESTER app_test)\n\
             add_subdirectory(tests)\nadd_executable(${PROJECT_NAME}\n  a.cc b.cc)\n\
             add_executable(ext IMPORTED)\nadd_executable(${UNKNOWN} c.cc)\n",
        ),
        ("tests/CMakeLists.txt", "add_executable(${TESTER} t.cc)\nADD_EXECUTABLE(tool x.cc)\n"),
        ("build/CMakeLists.txt", "add_executable(generated x.cc)\n"),
    ])
    .unwrap();
    assert_eq!((found.kind, found.program.as_str()), (Kind::Cmake, "app"));
    assert_eq!(found.others, ["tool", "app_test"]);
    assert_eq!(found.binary, "planish-bin/app");
    assert!(found.command.contains("--target app"), "{}", found.command);
}

#[test]
fn an_executable_of_cmake_may_have_a_file_of_another_name() {
    let files = [
        ("CMakeLists.txt", "project(cm)\nadd_executable(aaa a.c)\nadd_subdirectory(src)\n"),
        (
            "src/CMakeLists.txt",
            "set(PROGRAM \"cm_exe\")\nadd_library(cm SHARED b.c)\nadd_executable(${PROGRAM} c.c)\n\
             set_target_properties(${PROGRAM} PROPERTIES COMPILE_FLAGS x OUTPUT_NAME \"cm\")\n\
             set_property(TARGET aaa PROPERTY OUTPUT_NAME a-tool)\n",
        ),
    ];
    let found = of(&files).unwrap();
    assert_eq!((found.program.as_str(), found.binary.as_str()), ("cm_exe", "planish-bin/cm"));
    assert!(found.command.contains("--target cm_exe"), "{}", found.command);
    for (named, target) in [("cm", "cm_exe"), ("a-tool", "aaa"), ("planish-bin/cm", "cm_exe")] {
        assert_eq!(asked(&files, None, named).unwrap().program, target, "{named}");
    }
}

#[test]
fn executables_of_meson_lie_in_the_folder_that_names_them() {
    let found = of(&[
        ("meson.build", "project('x', 'c')\nsubdir('src')\nmy_executable('no')\n"),
        ("src/meson.build", "executable(\n  'tool', 'a.c')\nexecutable('x', 'b.c')\n"),
    ])
    .unwrap();
    assert_eq!((found.kind, found.binary.as_str()), (Kind::Meson, "src/x"));
    assert_eq!(found.others, ["tool"]);
}

#[test]
fn programs_of_automake_are_found_and_what_must_be_done_first_is_said() {
    let files = [
        ("configure.ac", "AC_INIT"),
        ("ltmain.sh", ""),
        ("config.status", ""),
        ("Makefile.am", "SUBDIRS = src\n"),
        ("src/Makefile.am", "bin_PROGRAMS = xz \\\n\tlzmainfo $(more)\nnoinst_PROGRAMS += t\n"),
    ];
    let found = of(&files).unwrap();
    assert_eq!((found.kind, found.binary.as_str()), (Kind::Autotools, "src/xz"));
    assert_eq!(found.others, ["lzmainfo", "t"]);
    assert!(found.command.contains("--disable-shared"), "{}", found.command);
    assert!(found.notes[0].contains("autoreconf") && found.notes[1].contains("distclean"));
    assert!(found.toml(&Work::default()).contains("# There is no configure yet"));
    let by_hand = tempfile::tempdir().unwrap();
    std::fs::write(by_hand.path().join("configure"), "#!/bin/sh\n").unwrap();
    let wish = Wish { kind: Some(Kind::Autotools), ..Wish::default() };
    let said = recognise(by_hand.path(), &wish).unwrap_err().to_string();
    assert!(said.contains("no configure made by autoconf, configure.ac"), "{said}");
}

#[test]
fn a_makefile_is_built_in_a_copy_and_any_program_may_be_named() {
    let files = [("Makefile", "PROG := app\nall: $(PROG) tools/gen all.txt\nCFLAGS = -O3\n")];
    let found = of(&files).unwrap();
    assert_eq!((found.kind, found.binary.as_str()), (Kind::Make, "app"));
    assert_eq!(found.others, ["gen"]);
    assert_eq!(asked(&files, None, "sub/other").unwrap().binary, "sub/other");
    let none = of(&[("Makefile", "x.o: x.c\n")]).unwrap_err();
    assert!(none.contains("--program"), "{none}");
    let phony = of(&[("Makefile", ".PHONY: all app\nPROG = app\nall: app tools/gen\n")]).unwrap();
    assert_eq!((phony.binary.as_str(), &*phony.others), ("app", &["gen".to_owned()][..]));
    // As lz4's: what all stands for is no file, and its program is one of two targets of a rule.
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("lz4-1.9.4");
    std::fs::create_dir(&place).unwrap();
    let text =
        ".PHONY: all allmost examples lz4\nall: allmost examples\nlz4 lz4-release: lib\n\tcc\n";
    std::fs::write(place.join("Makefile"), text).unwrap();
    let found = recognise(&place, &Wish::default()).unwrap();
    assert_eq!(found.binary, "lz4");
}

#[test]
fn what_shows_no_build_system_is_refused_with_the_way_out() {
    let message = of(&[("build.ninja", "rule cc")]).unwrap_err();
    assert!(message.contains("generator") && message.contains("--build"), "{message}");
    let message = of(&[("a.c", "")]).unwrap_err();
    assert!(message.contains("Cargo.toml") && message.contains("Makefile"), "{message}");
    let manifest = [("Cargo.toml", "[package]\nname = 'a'\n"), ("src/main.rs", "")];
    let message = asked(&manifest, Some(Kind::Cmake), "a").unwrap_err();
    assert!(message.contains("CMakeLists.txt") && !message.contains("Makefile,"), "{message}");
    // A script called configure that autoconf did not make goes with its makefile.
    let own = of(&[("configure", "#!/bin/sh"), ("Makefile", "all: app\n")]).unwrap();
    assert!(own.kind == Kind::Make && own.notes[0].contains("configure script"));
}

#[test]
fn a_release_is_built_as_its_makers_do_and_its_program_is_the_one_in_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join("xz-utils-5.4.1").join(name);
    std::fs::create_dir_all(at("")).unwrap();
    for (name, text) in [
        ("configure", "# Generated by GNU Autoconf 2.71"),
        ("CMakeLists.txt", "project(xz C)\nadd_executable(xz a.c)\n"),
        ("Makefile.am", "bin_PROGRAMS = lzmainfo xz x\n"),
    ] {
        std::fs::write(at(name), text).unwrap();
    }
    let found = recognise(&at(""), &Wish::default()).unwrap();
    assert_eq!((found.kind, found.program.as_str()), (Kind::Autotools, "xz"));
    assert_eq!(found.others, ["lzmainfo", "x"]);
}

#[test]
fn what_debian_adds_is_told() {
    let found = of(&[
        ("Makefile", "all: app\n"),
        (
            "debian/rules",
            "override_dh_auto_configure:\n\tdh_auto_configure -- --with-x \\\n\t  --no-y\n",
        ),
        ("debian/patches/series", "# none\nfix.patch\n"),
    ])
    .unwrap();
    assert!(found.notes[0].contains("--with-x --no-y"), "{:?}", found.notes);
    assert!(found.notes[1].contains("dpkg-source"), "{:?}", found.notes);
}

#[test]
fn what_is_written_is_read_back() {
    let found = of(&[("Makefile", "all: app\n")]).unwrap();
    let work = Work {
        train: vec!["{bin} \"it's\"".into(), "{bin} b".into()],
        evaluate: vec!["{bin} 'c d'".into()],
    };
    let config = Config::parse(&found.toml(&work), Path::new("planish.toml")).unwrap();
    assert_eq!(config.build.binary, "app");
    assert_eq!(config.build.command, crate::config::Command::Line(found.command.clone()));
    assert_eq!(config.workload.train.all(), work.train);
    assert_eq!(config.evaluate.command.all(), work.evaluate);
    assert!(config.optimize.lays_out());
    let empty = found.toml(&Work::default());
    assert!(empty.matches("FILL IN").count() == 2 && Config::parse(&empty, Path::new("p")).is_ok());
    let one = found.toml(&Work { train: vec!["{bin} a".into()], evaluate: vec![] });
    assert!(!one.contains("FILL IN"), "{one}");
}

#[test]
fn the_release_build_is_the_projects_own() {
    for (files, own) in [
        (
            &[("Cargo.toml", "[package]\nname = 'a'\n"), ("src/main.rs", "")][..],
            "cargo build --release",
        ),
        (&[("CMakeLists.txt", "project(a)\nadd_executable(a a.c)\n")], "CMAKE_BUILD_TYPE=Release"),
        (&[("meson.build", "project('a', 'c')\nexecutable('a', 'a.c')\n")], "--buildtype=release"),
        (&[("configure.ac", ""), ("Makefile.am", "bin_PROGRAMS = a\n")], "configure"),
        (&[("Makefile", "all: a\n")], "make -C"),
    ] {
        let found = of(files).unwrap();
        let release = found.release.clone().unwrap();
        assert!(release.contains(own), "{release}");
        let handed =
            release.replace("PLANISH_OUT", "").replace("planish-bin", "").replace(".planish", "");
        assert!(!handed.to_lowercase().contains("planish"), "{release}");
        // Where the program lies is the same.
        let config = Config::parse(&found.toml(&Work::default()), Path::new("p")).unwrap();
        assert_eq!(config.build.release, Some(crate::config::Command::Line(release)));
    }
}

#[test]
fn files_that_lie_change_nothing_and_end() {
    for text in [
        "",
        "(((((",
        "add_executable(",
        "project(${A})\nset(A ${A}${A})\nadd_executable(${A})",
        "executable('",
        "[package]\nname = 3\n[workspace]\nmembers = ['*/*/*', 7]\n",
        "bin_PROGRAMS = \\",
        "all: all: all\n=\n==",
    ] {
        for name in [
            "Cargo.toml",
            "CMakeLists.txt",
            "meson.build",
            "configure.ac",
            "Makefile.am",
            "Makefile",
        ] {
            let _ = of(&[(name, text), ("debian/rules", text)]);
        }
    }
}

#[test]
fn a_program_that_the_files_do_not_name_is_remarked_on() {
    let files = [("CMakeLists.txt", "project(a)\nadd_executable(app a.c)\n")];
    let notes = |program: &str| asked(&files, None, program).unwrap().notes.join(" ");
    assert!(
        notes("appp").contains("name no program \"appp\"")
            && notes("appp").contains("they name app.")
    );
    assert_eq!(notes("app"), "");
}

#[test]
fn a_makefiles_own_level_of_optimisation_is_remarked_on() {
    let notes = |text: &str| of(&[("Makefile", text)]).unwrap().notes.join(" ");
    let told = notes("CFLAGS ?= -O2 -g\nall: app\n\ttrue -O3\n");
    assert!(told.contains("The makefile says -O2 itself"), "{told}");
    assert_eq!(notes("CFLAGS += -g\nall: app\n"), "");
}

#[test]
fn a_level_of_optimisation_is_told_where_it_counts() {
    let cmake = of(&[("CMakeLists.txt", "project(a)\nadd_executable(a a.c)\n")]).unwrap();
    assert_eq!(cmake.optimize, Some("-O3"));
    assert!(cmake.command.contains("-DCMAKE_C_FLAGS_RELEASE=-DNDEBUG"), "{}", cmake.command);
    let text = cmake.toml(&Work::default());
    assert!(text.contains("\noptimize = '-O3'\n"), "{text}");
}

#[test]
fn a_directory_whose_name_cuts_flags_is_refused_where_objects_lie_elsewhere() {
    for (file, text, fine) in [
        ("CMakeLists.txt", "project(a)\nadd_executable(a a.c)\n", false),
        (
            "Cargo.toml",
            "[package]\nname = 'a'\nversion = '1.0.0'\n[[bin]]\nname = 'a'\npath = 'a.rs'\n",
            true,
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a b");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join(file), text).unwrap();
        let said = recognise(&inner, &Wish::default());
        assert_eq!(said.is_ok(), fine, "{said:?}");
        assert!(fine || said.unwrap_err().to_string().contains("a b: the path has a blank"));
    }
}

#[test]
fn a_projects_own_flags_of_rustc_stand_before_those_of_planish() {
    let found = of(&[
        ("Cargo.toml", "[package]\nname = 'a'\nversion = '1.0.0'\n"),
        ("src/main.rs", "fn main() {}\n"),
        (".cargo/config.toml", "[build]\nrustflags = ['-Ctarget-cpu=native']\n"),
    ])
    .unwrap();
    assert!(
        found.command.contains("-Ctarget-cpu=native} $PLANISH_RUSTFLAGS\""),
        "{}",
        found.command
    );
}
