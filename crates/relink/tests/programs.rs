//! Do real programs, linked again in other layouts, do the same, lie elsewhere, and match where
//! they should?

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use common::{Build, Compiler, functions_by_address, said, tools};
use object::{Object as _, ObjectSymbol as _};
use relink::{
    Again, Blocks, Error, Inputs, Layout, MatchPlan, Relinked, relink, relink_in,
    share_at_equal_address, sizes,
};

const SEEDS: u64 = 3;

fn linked(inputs: &Inputs, layout: &Layout<'_>, directory: &Path) -> Relinked {
    relink_in(inputs, layout, directory).unwrap()
}

/// Links two variants in matched layouts; the smallest share, having checked that they run.
fn smallest_share(a: &Inputs, b: &Inputs, directory: &Path) -> f64 {
    let plan = MatchPlan::new(&[a, b]).unwrap();
    let mut smallest: f64 = 1.0;
    for seed in 1..=SEEDS {
        let of = |inputs, variant| {
            linked(inputs, &Layout::Matched { seed, plan: &plan, variant }, directory).path
        };
        let (a, b) = (of(a, 0), of(b, 1));
        said(&a);
        said(&b);
        smallest = smallest.min(share_at_equal_address(&a, &b).unwrap().share());
    }
    smallest
}

#[test]
fn programs_say_the_same_in_every_layout_and_lie_elsewhere() {
    for compiler in tools() {
        let build = Build::new(compiler);
        let inputs = build.inputs("base", |_| ());
        let directory = build.path("links");
        let as_built = linked(&inputs, &Layout::AsBuilt, &directory);
        let expected = said(&as_built.path);
        assert!(expected.contains("sum"), "{expected}");
        let plan = MatchPlan::new(&[&inputs]).unwrap();
        let mut orders = BTreeSet::new();
        for seed in 0..SEEDS {
            for layout in
                [Layout::Independent { seed }, Layout::Matched { seed, plan: &plan, variant: 0 }]
            {
                let relinked = linked(&inputs, &layout, &directory);
                assert_eq!(said(&relinked.path), expected, "{compiler:?} {layout:?}");
                assert!(!relinked.freedom.randomised.is_empty());
                let matched = share_at_equal_address(&as_built.path, &relinked.path).unwrap();
                assert!(matched.share() < 0.5, "{compiler:?} {layout:?} {matched:?}");
                orders.insert(common::functions_by_address(&relinked.path));
            }
        }
        assert_eq!(
            orders.len() as u64,
            2 * SEEDS,
            "{compiler:?}: every layout has an order of its own"
        );
    }
}

#[test]
fn the_as_built_layout_is_the_program_of_the_build() {
    for compiler in tools() {
        let build = Build::new(compiler);
        let inputs = build.inputs("base", |_| ());
        let again = linked(&inputs, &Layout::AsBuilt, &build.path("links"));
        assert_eq!(
            fs::read(again.path).unwrap(),
            fs::read(build.path("base/prog")).unwrap(),
            "{compiler:?}"
        );
    }
}

#[test]
fn equal_seeds_give_equal_bytes_and_a_second_link_does_nothing() {
    let Some(&compiler) = tools().first() else { return };
    let build = Build::new(compiler);
    let inputs = build.inputs("base", |_| ());
    let plan = MatchPlan::new(&[&inputs]).unwrap();
    for layout in
        [Layout::Independent { seed: 7 }, Layout::Matched { seed: 7, plan: &plan, variant: 0 }]
    {
        let first = linked(&inputs, &layout, &build.path("links"));
        assert!(!first.cached);
        assert!(linked(&inputs, &layout, &build.path("links")).cached);
        let elsewhere =
            Inputs::open(&build.path("base/link.tar"), &build.path("elsewhere")).unwrap();
        let plan = MatchPlan::new(&[&elsewhere]).unwrap();
        let layout = match layout {
            Layout::Matched { seed, variant, .. } => Layout::Matched { seed, plan: &plan, variant },
            other => other,
        };
        let out = build.path("again");
        relink(&elsewhere, &layout, &out).unwrap();
        assert_eq!(fs::read(out).unwrap(), fs::read(first.path).unwrap(), "{layout:?}");
    }
}

#[test]
fn links_at_the_same_time_give_the_same_bytes() {
    let Some(&compiler) = tools().first() else { return };
    let build = Build::new(compiler);
    build.inputs("base", |_| ());
    let bytes: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let link = |number: u64| {
            let build = &build;
            move || {
                let inputs =
                    Inputs::open(&build.path("base/link.tar"), &build.path("shared")).unwrap();
                let plan = MatchPlan::new(&[&inputs]).unwrap();
                let out = build.path(&format!("out{number}"));
                relink(&inputs, &Layout::Matched { seed: 1, plan: &plan, variant: 0 }, &out)
                    .unwrap();
                fs::read(out).unwrap()
            }
        };
        let threads: Vec<_> = (0..4).map(|number| scope.spawn(link(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(bytes.windows(2).all(|pair| pair[0] == pair[1]));
    let left = fs::read_dir(build.path("shared"))
        .unwrap()
        .flat_map(|home| fs::read_dir(home.unwrap().path()).unwrap());
    assert!(
        left.flatten().all(|entry| !entry.file_name().to_string_lossy().starts_with("planish-"))
    );
}

#[test]
fn unchanged_functions_keep_their_place_when_one_changes() {
    for compiler in tools() {
        let build = Build::new(compiler);
        let base = build.inputs("base", |_| ());
        let changed = build.inputs("changed", |sources| sources.longer = Some(17));
        let share = smallest_share(&base, &changed, &build.path("links"));
        assert!(share >= 0.95, "{compiler:?}: one function changed, {share}");
        let plan = MatchPlan::new(&[&base, &changed]).unwrap();
        assert_eq!(plan.changed(), ["work_17"], "{compiler:?}");
    }
}

#[test]
fn unchanged_functions_keep_their_place_when_one_is_added() {
    for compiler in tools() {
        let build = Build::new(compiler);
        let base = build.inputs("base", |_| ());
        let added = build.inputs("added", |sources| sources.added = true);
        let share = smallest_share(&base, &added, &build.path("links"));
        assert!(share >= 0.95, "{compiler:?}: one function added, {share}");
        let plan = MatchPlan::new(&[&base, &added]).unwrap();
        assert_eq!(plan.changed(), ["never_called (not in all variants)"], "{compiler:?}");
    }
}

#[test]
fn unchanged_functions_keep_their_place_when_a_file_has_other_flags() {
    for compiler in tools() {
        let build = Build::new(compiler);
        let base = build.inputs("base", |_| ());
        let flags = build.inputs("flags", |sources| sources.flags = &["-O0"]);
        // The small file has other flags, the large one has not.
        let share = smallest_share(&base, &flags, &build.path("links"));
        assert!(share >= 0.90, "{compiler:?}: {share}");
        let plan = MatchPlan::new(&[&base, &flags]).unwrap();
        let [a, b] = [(&base, 0), (&flags, 1)].map(|(inputs, variant)| {
            linked(inputs, &Layout::Matched { seed: 5, plan: &plan, variant }, &build.path("links"))
                .path
        });
        // Of what did not change, everything lies at the same place (sections also count the gaps
        // between functions).
        let matched = share_at_equal_address(&a, &b).unwrap();
        assert!(
            matched.bytes_equal_mod_4096 * 10 >= plan.common_bytes() * 9,
            "{compiler:?}: {matched:?} {plan:?}"
        );
    }
}

#[test]
fn functions_that_differ_in_a_number_only_keep_their_place_too() {
    for compiler in tools() {
        let build = Build::new(compiler);
        let base = build.inputs("base", |_| ());
        let changed = build.inputs("changed", |sources| sources.other_number = true);
        let plan = MatchPlan::new(&[&base, &changed]).unwrap();
        assert!(plan.changed().len() >= 20, "{compiler:?} {:?}", plan.changed());
        let share = smallest_share(&base, &changed, &build.path("links"));
        assert!(share >= 0.95, "{compiler:?}: {share}");
    }
}

#[test]
fn functions_of_the_same_name_are_placed_one_by_one() {
    for compiler in tools() {
        let build = Build::new(compiler);
        let base = build.inputs("base", |_| ());
        let changed = build.inputs("changed", |sources| sources.other_helper = true);
        let plan = MatchPlan::new(&[&base, &changed]).unwrap();
        // Of two static functions called `helper` only the second file's changed.
        assert_eq!(plan.changed().len(), 1, "{compiler:?} {:?}", plan.changed());
        let path = linked(
            &base,
            &Layout::Matched { seed: 3, plan: &plan, variant: 0 },
            &build.path("links"),
        )
        .path;
        let names = common::functions_by_address(&path);
        let places: Vec<usize> =
            (0..names.len()).filter(|&place| names[place] == "helper").collect();
        assert_eq!(places.len(), 2, "{compiler:?} {names:?}");
        let last = names.iter().rposition(|name| !name.starts_with('_')).unwrap();
        assert_eq!(places[1], last, "{compiler:?}: the changed one is last {names:?}");
        assert!(places[0] + 1 < places[1], "{compiler:?}: the other is elsewhere {names:?}");
        let share = smallest_share(&base, &changed, &build.path("links"));
        assert!(share >= 0.95, "{compiler:?}: {share}");
    }
}

#[test]
fn functions_of_the_same_name_in_a_library_are_placed_one_by_one() {
    for compiler in tools() {
        let build = Build::new(compiler);
        let library = |sources: &mut common::Sources| sources.library = true;
        let base = build.inputs("base", library);
        let changed = build.inputs("changed", |sources| {
            sources.library = true;
            sources.other_helper = true;
        });
        assert_eq!(MatchPlan::new(&[&base, &changed]).unwrap().changed().len(), 1, "{compiler:?}");
        let share = smallest_share(&base, &changed, &build.path("links"));
        assert!(share >= 0.95, "{compiler:?}: {share}");
    }
}

#[test]
fn static_programs_match_with_the_c_library_in_them() {
    for compiler in tools() {
        let build = Build::new(compiler);
        let base = build.inputs("base", |sources| sources.link = &["-static"]);
        let changed = build.inputs("changed", |sources| {
            sources.link = &["-static"];
            sources.longer = Some(3);
        });
        let share = smallest_share(&base, &changed, &build.path("links"));
        assert!(share >= 0.95, "{compiler:?}: {share}");
    }
}

#[test]
fn an_order_that_the_link_asks_for_is_kept() {
    for compiler in tools() {
        let build = Build::new(compiler);
        fs::write(build.path("order"), "work_9\nwork_3\nwork_40\n").unwrap();
        let option = format!("-Wl,--symbol-ordering-file={}", build.path("order").display());
        let inputs = build.inputs("base", |sources| sources.more_link = vec![option]);
        assert!(inputs.has_own_order());
        let plan = MatchPlan::new(&[&inputs]).unwrap();
        let mut orders = BTreeSet::new();
        for seed in 1..=SEEDS {
            for layout in
                [Layout::Independent { seed }, Layout::Matched { seed, plan: &plan, variant: 0 }]
            {
                let relinked = linked(&inputs, &layout, &build.path("links"));
                said(&relinked.path);
                let names = common::functions_by_address(&relinked.path);
                assert_eq!(names[..3], ["work_9", "work_3", "work_40"], "{compiler:?} {layout:?}");
                assert!(
                    relinked.freedom.to_string().contains("3 symbols by --symbol-ordering-file")
                );
                orders.insert(names);
            }
        }
        assert_eq!(orders.len() as u64, 2 * SEEDS, "{compiler:?}: the rest is in random order");
    }
}

#[test]
fn what_thin_link_time_optimisation_made_is_kept_for_further_layouts() {
    let clang = tools().into_iter().find(|compiler| !matches!(compiler, Compiler::Gcc));
    let Some(clang) = clang else { return };
    let build = Build::new(clang);
    let inputs = build.inputs("thin", |sources| {
        sources.flags = &["-flto=thin"];
        sources.more_flags = true;
    });
    let links = build.path("links");
    let made = || {
        let homes = fs::read_dir(build.path("state")).unwrap().flatten();
        let kept = homes.flat_map(|home| fs::read_dir(home.path().join("made")).unwrap().flatten());
        let names = kept.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("llvmcache-")).collect::<BTreeSet<_>>()
    };
    let first = made();
    assert!(!first.is_empty(), "of the link that looks");
    let again = linked(&inputs, &Layout::AsBuilt, &links);
    assert_eq!(fs::read(again.path).unwrap(), fs::read(build.path("thin/prog")).unwrap());
    let random = [1, 2].map(|seed| linked(&inputs, &Layout::Independent { seed }, &links).path);
    let orders = random.each_ref().map(|path| common::functions_by_address(path));
    assert_ne!(orders[0], orders[1]);
    assert_eq!(made(), first, "nothing was made anew");

    // The layout of its blocks is no part of an archive: with another one it is another link.
    let clusters = build.path("clusters");
    fs::write(&clusters, "v1\nf work_0\nc0\n").unwrap();
    let option = format!("-Wl,--lto-O0,--lto-basic-block-sections={}", clusters.display());
    let laid_out = build.inputs("laid-out", |sources| {
        sources.flags = &["-flto=thin"];
        sources.more_flags = true;
        sources.more_link = vec![option];
    });
    let has_cold = |inputs: &Inputs| {
        let bytes = fs::read(linked(inputs, &Layout::AsBuilt, &links).path).unwrap();
        bytes.windows(b"work_0.cold".len()).any(|part| part == b"work_0.cold")
    };
    assert!(has_cold(&laid_out));
    fs::write(&clusters, "v1\n").unwrap();
    let other = Inputs::open(laid_out.archive(), &build.path("state")).unwrap();
    assert_ne!(other.identity(), laid_out.identity());
    assert!(!has_cold(&other));
}

#[test]
fn link_time_optimised_programs_get_independent_layouts_only() {
    for compiler in tools() {
        let build = Build::new(compiler);
        let opened = build.open("lto", |sources| {
            sources.flags = &["-flto"];
            sources.more_flags = true;
        });
        if matches!(compiler, Compiler::Gcc) {
            assert!(
                matches!(opened, Err(Error::GccLinkTime { .. } | Error::Link { .. })),
                "{opened:?}"
            );
            continue;
        }
        let inputs = opened.unwrap();
        assert!(
            inputs.survey().remarks.iter().any(|remark| remark.contains("bitcode")),
            "{:?}",
            inputs.survey()
        );
        assert!(matches!(MatchPlan::new(&[&inputs]), Err(Error::LinkTime { .. })));
        let links = build.path("links");
        let expected = said(&linked(&inputs, &Layout::AsBuilt, &links).path);
        assert_eq!(said(&linked(&inputs, &Layout::Independent { seed: 1 }, &links).path), expected);
    }
}

#[test]
fn bitcode_gets_the_layout_of_its_blocks_by_a_link() {
    for compiler in tools().into_iter().filter(|compiler| matches!(compiler, Compiler::Clang)) {
        let build = Build::new(compiler);
        let lto = build.inputs("lto", |sources| {
            sources.flags = &["-flto"];
            sources.more_flags = true;
            // Else every function is of one block: all that is called is known.
            sources.link = &["-Wl,--lto-O0"];
        });
        let again = Again::open(lto.archive()).unwrap();
        assert!(again.objects().iter().any(|bytes| bytes.starts_with(b"BC")));
        let out = build.path("out/program");
        let file = |name: &str, text: &str| {
            let path = build.path(name);
            fs::write(&path, text).unwrap();
            path
        };
        // All but the first block of the function is cold.
        let clusters = file("clusters", "v1\nf work_0\nc0\n");
        let order = file("order", "work_5\nwork_3\n");
        let blocks = Blocks { clusters: &clusters, order: &order };
        again.link(blocks, &build.path("unpacked"), &out).unwrap();
        let as_built = linked(&lto, &Layout::AsBuilt, &build.path("links")).path;
        assert_eq!(said(&out), said(&as_built));
        let has_cold = |program: &Path| {
            let bytes = fs::read(program).unwrap();
            bytes.windows(b"work_0.cold".len()).any(|part| part == b"work_0.cold")
        };
        assert!(has_cold(&out) && !has_cold(&as_built));
        let first = |program| functions_by_address(program).swap_remove(0);
        assert_eq!((first(&out).as_str(), first(&as_built).as_str()), ("work_5", "_start"));
        assert_eq!(std::fs::read_dir(build.path("unpacked")).unwrap().count(), 0);
        let library = build.inputs("library", |sources| sources.library = true);
        let again = Again::open(library.archive()).unwrap();
        let members =
            again.objects().into_iter().filter_map(|bytes| object::File::parse(bytes).ok());
        let mut symbols = members.flat_map(|file| {
            let names = file.symbols().filter_map(|symbol| Some(symbol.name().ok()?.to_owned()));
            names.collect::<Vec<_>>()
        });
        assert!(symbols.any(|name| name == "name_of"), "an object of the static library");
    }
}

#[test]
fn programs_without_function_sections_are_refused_with_advice() {
    for compiler in tools() {
        let build = Build::new(compiler);
        let error = build.open("base", |sources| sources.whole_files = true).unwrap_err();
        assert!(matches!(error, Error::NoFunctionSections { .. }), "{error}");
        assert!(error.to_string().contains("-ffunction-sections"), "{error}");
    }
}

/// Size of lld's `.relro_padding`, which it has given every program with a RELRO segment since
/// version 17.
fn padding(program: &std::path::Path) -> u64 {
    let bytes = std::fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    use object::{Object, ObjectSection};
    let found = file.section_by_name(".relro_padding").map_or(0, |section| section.size());
    assert!(found > 0, "the link has none, so that nothing is tried");
    found
}

#[test]
fn sizes_are_those_that_size_prints() {
    for compiler in tools() {
        let build = Build::new(compiler);
        let inputs = build.inputs("base", |_| ());
        let program = linked(&inputs, &Layout::AsBuilt, &build.path("links")).path;
        let Some(printed) = common::output_of("size", &[program.to_str().unwrap()])
            .or_else(|| common::output_of("llvm-size-22", &[program.to_str().unwrap()]))
        else {
            eprintln!("skipped: size is not installed");
            return;
        };
        let mut fields: Vec<u64> = printed
            .lines()
            .nth(1)
            .unwrap()
            .split_whitespace()
            .take(3)
            .map(|n| n.parse().unwrap())
            .collect();
        // lld fills the last page that becomes read-only up with a section without data, as large
        // as chance has it.
        fields[2] -= padding(&program);
        let found = sizes(&program).unwrap();
        assert_eq!([found.text, found.data, found.bss], fields[..], "{compiler:?}");
    }
}

#[test]
fn stripped_links_keep_symbols_so_that_layouts_can_be_verified() {
    let Some(&compiler) = tools().first() else { return };
    let build = Build::new(compiler);
    let inputs = build.inputs("base", |sources| sources.link = &["-s"]);
    let links = build.path("links");
    let as_built = linked(&inputs, &Layout::AsBuilt, &links).path;
    let other = linked(&inputs, &Layout::Independent { seed: 1 }, &links).path;
    assert!(share_at_equal_address(&other, &other).unwrap().share() > 0.999);
    assert!(matches!(share_at_equal_address(&as_built, &other), Err(Error::Program { .. })));
}

#[test]
fn a_plan_serves_only_the_programs_it_was_made_of() {
    let Some(&compiler) = tools().first() else { return };
    let build = Build::new(compiler);
    let base = build.inputs("base", |_| ());
    let other = build.inputs("other", |sources| sources.added = true);
    let plan = MatchPlan::new(&[&base]).unwrap();
    let out = build.path("out");
    for (inputs, variant) in [(&base, 1), (&other, 0)] {
        let layout = Layout::Matched { seed: 1, plan: &plan, variant };
        assert!(matches!(relink(inputs, &layout, &out), Err(Error::Variant { .. })));
    }
}
