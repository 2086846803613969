//! `planish compare bisect`: which commit made the program slower?

use super::args::How;
use super::project::Prepared;
use super::{Judge, tell};
use crate::cli::{FINE, Format, Global, NEGATIVE, UNDECIDED};
use crate::command::INTERRUPTED;
use anyhow::bail;
use build::comparison::Comparison;
use build::variants::VariantConfig;
use compare::bisect::{Commits, short, walk};
use compare::result::Measurement;
use compare::{AnalysisOptions, Keep, Resume};
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

/// Runs the command.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    if args.how.resuming() != Resume::No {
        bail!("a bisection begins anew each time: leave --resume and --resume-if-same out");
    }
    let project = Comparison::open(&args.config)?;
    let prepared = Prepared::of(&project, &args.how, global)?;
    let (good, commits) = project.range(&args.good, &args.bad)?;
    let margin = args.how.margin.map(|per_cent| per_cent / 100.0);
    let options = AnalysisOptions { margin, ..AnalysisOptions::default() };
    let judge = Judge { options, gates: Vec::new(), global };
    let mut built = Built { project: &project, prepared: &prepared, judge: &judge };
    let Some(found) = walk(&good, &commits, &mut built)? else { return Ok(INTERRUPTED) };
    tell::bisect(&found, &args.good, &args.bad, args.format)?;
    Ok(match (&found.culprit, found.is_undecided()) {
        (Some(_), _) => NEGATIVE,
        (None, true) => UNDECIDED,
        (None, false) => FINE,
    })
}

/// Commits of the project's repository, each built in a work tree of its own.
struct Built<'a> {
    project: &'a Comparison,
    prepared: &'a Prepared<'a>,
    judge: &'a Judge<'a>,
}

impl Commits for Built<'_> {
    type Error = anyhow::Error;

    fn measure(
        &mut self,
        base: &str,
        commit: &str,
        again: u32,
    ) -> anyhow::Result<Option<Measurement>> {
        if !self.judge.global.quiet {
            eprintln!("planish: measuring {} against {}", short(commit), short(base));
        }
        let variants = [base, commit].map(|commit| VariantConfig {
            name: short(commit).to_owned(),
            commit: Some(commit.to_owned()),
            ..VariantConfig::default()
        });
        let rounds = self.prepared.settings.rounds() << again;
        let Some(design) = self.prepared.design(&variants, rounds, None)? else {
            return Ok(None);
        };
        let name = format!("bisect-{}-{}.jsonl", short(base), short(commit));
        let raw = self.project.runs(&name);
        // More rounds of a pair are added to those that were measured.
        let keep = Keep { raw: Some(&raw), resume: (again > 0).into() };
        Ok(Some(self.judge.of(design, keep)?.measurement))
    }

    fn subject(&mut self, commit: &str) -> anyhow::Result<String> {
        Ok(self.project.subject(commit)?)
    }
}
