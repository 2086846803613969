//! Makes the graph of a program and says how long each step took: `graph PROGRAM COUNTS [upstream] [samples]`.

use std::path::Path;
use std::time::Instant;

use layout::{BuildOptions, InferOptions, Rules, build, infer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, counts, rest @ ..] = arguments.as_slice() else {
        return Err("usage: graph PROGRAM COUNTS [upstream] [samples]".into());
    };
    let has = |word: &str| rest.iter().any(|argument| argument == word);
    let image = image::Image::open(Path::new(program))?;
    let counts = counts::artefact::read(Path::new(counts))?;
    let counts = counts.find(image.build_id(), program).ok_or("the counts are of another program")?;
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
    let (mut cfg, report) = build(&image, maps, &counts, &BuildOptions { rules, ..BuildOptions::default() })?;
    println!(
        "build: {:?}, from {} branches, {} ranges",
        start.elapsed(),
        counts.branches.len(),
        counts.fall_throughs.len()
    );
    println!("{report:#?}");
    let start = Instant::now();
    let options = InferOptions { observed: report.observed, ..InferOptions::default() };
    let repaired = infer(&mut cfg, &image, &options);
    println!("infer: {:?}\n{repaired:#?}", start.elapsed());
    Ok(())
}
