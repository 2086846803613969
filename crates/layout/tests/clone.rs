//! Cloning along paths: which blocks are chosen, and that no execution is lost or made up.
#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

use image::ImageAddr;
use image::blocks::{BlockFlags, BlockId};
use layout::{
    Block, BlockIndex, Cfg, CloneParams, ClonedFunction, Edge, Function, FunctionIndex, Params,
    PathCounts, choose_clones, lay_out, lay_out_with,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

const RETURN: u8 = 1;
const FALLS: u8 = 8;
const INDIRECT: u8 = 16;

/// A function of blocks (size, flags) and edges (from, to, weight); frequencies follow from the
/// edges and `entered`.
fn function(blocks: &[(u32, u8)], edges: &[(u32, u32, u64)], entered: u64) -> Function {
    let mut frequency = vec![0u64; blocks.len()];
    frequency[0] = entered;
    for &(_, to, weight) in edges {
        frequency[to as usize] += weight;
    }
    let mut address = 0x1000;
    let block = |(index, &(size, flags)): (usize, &(u32, u8))| {
        let at = address;
        address += u64::from(size);
        Block {
            id: BlockId(index as u32),
            address: ImageAddr(at),
            size,
            flags: BlockFlags::from_bits(flags).unwrap(),
            frequency: frequency[index],
            hash: None,
        }
    };
    let blocks = blocks.iter().enumerate().map(block).collect();
    let edge = |&(from, to, weight): &(u32, u32, u64)| Edge {
        from: BlockIndex(from),
        to: BlockIndex(to),
        weight,
    };
    let mut edges: Vec<Edge> = edges.iter().map(edge).collect();
    edges.sort();
    Function { names: vec!["f".into()], section: ".text".into(), module: None, blocks, edges }
}

fn cfg(function: Function) -> Cfg {
    Cfg { functions: vec![function], calls: Vec::new() }
}

fn windows(list: &[([u32; 3], u64)]) -> PathCounts {
    PathCounts::from_windows(list.iter().map(|&(w, n)| (FunctionIndex(0), w.map(BlockIndex), n)))
}

fn roomy() -> CloneParams {
    CloneParams { budget_pct: 100.0, ..CloneParams::default() }
}

fn paths(cloned: &[ClonedFunction]) -> Vec<Vec<u32>> {
    let all = cloned.iter().flat_map(|cloned| &cloned.paths);
    all.map(|path| path.0.iter().map(|block| block.0).collect()).collect()
}

/// 0 chooses 1 or 2, both go to 3, which goes to 4 after 1 and to 5 after 2; both return.
fn correlated() -> (Cfg, PathCounts) {
    let function = function(
        &[(10, FALLS), (40, FALLS), (40, FALLS), (8, FALLS), (40, RETURN), (40, RETURN)],
        &[(0, 1, 500), (0, 2, 500), (1, 3, 500), (2, 3, 500), (3, 4, 500), (3, 5, 500)],
        1000,
    );
    (cfg(function), windows(&[([1, 3, 4], 500), ([2, 3, 5], 500)]))
}

#[test]
fn a_block_that_goes_on_by_where_control_came_from_is_cloned_and_all_its_jumps_fall_through() {
    let (cfg, counts) = correlated();
    let params = Params::default();
    let (cloned, report) = choose_clones(&cfg, &counts, &roomy(), &params);
    assert_eq!((report.paths, report.clones, report.bytes), (1, 1, 8));
    let chosen = paths(&cloned);
    assert!(chosen == [vec![1, 3]] || chosen == [vec![2, 3]], "{chosen:?}");
    let (before, after) = (lay_out(&cfg, &params).1, lay_out_with(&cfg, &cloned, &params).1);
    assert_eq!(after.unknown, 0);
    // Only one of the two ways out of block 0 can fall through.
    assert_eq!((before.after.taken, after.after.taken), (1500, 500));
    assert!(report.saved >= 900, "{report:?}");
}

#[test]
fn a_branch_that_goes_either_way_is_not_copied_and_without_paths_nothing_is() {
    let (cfg, _) = correlated();
    // From where control came, it goes on to 4 in so many cases of 500 after 1, to 5 after 2.
    let split = |most: u64| {
        let ways =
            |from, often, seldom| [([from, 3, often], most), ([from, 3, seldom], 500 - most)];
        windows(&[ways(1, 4, 5), ways(2, 5, 4)].concat())
    };
    let params = Params::default();
    let clones = |most, min_bias_pct| {
        let clone = CloneParams { min_bias_pct, ..roomy() };
        choose_clones(&cfg, &split(most), &clone, &params)
    };
    assert_eq!(clones(460, 90).1.paths, 1, "92 %");
    assert_eq!(clones(440, 90).1.paths, 0, "88 %");
    assert_eq!(clones(440, 88).1.paths, 1);
    // Where it does not matter from where control came, less is saved.
    let (cloned, report) = clones(250, 50);
    assert_eq!(report.paths, 1);
    let (before, after) = (lay_out(&cfg, &params).1, lay_out_with(&cfg, &cloned, &params).1);
    assert!((1..=500).contains(&(before.after.taken - after.after.taken)), "{report:?}");
    let none = choose_clones(&cfg, &PathCounts::default(), &roomy(), &params);
    assert!(none.0.is_empty() && none.1 == layout::CloneReport::default());
}

#[test]
fn a_block_that_returns_is_cloned_into_each_frequent_predecessor() {
    let blocks = [(10, FALLS), (40, FALLS), (40, FALLS), (40, FALLS), (4, RETURN)];
    let edges = [(0, 1, 400), (0, 2, 300), (0, 3, 300), (1, 4, 400), (2, 4, 300), (3, 4, 300)];
    let cfg = cfg(function(&blocks, &edges, 1000));
    let counts = windows(&[([0, 1, 4], 400), ([0, 2, 4], 300), ([0, 3, 4], 300)]);
    let (cloned, _) = choose_clones(&cfg, &counts, &roomy(), &Params::default());
    assert_eq!(paths(&cloned).len(), 2, "{cloned:?}");
    assert!(paths(&cloned).iter().all(|path| path.len() == 2 && path[1] == 4));
    let mut clones: Vec<u32> =
        cloned[0].blocks.iter().map(|b| b.placed.clone).filter(|&n| n > 0).collect();
    clones.sort_unstable();
    assert_eq!(clones, [1, 2], "the n-th path that clones a block makes clone n");
}

#[test]
fn an_indirect_branch_ends_a_path_and_never_begins_one() {
    // An interpreter: 1 dispatches to 2, 3 and 4, which jump back to 1.
    let blocks = [(10, FALLS), (9, INDIRECT), (30, 0), (30, 0), (30, 0), (1, RETURN)];
    let edges = [
        (0, 1, 1),
        (1, 2, 50_000),
        (1, 3, 50_000),
        (1, 4, 50_000),
        (1, 5, 1),
        (2, 1, 50_000),
        (3, 1, 50_000),
        (4, 1, 50_000),
    ];
    let cfg = cfg(function(&blocks, &edges, 1));
    let dispatched = [[1, 2, 1], [1, 3, 1], [1, 4, 1], [2, 1, 3], [3, 1, 4], [4, 1, 2]];
    let counts = windows(&dispatched.map(|window| (window, 50_000)));
    let (cloned, _) = choose_clones(&cfg, &counts, &roomy(), &Params::default());
    let chosen = paths(&cloned);
    assert_eq!(chosen.len(), 2, "{chosen:?}");
    assert!(chosen.iter().all(|path| path.len() == 2 && path[1] == 1), "{chosen:?}");
    let params = Params::default();
    let (before, after) = (lay_out(&cfg, &params).1, lay_out_with(&cfg, &cloned, &params).1);
    assert_eq!(before.after.taken - after.after.taken, 100_000);
}

#[test]
fn the_budget_and_the_size_of_blocks_are_kept() {
    let (cfg, counts) = correlated();
    let params = Params::default();
    let tight = CloneParams { budget_pct: 1.0, ..roomy() };
    let (cloned, report) = choose_clones(&cfg, &counts, &tight, &params);
    assert!(cloned.is_empty() && report.over_budget == 1 && report.budget_bytes == 1, "{report:?}");
    let small = CloneParams { block_bytes: 7, ..roomy() };
    assert!(choose_clones(&cfg, &counts, &small, &params).0.is_empty());
}

#[test]
fn windows_come_from_paths_by_branch_and_by_fall_through() {
    let (cfg, _) = correlated();
    let at = |block: usize| cfg.functions[0].blocks[block].address;
    let last =
        |block: usize| ImageAddr(at(block).0 + u64::from(cfg.functions[0].blocks[block].size) - 1);
    let path = |from: Option<ImageAddr>, first, last, to, count| counts::Path {
        from,
        first,
        last,
        to,
        count,
    };
    let counts = PathCounts::new(
        &cfg,
        &[
            // 2 falls into 3, 3 branches to 5.
            path(Some(last(0)), at(2), last(3), Some(at(5)), 7),
            // 1 branches to 3, 3 falls into 4, 4 leaves the image.
            path(Some(last(1)), at(3), last(4), None, 5),
            // A return into the middle of 2 says nothing of what was before it.
            path(Some(ImageAddr(0x9000)), ImageAddr(at(2).0 + 1), last(3), Some(at(4)), 3),
            // No jump of the function leads from 1 to 5.
            path(Some(last(1)), at(5), last(5), None, 9),
        ],
    );
    let expected = windows(&[([0, 2, 3], 7), ([2, 3, 5], 7), ([1, 3, 4], 5), ([2, 3, 4], 3)]);
    assert_eq!(counts.used(), (3, 15));
    for (from, block) in [(0, 2), (2, 3), (1, 3), (0, 1), (3, 4), (1, 5)] {
        let after = |counts: &PathCounts| {
            counts.after(FunctionIndex(0), BlockIndex(from), BlockIndex(block)).cloned()
        };
        assert_eq!(after(&counts), after(&expected), "{from} {block}");
    }
}

/// Random graphs with random walks through them, so that edges, frequencies and windows agree.
fn walks() -> impl Strategy<Value = (Cfg, PathCounts)> {
    let steps = proptest::collection::vec((any::<u8>(), any::<u8>()), 20..400);
    (4u32..14, proptest::collection::vec((0u32..14, 0u32..14), 3..30), steps, any::<u16>())
        .prop_map(|(count, jumps, steps, flags)| {
            let mut next: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for (from, to) in jumps {
                if to % count != 0 {
                    next.entry(from % count).or_default().push(to % count);
                }
            }
            let (mut edges, mut seen) = (BTreeMap::new(), Vec::new());
            let (mut entered, mut trail) = (0u64, Vec::new());
            for (choice, times) in steps {
                if trail.is_empty() {
                    entered += 1;
                    trail = vec![0];
                }
                let from = trail.last().copied().unwrap_or(0);
                let Some(to) = next.get(&from).map(|to| to[usize::from(choice) % to.len()]) else {
                    trail.clear();
                    continue;
                };
                *edges.entry((from, to)).or_insert(0u64) += 1;
                trail.push(to);
                if let [.., a, b, c] = trail[..] {
                    seen.push(([a, b, c], 1 + u64::from(times) / 16));
                }
            }
            let kinds = |index: u32| if (flags >> index) & 3 == 3 { INDIRECT } else { FALLS };
            let blocks: Vec<(u32, u8)> =
                (0..count).map(|index| (1 + index * 7 % 60, kinds(index))).collect();
            let edges: Vec<_> = edges.into_iter().map(|((a, b), n)| (a, b, n)).collect();
            (cfg(function(&blocks, &edges, entered)), windows(&seen))
        })
}

proptest! {
    #[test]
    fn what_clones_take_over_their_blocks_lose((cfg, counts) in walks()) {
        let params = CloneParams { least_saved_ppm: 0.0, least_saved_per_byte_ppm: 0.0, ..roomy() };
        let order = Params { search_steps: 0, ..Params::default() };
        let (cloned, report) = choose_clones(&cfg, &counts, &params, &order);
        prop_assert!(report.bytes <= report.budget_bytes);
        prop_assert_eq!(&cloned, &choose_clones(&cfg, &counts, &params, &order).0);
        for cloned in &cloned {
            let function = &cfg.functions[0];
            let mut frequency: BTreeMap<u32, u64> = BTreeMap::new();
            for block in &cloned.blocks {
                *frequency.entry(block.placed.block.0).or_default() += block.frequency;
            }
            for (block, &sum) in &frequency {
                prop_assert_eq!(function.blocks[*block as usize].frequency, sum);
            }
            prop_assert_eq!(frequency.len(), function.blocks.len());
            let mut edges: BTreeMap<(BlockIndex, BlockIndex), u64> = BTreeMap::new();
            let mut out: BTreeMap<layout::Placed, u64> = BTreeMap::new();
            for edge in &cloned.edges {
                *edges.entry((edge.from.block, edge.to.block)).or_default() += edge.weight;
                *out.entry(edge.from).or_default() += edge.weight;
            }
            for edge in &function.edges {
                prop_assert_eq!(edges.remove(&(edge.from, edge.to)), Some(edge.weight));
            }
            prop_assert!(edges.is_empty(), "jumps that the function does not have: {:?}", edges);
            for block in &cloned.blocks {
                let left = out.get(&block.placed).copied().unwrap_or(0);
                prop_assert!(left <= block.frequency, "{:?} is left {} times", block, left);
            }
            for path in &cloned.paths {
                for pair in path.0.windows(2) {
                    prop_assert!(function.edges.iter().any(|e| (e.from, e.to) == (pair[0], pair[1])));
                }
                let mut blocks = path.0.clone();
                blocks.sort();
                blocks.dedup();
                prop_assert_eq!(blocks.len(), path.0.len());
            }
            let (layout, report) = lay_out_with(&cfg, std::slice::from_ref(cloned), &order);
            prop_assert_eq!(report.unknown, 0);
            let placed: Vec<_> = layout.functions[0].clusters.iter().flatten().collect();
            prop_assert!(cloned.blocks.iter().filter(|b| b.frequency > 0).all(|b| placed.contains(&&b.placed)));
        }
    }
}
