//! How is told what builds hold, how they differ, what of them was left out, and what a compiler
//! does by itself?

use super::{VERSION, files_json, function_json, label, name, shown_name, unit};
use crate::visible;
use livepatch::{Analysis, Difference, Differences, NodeId, Reason, Source, Touched};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Notes on left-out files and disagreements go on for so many lines.
const NOTES: usize = 5;
/// The summary names so many functions with large closures.
const LARGEST: usize = 10;
/// And so many disagreements.
const DISAGREEMENTS: usize = 20;

/// What a build holds, counted once for all forms.
struct Held<'a> {
    reasons: BTreeMap<&'a Reason, usize>,
    covered: BTreeMap<&'static str, usize>,
    sizes: livepatch::Sizes,
    disagreements: Vec<livepatch::Disagreement>,
}

impl Held<'_> {
    fn by(analysis: &Analysis) -> Held<'_> {
        let mut reasons: BTreeMap<&Reason, usize> = BTreeMap::new();
        for edge in analysis.graph.edges() {
            *reasons.entry(&edge.reason).or_default() += 1;
        }
        let covered = Source::ALL.iter().zip(analysis.covered);
        Held {
            reasons,
            covered: covered.map(|(source, units)| (source.word(), units)).collect(),
            sizes: livepatch::sizes(&analysis.graph, LARGEST),
            disagreements: analysis.disagreements(),
        }
    }
}

/// What a build holds, as JSON.
pub fn summary_json(analysis: &Analysis) -> Value {
    let Held { reasons, covered, sizes, disagreements } = Held::by(analysis);
    let largest = |&(node, size): &(NodeId, usize)| {
        let mut value = function_json(analysis, node);
        value.as_object_mut().map(|object| object.insert("with_code".into(), json!(size)));
        value
    };
    let closures = json!({
        "functions": sizes.functions, "mean": sizes.mean, "median": sizes.median, "p95": sizes.p95,
        "largest": sizes.largest.iter().map(largest).collect::<Vec<_>>(),
    });
    let reasons: BTreeMap<&str, usize> =
        reasons.iter().map(|(reason, count)| (reason.word(), *count)).collect();
    let disagreement = |it: &livepatch::Disagreement| {
        json!({
            "callee": name(analysis, it.callee), "caller": name(analysis, it.caller),
            "object": unit(analysis, it.caller), "says": it.says.word(), "silent": it.silent.word(),
        })
    };
    json!({
        "schema": "planish-livepatch-summary", "version": VERSION, "object_files": analysis.units.len(),
        "functions": analysis.graph.nodes().len(), "ties": reasons, "object_files_by_source": covered,
        "closures": closures,
        "disagreements": disagreements.iter().map(disagreement).collect::<Vec<_>>(),
        "skipped": files_json(&analysis.skipped), "may_be_stale": files_json(&analysis.doubts),
    })
}

/// What a build holds, as lines.
pub fn summary(analysis: &Analysis) -> String {
    let Held { reasons, covered, sizes, disagreements } = Held::by(analysis);
    let functions = analysis.graph.nodes().len();
    let mut text = format!("{} object files, {functions} functions\n", analysis.units.len());
    text += "object files with each source:\n";
    for (source, units) in covered {
        let _ = writeln!(text, "  {source:<12} {units:>8}");
    }
    text += "ties:\n";
    for (reason, count) in reasons {
        let _ = writeln!(text, "  {:<14} {count:>8}", reason.word());
    }
    let _ = writeln!(
        text,
        "functions with code that change with a function: mean {:.2}, median {}, 95 % up to {}; \
         the most:",
        sizes.mean, sizes.median, sizes.p95
    );
    for (node, size) in sizes.largest {
        let _ = writeln!(text, "  {size:>6}  {}", label(analysis, node));
    }
    let _ = writeln!(text, "disagreements between sources: {}", disagreements.len());
    for it in disagreements.iter().take(DISAGREEMENTS) {
        let _ = writeln!(
            text,
            "  {} inlined into {}: {} says so, {} does not",
            shown_name(analysis, it.callee),
            label(analysis, it.caller),
            it.says.word(),
            it.silent.word()
        );
    }
    if disagreements.len() > DISAGREEMENTS {
        text += "  … all with --format json\n";
    }
    text
}

/// Says, one thing a line, what was left out and what it means.
pub fn notes(analysis: &Analysis, touched: &Touched) -> Vec<String> {
    let elsewhere = touched.elsewhere.iter().map(|(file, line)| {
        format!(
            "{file}:{line} lies in no function of this build: what changes with it is not known"
        )
    });
    let unread = touched.unread.iter().map(|file| {
        format!(
            "{file} cannot be read here: each line of the patch counts for the function that \
             begins last before it; types, macros and data between functions are not told apart"
        )
    });
    let mut notes: Vec<String> = elsewhere.chain(unread).chain(left_out(analysis)).collect();
    if analysis.graph.nodes().all(|(_, node)| !node.has_code) {
        notes.push("no object here has symbols of functions; is this build stripped?".into());
    }
    let has = |(source, units)| matches!(source, Source::IpaClones | Source::Remarks) && units > 0;
    if !Source::ALL.into_iter().zip(analysis.covered).any(has) {
        notes.push(
            "no dumps of the compiler: build with gcc -fdump-ipa-clones -fdump-ipa-icf-details or \
             clang -fsave-optimization-record to see what debug information does not show"
                .into(),
        );
    }
    notes
}

/// Says which files were not used, and which may be of another build.
pub fn left_out(analysis: &Analysis) -> Vec<String> {
    let mut notes = Vec::new();
    for (files, what) in [(&analysis.doubts, "may be stale"), (&analysis.skipped, "left out")] {
        let first = files.iter().take(NOTES);
        notes.extend(first.map(|it| format!("{} {what}: {}", it.path.display(), it.reason)));
        if files.len() > NOTES {
            notes.push(format!(
                "{} more files {what}; planish livepatch closure BUILD_DIR --format json names all",
                files.len() - NOTES
            ));
        }
    }
    notes
}

/// How closures differ, as JSON.
pub fn differences_json(found: &Differences) -> Value {
    let pair = |(object, name): &(String, String)| json!({ "object": object, "name": name });
    let row = |it: &Difference| {
        json!({
            "object": it.function.0, "name": it.function.1,
            "lost": it.lost.iter().map(pair).collect::<Vec<_>>(),
            "gained": it.gained.iter().map(pair).collect::<Vec<_>>(),
        })
    };
    let rows: Vec<Value> = found.functions.iter().map(row).collect();
    json!({
        "schema": "planish-livepatch-diff", "version": VERSION, "compared": found.compared,
        "functions": rows,
    })
}

/// How closures differ, as lines.
pub fn differences(found: &Differences) -> String {
    let mut text = String::new();
    for it in &found.functions {
        let _ = writeln!(text, "{} [{}]", visible(&it.function.1), visible(&it.function.0));
        for (sign, functions) in [('-', &it.lost), ('+', &it.gained)] {
            for (object, name) in functions {
                let _ = writeln!(text, "  {sign} {} [{}]", visible(name), visible(object));
            }
        }
    }
    let (differ, all) = (found.functions.len(), found.compared);
    let _ = writeln!(text, "{differ} of {all} functions have another closure");
    text
}

/// What a compiler says of its own interprocedural optimisations.
#[derive(Clone, Copy, Debug)]
pub struct Flags<'a> {
    /// The compiler.
    pub compiler: &'a str,
    /// The level of optimisation.
    pub level: &'a str,
    /// What is on and leaves no trace.
    pub silent: &'a [&'a str],
    /// What is on and leaves one.
    pub traced: &'a [&'a str],
    /// Modes of live patching, with what each turns off.
    pub modes: &'a [(&'a str, Vec<String>)],
}

impl Flags<'_> {
    /// As JSON.
    pub fn json(&self) -> Value {
        let modes: BTreeMap<&str, _> = self.modes.iter().map(|(mode, off)| (*mode, off)).collect();
        json!({
            "schema": "planish-livepatch-flags", "version": 1, "compiler": self.compiler,
            "level": self.level, "without_trace": self.silent, "with_trace": self.traced,
            "live_patching_turns_off": modes,
        })
    }

    /// As lines.
    pub fn text(&self) -> String {
        let Flags { compiler, level, silent, traced, modes } = self;
        let mut text = format!(
            "{} {}: on, and without a trace in dumps, symbols and debug information:\n",
            visible(compiler),
            visible(level)
        );
        for option in *silent {
            let _ = writeln!(text, "  {option:<32} off with {}", livepatch::flags::negated(option));
        }
        text += "on, and shown by `planish livepatch`:\n";
        traced.iter().for_each(|option| text += &format!("  {option}\n"));
        for (mode, off) in *modes {
            let _ = writeln!(text, "-flive-patching={mode} turns off:");
            off.iter().for_each(|option| text += &format!("  {option}\n"));
        }
        if modes.is_empty() {
            let _ = writeln!(text, "{} has no -flive-patching", visible(compiler));
        }
        text + "\nWhat each costs: planish livepatch flags --matrix >> planish.toml; planish compare \
                --matrix\n"
    }
}
