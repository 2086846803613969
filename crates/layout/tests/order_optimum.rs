//! How far from the best order of a small function is the one that is found?
//!
//! The best is found by trying every permutation with the entry first.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use layout::{Jump, JumpKind, Node, Params, Problem, order};

/// A generator of our own, so that a failure can be repeated: Knuth's linear congruence, its upper
/// bits.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// A function of up to 8 blocks whose counts come from walks from the entry.
fn walked(random: &mut Random) -> Problem {
    let count = 2 + random.below(7) as u32;
    let sizes = if random.below(4) == 0 { 700 } else { 60 };
    let successors: Vec<Vec<u32>> = (0..count)
        .map(|block| {
            let mut to: Vec<u32> =
                (0..random.below(3)).map(|_| random.below(u64::from(count)) as u32).collect();
            to.push((block + 1).min(count - 1));
            to
        })
        .collect();
    let mut frequencies = vec![0u64; count as usize];
    let mut jumps = Vec::new();
    for _ in 0..1 + random.below(30) {
        let mut at = 0u32;
        for _ in 0..1 + random.below(30) {
            frequencies[at as usize] += 1;
            let to = &successors[at as usize];
            // The first successor is the likely one.
            let choice = random.below(to.len() as u64 * 3) as usize;
            let next = to.get(choice).copied().unwrap_or(to[0]);
            jumps.push(Jump {
                from: at,
                to: next,
                kind: JumpKind::Branch,
                weight: 1 + random.below(9),
            });
            at = next;
        }
    }
    let size = |random: &mut Random| 1 + random.below(sizes) as u32;
    let nodes =
        frequencies.into_iter().map(|frequency| Node { size: size(random), frequency }).collect();
    Problem { nodes, jumps, entry: Some(0), bundles: Vec::new() }
}

/// Calls `visit` with every order of `left` behind `begun`.
fn permutations(begun: &mut Vec<u32>, left: &mut Vec<u32>, visit: &mut impl FnMut(&[u32])) {
    if left.is_empty() {
        visit(begun);
    }
    for at in 0..left.len() {
        let node = left.remove(at);
        begun.push(node);
        permutations(begun, left, visit);
        begun.pop();
        left.insert(at, node);
    }
}

/// Score by the definition, for an entry and jumps that exist.
fn score(problem: &Problem, params: &Params, order: &[u32]) -> f64 {
    let mut at = vec![0i64; problem.nodes.len()];
    let mut end = 0;
    for &node in order {
        at[node as usize] = end;
        end += i64::from(problem.nodes[node as usize].size);
    }
    let value = |jump: &Jump| {
        let distance = at[jump.to as usize]
            - at[jump.from as usize]
            - i64::from(problem.nodes[jump.from as usize].size);
        let weight = jump.weight as f64;
        match distance {
            0 => weight * params.scoring.fall_through,
            1..1024 => weight * (1.0 - distance as f64 / 1024.0),
            -639..=-1 => weight * (1.0 + distance as f64 / 640.0),
            _ => 0.0,
        }
    };
    problem.jumps.iter().filter(|jump| jump.from != jump.to).map(value).sum()
}

/// Mean loss against the optimum in parts of it, over functions made by `walked`.
#[derive(Default, Debug)]
struct Losses {
    functions: u32,
    greedy: f64,
    searched: f64,
    found: f64,
    optimal: u32,
    worst: f64,
}

#[test]
fn small_functions_get_nearly_the_best_order_and_never_less_than_merging_or_the_input() {
    // Without the rule that gives up score on purpose.
    let params = Params { density_ratio: f64::INFINITY, ..Params::default() };
    let greedy = Params { search_steps: 0, ..params };
    let searched = Params { exact_blocks: 0, ..params };
    let mut random = Random(1);
    let mut losses = Losses::default();
    for round in 0..2_000 {
        let problem = walked(&mut random);
        let count = problem.nodes.len() as u32;
        let mut best = 0.0f64;
        permutations(&mut vec![0], &mut (1..count).collect(), &mut |order| {
            best = best.max(score(&problem, &params, order));
        });
        let worth = |params: &Params| {
            let order = order(&problem, params);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(
                (order[0], sorted),
                (0, (0..count).collect()),
                "a permutation with the entry first"
            );
            score(&problem, params, &order)
        };
        let (ours, merged, local) = (worth(&params), worth(&greedy), worth(&searched));
        let input = score(&problem, &params, &(0..count).collect::<Vec<_>>());
        let rounding = best * 1e-9;
        assert!(ours <= best + rounding, "round {round}: better than the best");
        assert!(
            ours + rounding >= merged && ours + rounding >= input,
            "round {round}: {ours}, {merged}, {input}"
        );
        assert!(
            local + rounding >= merged && local + rounding >= input,
            "round {round}: without exhaustive search"
        );
        if best > 0.0 {
            losses.functions += 1;
            losses.greedy += 1.0 - merged / best;
            losses.searched += 1.0 - local / best;
            losses.found += 1.0 - ours / best;
            losses.worst = losses.worst.max(1.0 - ours / best);
            losses.optimal += u32::from(ours + rounding >= best);
        }
    }
    let functions = f64::from(losses.functions);
    let percent = |sum: f64| format!("{:.4} %", 100.0 * sum / functions);
    println!(
        "{} functions, mean loss: merging {}, local search {}, all {}; {} optimal, worst loss {:.4} %",
        losses.functions,
        percent(losses.greedy),
        percent(losses.searched),
        percent(losses.found),
        losses.optimal,
        100.0 * losses.worst
    );
    assert!(losses.found / functions < 0.005);
    assert!(losses.searched / functions < 0.005);
}
