//! How long does ordering take, what memory does it need, and what does it gain? On synthetic
//! programs of 1,000 to 100,000 hot blocks and on single large functions.
//!
//! `cargo run --release -p layout --example order_bench [BLOCKS…]`; prints a line per program and
//! way of ordering. Programs are nested loops, conditions and switches in source order, function
//! frequencies follow a power law; the same on every run.

use std::time::Instant;

use image::ImageAddr;
use image::blocks::{BlockFlags, BlockId};
use layout::{
    Block, BlockIndex, CallEdge, CallKind, Cfg, Edge, Function, FunctionIndex, FunctionOrder, Mode,
    Params, Place, Scoring, lay_out,
};

/// Knuth's linear congruence, its upper bits.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }
}

/// A function under construction; control is in the last block.
struct Builder<'a> {
    random: &'a mut Random,
    blocks: Vec<(u32, u64, u8)>,
    edges: Vec<(u32, u32, u64)>,
    left: usize,
}

impl Builder<'_> {
    fn block(&mut self, frequency: u64) -> u32 {
        self.left = self.left.saturating_sub(1);
        self.blocks.push((3 + self.random.below(40) as u32, frequency, 8));
        self.blocks.len() as u32 - 1
    }

    fn edge(&mut self, from: u32, to: u32, weight: u64) {
        self.edges.push((from, to, weight));
    }

    /// Statements executed `frequency` times behind block `at`; the block where they end.
    fn statements(&mut self, mut at: u32, frequency: u64, depth: u32) -> u32 {
        for _ in 0..1 + self.random.below(4) {
            if self.left == 0 {
                break;
            }
            at = match self.random.below(8) {
                _ if depth == 0 => at,
                0..=3 => self.condition(at, frequency, depth - 1),
                4 => self.check(at, frequency),
                5 | 6 => self.repeat(at, frequency, depth - 1),
                _ => self.switch(at, frequency, depth - 1),
            };
        }
        at
    }

    fn condition(&mut self, at: u32, frequency: u64, depth: u32) -> u32 {
        // Most conditions are nearly always or nearly never true.
        let percent = [1, 3, 10, 50, 80, 97, 99, 100][self.random.below(8) as usize];
        let first = frequency * percent / 100;
        let then = self.block(first);
        self.edge(at, then, first);
        let then_end = self.statements(then, first, depth);
        if self.random.below(2) == 0 {
            let other = self.block(frequency - first);
            self.edge(at, other, frequency - first);
            let other_end = self.statements(other, frequency - first, depth);
            let join = self.block(frequency);
            self.edge(then_end, join, first);
            self.edge(other_end, join, frequency - first);
            return join;
        }
        let join = self.block(frequency);
        self.edge(at, join, frequency - first);
        self.edge(then_end, join, first);
        join
    }

    /// An error path that is never taken.
    fn check(&mut self, at: u32, frequency: u64) -> u32 {
        self.block(0);
        let next = self.block(frequency);
        self.edge(at, next, frequency);
        next
    }

    fn repeat(&mut self, at: u32, frequency: u64, depth: u32) -> u32 {
        let turns = [1, 2, 2, 3, 3, 4, 5, 8][self.random.below(8) as usize];
        let inside = frequency.saturating_mul(turns);
        if self.random.below(2) == 0 {
            let head = self.block(inside + frequency);
            self.edge(at, head, frequency);
            let body = self.block(inside);
            self.edge(head, body, inside);
            let end = self.statements(body, inside, depth);
            self.edge(end, head, inside);
            let after = self.block(frequency);
            self.edge(head, after, frequency);
            return after;
        }
        let body = self.block(inside);
        self.edge(at, body, frequency);
        let end = self.statements(body, inside, depth);
        self.edge(end, body, inside - frequency);
        let after = self.block(frequency);
        self.edge(end, after, frequency);
        after
    }

    fn switch(&mut self, at: u32, frequency: u64, depth: u32) -> u32 {
        self.blocks[at as usize].2 = 16;
        let mut rest = frequency;
        let mut ends = Vec::new();
        let cases = 3 + self.random.below(6);
        for case in 0..cases {
            let share = if case + 1 == cases { rest } else { rest / (1 + self.random.below(4)) };
            rest -= share;
            let begin = self.block(share);
            self.edge(at, begin, share);
            ends.push((self.statements(begin, share, depth.saturating_sub(1)), share));
        }
        let join = self.block(frequency);
        for (end, share) in ends {
            self.edge(end, join, share);
        }
        join
    }
}

fn function(
    random: &mut Random,
    blocks: usize,
    frequency: u64,
    address: &mut u64,
    name: usize,
) -> Function {
    let mut builder = Builder { random, blocks: Vec::new(), edges: Vec::new(), left: blocks };
    let mut at = builder.block(frequency);
    while builder.left > 0 {
        at = builder.statements(at, frequency, 5);
    }
    let mut edges = builder.edges;
    edges.retain(|edge| edge.2 > 0);
    edges.sort_unstable();
    edges.dedup_by(|next, kept| {
        let same = (next.0, next.1) == (kept.0, kept.1);
        if same {
            kept.2 += next.2;
        }
        same
    });
    *address = address.next_multiple_of(16);
    let mut made = Vec::new();
    for (id, (size, frequency, flags)) in (0u32..).zip(builder.blocks) {
        made.push(Block {
            id: BlockId(id),
            address: ImageAddr(*address),
            size,
            flags: BlockFlags::from_bits(flags).unwrap_or_default(),
            frequency,
            hash: None,
        });
        *address += u64::from(size);
    }
    let edge = |(from, to, weight)| Edge { from: BlockIndex(from), to: BlockIndex(to), weight };
    Function {
        names: vec![format!("f{name}")],
        section: ".text".to_owned(),
        module: None,
        blocks: made,
        edges: edges.into_iter().map(edge).collect(),
    }
}

/// A program with about so many hot blocks, in functions of `typical` blocks and some ten times as
/// large.
fn program(hot: usize, typical: usize, single: bool) -> Cfg {
    let mut random = Random(hot as u64);
    let mut cfg = Cfg::default();
    let (mut address, mut have, mut rank) = (0x40_0000u64, 0, 0u64);
    while have < hot {
        let large = random.below(20) == 0;
        let blocks = if single {
            hot
        } else {
            (2 + random.below(2 * typical as u64) as usize) * if large { 10 } else { 1 }
        };
        rank += 1;
        // Ranks are shuffled over the program, so that hot and cool functions lie mixed in the
        // input.
        let place = 1 + (rank * 7919) % (1 + hot as u64 / typical as u64);
        let made =
            function(&mut random, blocks, 10_000_000 / place, &mut address, cfg.functions.len());
        have += made.blocks.iter().filter(|block| block.frequency > 0).count();
        cfg.functions.push(made);
        // As much code again that never runs.
        address += u64::from(made_bytes(&cfg)) * random.below(3);
    }
    let mut calls = Vec::new();
    for caller in 0..cfg.functions.len() {
        for block in 0..cfg.functions[caller].blocks.len() {
            if random.below(5) > 0 {
                continue;
            }
            // Most calls stay near.
            let far = random.below(3) == 0;
            let callee = if far {
                random.below(cfg.functions.len() as u64)
            } else {
                caller as u64 + random.below(8)
            };
            let callee = (callee as usize) % cfg.functions.len();
            let weight = cfg.functions[caller].blocks[block]
                .frequency
                .min(cfg.functions[callee].entry_frequency());
            let last = cfg.functions[callee].blocks.len() - 1;
            if weight > 0 {
                let place = |function: usize, block: usize| Place {
                    function: FunctionIndex(function as u32),
                    block: BlockIndex(block as u32),
                };
                let (from, to) = (place(caller, block), place(callee, 0));
                calls.push(CallEdge { from, to, kind: CallKind::Call, weight });
                calls.push(CallEdge {
                    from: place(callee, last),
                    to: from,
                    kind: CallKind::Return,
                    weight,
                });
            }
        }
    }
    calls.sort_unstable();
    calls.dedup_by_key(|call| (call.from, call.to, call.kind));
    cfg.calls = calls;
    cfg
}

fn made_bytes(cfg: &Cfg) -> u32 {
    cfg.functions.last().map_or(0, |function| function.size() as u32)
}

/// Peak of the memory in MiB, as Linux says.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn main() {
    let sizes: Vec<usize> = std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![1_000, 10_000, 100_000] } else { sizes };
    let default = Params::default();
    let falls = |fall_through: f64| Params {
        scoring: Scoring { fall_through, ..default.scoring },
        ..default
    };
    // `greedy` is upstream's algorithm with our constants, so that scores compare.
    let ways = [
        ("greedy", Params { scoring: default.scoring, alignment: 16, ..Params::propeller() }),
        ("merging", Params { search_steps: 0, ..default }),
        ("default", default),
        ("fall 100", falls(100.0)),
        ("cds", Params { function_order: FunctionOrder::CacheDirected, ..default }),
        ("input order", Params { function_order: FunctionOrder::Input, ..default }),
        ("across", Params { mode: Mode::InterFunction, ..default }),
    ];
    for &size in &sizes {
        for single in [false, true] {
            if single && size > 10_000 {
                continue;
            }
            let cfg = program(size, 30, single);
            let shape = if single { "one function" } else { "program" };
            for (name, params) in &ways {
                let begin = Instant::now();
                let (_, report) = lay_out(&cfg, params);
                let seconds = begin.elapsed().as_secs_f64();
                let (before, after) = (report.before, report.after);
                let percent = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
                println!(
                    "{size:>7} {shape:<12} {name:<12} {seconds:8.3} s {:5} MiB  intra {:.5}  taken {:6.3} % (input {:6.3} %)  \
                     inter {:8.4} (input {:.4})  pages {}/{} -> {}/{}",
                    peak(),
                    after.intra / before.intra,
                    percent(after.taken, after.taken + after.fall_throughs),
                    percent(before.taken, before.taken + before.fall_throughs),
                    after.inter / 1e9,
                    before.inter / 1e9,
                    before.small_pages.touched,
                    before.small_pages.hottest,
                    after.small_pages.touched,
                    after.small_pages.hottest,
                );
            }
        }
    }
}
