//! Does flow repair keep its promises: conservation, counts that fit left alone, bounded work?

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use image::ImageAddr;
use image::blocks::{BlockFlags, BlockId};
use layout::{Block, BlockIndex, Edge, Function, InferOptions, Observed, Way, repair};
use proptest::prelude::*;
use support::fixtures::golden_cfg;

const FALLS: u8 = 8;
const RETURNS: u8 = 1;
const LANDS: u8 = 4;

/// A function of blocks of 16 bytes with these flags and frequencies.
fn function(blocks: &[(u8, u64)], edges: &[(u32, u32, u64)]) -> Function {
    let block = |(&(flags, frequency), index): (&(u8, u64), u32)| Block {
        id: BlockId(index),
        address: ImageAddr(0x1000 + u64::from(index) * 16),
        size: 16,
        flags: BlockFlags::from_bits(flags).unwrap(),
        frequency,
        hash: None,
    };
    let edge = |&(from, to, weight): &(u32, u32, u64)| Edge {
        from: BlockIndex(from),
        to: BlockIndex(to),
        weight,
    };
    let mut function = Function {
        names: vec!["f".into()],
        section: ".text".into(),
        module: None,
        blocks: blocks.iter().zip(0..).map(block).collect(),
        edges: edges.iter().map(edge).collect(),
    };
    function.edges.sort();
    function.edges.dedup_by_key(|edge| (edge.from, edge.to));
    function.edges.retain(|edge| edge.weight != 0);
    function
}

fn way(from: u32, to: u32, falls: bool) -> Way {
    Way { from: BlockIndex(from), to: BlockIndex(to), falls }
}

/// Sums of edges into and out of each block.
fn sums(function: &Function) -> Vec<(u128, u128)> {
    let mut sums = vec![(0, 0); function.blocks.len()];
    for edge in &function.edges {
        sums[edge.to.0 as usize].0 += u128::from(edge.weight);
        sums[edge.from.0 as usize].1 += u128::from(edge.weight);
    }
    sums
}

/// Blocks that control may enter and leave other than by the edges, because flags say so or no way
/// is known.
fn assert_conserved(function: &Function, ways: &[Way], strict: bool) {
    for ((block, (arriving, leaving)), index) in
        function.blocks.iter().zip(sums(function)).zip(0u32..)
    {
        let frequency = u128::from(block.frequency);
        assert!(
            arriving <= frequency && leaving <= frequency,
            "block {index}: {arriving} {frequency} {leaving}"
        );
        let way_in = ways.iter().any(|way| way.to.0 == index);
        let way_out = ways.iter().any(|way| way.from.0 == index);
        if strict && way_in && index != 0 && !block.flags.is_landing_pad() {
            assert_eq!(arriving, frequency, "block {index} is entered as often as it runs");
        }
        if strict && way_out && !block.flags.has_return() {
            assert_eq!(leaving, frequency, "block {index} is left as often as it runs");
        }
    }
    let pairs: Vec<_> = function.edges.iter().map(|edge| (edge.from, edge.to)).collect();
    assert!(pairs.windows(2).all(|pair| pair[0] < pair[1]), "edges are sorted and unique");
    assert!(function.edges.iter().all(|edge| edge.weight != 0));
}

/// Functions in which each block leads to the next one, so that all are reached and all reach the
/// return at the end.
fn chained() -> impl Strategy<Value = (Function, Vec<Way>)> {
    (2usize..40).prop_flat_map(|count| {
        let blocks = prop::collection::vec((any::<bool>(), 0u64..1000), count);
        let edges =
            prop::collection::vec((0..count as u32, 0..count as u32, 0u64..1000), 0..count * 2);
        (blocks, edges).prop_map(move |(blocks, edges)| {
            let last = count - 1;
            let flags = |(index, (lands, frequency)): (usize, &(bool, u64))| {
                let lands = if *lands && index % 7 == 3 { LANDS } else { 0 };
                (if index == last { RETURNS } else { FALLS } | lands, *frequency)
            };
            let blocks: Vec<(u8, u64)> = blocks.iter().enumerate().map(flags).collect();
            let mut ways: Vec<Way> =
                (0..last as u32).map(|from| way(from, from + 1, true)).collect();
            ways.extend(edges.iter().map(|&(from, to, _)| way(from, to, false)));
            (function(&blocks, &edges), ways)
        })
    })
}

proptest! {
    #[test]
    fn repaired_counts_fit_and_stay_when_repaired_again((function, ways) in chained(), bounded in any::<bool>()) {
        let work_per_arc = if bounded { 1 } else { 1_000_000 };
        let options = InferOptions { work_per_arc, ..InferOptions::default() };
        let mut repaired = function.clone();
        let report = repair(&mut repaired, &ways, &options);
        assert_conserved(&repaired, &ways, true);
        prop_assert!(bounded || report.bounded_functions == 0);
        let mut again = repaired.clone();
        let second = repair(&mut again, &ways, &options);
        prop_assert_eq!(&again, &repaired);
        prop_assert_eq!((second.changed_functions, second.raised, second.lowered), (0, 0, 0));
        let sum = |function: &Function| function.blocks.iter().map(|block| block.frequency).sum::<u64>();
        prop_assert_eq!(sum(&function) + report.raised, sum(&repaired) + report.lowered);
    }

    #[test]
    fn functions_of_any_shape_are_repaired(
        blocks in prop::collection::vec((0u8..32, prop_oneof![0u64..9, any::<u64>()]), 1..30),
        edges in prop::collection::vec((0u32..30, 0u32..30, prop_oneof![0u64..9, any::<u64>()]), 0..60),
        ways in prop::collection::vec((0u32..32, 0u32..32, any::<bool>()), 0..60),
        samples in any::<bool>(),
    ) {
        let count = blocks.len() as u32;
        let edges: Vec<_> = edges.into_iter().filter(|edge| edge.0 < count && edge.1 < count).collect();
        let mut function = function(&blocks, &edges);
        let ways: Vec<Way> = ways.into_iter().map(|(from, to, falls)| way(from, to, falls)).collect();
        let observed = if samples { Observed::SamplesOnly } else { Observed::Branches };
        repair(&mut function, &ways, &InferOptions { observed, ..InferOptions::default() });
        // Numbers near 2^64 may not fit into sums any more.
        if function.blocks.iter().all(|block| block.frequency < 1 << 50) {
            assert_conserved(&function, &ways, false);
        }
    }
}

#[test]
fn a_missing_edge_is_found_and_a_missing_count_filled_in() {
    // A diamond: 0 to 1 or 2, both to 3. The edge 2 to 3 was never seen, and 1 to 3 too seldom.
    let blocks = [(FALLS, 100), (0, 70), (FALLS, 30), (RETURNS, 100)];
    let mut diamond = function(&blocks, &[(0, 1, 70), (0, 2, 30), (1, 3, 60)]);
    let ways = [way(0, 1, true), (way(0, 2, false)), way(1, 3, false), way(2, 3, true)];
    let report = repair(&mut diamond, &ways, &InferOptions::default());
    let expected = function(&blocks, &[(0, 1, 70), (0, 2, 30), (1, 3, 70), (2, 3, 30)]);
    assert_eq!(diamond, expected);
    assert_eq!((report.edges_added, report.raised, report.lowered), (1, 0, 0));
}

#[test]
fn frequencies_alone_give_all_edges_of_a_loop() {
    // 0, then a loop of 1 and 2, then 3; block 2 has too few samples.
    let mut looped = function(&[(FALLS, 10), (FALLS, 500), (FALLS, 400), (RETURNS, 10)], &[]);
    let ways = [way(0, 1, true), way(1, 2, true), way(2, 1, false), way(2, 3, true)];
    let options = InferOptions { observed: Observed::SamplesOnly, ..InferOptions::default() };
    repair(&mut looped, &ways, &options);
    let expected = function(
        &[(FALLS, 10), (FALLS, 500), (FALLS, 500), (RETURNS, 10)],
        &[(0, 1, 10), (1, 2, 500), (2, 1, 490), (2, 3, 10)],
    );
    assert_eq!(looped, expected);
}

#[test]
fn the_counts_of_the_golden_file_fit_after_small_changes() {
    for mut function in golden_cfg().functions {
        let before = function.clone();
        let report = repair(&mut function, &[], &InferOptions::default());
        let changed = report.raised + report.lowered;
        assert!(changed * 10 < report.frequency_before, "{report:?}");
        assert_eq!(before.edges.len(), function.edges.len());
        assert_conserved(&function, &[], false);
    }
}

#[test]
fn work_on_a_function_of_ten_thousand_blocks_is_bounded() {
    // Nothing fits: every second block was seen, edges lead far away, in a fixed disorder.
    let count = 10_000u32;
    let mut state = 1u64;
    let mut next = move |limit: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % limit
    };
    let blocks: Vec<(u8, u64)> = (0..count)
        .map(|n| (if n + 1 == count { RETURNS } else { FALLS }, next(2) * next(100_000)))
        .collect();
    let edges: Vec<(u32, u32, u64)> = (0..count)
        .map(|from| (from, next(u64::from(count)) as u32, next(2) * next(100_000)))
        .collect();
    let mut ways: Vec<Way> = (0..count - 1).map(|from| way(from, from + 1, true)).collect();
    ways.extend(edges.iter().map(|&(from, to, _)| way(from, to, false)));
    let mut large = function(&blocks, &edges);
    let report = repair(&mut large, &ways, &InferOptions::default());
    assert_conserved(&large, &ways, true);
    eprintln!("{report:?}");
    let tight = InferOptions { work_per_arc: 2, ..InferOptions::default() };
    let mut large = function(&blocks, &edges);
    assert_eq!(repair(&mut large, &ways, &tight).bounded_functions, 1);
    assert_conserved(&large, &ways, true);
}
