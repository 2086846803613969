//! Makes the graph of a program and says how long each step took: `graph PROGRAM COUNTS [WORD]…`.
//!
//! Words: `upstream`, `samples`; `against COUNTS` says what an order made from the first counts is
//! worth under others, best of a much longer recording, with and without flow repair; `old PROGRAM
//! COUNTS` what the graph of an older build is worth when it is carried over.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use layout::{
    Block, BuildOptions, Cfg, Edge, FunctionLayout, InferOptions, Jump, JumpKind, Node, Params,
    Problem, Rules, build, carry_over, infer, lay_out,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, counts, rest @ ..] = arguments.as_slice() else {
        return Err(
            "usage: graph PROGRAM COUNTS [upstream] [samples] [against COUNTS] [old PROGRAM COUNTS]".into()
        );
    };
    let has = |word: &str| rest.iter().any(|argument| argument == word);
    let image = image::Image::open(Path::new(program))?;
    let counts = counts::artefact::read(Path::new(counts), std::fs::File::open(counts)?)?;
    let counts =
        counts.find(image.build_id(), program).ok_or("the counts are of another program")?;
    let mut counts = counts.clone();
    if has("samples") {
        counts.branches.clear();
        counts.fall_throughs.clear();
    }
    let start = Instant::now();
    let maps = image::blocks::read(&image)?;
    println!("read the block map: {:?}", start.elapsed());
    let start = Instant::now();
    let _ = image.functions().len();
    println!("read the symbols: {:?}", start.elapsed());
    let rules = if has("upstream") { Rules::Upstream } else { Rules::Decoded };
    let start = Instant::now();
    let (mut cfg, report) =
        build(&image, maps, &counts, &BuildOptions { rules, ..BuildOptions::default() })?;
    println!(
        "build: {:?}, from {} branches, {} ranges",
        start.elapsed(),
        counts.branches.len(),
        counts.fall_throughs.len()
    );
    println!("{report}");
    let raw = cfg.clone();
    let start = Instant::now();
    let options = InferOptions { observed: report.observed, ..InferOptions::default() };
    let repaired = infer(&mut cfg, &image, &options);
    println!("infer: {:?}\n{repaired:#?}", start.elapsed());
    let after = |word: &str, n: usize| {
        rest.iter().position(|argument| argument == word).and_then(|at| rest.get(at + n))
    };
    let mut reference = cfg.clone();
    if let Some(counts) = after("against", 1) {
        reference = graph(&image, counts)?;
        println!("order from the graph as recorded: {}", worth(&raw, &reference));
        println!("order from the graph repaired: {}", worth(&cfg, &reference));
    }
    if let (Some(program), Some(counts)) = (after("old", 1), after("old", 2)) {
        let old_image = image::Image::open(Path::new(program))?;
        let old = graph(&old_image, counts)?;
        let maps = image::blocks::read(&image)?;
        let start = Instant::now();
        let (carried, report) =
            carry_over(&old, &old_image, &image, maps, &BuildOptions::default())?;
        println!(
            "carried over: {:?}, {:.1} % of the weight\n{report:#?}",
            start.elapsed(),
            report.matched_pct()
        );
        println!("order from the graph carried over: {}", worth(&carried, &reference));
        println!("order from the graph's own counts: {}", worth(&reference, &reference));
    }
    let unordered = Cfg::default();
    println!("order as built: {}", worth(&unordered, &reference));
    Ok(())
}

fn graph(image: &image::Image, path: &str) -> Result<Cfg, Box<dyn std::error::Error>> {
    let counts = counts::artefact::read(Path::new(path), std::fs::File::open(path)?)?;
    let program = image.path().display().to_string();
    let counts =
        counts.find(image.build_id(), &program).ok_or("the counts are of another program")?;
    let (cfg, _) = build(image, image::blocks::read(image)?, counts, &BuildOptions::default())?;
    Ok(cfg)
}

/// Orders the blocks by one graph and scores the orders by another.
fn worth(cfg: &Cfg, reference: &Cfg) -> String {
    let params = Params::default();
    let (layout, _) = lay_out(cfg, &params);
    let (mut score, mut falls, mut all) = (0.0, 0u64, 0u64);
    for function in &reference.functions {
        let same = |layout: &&FunctionLayout| {
            cfg.function(layout.function).is_some_and(|other| other.names == function.names)
        };
        let placed = layout
            .functions
            .iter()
            .find(same)
            .into_iter()
            .flat_map(|layout| layout.clusters.iter().flatten());
        let mut order: Vec<u32> = placed.map(|placed| placed.block.0).collect();
        let hot: BTreeSet<u32> = order.iter().copied().collect();
        order.extend((0..function.blocks.len() as u32).filter(|block| !hot.contains(block)));
        let node = |block: &Block| Node { size: block.size, frequency: block.frequency };
        let jump = |edge: &Edge| Jump {
            from: edge.from.0,
            to: edge.to.0,
            kind: JumpKind::Branch,
            weight: edge.weight,
        };
        let problem = Problem {
            nodes: function.blocks.iter().map(node).collect(),
            jumps: function.edges.iter().map(jump).collect(),
            ..Problem::default()
        };
        score += problem.score(&order, &params);
        let pairs: BTreeSet<(u32, u32)> = order.windows(2).map(|pair| (pair[0], pair[1])).collect();
        for edge in &function.edges {
            all += edge.weight;
            falls += if pairs.contains(&(edge.from.0, edge.to.0)) { edge.weight } else { 0 };
        }
    }
    format!(
        "score {score:.0}, {:.2} % of the edges fall through",
        100.0 * falls as f64 / all.max(1) as f64
    )
}
