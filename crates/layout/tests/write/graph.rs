//! Graphs and layouts made by hand.

use image::ImageAddr;
use image::blocks::{BlockFlags, BlockId};
use layout::{
    Block, BlockIndex, Cfg, ClusterRef, Edge, Function, FunctionIndex, FunctionLayout, Layout,
    Placed, Score,
};

/// A function with blocks numbered in order, their frequencies, and edges as (from, to, weight).
pub fn function(name: &str, frequencies: &[u64], edges: &[(u32, u32, u64)]) -> Function {
    let block = |(id, &frequency): (u32, &u64)| Block {
        id: BlockId(id),
        address: ImageAddr(0x1000 + u64::from(id) * 16),
        size: 16,
        flags: BlockFlags::default(),
        frequency,
        hash: None,
    };
    let mut edges: Vec<Edge> = edges
        .iter()
        .map(|&(from, to, weight)| Edge { from: BlockIndex(from), to: BlockIndex(to), weight })
        .collect();
    edges.sort();
    Function {
        names: vec![name.to_owned()],
        section: ".text".to_owned(),
        module: None,
        blocks: (0..).zip(frequencies).map(block).collect(),
        edges,
    }
}

/// The layout of a function: its clusters as block positions.
pub fn placed(
    function: u32,
    clusters: &[&[u32]],
    intra: (f64, f64),
    inter: (f64, f64),
) -> FunctionLayout {
    let score = |(before, after)| Score { before, after };
    let cluster = |blocks: &&[u32]| {
        blocks
            .iter()
            .map(|&block| Placed { block: BlockIndex(block), clone: 0 })
            .collect::<Vec<_>>()
    };
    FunctionLayout {
        function: FunctionIndex(function),
        clones: Vec::new(),
        clusters: clusters.iter().map(cluster).collect(),
        intra: score(intra),
        inter: score(inter),
    }
}

/// A cluster by its function's position in the layout.
pub fn at(layout: u32, cluster: u32) -> ClusterRef {
    ClusterRef { layout, cluster }
}

/// The program of the golden files, as they state it.
pub fn sample() -> (Cfg, Layout) {
    let compute = function(
        "compute_flag",
        &[499148, 163376, 300635, 468687],
        &[(0, 2, 300635), (0, 1, 156977), (1, 3, 163376), (2, 3, 294857)],
    );
    let main = function(
        "main",
        &[4, 487952, 499148, 146571, 471511, 2724, 479675, 487948, 0],
        &[
            (0, 1, 4),
            (1, 2, 485215),
            (2, 4, 313041),
            (2, 3, 146563),
            (3, 4, 146571),
            (4, 6, 468789),
            (4, 5, 2722),
            (5, 6, 2724),
            (6, 7, 479675),
            (7, 1, 487948),
        ],
    );
    let cfg = Cfg { functions: vec![compute, main], calls: Vec::new() };
    let layout = Layout {
        functions: vec![
            placed(0, &[&[0, 2, 3, 1]], (4976377.203125, 6268234.692636), (0.0, 0.0)),
            placed(
                1,
                &[&[0, 3, 4, 6, 7, 1, 2, 5]],
                (13728876.366981, 21072924.130836),
                (382435.452941, 465026.554688),
            ),
        ],
        hot: vec![at(1, 0), at(0, 0)],
        cold: vec![1],
    };
    (cfg, layout)
}
