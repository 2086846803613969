//! Which programs does a plan measure, and what of the configuration has no effect here?

use crate::config::{Compiler, Config};
use crate::files::{Files, Measured, RELEASE};
use crate::optimization::Alternative;
use crate::toolchain::Toolchain;

/// The programs that are measured, the base first, and those that cannot be made here, each with
/// the reason.
pub fn programs(config: &Config, tools: &Toolchain) -> (Vec<Measured>, Vec<String>) {
    let files = Files::of(config);
    let measured =
        |ending, step, optional| Measured { ending, path: files.program(ending), step, optional };
    let mut all = vec![measured("base", "build", false), measured("opt", "rebuild", false)];
    if config.optimize.profile_rounds() > 1 {
        all.push(measured("opt2", "second-rebuild", false));
    }
    if config.optimize.lays_out() {
        all.push(measured("layout", "relink", false));
    }
    if config.optimize.places_rest() {
        all.push(measured("rest", "bolt-rest", false));
    }
    let mut left_out = Vec::new();
    for alternative in &config.optimize.also {
        let missing = match alternative {
            Alternative::Pgo | Alternative::PgoLayout => without_counters(config, tools),
            Alternative::Bolt => without_bolt(config, tools),
            Alternative::PgoBolt => {
                without_counters(config, tools).or_else(|| without_bolt(config, tools))
            }
        };
        let step = match alternative {
            Alternative::Pgo => "pgo-rebuild",
            Alternative::Bolt => "bolt",
            Alternative::PgoBolt => "pgo-bolt",
            Alternative::PgoLayout => "pgo-relink",
        };
        match missing {
            None => all.push(measured(alternative.word(), step, true)),
            Some(why) => left_out.push(format!("{} is left out: {why}", alternative.word())),
        }
    }
    if config.build.release.is_some() {
        all.push(measured(RELEASE, RELEASE, true));
    }
    (all, left_out)
}

/// How many claims a run of so many programs makes, which are corrected together: each beside the
/// baseline, the layout (or BOLT in its place) beside the profile alone, and the result beside the
/// release build, on every command.
pub fn claims(config: &Config, programs: usize) -> usize {
    let pairs = usize::from(config.optimize.goes_on_behind_profile())
        + usize::from(config.build.release.is_some());
    let evaluations = config.evaluate.command.all().len();
    ((programs.saturating_sub(1) + pairs) * evaluations).max(1)
}

/// Why no difference can be shown, however large, where the rounds are too few for so many programs.
fn too_few_rounds(config: &Config, programs: usize) -> Option<String> {
    let evaluate = &config.evaluate;
    let design = compare::Design { rounds: evaluate.rounds(), ..compare::Design::default() };
    let why = design.too_small(claims(config, programs)).filter(|_| evaluate.layouts == 0)?;
    Some(format!("{why} (evaluate.rounds)"))
}

/// Why no program can be rebuilt with its own counters here.
fn without_counters(config: &Config, tools: &Toolchain) -> Option<String> {
    if config.build.compiler == Compiler::Gcc {
        // gcc reads the counters as the program leaves them.
        return None;
    }
    if tools.profdata.is_none() {
        return Some(format!(
            "llvm-profdata of the release of {} is not installed (Debian: llvm)",
            tools.cc
        ));
    }
    let library = tools.no_counters.as_ref()?;
    Some(format!(
        "{} is not there, which {} links instrumented programs with (Debian: libclang-rt-dev of \
         its release)",
        library.display(),
        tools.cc
    ))
}

/// Why no program can be laid out by BOLT here.
fn without_bolt(config: &Config, tools: &Toolchain) -> Option<String> {
    if !config.build.libraries.is_empty() {
        return Some("it is run on one program, and this project has libraries".to_owned());
    }
    let missing = "llvm-bolt is not installed (Debian: bolt-22)";
    tools.bolt.is_none().then(|| missing.to_owned())
}

/// What of the configuration has no effect, or cannot be made here, each with the reason: for the
/// plan, the terminal and the report alike. `rust` says that the build calls rustc.
pub fn notes(config: &Config, tools: &Toolchain, rust: bool) -> Vec<String> {
    let (measured, mut notes) = programs(config, tools);
    notes.extend(config.optimize.without_effect(&config.build, rust));
    notes.extend(too_few_rounds(config, measured.len()));
    let uncounted = config.evaluate.not_emulatable().filter(|_| config.record.count_branches);
    notes.extend(uncounted.map(|line| {
        format!(
            "taken branches are counted only of commands that are the program with its arguments, without a \
             script, a server or a directory around it, since only the program itself can be emulated; \
             {line:?} is no such command"
        )
    }));
    notes
}
