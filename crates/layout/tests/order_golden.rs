//! Does the ordering make of upstream's own counts what upstream makes of them: clusters, symbol
//! order and scores?
//!
//! The counts and the expected values are those of
//! `propeller_sample_verbose_cc_directives.golden.txt` of google/autofdo; sizes and addresses are
//! from the address map of its `propeller_sample.bin`.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use image::ImageAddr;
use image::blocks::{BlockFlags, BlockId};
use layout::{
    Block, BlockIndex, CallEdge, CallKind, Cfg, Edge, Function, FunctionIndex, Layout, Params,
    Place, lay_out,
};

fn function(
    name: &str,
    address: u64,
    blocks: &[(u32, u64)],
    edges: &[(u32, u32, u64)],
) -> Function {
    let mut end = address;
    let mut made = Vec::new();
    for (id, &(size, frequency)) in (0u32..).zip(blocks) {
        made.push(Block {
            id: BlockId(id),
            address: ImageAddr(end),
            size,
            flags: BlockFlags::default(),
            frequency,
            hash: None,
        });
        end += u64::from(size);
    }
    let edge = |&(from, to, weight): &(u32, u32, u64)| Edge {
        from: BlockIndex(from),
        to: BlockIndex(to),
        weight,
    };
    Function {
        names: vec![name.to_owned()],
        section: ".text".to_owned(),
        module: None,
        blocks: made,
        edges: edges.iter().map(edge).collect(),
    }
}

fn sample() -> Cfg {
    let compute_flag = function(
        "compute_flag",
        0x17d0,
        &[(25, 499_148), (16, 163_376), (8, 300_635), (5, 468_687)],
        &[(0, 1, 156_977), (0, 2, 300_635), (1, 3, 163_376), (2, 3, 294_857)],
    );
    let main = function(
        "main",
        0x1820,
        &[
            (48, 4),
            (13, 487_952),
            (36, 499_148),
            (46, 146_571),
            (26, 471_511),
            (52, 2_724),
            (5, 479_675),
            (14, 487_948),
            (8, 0),
        ],
        &[
            (0, 1, 4),
            (1, 2, 485_215),
            (2, 3, 146_563),
            (2, 4, 313_041),
            (3, 4, 146_571),
            (4, 5, 2_722),
            (4, 6, 468_789),
            (5, 6, 2_724),
            (6, 7, 479_675),
            (7, 1, 487_948),
        ],
    );
    let place =
        |function, block| Place { function: FunctionIndex(function), block: BlockIndex(block) };
    let call =
        CallEdge { from: place(1, 2), to: place(0, 0), kind: CallKind::Call, weight: 499_148 };
    Cfg { functions: vec![compute_flag, main], calls: vec![call] }
}

fn clusters(cfg: &Cfg, layout: &Layout) -> Vec<(String, Vec<Vec<u32>>)> {
    let named = |function: &layout::FunctionLayout| {
        let of = cfg.function(function.function).unwrap();
        let ids =
            |cluster: &Vec<layout::Placed>| cluster.iter().map(|placed| placed.block.0).collect();
        (of.names[0].clone(), function.clusters.iter().map(ids).collect())
    };
    layout.functions.iter().map(named).collect()
}

#[test]
fn the_sample_gets_upstreams_clusters_and_symbol_order() {
    let cfg = sample();
    let (layout, _) = lay_out(&cfg, &Params::propeller());
    let expected = vec![
        ("compute_flag".to_owned(), vec![vec![0, 2, 3, 1]]),
        ("main".to_owned(), vec![vec![0, 3, 4, 6, 7, 1, 2, 5]]),
    ];
    assert_eq!(clusters(&cfg, &layout), expected);
    let hot: Vec<u32> = layout.hot.iter().map(|cluster| cluster.layout).collect();
    assert_eq!((hot, layout.cold), (vec![1, 0], vec![1]), "main, compute_flag, main.cold");
}

#[test]
fn the_sample_gets_upstreams_scores_to_six_digits() {
    let (layout, report) = lay_out(&sample(), &Params::propeller());
    let scores: Vec<String> = layout
        .functions
        .iter()
        .map(|of| {
            let (intra, inter) = (of.intra, of.inter);
            format!(
                "{:.6} -> {:.6}, {:.6} -> {:.6}",
                intra.before, intra.after, inter.before, inter.after
            )
        })
        .collect();
    assert_eq!(
        scores,
        [
            "4976377.203125 -> 6268234.692636, 0.000000 -> 0.000000",
            "13728876.366981 -> 21072924.130836, 382435.452941 -> 465026.554688",
        ]
    );
    assert_eq!((report.hot_blocks, report.cold_blocks), (12, 1));
}

#[test]
fn the_default_is_no_worse_than_upstream_on_its_sample() {
    let (_, upstream) = lay_out(&sample(), &Params::propeller());
    let (_, ours) =
        lay_out(&sample(), &Params { scoring: layout::Scoring::propeller(), ..Params::default() });
    assert!(ours.after.intra >= upstream.after.intra, "{ours:?}");
}

/// Upstream's test of the same name (PlacesBlocksBeforeEntryInInterFunctionOrdering): block 3 lies
/// before the entry, and the score is 545.47.
#[test]
fn a_block_lies_before_the_entry_where_that_scores_more() {
    let mut foo = function(
        "foo",
        0x1000,
        &[(0x10, 30), (0x7, 60), (0x40, 40), (0x8, 10)],
        &[(0, 1, 20), (0, 3, 10), (1, 2, 30), (2, 1, 40)],
    );
    for (block, address) in foo.blocks.iter_mut().zip([0x1000, 0x1010, 0x102a, 0x1030]) {
        block.address = ImageAddr(address);
    }
    let cfg = Cfg { functions: vec![foo], calls: vec![] };
    let across = Params { mode: layout::Mode::InterFunction, ..Params::propeller() };
    let (layout, report) = lay_out(&cfg, &across);
    assert_eq!(clusters(&cfg, &layout), [("foo".to_owned(), vec![vec![0, 1, 2], vec![3]])]);
    let order: Vec<u32> = layout.hot.iter().map(|cluster| cluster.cluster).collect();
    assert_eq!(order, [1, 0], "the block before the entry");
    assert!((report.after.intra - 545.470_588).abs() < 1e-5, "{report:?}");
    // Within a function the entry stays first.
    let (alone, report) = lay_out(&cfg, &Params::propeller());
    assert_eq!(clusters(&cfg, &alone), [("foo".to_owned(), vec![vec![0, 1, 2, 3]])]);
    assert!((report.after.intra - 545.130_4).abs() < 1e-3, "{report:?}");
}
