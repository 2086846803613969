//! Does every layout of every graph hold each hot block once, begin functions with their entry,
//! lose nothing against the input, and depend on the graph alone?
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeSet;

use image::ImageAddr;
use image::blocks::{BlockFlags, BlockId};
use layout::{
    Block, BlockIndex, CallEdge, CallKind, Cfg, ClonePath, ClonedFunction, Edge, Function,
    FunctionIndex, FunctionOrder, Layout, Mode, Params, Place, Placed, PlacedBlock, PlacedEdge,
    lay_out, lay_out_with,
};
use proptest::prelude::*;

const LANDING_PAD: u8 = 4;
const INDIRECT: u8 = 16;

/// Size, gap behind it, frequency and flags of a block.
type AnyBlock = (u32, u64, u64, u8);
/// Positions are taken modulo what there is.
type AnyEdge = (usize, usize, u64);

fn functions() -> impl Strategy<Value = Vec<(Vec<AnyBlock>, Vec<AnyEdge>)>> {
    let flags = prop_oneof![8 => Just(0u8), 1 => Just(LANDING_PAD), 1 => Just(INDIRECT)];
    let size = prop_oneof![1 => Just(0u32), 8 => 1..60u32, 1 => 200..2000u32];
    let frequency = prop_oneof![1 => Just(0u64), 3 => 1..1000u64];
    let block = (size, prop_oneof![4 => Just(0u64), 1 => 0..16u64], frequency, flags);
    let edge = (any::<usize>(), any::<usize>(), 1..1000u64);
    let of = (prop::collection::vec(block, 1..14), prop::collection::vec(edge, 0..30));
    prop::collection::vec(of, 1..6)
}

fn calls() -> impl Strategy<Value = Vec<(usize, usize, usize, u64)>> {
    prop::collection::vec((any::<usize>(), any::<usize>(), 0..3usize, 1..1000u64), 0..20)
}

fn graph(functions: &[(Vec<AnyBlock>, Vec<AnyEdge>)], calls: &[(usize, usize, usize, u64)]) -> Cfg {
    let mut cfg = Cfg::default();
    let mut address = 0x1000;
    let mut places = Vec::new();
    for (index, (blocks, edges)) in (0u32..).zip(functions) {
        let mut made = Vec::new();
        for (id, &(size, gap, frequency, flags)) in (0u32..).zip(blocks) {
            // No exception lands at an entry.
            let flags = if id == 0 { flags & !LANDING_PAD } else { flags };
            made.push(Block {
                id: BlockId(id),
                address: ImageAddr(address),
                size,
                flags: BlockFlags::from_bits(flags).unwrap(),
                frequency,
                hash: None,
            });
            address += u64::from(size) + gap;
            places.push(Place { function: FunctionIndex(index), block: BlockIndex(id) });
        }
        // Only executed blocks have edges, as in a graph from counts.
        let hot: Vec<u32> =
            (0u32..).zip(blocks).filter(|(_, of)| of.2 > 0).map(|(at, _)| at).collect();
        let mut joined = std::collections::BTreeMap::new();
        for &(from, to, weight) in edges.iter().filter(|_| !hot.is_empty()) {
            *joined.entry((hot[from % hot.len()], hot[to % hot.len()])).or_insert(0) += weight;
        }
        let edge =
            |((from, to), weight)| Edge { from: BlockIndex(from), to: BlockIndex(to), weight };
        cfg.functions.push(Function {
            names: vec![format!("f{index}")],
            section: ".text".into(),
            module: None,
            blocks: made,
            edges: joined.into_iter().map(edge).collect(),
        });
    }
    let mut joined = std::collections::BTreeMap::new();
    for &(from, to, kind, weight) in calls {
        let kind = [CallKind::Call, CallKind::TailCall, CallKind::Return][kind];
        let (from, mut to) = (places[from % places.len()], places[to % places.len()]);
        if kind != CallKind::Return {
            to.block = BlockIndex(0);
        }
        *joined.entry((from, to, kind)).or_insert(0) += weight;
    }
    let call = |((from, to, kind), weight)| CallEdge { from, to, kind, weight };
    cfg.calls = joined.into_iter().map(call).collect();
    cfg
}

fn all_params() -> Vec<Params> {
    let default = Params::default();
    vec![
        default,
        Params::propeller(),
        Params { mode: Mode::InterFunction, ..default },
        Params { mode: Mode::InterFunction, ..Params::propeller() },
        Params { function_order: FunctionOrder::CacheDirected, ..default },
        Params { function_order: FunctionOrder::Input, cold_below: 50, ..default },
        Params { exact_blocks: 0, try_all_splits: 0, chain_blocks: 4, ..default },
        Params { keep_whole: true, ..default },
        Params { keep_whole: true, mode: Mode::InterFunction, ..default },
    ]
}

/// Checks what holds for each layout; clones are counted as blocks of the function.
fn check(cfg: &Cfg, layout: &Layout, params: &Params) {
    let mut laid_out = BTreeSet::new();
    for function in &layout.functions {
        let of = cfg.function(function.function).unwrap();
        assert!(laid_out.insert(function.function), "once per function");
        let placed: Vec<Placed> = function.clusters.concat();
        let once: BTreeSet<Placed> = placed.iter().copied().collect();
        assert_eq!(placed.len(), once.len(), "no block twice");
        assert!(function.clusters.iter().all(|cluster| !cluster.is_empty()));
        let entry = Placed { block: BlockIndex(0), clone: 0 };
        assert_eq!(function.clusters[0][0], entry, "the entry begins the first cluster");
        let hot = |block: &Block| block.frequency >= params.cold_below;
        let pads: Vec<bool> = (0u32..)
            .zip(&of.blocks)
            .filter(|(_, block)| block.flags.is_landing_pad())
            .map(|(index, _)| once.contains(&Placed { block: BlockIndex(index), clone: 0 }))
            .collect();
        for (index, block) in (0u32..).zip(&of.blocks) {
            let inside = once.contains(&Placed { block: BlockIndex(index), clone: 0 });
            let with_pads = block.flags.is_landing_pad() && pads.contains(&true);
            assert_eq!(
                inside,
                hot(block) || index == 0 || with_pads || params.keep_whole,
                "block {index} of {:?}",
                of.names
            );
        }
        let pad = |placed: &&Placed| {
            of.blocks[placed.block.0 as usize].flags.is_landing_pad() && placed.block.0 != 0
        };
        let with_pads =
            function.clusters.iter().filter(|cluster| cluster.iter().any(|placed| pad(&placed)));
        assert!(with_pads.count() <= 1, "landing pads are in one section");
        assert!(pads.windows(2).all(|pair| pair[0] == pair[1]), "all landing pads or none");
    }
    for (index, of) in (0u32..).map(FunctionIndex).zip(&cfg.functions) {
        let hot = of.blocks.iter().any(|block| block.frequency >= params.cold_below);
        assert_eq!(laid_out.contains(&index), hot);
    }
    let refs: BTreeSet<_> = layout.hot.iter().copied().collect();
    let clusters: usize = layout.functions.iter().map(|function| function.clusters.len()).sum();
    assert_eq!(
        (refs.len(), layout.hot.len()),
        (clusters, clusters),
        "each cluster once in the text"
    );
    let cold: BTreeSet<u32> = layout.cold.iter().copied().collect();
    for (at, function) in (0u32..).zip(&layout.functions) {
        let blocks: usize =
            function.clusters.iter().flatten().filter(|placed| placed.clone == 0).count();
        let all = cfg.function(function.function).unwrap().blocks.len();
        assert_eq!(cold.contains(&at), blocks < all, "a cold part where a block is in no cluster");
    }
    assert_eq!(cold.len(), layout.cold.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_layout_is_whole(functions in functions(), calls in calls()) {
        let cfg = graph(&functions, &calls);
        for params in all_params() {
            let (layout, report) = lay_out(&cfg, &params);
            check(&cfg, &layout, &params);
            prop_assert_eq!(report.functions as usize, layout.functions.len());
            prop_assert_eq!(report.clusters as usize, layout.hot.len());
            let placed: usize = layout.functions.iter().flat_map(|of| &of.clusters).map(Vec::len).sum();
            prop_assert_eq!(report.hot_blocks as usize, placed, "measured as it is laid out");
        }
    }

    #[test]
    fn no_function_loses_score(functions in functions()) {
        let cfg = graph(&functions, &[]);
        // Chains of other density stand apart, whatever score that costs.
        let params = Params { density_ratio: f64::INFINITY, ..Params::default() };
        let (layout, report) = lay_out(&cfg, &params);
        for function in &layout.functions {
            let score = function.intra;
            prop_assert!(score.after >= score.before * (1.0 - 1e-9), "{score:?}");
        }
        prop_assert!(report.after.intra >= report.before.intra * (1.0 - 1e-9));
        let sum = |totals: layout::Totals| totals.fall_throughs + totals.taken;
        prop_assert_eq!(sum(report.before), sum(report.after), "every execution is one or the other");
    }

    #[test]
    fn the_order_of_edges_means_nothing(functions in functions(), calls in calls()) {
        let cfg = graph(&functions, &calls);
        let mut turned = cfg.clone();
        turned.calls.reverse();
        turned.functions.iter_mut().for_each(|function| function.edges.reverse());
        for params in all_params() {
            prop_assert_eq!(lay_out(&cfg, &params).0.hot, lay_out(&turned, &params).0.hot);
            let clusters = |cfg: &Cfg| -> Vec<_> {
                lay_out(cfg, &params).0.functions.into_iter().map(|function| function.clusters).collect()
            };
            prop_assert_eq!(clusters(&cfg), clusters(&turned));
        }
    }
}

/// A diamond whose join is cloned into one side.
#[test]
fn a_clone_is_placed_like_a_block_and_takes_its_share_of_calls() {
    let block = |frequency| (20u32, 0u64, frequency, 0u8);
    let edges = vec![(0, 1, 60), (0, 2, 40), (1, 3, 60), (2, 3, 40)];
    let callee = (vec![block(100)], Vec::new());
    let cfg = graph(
        &[(vec![block(100), block(60), block(40), block(100)], edges), callee],
        &[(3, 4, 0, 100)],
    );
    let own = |index| Placed { block: BlockIndex(index), clone: 0 };
    let clone = Placed { block: BlockIndex(3), clone: 1 };
    let placed = |placed, frequency| PlacedBlock { placed, frequency };
    let edge = |from, to, weight| PlacedEdge { from, to, weight };
    let cloned = ClonedFunction {
        function: FunctionIndex(0),
        paths: vec![ClonePath(vec![BlockIndex(2), BlockIndex(3)])],
        blocks: vec![
            placed(own(0), 100),
            placed(own(1), 60),
            placed(own(2), 40),
            placed(own(3), 60),
            placed(clone, 40),
        ],
        edges: vec![
            edge(own(0), own(1), 60),
            edge(own(0), own(2), 40),
            edge(own(1), own(3), 60),
            edge(own(2), clone, 40),
        ],
    };
    for params in [Params::default(), Params::propeller()] {
        let (layout, report) = lay_out_with(&cfg, std::slice::from_ref(&cloned), &params);
        check(&cfg, &layout, &params);
        assert_eq!(layout.functions[0].clusters, [[own(0), own(1), own(3), own(2), clone]]);
        assert_eq!(layout.functions[0].clones, cloned.paths);
        assert_eq!((report.clones, report.unknown), (1, 0));
        assert_eq!((report.before.taken, report.after.taken), (100, 40));
        // 60 calls at 10 + 40 bytes before the end of the caller and 40 calls at 10 bytes, before
        // alignment to 112.
        let gap = if params.alignment == 16 { 12.0 } else { 0.0 };
        let expected = 60.0 * (1.0 - (50.0 + gap) / 1024.0) + 40.0 * (1.0 - (10.0 + gap) / 1024.0);
        assert!(
            (layout.functions[0].inter.after - expected).abs() < 1e-9,
            "{:?}",
            layout.functions[0].inter
        );
    }
    let mut wrong = cloned;
    wrong.blocks.push(placed(clone, 1));
    wrong.edges.push(edge(own(9), own(0), 1));
    assert_eq!(lay_out_with(&cfg, &[wrong], &Params::default()).1.unknown, 2);
}
