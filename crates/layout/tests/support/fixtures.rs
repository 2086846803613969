//! Control flow graphs from the fixtures: the text protobufs, and the sample program with the
//! counts of its golden file.
//!
//! None of this uses planish's own building of graphs, so that it can be compared with it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use image::blocks::{BlockFlags, BlockId};
use image::{Image, ImageAddr};
use layout::{Block, BlockIndex, CallEdge, CallKind, Cfg, Edge, Function, FunctionIndex, Place};

use super::text_proto::Message;

/// The path of a file in `fixtures/autofdo`.
pub fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../fixtures/autofdo", name].iter().collect()
}

/// A file of `fixtures/autofdo` as text.
pub fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

/// A place by numbers.
pub fn place(function: u32, block: u32) -> Place {
    Place { function: FunctionIndex(function), block: BlockIndex(block) }
}

/// A graph from a `propeller_*.protobuf`: every function of the file in file order, hot or not.
///
/// The files state no addresses: functions follow each other from 0x1000 without gaps, blocks in
/// file order. They state no flags either: a block falls through to the next one of its function
/// where the file has an edge between the two. Edges of weight 0 are left out. Frequencies are
/// those of the file, else [`upstream_frequencies`].
pub fn text_cfg(name: &str) -> Cfg {
    let file = Message::parse(&text(name));
    let mut cfg = Cfg::default();
    // Where a block is, by function number and block position, or by ordinal in the older form of
    // the files.
    let mut places: BTreeMap<(u64, u64), Place> = BTreeMap::new();
    let mut address = 0x1000;
    for (message, function) in file.messages("cfg").zip(0u32..) {
        let number = message.number("function_index");
        let mut blocks = Vec::new();
        for (node, block) in message.messages("node").zip(0u32..) {
            let size = node.number("size").unwrap_or(0);
            let key = match (number, node.number("symbol_ordinal")) {
                (None, Some(ordinal)) => (u64::MAX, ordinal),
                (number, _) => (number.unwrap_or(0), u64::from(block)),
            };
            places.insert(key, place(function, block));
            blocks.push(Block {
                id: BlockId(node.number("bb_id").or(node.number("bb_index")).unwrap() as u32),
                address: ImageAddr(address),
                size: size as u32,
                flags: BlockFlags::default(),
                frequency: node.number("freq").unwrap_or(u64::MAX),
                hash: None,
            });
            address += size;
        }
        let names = message.scalars("name").map(str::to_owned).collect();
        cfg.functions.push(Function {
            names,
            section: ".text".into(),
            module: None,
            blocks,
            edges: Vec::new(),
        });
    }
    for message in file.messages("cfg") {
        let number = message.number("function_index").unwrap_or(0);
        for (node, block) in message.messages("node").zip(0u64..) {
            for edge in node.messages("out_edges") {
                let sink = edge.messages("sink").next().unwrap();
                let to = (sink.number("function_index").unwrap(), sink.number("bb_index").unwrap());
                add_edge(&mut cfg, places[&(number, block)], places[&to], edge);
            }
            for edge in node.messages("intra_outs") {
                let end = |name| places[&(u64::MAX, edge.number(name).unwrap())];
                add_edge(&mut cfg, end("source"), end("sink"), edge);
            }
        }
    }
    finish(&mut cfg);
    cfg
}

fn add_edge(cfg: &mut Cfg, from: Place, to: Place, edge: &Message) {
    let weight = edge.number("weight").unwrap();
    let kind = match edge.scalars("kind").next().unwrap() {
        "BRANCH_OR_FALLTHROUGH" if from.function == to.function => None,
        "BRANCH_OR_FALLTHROUGH" => Some(CallKind::TailCall),
        "CALL" => Some(CallKind::Call),
        "RETURN" | "RET" => Some(CallKind::Return),
        other => panic!("edge kind {other}"),
    };
    let function = &mut cfg.functions[from.function.0 as usize];
    if kind.is_none() && to.block.0 == from.block.0 + 1 {
        function.blocks[from.block.0 as usize].flags = BlockFlags::from_bits(8).unwrap();
    }
    match kind {
        _ if weight == 0 => {}
        None => function.edges.push(Edge { from: from.block, to: to.block, weight }),
        Some(kind) => cfg.calls.push(CallEdge { from, to, kind, weight }),
    }
}

/// Sorts, and gives frequencies to the blocks that have none.
fn finish(cfg: &mut Cfg) {
    cfg.functions.iter_mut().for_each(|function| function.edges.sort());
    cfg.calls.sort();
    let frequencies = upstream_frequencies(cfg);
    for (function, frequencies) in cfg.functions.iter_mut().zip(frequencies) {
        for (block, frequency) in function.blocks.iter_mut().zip(frequencies) {
            if block.frequency == u64::MAX {
                block.frequency = frequency;
            }
        }
    }
}

/// Block frequencies by the rule of the tool that the fixtures come from: the largest of the
/// heaviest call out of the block, the heaviest return into it, the sum of its other out-edges and
/// the sum of its other in-edges.
pub fn upstream_frequencies(cfg: &Cfg) -> Vec<Vec<u64>> {
    // Per block: heaviest call out, heaviest return in, other out-edges, other in-edges.
    let mut sums: Vec<Vec<[u64; 4]>> =
        cfg.functions.iter().map(|function| vec![[0; 4]; function.blocks.len()]).collect();
    for (function, sums) in cfg.functions.iter().zip(&mut sums) {
        for edge in &function.edges {
            sums[edge.from.0 as usize][2] += edge.weight;
            sums[edge.to.0 as usize][3] += edge.weight;
        }
    }
    for call in &cfg.calls {
        let from = &mut sums[call.from.function.0 as usize][call.from.block.0 as usize];
        match call.kind {
            CallKind::Call => from[0] = from[0].max(call.weight),
            CallKind::TailCall | CallKind::Return => from[2] += call.weight,
        }
        let to = &mut sums[call.to.function.0 as usize][call.to.block.0 as usize];
        match call.kind {
            CallKind::Return => to[1] = to[1].max(call.weight),
            CallKind::TailCall | CallKind::Call => to[3] += call.weight,
        }
    }
    sums.iter()
        .map(|blocks| blocks.iter().map(|sums| *sums.iter().max().unwrap()).collect())
        .collect()
}

/// A function of a verbose golden cc profile.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GoldenFunction {
    /// Its name.
    pub name: String,
    /// Ext-TSP scores of its own edges, before and after.
    pub intra: (f64, f64),
    /// Of its calls, before and after.
    pub inter: (f64, f64),
    /// Its clusters, as block numbers.
    pub clusters: Vec<Vec<u32>>,
    /// Per block number: frequency, and (successor, weight).
    pub blocks: BTreeMap<u32, (u64, Vec<(u32, u64)>)>,
}

/// Reads a verbose golden cc profile.
pub fn golden_functions(name: &str) -> Vec<GoldenFunction> {
    let mut functions: Vec<GoldenFunction> = Vec::new();
    for line in text(name).lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "f" {
            functions.push(GoldenFunction { name: rest.to_owned(), ..GoldenFunction::default() });
            continue;
        }
        let Some(function) = functions.last_mut() else { continue };
        if let Some(first) = word.strip_prefix('c') {
            let ids = std::iter::once(first).chain(rest.split(' ')).filter(|id| !id.is_empty());
            function.clusters.push(ids.map(|id| id.parse().unwrap()).collect());
        } else if word == "#cfg-prof" {
            let mut pairs = rest.split(' ').map(|pair| {
                let (id, weight) = pair.split_once(':').unwrap();
                (id.parse::<u32>().unwrap(), weight.parse::<u64>().unwrap())
            });
            let (id, frequency) = pairs.next().unwrap();
            function.blocks.insert(id, (frequency, pairs.collect()));
        } else if word == "#ext-tsp" {
            let numbers: Vec<f64> = rest
                .split(|c: char| !(c.is_ascii_digit() || c == '.'))
                .filter_map(|text| text.parse().ok())
                .collect();
            function.intra = (numbers[0], numbers[1]);
            function.inter = (numbers[2], numbers[3]);
        }
    }
    functions
}

/// The verbose golden file of [`golden_cfg`].
pub const GOLDEN: &str = "propeller_sample_verbose_cc_directives.golden.txt";

/// The graph of `propeller_sample.bin` that [`GOLDEN`] was made from: `compute_flag` and `main`, in
/// this order.
///
/// Edges and frequencies are those of the golden file. It does not list calls; the frequencies and
/// the scores of calls leave one possibility: `main` calls `compute_flag` from block 2, 499,148
/// times, and 468,687 returns come back.
pub fn golden_cfg() -> Cfg {
    let image = Image::open(&path("propeller_sample.bin")).unwrap();
    let maps = image::blocks::read(&image).unwrap();
    let mut cfg = Cfg::default();
    for golden in golden_functions(GOLDEN) {
        let symbol =
            image.functions().iter().find(|function| function.name == golden.name).unwrap();
        let map = maps.iter().find(|map| map.address() == symbol.address).unwrap();
        let block = |block: &image::blocks::Block| Block {
            id: block.id,
            address: block.address,
            size: block.size,
            flags: block.flags,
            frequency: golden.blocks.get(&block.id.0).map_or(0, |block| block.0),
            hash: None,
        };
        // Numbers are positions in a map of this version.
        let edges = golden.blocks.iter().flat_map(|(&from, (_, successors))| {
            let edge =
                move |&(to, weight)| Edge { from: BlockIndex(from), to: BlockIndex(to), weight };
            successors.iter().map(edge)
        });
        let mut edges: Vec<Edge> = edges.collect();
        edges.sort();
        cfg.functions.push(Function {
            names: vec![golden.name.clone()],
            section: ".text".into(),
            module: None,
            blocks: map.blocks().map(block).collect(),
            edges,
        });
    }
    let (callee, caller) = (0, 1);
    cfg.calls = vec![
        CallEdge {
            from: place(callee, 3),
            to: place(caller, 2),
            kind: CallKind::Return,
            weight: 468_687,
        },
        CallEdge {
            from: place(caller, 2),
            to: place(callee, 0),
            kind: CallKind::Call,
            weight: 499_148,
        },
    ];
    cfg
}
