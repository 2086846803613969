//! What is written is read as it was, and no text makes a reader fail.

use image::blocks::BlockId;
use layout::write::cc::{CcBlock, CcFunction, CcProfile, CcVersion};
use layout::write::{check, order, read_cc};
use proptest::prelude::*;

/// Functions with distinct names, each block in one cluster, clones that their paths make.
fn profile(version: CcVersion) -> impl Strategy<Value = CcProfile> {
    let blocks = prop::collection::btree_set(1u32..60, 0..20);
    let module = prop::option::of("[a-z]{1,8}/[a-z]{1,8}\\.cc");
    let one = (blocks, any::<prop::sample::Index>(), module, 0..4usize);
    prop::collection::vec(one, 0..12).prop_map(move |functions| {
        let made =
            functions.into_iter().enumerate().map(|(number, (blocks, split, module, paths))| {
                let mut all: Vec<CcBlock> =
                    blocks.iter().map(|&id| CcBlock { id: BlockId(id), clone: 0 }).collect();
                let paths = if version == CcVersion::V0 { 0 } else { paths.min(blocks.len()) };
                let cloned: Vec<BlockId> =
                    blocks.iter().rev().take(paths).map(|&id| BlockId(id)).collect();
                all.extend(cloned.iter().map(|&id| CcBlock { id, clone: 1 }));
                let cut = if all.is_empty() { 0 } else { split.index(all.len()) };
                let second = all.split_off(cut);
                all.insert(0, CcBlock { id: BlockId(0), clone: 0 });
                let mut clusters = vec![all];
                if !second.is_empty() {
                    clusters.push(second);
                }
                CcFunction {
                    module,
                    names: vec![format!("f{number}"), format!("alias{number}.llvm.7")],
                    paths: cloned.iter().map(|&id| vec![BlockId(0), id]).collect(),
                    clusters,
                    ..CcFunction::default()
                }
            });
        CcProfile { version, functions: made.collect() }
    })
}

fn version() -> impl Strategy<Value = CcVersion> {
    prop_oneof![Just(CcVersion::V0), Just(CcVersion::V1)]
}

proptest! {
    #[test]
    fn a_cc_profile_is_read_as_it_was_written(profile in version().prop_flat_map(profile)) {
        let text = profile.render().unwrap();
        if profile.functions.is_empty() {
            return Ok(());
        }
        prop_assert_eq!(check::text(&text), vec![]);
        prop_assert_eq!(read_cc::read(&text).unwrap(), profile);
    }

    #[test]
    fn no_text_makes_the_reader_fail(text in "(v[0-9]\n)?([!mfcpg@# ]{0,2}[0-9a-z. !/=]{0,12}\n){0,12}") {
        let _ = check::text(&text);
        if let Ok(profile) = read_cc::read(&text) {
            // What was read without a finding can be written again, clones of version 0 aside.
            let again = profile.render().unwrap_or_default();
            prop_assert!(check::text(&text).iter().any(|f| f.severity == check::Severity::Ignored)
                || read_cc::read(&again).is_ok_and(|same| same == profile));
        }
    }

    #[test]
    fn an_order_of_symbols_is_read_as_it_was_written(names in prop::collection::btree_set("[a-z_][a-z0-9_.$@]{0,12}", 0..30)) {
        let text: String = names.iter().map(|name| format!("{name}\n")).collect();
        prop_assert_eq!(order::read(&text).unwrap(), names.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_symbol_that_stands_twice_is_refused_with_its_line() {
    let error = order::read("main\n# a comment\n\nwork\nmain\n").unwrap_err().to_string();
    assert!(error.starts_with("line 5: `main` stands a second time"), "{error}");
}

#[test]
fn pre_aggregated_text_holds_the_counts_and_says_which_ranges_a_return_entered() {
    use counts::{Branch, FallThrough, ImageCounts, preaggregated};
    use image::{Image, ImageAddr};
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/autofdo/propeller_sample.bin");
    let image = Image::open(std::path::Path::new(path)).unwrap();
    let function = |name: &str| {
        image.functions().iter().find(|function| function.name == name).unwrap().address
    };
    let (main, compute) = (function("main"), function("compute_flag"));
    let after_call = ImageAddr(main.0 + 0x40);
    let last = ImageAddr(main.0 + 0x48);
    let mut counts = ImageCounts {
        path: "app".into(),
        branches: vec![
            Branch { from: None, to: Some(main), count: 3, mispredicted: 0 },
            Branch { from: Some(main), to: None, count: 4, mispredicted: 1 },
            Branch { from: Some(main), to: Some(compute), count: 5, mispredicted: 2 },
            Branch { from: Some(compute), to: Some(after_call), count: 6, mispredicted: 0 },
            Branch { from: Some(last), to: Some(after_call), count: 2, mispredicted: 0 },
        ],
        fall_throughs: vec![
            FallThrough { first: main, last, count: 7 },
            FallThrough { first: after_call, last, count: 8 },
        ],
        ..ImageCounts::default()
    };
    counts.branches.sort();
    let text = layout::write::bolt::preaggregated(&image, &counts);
    let line = |kind: &str, first: ImageAddr, count: u64| {
        format!("{kind} {:x} {:x} {count}", first.0, last.0)
    };
    for expected in [line("F", main, 7), line("r", after_call, 6), line("F", after_call, 2)] {
        assert!(text.lines().any(|line| line == expected), "no `{expected}` in {text}");
    }
    let default = preaggregated::DefaultImage { build_id: None, path: "app".into() };
    let read = preaggregated::read(std::path::Path::new("x"), text.as_bytes(), &default).unwrap();
    assert_eq!(read.images, [counts]);
}

#[test]
fn fdata_has_a_line_for_each_step_of_a_range_into_a_block_and_none_for_a_range_of_one_instruction()
{
    use counts::{Branch, FallThrough, ImageCounts};
    use image::{Image, ImageAddr};
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/autofdo/propeller_sample.bin");
    let image = Image::open(std::path::Path::new(path)).unwrap();
    let function =
        image.functions().iter().find(|function| function.name == "compute_flag").unwrap();
    let (start, end) = (function.address, function.end());
    let code: Vec<_> =
        image::code::instructions(&image, start).take_while(|i| i.address < end).collect();
    let jump =
        code.iter().find(|i| i.kind == image::code::InstructionKind::ConditionalBranch).unwrap();
    let next = code.iter().find(|i| i.address > jump.address).unwrap().address;
    let target = jump.target.unwrap();
    let counts = ImageCounts {
        path: "x".into(),
        branches: vec![
            Branch { from: None, to: Some(start), count: 9, mispredicted: 0 },
            Branch { from: Some(jump.address), to: Some(target), count: 5, mispredicted: 1 },
        ],
        fall_throughs: vec![
            FallThrough { first: start, last: start, count: 2 },
            FallThrough { first: start, last: jump.address, count: 3 },
            FallThrough { first: start, last: next, count: 4 },
            FallThrough { first: next, last: start, count: 1 },
            FallThrough { first: start, last: ImageAddr(end.0 + 64), count: 7 },
        ],
        ..ImageCounts::default()
    };
    let (text, report) = layout::write::bolt::fdata(&image, &counts).unwrap();
    let at = |address: ImageAddr| format!("1 compute_flag {:x}", address.0 - start.0);
    let expected = format!(
        "0 [unknown] 0 {entry} 0 9\n{jump} {next} 0 4\n{jump} {target} 1 5\n",
        entry = at(start),
        jump = at(jump.address),
        next = at(next),
        target = at(target)
    );
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&text), sorted(&expected));
    assert_eq!((report.ranges, report.ranges_used, report.ranges_unused), (17, 9, 8));
}

#[test]
fn the_rest_is_what_was_counted_in_functions_that_no_map_covers() {
    use counts::{Branch, ImageCounts};
    use image::{Image, ImageAddr};
    use std::collections::BTreeSet;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/autofdo/propeller_sample.bin");
    let image = Image::open(std::path::Path::new(path)).unwrap();
    let address = |name: &str| {
        image.functions().iter().find(|function| function.name == name).unwrap().address
    };
    let (main, flag) = (address("main"), address("compute_flag"));
    let call = |from: ImageAddr, to: ImageAddr, count| Branch {
        from: Some(from),
        to: Some(to),
        count,
        mispredicted: 0,
    };
    let later = |address: ImageAddr, bytes: u64| ImageAddr(address.0 + bytes);
    let counts = ImageCounts {
        path: "x".into(),
        branches: vec![
            call(main, later(main, 1), 3),
            call(main, flag, 4),
            call(later(main, 1), flag, 5),
            call(flag, main, 6),
            call(flag, later(flag, 1), 7),
        ],
        ..ImageCounts::default()
    };
    let rest = |mapped: &[ImageAddr]| {
        let mapped: BTreeSet<ImageAddr> = mapped.iter().copied().collect();
        layout::write::bolt::rest(&image, &counts, &mapped).unwrap()
    };
    // The layout moves the blocks of main: where in it something came from or went to says nothing
    // of the new program.
    let found = rest(&[main]);
    let expected = "0 [unknown] 0 1 compute_flag 0 0 9\n1 compute_flag 0 0 [unknown] 0 0 6\n\
                    1 compute_flag 0 1 compute_flag 1 0 7\n";
    assert_eq!((found.fdata.as_str(), found.functions.as_str()), (expected, "compute_flag\n"));
    assert_eq!(rest(&[]).fdata, layout::write::bolt::fdata(&image, &counts).unwrap().0);
    let none = rest(&[main, flag]);
    assert_eq!((none.fdata.as_str(), none.functions.as_str()), ("", ""));
}
