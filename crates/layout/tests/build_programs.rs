//! Do programs, kernels and modules give back the graph that they were walked through?

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use image::{Image, ImageKind};
use layout::{BuildOptions, Cfg, Observed, Rules, Sections, Unused, build};
use support::programs::{SHAPES, compiled};
use support::recorded::{counts_of, walked};

/// Walks through a program and compares what `build` makes of the counts with the walk.
fn comes_back(image: &Image, sections: Sections) -> Cfg {
    let expected = walked(image, &["loops", "chooses", "recurses", "finds", "main"], 5_000, 1);
    assert!(expected.functions.len() >= 5, "{}", image.path().display());
    let counts = counts_of(image, &expected);
    for rules in [Rules::Upstream, Rules::Decoded] {
        let options = BuildOptions { rules, sections, ..BuildOptions::default() };
        let maps = image::blocks::read(image).unwrap();
        let (cfg, report) = build(image, maps, &counts, &options).unwrap();
        assert_eq!(cfg.functions.len(), expected.functions.len());
        for (function, walked) in cfg.functions.iter().zip(&expected.functions) {
            assert_eq!(function.names, walked.names);
            assert_eq!(function.section, walked.section);
            assert_eq!(function.edges, walked.edges, "{:?} {rules:?}", function.names);
            for ((block, walked), index) in function.blocks.iter().zip(&walked.blocks).zip(0u32..) {
                // Entries and returns are not in these counts; the last step may stand in any
                // block.
                let returns = index == 0 || block.flags.has_return();
                let near = block.frequency.abs_diff(walked.frequency) <= 1;
                assert!(
                    returns || near,
                    "block {index} of {:?}: {block:?} {walked:?}",
                    function.names
                );
            }
        }
        let sizes =
            |cfg: &Cfg| cfg.functions.iter().map(layout::Function::size).collect::<Vec<_>>();
        assert_eq!(sizes(&cfg), sizes(&expected));
        assert!(report.branches.balances() && report.fall_throughs.balances());
        assert_eq!(
            (report.branches.used, report.fall_throughs.used),
            (report.branches.entered, report.fall_throughs.entered)
        );
    }
    expected
}

#[test]
fn static_and_position_independent_programs_give_back_their_graph() {
    let directory = tempfile::tempdir().unwrap();
    for (name, options) in [
        ("static", &["-static", "-no-pie"][..]),
        ("pie", &["-fPIE", "-pie", "-ffunction-sections"][..]),
        ("hashed", &["-mllvm", "-emit-bb-hash", "-Wl,--build-id"][..]),
        ("split", &["-fbasic-block-sections=all", "-fno-pie", "-no-pie"][..]),
        ("relaxed", &["-fbasic-block-sections=all", "-fuse-ld=lld", "-Wl,--optimize-bb-jumps"][..]),
    ] {
        let Some(image) = compiled(directory.path(), name, SHAPES, options) else { return };
        eprintln!("{name}");
        comes_back(&image, Sections::Text);
    }
}

#[test]
fn kernels_and_modules_give_back_their_graph() {
    let directory = tempfile::tempdir().unwrap();
    let source = format!(
        "{SHAPES}\n__attribute__((section(\".init.text\"), noinline)) int starts(int a) {{ return a < 3 ? a : loops(a, &sink); }}
         __attribute__((section(\".modinfo\"), used)) static const char licence[] = \"license=GPL\";
         __attribute__((section(\"__ex_table\"), used)) static const char table[] = \"table\";"
    );
    let kernel = [
        "-fno-pie",
        "-no-pie",
        "-mcmodel=kernel",
        "-Wl,-Ttext=0xffffffff81000000",
        "-nostdlib",
        "-Wl,--unresolved-symbols=ignore-all",
        "-Wl,-e,main",
    ];
    let module = ["-c", "-fno-pic", "-mcmodel=kernel"];
    for (name, options, kind) in [
        ("kernel", &kernel[..], ImageKind::Kernel),
        ("module", &module[..], ImageKind::KernelModule),
    ] {
        let Some(image) = compiled(directory.path(), name, &source, options) else { return };
        assert_eq!(image.kind(), kind);
        comes_back(&image, Sections::Text);
        let initial = counts_of(&image, &walked(&image, &["starts", "finds"], 100, 1));
        let maps = || image::blocks::read(&image).unwrap();
        let (cfg, report) = build(&image, maps(), &initial, &BuildOptions::default()).unwrap();
        assert_eq!((cfg.functions.len(), report.left_out[&Unused::SectionExcluded]), (1, 1));
        let all = BuildOptions { sections: Sections::All, ..BuildOptions::default() };
        let (cfg, _) = build(&image, maps(), &initial, &all).unwrap();
        assert!(cfg.functions.iter().any(|function| function.section == ".init.text"));
    }
}

#[test]
fn samples_without_branches_give_a_graph_that_fits_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let Some(image) = compiled(directory.path(), "sampled", SHAPES, &[]) else { return };
    let walk = walked(&image, &["loops", "finds"], 100_000, 3);
    let mut counts = counts::ImageCounts::default();
    for block in walk.functions.iter().flat_map(|function| &function.blocks) {
        let end = block.address.0 + u64::from(block.size);
        let inside =
            image::code::instructions(&image, block.address).take_while(|i| i.address.0 < end);
        counts.samples.extend(
            inside.map(|i| counts::SampleCount { address: i.address, count: block.frequency }),
        );
    }
    counts.samples.push(counts::SampleCount { address: image::ImageAddr(1), count: 5 });
    let maps = image::blocks::read(&image).unwrap();
    let (cfg, report) = build(&image, maps, &counts, &BuildOptions::default()).unwrap();
    assert_eq!(report.observed, Observed::SamplesOnly);
    assert!(report.observed.to_string().contains("lower quality"));
    assert_eq!(report.samples.unused_for(Unused::TargetUnmapped), 5);
    assert!(report.samples.balances());
    assert_eq!(report.inferred.unwrap().bounded_functions, 0);
    // Exact frequencies leave the edges little choice.
    for walked in &walk.functions {
        let function =
            cfg.functions.iter().find(|function| function.names == walked.names).unwrap();
        let sum = |edges: &[layout::Edge]| edges.iter().map(|edge| edge.weight).sum::<u64>();
        let mut agreed = 0;
        for edge in &walked.edges {
            let found =
                function.edges.iter().find(|other| (other.from, other.to) == (edge.from, edge.to));
            agreed += found.map_or(0, |found| found.weight / 64).min(edge.weight);
        }
        assert!(
            agreed * 10 > sum(&walked.edges) * 9,
            "{:?}: {agreed} of {}",
            walked.names,
            sum(&walked.edges)
        );
    }
}
