//! Is the order that a link has of its own kept, and do its functions start elsewhere all the same?

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use common::{Build, Compiler, functions_by_address, said, tools};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use relink::{Inputs, Layout, MatchPlan, relink_in};

/// Functions by name: where they start.
fn starts(path: &std::path::Path) -> BTreeMap<String, u64> {
    let bytes = fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let text = file.section_by_name(".text").unwrap();
    assert!(text.align() >= 64, "of the text: {}", text.align());
    let name = |symbol: &object::Symbol<'_, '_>| symbol.name().unwrap().to_owned();
    file.symbols().map(|symbol| (name(&symbol), symbol.address())).collect()
}

/// The program built with a profile in which `main` calls some functions often, so that clang writes
/// calls into the objects, and with one function that makes the text start at a cache line, as most
/// programs of some size have.
fn with_calls(build: &Build, more_link: &[&str]) -> Inputs {
    let profile = build.path("calls.prof");
    let mut text = "main:90000:1\n 1: 1\n".to_owned();
    for number in [40, 7, 23, 11] {
        // Of the line of the call behind that of `main`.
        text.push_str(&format!(" {}: 1000 work_{number}:1000\n", number + 2));
    }
    for number in [40, 7, 23, 11] {
        text.push_str(&format!("work_{number}:9000:1000\n 0: 1000\n"));
    }
    fs::write(&profile, text).unwrap();
    let option: &'static str =
        Box::leak(format!("-fprofile-sample-use={}", profile.display()).into_boxed_str());
    let flags: &'static [&'static str] =
        Box::leak(vec![option, "-gline-tables-only", "-falign-functions=16"].into_boxed_slice());
    let aligned = build.path("aligned.s");
    fs::write(&aligned, ".text\n.p2align 6\naligned: ret\n.section .note.GNU-stack,\"\"\n")
        .unwrap();
    let mut link = vec![aligned.display().to_string()];
    link.extend(more_link.iter().map(|option| (*option).to_owned()));
    build.inputs("calls", |sources| {
        sources.flags = flags;
        sources.more_flags = true;
        sources.more_link = link;
    })
}

#[test]
fn an_order_by_calls_is_kept_and_its_functions_start_anywhere_in_a_cache_line() {
    if !tools().contains(&Compiler::Clang) {
        return;
    }
    for sort in ["cdsort", "hfsort"] {
        let build = Build::new(Compiler::Clang);
        let inputs = with_calls(&build, &[&format!("-Wl,--call-graph-profile-sort={sort}")]);
        assert!(inputs.has_own_order(), "{sort}");
        let order = |path: &std::path::Path| {
            let names = functions_by_address(path).into_iter();
            let called = |name: &String| name == "main" || name.starts_with("work_");
            names.filter(called).collect::<Vec<String>>()
        };
        let as_built = relink_in(&inputs, &Layout::AsBuilt, &build.path("links")).unwrap();
        let expected = order(&as_built.path);
        assert_eq!(expected.len(), 61);
        let plan = MatchPlan::new(&[&inputs]).unwrap();
        for shared in [false, true] {
            let layout = |seed| match shared {
                true => Layout::Matched { seed, plan: &plan, variant: 0 },
                false => Layout::Independent { seed },
            };
            let mut within = BTreeSet::new();
            for seed in 1..=8 {
                let relinked = relink_in(&inputs, &layout(seed), &build.path("links")).unwrap();
                said(&relinked.path);
                let told = relinked.freedom.to_string();
                assert!(told.contains("by the call profile in the objects"), "{told}");
                assert!(told.contains("start of functions with a place within cache"), "{told}");
                assert_eq!(order(&relinked.path), expected, "{sort}");
                let starts = starts(&relinked.path);
                within.insert(["main", "work_40", "work_7"].map(|name| starts[name] % 64));
            }
            assert!(within.len() >= 6, "{sort}: {within:?}");
            assert!(relink_in(&inputs, &layout(3), &build.path("links")).unwrap().cached);
        }
    }
}

#[test]
fn a_link_that_leaves_the_calls_aside_has_no_order() {
    if !tools().contains(&Compiler::Clang) {
        return;
    }
    for option in ["-Wl,--call-graph-profile-sort=none", "-Wl,--no-call-graph-profile-sort"] {
        let build = Build::new(Compiler::Clang);
        let inputs = with_calls(&build, &[option]);
        assert!(!inputs.has_own_order(), "{option}");
        assert!(!MatchPlan::new(&[&inputs]).unwrap().has_own_order());
    }
}

/// The names of the sections with code, in order.
fn code_sections(path: &std::path::Path) -> Vec<String> {
    let bytes = fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let sections = file.sections().filter(|section| section.kind() == object::SectionKind::Text);
    sections.map(|section| section.name().unwrap().to_owned()).collect()
}

#[test]
fn hot_code_that_the_link_keeps_apart_stays_where_it_is_and_a_script_places_what_it_places() {
    if !tools().contains(&Compiler::Clang) {
        return;
    }
    let build = Build::new(Compiler::Clang);
    let apart = with_calls(&build, &["-Wl,-z,keep-text-section-prefix"]);
    let links = build.path("links");
    let as_built = relink_in(&apart, &Layout::AsBuilt, &links).unwrap();
    let expected = code_sections(&as_built.path);
    assert!(expected.contains(&".text.hot".to_owned()), "{expected:?}");
    let relinked = relink_in(&apart, &Layout::Independent { seed: 1 }, &links).unwrap();
    let sections = code_sections(&relinked.path);
    let own: Vec<&String> = sections.iter().filter(|name| !name.contains("planish")).collect();
    assert_eq!(own, expected.iter().collect::<Vec<_>>());

    let build = Build::new(Compiler::Clang);
    let script = build.path("script.ld");
    fs::write(&script, "SECTIONS { .own : { *(.own) } } INSERT AFTER .text;").unwrap();
    let option = format!("-Wl,-T,{}", script.display());
    let inputs = with_calls(&build, &[&option]);
    let relinked =
        relink_in(&inputs, &Layout::Independent { seed: 1 }, &build.path("links")).unwrap();
    said(&relinked.path);
    let told = relinked.freedom.to_string();
    assert!(!told.contains("within cache lines"), "{told}");
    assert!(told.contains("what the linker script places"), "{told}");
}
