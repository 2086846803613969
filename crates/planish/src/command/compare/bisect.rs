//! Which commit made the program slower? A walk through the commits that layout luck does not
//! mislead.

use super::project::{Project, git, measure_variants, with_settings};
use super::{How, Output, What};
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output;
use anyhow::{Context, bail};
use build::variants::VariantConfig;
use compare::Verdict;
use compare::result::{Compared, Direction, Measurement};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Find the commit that made the program slower.
///
/// Every commit looked at is built and measured against GOOD. It is on the slow side when its whole
/// interval lies above half of the slowdown, on the good side when it lies below; else it is
/// measured again with twice the rounds. Give --layouts, so that the interval is about the code and
/// not about where one link put it. The first slow commit is at last compared with its parent. Exit
/// code: 1 a culprit was found, 0 there is no slowdown beyond the margin, 2 the commits in question
/// could not be told apart, or wrong usage.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A commit known to be good
    pub good: String,
    /// A later one that is slower
    pub bad: String,
    /// The file that says how to build and what to run
    #[arg(long, value_name = "planish.toml", default_value = "planish.toml")]
    pub config: PathBuf,
    /// How to measure.
    #[command(flatten)]
    pub how: How,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Found {
    schema: &'static str,
    version: u32,
    good: String,
    bad: String,
    /// Slowdown of the whole range.
    slowdown: Step,
    /// The commit, when it was found.
    culprit: Option<Culprit>,
    /// Commits that could not be told apart, oldest first.
    undecided: Vec<String>,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, Serialize)]
struct Step {
    commit: String,
    verdict: Verdict,
    effect: f64,
    interval: Option<[f64; 2]>,
    rounds: usize,
    side: Side,
}

#[derive(Debug, Serialize)]
struct Culprit {
    commit: String,
    subject: String,
    /// Against its parent.
    step: Step,
    sentence: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Side {
    Good,
    Slow,
    Unknown,
}

/// Times that an unclear commit is measured again, each with twice the rounds.
const AGAIN: u32 = 2;

/// Runs the command.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    let project = Project::open(&args.config)?;
    project.enter()?;
    let base = format!("{}^{{commit}}", args.good);
    let good = git(&project.directory, &["rev-parse", "--verify", &base])?;
    let range = format!("{}..{}", args.good, args.bad);
    let list = git(&project.directory, &["rev-list", "--first-parent", "--reverse", &range])?;
    let commits: Vec<String> = list.lines().map(str::to_owned).collect();
    let Some(bad) = commits.last().cloned() else {
        bail!(
            "{}..{}: there is no commit between them; GOOD must be an ancestor of BAD",
            args.good,
            args.bad
        );
    };
    let mut walk = Walk { project: &project, args: &args, global, steps: Vec::new() };
    let Some(whole) = walk.measure(&good, &bad, 0)? else { return Ok(super::INTERRUPTED) };
    let mut found = Found {
        schema: "planish-bisect",
        version: 1,
        good: good.clone(),
        bad: bad.clone(),
        slowdown: step(&bad, &whole.row, Side::Slow),
        culprit: None,
        undecided: Vec::new(),
        steps: Vec::new(),
    };
    if !super::is_slower(&whole.row) {
        return none(&args, &found, &whole.row);
    }
    let half = whole.slowdown() / 2.0;
    // commits[low] is good (GOOD itself before the first), commits[high] is slow.
    let (mut low, mut high) = (-1i64, commits.len() as i64 - 1);
    while high - low > 1 {
        let middle = (low + high) / 2;
        let commit = &commits[middle as usize];
        match walk.side(&good, commit, half)? {
            None => return Ok(super::INTERRUPTED),
            Some(Side::Good) => low = middle,
            Some(Side::Slow) => high = middle,
            Some(Side::Unknown) => break,
        }
    }
    if high - low > 1 {
        found.undecided = commits[(low + 1) as usize..=high as usize].to_vec();
    } else {
        let commit = commits[high as usize].clone();
        let parent = if low < 0 { good } else { commits[low as usize].clone() };
        let Some(alone) = walk.measure(&parent, &commit, 0)? else { return Ok(super::INTERRUPTED) };
        let subject = git(&project.directory, &["log", "-1", "--format=%s", &commit])?;
        let step = step(&commit, &alone.row, Side::Slow);
        found.culprit = Some(Culprit { commit, subject, step, sentence: alone.row.sentence });
    }
    found.steps = walk.steps;
    tell(&found, args.format)
}

fn step(commit: &str, c: &Compared, side: Side) -> Step {
    Step {
        commit: commit.to_owned(),
        verdict: c.verdict,
        effect: c.effect,
        interval: c.interval,
        rounds: c.n,
        side,
    }
}

fn none(args: &Args, found: &Found, whole: &Compared) -> anyhow::Result<u8> {
    let mut out = output::text();
    if args.format == Format::Json {
        output::print_json(found)?;
    } else {
        writeln!(
            out,
            "{} is not shown to be slower than {}: {}",
            args.bad, args.good, whole.sentence
        )?;
    }
    Ok(FINE)
}

/// A commit against another one, in the benchmark that lost most.
struct Against {
    row: Compared,
    /// −1 where a larger number is a better one.
    sign: f64,
}

impl Against {
    fn of(measured: &Measurement, row: Compared) -> Against {
        let benchmark = measured.benchmarks.iter().find(|b| b.name == row.benchmark);
        let metric = benchmark.and_then(|b| b.metrics.iter().find(|m| m.name == row.metric));
        let sign = if metric.is_some_and(|m| m.better == Direction::Higher) { -1.0 } else { 1.0 };
        Against { row, sign }
    }

    /// ln of the effect, turned so that more is slower.
    fn slowdown(&self) -> f64 {
        self.sign * self.row.effect.ln()
    }

    /// Ends of its interval.
    fn ends(&self) -> Option<(f64, f64)> {
        let [a, b] = self.row.interval?.map(|end| self.sign * end.ln());
        Some((a.min(b), a.max(b)))
    }
}

struct Walk<'a> {
    project: &'a Project,
    args: &'a Args,
    global: &'a Global,
    steps: Vec<Step>,
}

impl Walk<'_> {
    /// On which side of half the slowdown is a commit? `None` when the user stopped.
    fn side(&mut self, good: &str, commit: &str, half: f64) -> anyhow::Result<Option<Side>> {
        let mut side = Side::Unknown;
        for again in 0..=AGAIN {
            let Some(c) = self.measure(good, commit, again)? else { return Ok(None) };
            side = match c.ends() {
                Some((low, _)) if low > half => Side::Slow,
                Some((_, high)) if high < half => Side::Good,
                _ => Side::Unknown,
            };
            self.steps.push(step(commit, &c.row, side));
            if side != Side::Unknown {
                break;
            }
        }
        Ok(Some(side))
    }

    fn measure(&self, base: &str, commit: &str, again: u32) -> anyhow::Result<Option<Against>> {
        if !self.global.quiet {
            eprintln!("planish: measuring {} against {}", short(commit), short(base));
        }
        let variant = |commit: &str| VariantConfig {
            name: short(commit).to_owned(),
            commit: Some(commit.to_owned()),
            ..VariantConfig::default()
        };
        let what = What {
            binaries: Vec::new(),
            config: Some(self.args.config.clone()),
            matrix: false,
            how: self.args.how.clone(),
            from: Vec::new(),
            objects: Vec::new(),
            calibrate: false,
            output: Output::default(),
            command: Vec::new(),
        };
        let mut what = with_settings(&what, self.project)?;
        what.how.rounds = Some(what.how.rounds.unwrap_or(30) << again);
        let raw = format!("bisect-{}-{}.jsonl", short(base), short(commit));
        what.how.raw = Some(self.project.runs(&raw));
        // More rounds of a pair are added to those that were measured.
        what.how.resume = again > 0;
        let variants = [variant(base), variant(commit)];
        let Some(told) = measure_variants(self.project, &variants, &what, self.global)? else {
            return Ok(None);
        };
        let measured = told.analysis.measurement;
        if measured.interrupted {
            return Ok(None);
        }
        let rows = measured.comparisons.iter().map(|row| Against::of(&measured, row.clone()));
        let worst = rows.max_by(|a, b| a.slowdown().total_cmp(&b.slowdown()));
        worst.with_context(|| format!("{commit}: nothing was measured")).map(Some)
    }
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

fn tell(found: &Found, format: Format) -> anyhow::Result<u8> {
    let mut out = output::text();
    let code = if found.culprit.is_some() { NEGATIVE } else { crate::cli::BAD_INPUT };
    if format == Format::Json {
        output::print_json(found)?;
        return Ok(code);
    }
    let pct = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    for step in &found.steps {
        let side = match step.side {
            Side::Good => "good",
            Side::Slow => "slow",
            Side::Unknown => "unclear",
        };
        writeln!(
            out,
            "  {}  {:>8}  {side} ({} rounds)",
            short(&step.commit),
            pct(step.effect),
            step.rounds
        )?;
    }
    match &found.culprit {
        Some(culprit) => {
            writeln!(out, "first slow commit: {} {}", short(&culprit.commit), culprit.subject)?;
            writeln!(out, "  against its parent: {}", culprit.sentence)?;
            writeln!(out, "  slowdown of the whole range: {}", pct(found.slowdown.effect))?;
        }
        None => {
            writeln!(
                out,
                "the first slow commit is one of these; more --rounds or --layouts would tell \
                 them apart:"
            )?;
            for commit in &found.undecided {
                writeln!(out, "  {}", short(commit))?;
            }
        }
    }
    Ok(code)
}
