//! What does planish.toml say about variants to compare? `[[variant]]`, `[[benchmark]]`,
//! `[compare]`, `[matrix]`.

use crate::config::{Build, Command, Evaluate, parse_checked, read_text};
use crate::{Error, split_words};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The tables of planish.toml that a comparison reads.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompareConfig {
    /// How variants are built; not needed when all are binaries.
    pub build: Option<Build>,
    /// The evaluation commands are the benchmarks when there is no `[[benchmark]]`.
    pub evaluate: Option<Evaluate>,
    /// Settings of the measurement.
    #[serde(default)]
    pub compare: Settings,
    /// The variants, the base first.
    #[serde(default, rename = "variant")]
    pub variants: Vec<VariantConfig>,
    /// What they run.
    #[serde(default, rename = "benchmark")]
    pub benchmarks: Vec<BenchmarkConfig>,
    /// Flags that `--matrix` makes one variant of each.
    pub matrix: Option<Matrix>,
    /// Read by `planish optimize` only.
    #[serde(default)]
    workload: Option<toml::Value>,
    /// Read by `planish optimize` only.
    #[serde(default)]
    record: Option<toml::Value>,
    /// Read by `planish optimize` and `planish build`.
    #[serde(default)]
    optimize: Option<toml::Value>,
}

/// `[compare]`: what the flags of `planish compare` say as well; a flag wins.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Rounds.
    pub rounds: Option<u32>,
    /// Seed of schedule and layouts.
    pub seed: Option<u64>,
    /// Layouts of each variant besides the program as built.
    pub layouts: Option<u32>,
    /// `auto`, `matched` or `independent`.
    pub layout_mode: Option<String>,
    /// Per cent.
    pub margin: Option<f64>,
    /// Metrics of benchmarks without their own; the first decides.
    pub metrics: Option<Vec<String>>,
    /// Seconds.
    pub timeout: Option<f64>,
    /// Compare although outputs differ.
    pub ignore_output: Option<bool>,
    /// The CPU that everything runs on.
    pub cpu: Option<u32>,
    /// Time fixed work on it during each run.
    pub gauge: Option<bool>,
}

/// `[[variant]]`: one of the programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariantConfig {
    /// Its name.
    pub name: String,
    /// A program that is there already; relative to planish.toml.
    pub binary: Option<String>,
    /// Flags added to those of `[build]`.
    #[serde(default)]
    pub flags: String,
    /// Replaces `[build] optimize`.
    pub optimize: Option<String>,
    /// Replaces `[build] command`.
    pub command: Option<Command>,
    /// Variables added to the build's environment.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Built from this commit, in a work tree of its own.
    pub commit: Option<String>,
}

/// `[[benchmark]]`: a command with parameters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BenchmarkConfig {
    /// Its name.
    pub name: String,
    /// The command; `{bin}` is the program, `{NAME}` a parameter.
    pub command: String,
    /// Values of each parameter; every combination is run.
    #[serde(default)]
    pub parameters: BTreeMap<String, Vec<toml::Value>>,
    /// Its metrics; the first decides.
    #[serde(default)]
    pub metrics: Vec<String>,
}

/// `[matrix]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// One variant each, and one with all of them.
    pub flags: Vec<String>,
    /// Whether the variant with all of them is made.
    #[serde(default = "yes")]
    pub all: bool,
}

fn yes() -> bool {
    true
}

/// A command with its parameters filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Name with the parameters: `insert rows=100`.
    pub name: String,
    /// Words.
    pub command: Vec<String>,
    /// The parameters.
    pub parameters: BTreeMap<String, String>,
    /// Metrics as given; empty for the default.
    pub metrics: Vec<String>,
}

impl CompareConfig {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<CompareConfig, Error> {
        CompareConfig::parse(&read_text(path)?, path)
    }

    /// Parses and checks text; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<CompareConfig, Error> {
        parse_checked(text, path, CompareConfig::check)
    }

    fn check(&self) -> Result<(), String> {
        let mut names: Vec<&str> = self.variants.iter().map(|v| v.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("two [[variant]]s are called {:?}", pair[0]));
        }
        for variant in &self.variants {
            let built = variant.commit.is_some()
                || variant.command.is_some()
                || variant.optimize.is_some()
                || !variant.environment.is_empty()
                || !variant.flags.is_empty();
            if variant.binary.is_some() && built {
                return Err(format!(
                    "[[variant]] {:?}: a binary is taken as it is; commit, command, flags, \
                     environment and optimize are for variants that planish builds",
                    variant.name
                ));
            }
            if variant.binary.is_none() && self.build.is_none() {
                return Err(format!(
                    "[[variant]] {:?} has no binary, and no [build] says how to make one",
                    variant.name
                ));
            }
        }
        self.evaluate.as_ref().map_or(Ok(()), |evaluate| evaluate.around().check("[evaluate]"))?;
        self.cells().map(|_| ())
    }

    /// Every benchmark with every combination of its parameters.
    pub fn cells(&self) -> Result<Vec<Cell>, String> {
        let (mut cells, mut names) = (Vec::new(), BTreeSet::new());
        for benchmark in &self.benchmarks {
            for parameters in combinations(&benchmark.parameters)? {
                if cells.len() >= MOST_CELLS {
                    return Err(format!(
                        "the benchmarks give more than {MOST_CELLS} combinations of parameters"
                    ));
                }
                let made = cell(benchmark, parameters)?;
                if !names.insert(made.name.clone()) {
                    return Err(format!(
                        "[[benchmark]] {:?} is there twice; every name, and every value of a parameter, stands \
                         for one row",
                        made.name
                    ));
                }
                cells.push(made);
            }
        }
        if let (true, Some(evaluate)) = (cells.is_empty(), &self.evaluate) {
            for (line, command) in evaluate.command.all().into_iter().zip(evaluate.words()?) {
                let metrics = vec![evaluate.metric.clone()];
                let name = line.replace("{bin}", "").trim().to_owned();
                let name = if name.is_empty() { "run".to_owned() } else { name };
                cells.push(Cell { name, command, parameters: BTreeMap::new(), metrics });
            }
        }
        Ok(cells)
    }

    /// The variants that `--matrix` measures: the base, one per flag, and all flags together.
    pub fn matrix_variants(&self) -> Result<Vec<VariantConfig>, String> {
        let Some(matrix) = self.matrix.as_ref().filter(|m| !m.flags.is_empty()) else {
            return Err("--matrix needs a table [matrix] with flags = [\"-fno-…\", …]".into());
        };
        let base = self
            .variants
            .first()
            .cloned()
            .unwrap_or_else(|| VariantConfig { name: "base".into(), ..VariantConfig::default() });
        if base.binary.is_some() {
            return Err("--matrix builds one variant for each flag; its base cannot be a ready \
                        binary"
                .into());
        }
        let with = |name: &str, flags: &str| VariantConfig {
            name: name.to_owned(),
            flags: format!("{} {flags}", base.flags).trim().to_owned(),
            ..base.clone()
        };
        let mut variants = vec![base.clone()];
        variants.extend(matrix.flags.iter().map(|flag| with(flag, flag)));
        if matrix.all && matrix.flags.len() > 1 {
            variants.push(with("all", &matrix.flags.join(" ")));
        }
        Ok(variants)
    }
}

/// More than this many cells of one benchmark are a slip of the pen.
const MOST_CELLS: usize = 10_000;

fn combinations(
    parameters: &BTreeMap<String, Vec<toml::Value>>,
) -> Result<Vec<BTreeMap<String, String>>, String> {
    let mut all = vec![BTreeMap::new()];
    for (name, values) in parameters {
        if values.is_empty() {
            return Err(format!("parameter {name:?} has no value"));
        }
        if all.len().saturating_mul(values.len()) > MOST_CELLS {
            return Err(format!("the parameters give more than {MOST_CELLS} combinations"));
        }
        let extend = |known: &BTreeMap<String, String>| {
            let one = |value: &toml::Value| {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let mut next = known.clone();
                next.insert(name.clone(), text);
                next
            };
            values.iter().map(one).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(extend).collect();
    }
    Ok(all)
}

fn cell(benchmark: &BenchmarkConfig, parameters: BTreeMap<String, String>) -> Result<Cell, String> {
    let place = format!("[[benchmark]] {:?}", benchmark.name);
    for name in parameters.keys() {
        if !benchmark.command.contains(&format!("{{{name}}}")) {
            return Err(format!("{place}: the command does not use the parameter {{{name}}}"));
        }
    }
    let words = split_words(&benchmark.command).map_err(|e| format!("{place}: {e}"))?;
    let known = |name: &str| name == "bin" || parameters.contains_key(name);
    let mut names = words.iter().flat_map(|word| compare::names_in_braces(word));
    if let Some(name) = names.find(|name| !known(name)) {
        return Err(format!(
            "{place}: {{{name}}} stands for nothing: {{bin}} is the program, and parameters = {{ {name} = […] }} \
             gives {{{name}}} values"
        ));
    }
    let fill = |word: &String| {
        parameters
            .iter()
            .fold(word.clone(), |word, (name, value)| word.replace(&format!("{{{name}}}"), value))
    };
    let command: Vec<String> = words.iter().map(fill).collect();
    if !command.iter().any(|word| word.contains("{bin}")) {
        return Err(format!("{place}: the command does not mention {{bin}}, the program"));
    }
    let values: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let name = [&[benchmark.name.clone()][..], &values].concat().join(" ");
    Ok(Cell { name, command, parameters, metrics: benchmark.metrics.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CompareConfig, String> {
        CompareConfig::parse(text, Path::new("planish.toml")).map_err(|e| e.to_string())
    }

    const TWO: &str = "[build]\ncommand = 'make'\nbinary = 'app'\n[[variant]]\nname = \
                       'base'\n[[variant]]\nname = 'O3'\noptimize = '-O3'\n[[benchmark]]\nname = \
                       'sum'\ncommand = '{bin} -n {n} {what}'\nparameters = { n = [1, 20], what = \
                       ['a b'] }\n";

    #[test]
    fn every_combination_of_parameters_is_a_cell_and_a_value_with_blanks_stays_one_word() {
        let cells = parse(TWO).unwrap().cells().unwrap();
        let names: Vec<&str> = cells.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["sum n=1 what=a b", "sum n=20 what=a b"]);
        assert_eq!(cells[1].command, ["{bin}", "-n", "20", "a b"]);
    }

    #[test]
    fn the_matrix_is_base_one_per_flag_and_all() {
        let config = parse(&format!("{TWO}[matrix]\nflags = ['-fa', '-fb']\n")).unwrap();
        let variants = config.matrix_variants().unwrap();
        let shown: Vec<String> =
            variants.iter().map(|v| format!("{}:{}", v.name, v.flags)).collect();
        assert_eq!(shown, ["base:", "-fa:-fa", "-fb:-fb", "all:-fa -fb"]);
        assert!(parse(TWO).unwrap().matrix_variants().unwrap_err().contains("[matrix]"));
    }

    #[test]
    fn contradictions_are_refused_with_the_table_they_are_in() {
        let wrong = |from: &str, to: &str| parse(&TWO.replace(from, to)).unwrap_err();
        assert!(wrong("'O3'", "'base'").contains("two [[variant]]s"));
        assert!(wrong("optimize", "binary = 'x'\noptimize").contains("is taken as it is"));
        assert!(wrong("[build]\ncommand = 'make'\nbinary = 'app'\n", "").contains("no [build]"));
        assert!(wrong("{what}", "x").contains("does not use the parameter {what}"));
        assert!(wrong("{bin}", "app").contains("does not mention {bin}"));
        assert!(wrong("{bin} -n", "{bin} x{zzz} -n").contains("{zzz} stands for nothing"));
        assert!(wrong("[1, 20]", "[1, 20, 1]").contains("\"sum n=1 what=a b\" is there twice"));
        assert!(parse(&TWO.replace("{bin} -n", "{bin} {} \"{ print }\" -n")).is_ok());
    }
}
