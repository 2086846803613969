//! Is the graph of the sample program the one that its golden file describes, block for block and
//! edge for edge?

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use counts::{Branch, FallThrough, ImageCounts};
use image::{Image, ImageAddr};
use layout::{BuildOptions, Error, Rules, Unused, build};
use support::fixtures::{golden_cfg, path};
use support::recorded::{counts_of, last_instruction};

fn sample() -> Image {
    Image::open(&path("propeller_sample.bin")).unwrap()
}

#[test]
fn the_sample_program_has_the_graph_of_the_golden_file_under_both_rules() {
    let image = sample();
    let expected = golden_cfg();
    let counts = counts_of(&image, &expected);
    for rules in [Rules::Upstream, Rules::Decoded] {
        let maps = image::blocks::read(&image).unwrap();
        let (cfg, report) =
            build(&image, maps, &counts, &BuildOptions { rules, ..BuildOptions::default() })
                .unwrap();
        assert_eq!(cfg, expected, "{rules:?}");
        assert_eq!(report.branches.used, report.branches.entered, "{report:?}");
        assert_eq!(report.fall_throughs.used, report.fall_throughs.entered, "{report:?}");
        assert_eq!(
            (report.mapped_functions, report.mapped_blocks, report.hot_functions),
            (4, 15, 2)
        );
    }
}

#[test]
fn what_cannot_be_used_is_counted_by_its_reason() {
    let image = sample();
    let graph = golden_cfg();
    let mut counts = counts_of(&image, &graph);
    let main = &graph.functions[1];
    let used: u64 = counts.branches.iter().map(|branch| branch.count).sum();
    let jump = Some(last_instruction(&image, &main.blocks[7]));
    let inside = Some(ImageAddr(main.blocks[3].address.0 + 3));
    let entry = Some(main.blocks[0].address);
    let unmapped =
        image.functions().iter().find(|function| function.name == "_start").unwrap().address;
    let more = [
        (jump, inside, 5, Unused::IntoBlock),
        (jump, Some(unmapped), 7, Unused::TargetUnmapped),
        (Some(unmapped), entry, 11, Unused::SourceUnmapped),
        (None, entry, 13, Unused::SourceOutside),
        (jump, None, 17, Unused::TargetOutside),
    ];
    for (from, to, count, _) in more {
        counts.branches.push(Branch { from, to, count, mispredicted: 0 });
    }
    // Block 7 of main ends with a jump: nothing falls through it.
    let last = main.blocks[8].address;
    counts.fall_throughs.push(FallThrough { first: main.blocks[6].address, last, count: 19 });
    let across = graph.functions[0].blocks[0].address;
    counts.fall_throughs.push(FallThrough {
        first: across,
        last: main.blocks[0].address,
        count: 23,
    });
    let maps = image::blocks::read(&image).unwrap();
    let (cfg, report) = build(&image, maps, &counts, &BuildOptions::default()).unwrap();
    for (_, _, count, reason) in more {
        assert_eq!(report.branches.unused_for(reason), count, "{reason}");
    }
    assert_eq!(report.branches.used, used);
    assert_eq!(report.fall_throughs.unused_for(Unused::NoFallThrough), 19);
    assert_eq!(report.fall_throughs.unused_for(Unused::CrossesFunctions), 23);
    assert!(report.branches.balances() && report.fall_throughs.balances());
    assert_eq!(
        cfg.functions[1].blocks[0].frequency,
        11 + 13,
        "entries from outside are executions"
    );
    assert_eq!(cfg.functions[1].edges, graph.functions[1].edges);
}

#[test]
fn counts_of_another_program_are_refused_with_numbers() {
    let image = sample();
    let mut counts = counts_of(&image, &golden_cfg());
    for branch in &mut counts.branches {
        branch.to = branch.to.map(|to| ImageAddr(to.0 + 1));
    }
    let maps = || image::blocks::read(&image).unwrap();
    let error = build(&image, maps(), &counts, &BuildOptions::default()).unwrap_err();
    assert!(matches!(error, Error::SourceDrift { .. }), "{error}");
    assert!(error.to_string().contains(" %, more than 30 %"), "{error}");

    counts.build_id = Some("0123456789abcdef".parse().unwrap());
    let error = build(&image, maps(), &counts, &BuildOptions::default()).unwrap_err();
    assert!(matches!(error, Error::OtherBuild { .. }), "{error}");

    let error = build(&image, Vec::new(), &counts, &BuildOptions::default()).unwrap_err();
    assert!(error.to_string().contains("-fbasic-block-address-map"), "{error}");

    let error =
        build(&image, maps(), &ImageCounts::default(), &BuildOptions::default()).unwrap_err();
    assert!(matches!(error, Error::NoCounts { .. }), "{error}");

    let elsewhere = ImageCounts {
        branches: vec![Branch { from: None, to: Some(ImageAddr(1)), count: 9, mispredicted: 0 }],
        ..ImageCounts::default()
    };
    let error = build(&image, maps(), &elsewhere, &BuildOptions::default()).unwrap_err();
    assert!(matches!(error, Error::TooFewEdges { used: 0, entered: 9, .. }), "{error}");
}
