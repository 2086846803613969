//! What will be run, in which order? A value that one seed repeats.

use crate::result::MeasuredMachine;
use crate::{Error, Metric};
use random::Random;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Most rounds of a measurement: where a run takes a second, a month for two programs.
pub const MOST_ROUNDS: u32 = 1_000_000;
/// Most layouts of a program, each of which is linked.
pub const MOST_LAYOUTS: u32 = 1000;
/// The rounds of a second block, at least.
const LEAST_SECOND_ROUNDS: u32 = 8;
/// Most times that a measurement is told before it goes on.
const MOST_LOOKS: usize = 1000;

/// One of the programs under comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// The name used in results.
    pub name: String,
    /// What it is, in words (file, flags, commit).
    #[serde(default)]
    pub description: String,
    /// The files that take the place of `{bin}`: first the program as built, then one for each
    /// layout, if it is linked in layouts.
    pub binaries: Vec<PathBuf>,
    /// `LD_LIBRARY_PATH` of its runs, where it has libraries of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library_path: Option<String>,
    /// SHA-256 of each binary, so that a measurement is not gone on with when one was built anew.
    #[serde(default)]
    pub digests: Vec<String>,
    /// What the layouts leave to chance, in words.
    #[serde(default)]
    pub freedom: String,
    /// Share of function bytes at an address equal to the base's modulo 4096, in matched layouts.
    #[serde(default)]
    pub matched_share: Option<f64>,
    /// Its layouts are random orders of its own although others share the base's: too little of
    /// its code lies at equal places.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_layouts: bool,
    /// Section sizes of the program as built.
    #[serde(default)]
    pub sizes: Option<crate::result::Sizes>,
    /// Deterministic metrics of the instruction stream, per benchmark.
    #[serde(default)]
    pub code_metrics: BTreeMap<String, BTreeMap<String, f64>>,
}

/// A command with its parameters filled in, and what is looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Benchmark {
    /// Unique name, with the parameters.
    pub name: String,
    /// Program and arguments; `{bin}` stands for the variant's path.
    pub command: Vec<String>,
    /// Values of the parameters.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// The numbers; the first decides.
    pub metrics: Vec<Metric>,
}

/// How address-space layout randomisation is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aslr {
    /// As the system has it.
    #[default]
    AsSet,
    /// Off for the programs (personality ADDR_NO_RANDOMIZE).
    Off,
}

/// What the layouts of the variants are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layouts {
    /// Only the programs as built.
    #[default]
    None,
    /// Every variant has random orders of its own.
    Independent,
    /// All variants are linked in the same random orders.
    Matched,
}

/// When does a measurement end before its last round?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stopping {
    /// Never: the number of rounds is fixed.
    #[default]
    Fixed,
    /// At scheduled looks, with the p-values that looking costs (group-sequential).
    Looks,
    /// As soon as the anytime-valid interval excludes no difference or lies within the margin.
    UntilDecided,
}

/// A whole measurement before it is made. The first variant is the base.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// The programs; at least two.
    pub variants: Vec<Variant>,
    /// What they run.
    pub benchmarks: Vec<Benchmark>,
    /// Rounds that count (a warm-up round is run before them).
    pub rounds: u32,
    /// Decides every run order and environment size.
    pub seed: u64,
    /// What the layouts are.
    #[serde(default)]
    pub layouts: Layouts,
    /// When it ends.
    #[serde(default)]
    pub stopping: Stopping,
    /// A variant that is slower is measured for as many rounds again, and slower only if these say
    /// so too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confirm: bool,
    /// Rounds after which a result was told before the measurement went on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looked: Vec<u32>,
    /// Differences within ± this share count as none.
    pub margin: f64,
    /// Whether programs whose output differs are compared all the same.
    #[serde(default)]
    pub ignore_output: bool,
    /// A run that takes longer is killed and its variant stopped; seconds. Absent: 20 times the
    /// usual.
    #[serde(default)]
    pub timeout_s: Option<f64>,
    /// Address-space layout randomisation.
    #[serde(default)]
    pub aslr: Aslr,
    /// The CPU that everything runs on, when it is pinned.
    #[serde(default)]
    pub pinned_cpu: Option<u32>,
    /// Whether fixed work is timed on that CPU during each run, and what it explains is taken out of
    /// times.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gauge: bool,
    /// Where it is measured.
    #[serde(default)]
    pub machine: MeasuredMachine,
}

/// One place in a round: which binary runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// Index into [`Design::variants`].
    pub variant: usize,
    /// Index into [`Variant::binaries`]; 0 is as built.
    pub layout: u32,
    /// 0, and 1 for the second run of an as-built binary.
    pub copy: u8,
}

impl Design {
    /// Says why the design cannot be run, if it cannot.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |message: String| Err(Error::Design(message));
        if self.variants.len() < 2 {
            return wrong(
                "a comparison needs at least two programs; to see how noisy this machine is, give \
                 the same one twice or use `planish compare calibrate`"
                    .into(),
            );
        }
        if !(self.margin > 0.0 && self.margin < 1.0) {
            return wrong(format!(
                "a margin of {} % makes no sense; 1 % is usual",
                self.margin * 100.0
            ));
        }
        if self.rounds == 0 {
            return wrong("a comparison needs at least one round".into());
        }
        if self.rounds > MOST_ROUNDS {
            return wrong(format!(
                "{} rounds would not end; {MOST_ROUNDS} are the most, 30 are usual",
                self.rounds
            ));
        }
        if self.gauge && self.pinned_cpu.is_none() {
            return wrong("--gauge needs one CPU for everything: add --cpu 0, or another".into());
        }
        if self.gauge && self.stopping != Stopping::Fixed {
            return wrong(
                "a gauge needs all runs before any is judged; leave out --looks and \
                 --until-decided, or the gauge"
                    .into(),
            );
        }
        if self.looked.len() > MOST_LOOKS || !self.looked.is_sorted_by(|a, b| a < b) {
            return wrong(format!(
                "`looked` has {} numbers; expected at most {MOST_LOOKS}, each greater than the \
                 one before",
                self.looked.len()
            ));
        }
        if self.benchmarks.is_empty() {
            return wrong(
                "there is no command to run; write for example: planish compare A B -- {bin} input"
                    .into(),
            );
        }
        for benchmark in &self.benchmarks {
            if benchmark.metrics.is_empty() {
                return wrong(format!("benchmark {}: there is no metric", benchmark.name));
            }
            let mut names: Vec<String> = benchmark.metrics.iter().map(Metric::label).collect();
            names.sort();
            if let Some(pair) = names.windows(2).find(|w| w[0] == w[1]) {
                let hint = "give each a name of its own: NAME=output:PATTERN";
                return wrong(format!(
                    "benchmark {}: two metrics are called {}; {hint}",
                    benchmark.name, pair[0]
                ));
            }
            if !benchmark.command.iter().any(|word| word.contains("{bin}")) {
                return wrong(
                    "the command does not mention {bin}, so every program under comparison would \
                     run the same; write for example: planish compare A B -- {bin} --input data"
                        .into(),
                );
            }
        }
        Ok(())
    }

    /// How many rounds confirm what the first ones showed: as many, but not so few that one round
    /// which went the other way hides the difference (of six and seven rounds, 5 % is reached only
    /// where all go one way, or nearly).
    pub fn second_rounds(&self) -> u32 {
        self.rounds.max(LEAST_SECOND_ROUNDS)
    }

    /// The rounds that confirm what the first ones showed.
    pub fn second_block(&self) -> std::ops::RangeInclusive<u32> {
        self.rounds.saturating_add(1)..=self.rounds.saturating_add(self.second_rounds())
    }

    /// Does layout l of this variant have the order of the base's?
    pub fn is_matched(&self, variant: usize) -> bool {
        let own = self.variants.get(variant).is_some_and(|v| v.own_layouts);
        self.layouts == Layouts::Matched && !own
    }

    /// Why no difference, however large, can be shown to a reader who corrects for `rows`
    /// comparisons; `None` where one can.
    pub fn too_small(&self, rows: usize) -> Option<String> {
        let layouts = self.layout_count() as usize;
        let among = if rows > 1 { format!(" among {rows} rows") } else { String::new() };
        if self.layouts == Layouts::None {
            let least = statistics::power::least_rounds(rows as f64);
            let rounds = self.rounds;
            return (rounds < least).then(|| {
                format!(
                    "{rounds} rounds cannot show a difference at 5 %{among}; {least} are the least"
                )
            });
        }
        let mut linked = (1..self.variants.len()).filter(|&at| self.layouts_of(at) > 0);
        let matched = linked.all(|variant| self.is_matched(variant));
        let least = statistics::least_layouts(matched);
        (layouts < least).then(|| {
            format!(
                "{layouts} layouts cannot show a difference at 5 %; {least} are the least, 8 or \
                 more are usual"
            )
        })
    }

    /// Layouts besides the programs as built, equal for all variants that have any.
    pub fn layout_count(&self) -> u32 {
        let counts = (0..self.variants.len()).map(|variant| self.layouts_of(variant));
        counts.filter(|&count| count > 0).min().unwrap_or(0)
    }

    /// Layouts of one variant besides the program as built; 0 for one that is measured as built
    /// alone.
    pub fn layouts_of(&self, variant: usize) -> u32 {
        let binaries = self.variants.get(variant).map_or(0, |v| v.binaries.len());
        if self.layouts == Layouts::None { 0 } else { binaries.saturating_sub(1) as u32 }
    }

    /// What runs in every round, in a fixed order. With layouts the programs as built run twice:
    /// they stand beside many layouts and would else be known less well.
    pub fn slots(&self) -> Vec<Slot> {
        let copies = if self.layouts == Layouts::None { 1 } else { 2 };
        let of_variant = |variant| {
            let layouts = self.layouts_of(variant);
            let built = (0..copies).map(move |copy| Slot { variant, layout: 0, copy });
            built.chain((1..=layouts).map(move |layout| Slot { variant, layout, copy: 0 }))
        };
        (0..self.variants.len()).flat_map(of_variant).collect()
    }

    /// The slots in the order they run in `round` of `benchmark`; every order is equally likely and
    /// independent of the others.
    ///
    /// A fixed alternation would run in step with periodic disturbances; blocks would follow any
    /// drift.
    pub fn order(&self, benchmark: usize, round: u32) -> Vec<Slot> {
        let mut order = self.slots();
        // The very first run is the base's, so that a broken variant is reported as differing from
        // the base.
        if round > 0 {
            self.random(benchmark, round, 0).shuffle(&mut order);
        }
        order
    }

    /// Bytes added to the environment of one run.
    ///
    /// The environment lies above the stack; its size moves the stack and with it the alignment of
    /// everything on it, which alone can make a program several per cent faster or slower
    /// (Mytkowicz et al., "Producing wrong data without doing anything obviously wrong", 2009).
    /// A random size makes that luck part of the noise.
    pub fn environment_bytes(&self, benchmark: usize, round: u32, position: usize) -> usize {
        self.random(benchmark, round, position as u64 + 1).below(4096)
    }

    fn random(&self, benchmark: usize, round: u32, stream: u64) -> Random {
        let place = (u64::from(round) << 20) ^ ((benchmark as u64) << 52);
        let mut outer = Random::new(self.seed ^ place ^ stream.wrapping_mul(0x5851_f42d_4c95_7f2d));
        Random::new(outer.next_bits())
    }
}

/// The command of one binary: `{bin}` replaced by its path everywhere.
pub fn bind(command: &[String], binary: &std::path::Path) -> Vec<String> {
    let path = binary.to_string_lossy();
    command.iter().map(|word| word.replace("{bin}", &path)).collect()
}

/// The `{name}`s of a word; a name begins with a letter or an underscore, so that `{}`, `{3}` and
/// `{ print $1 }` are none.
pub fn names_in_braces(word: &str) -> impl Iterator<Item = &str> {
    let is_name = |name: &&str| {
        name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-+".contains(letter))
    };
    let inside = word.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    inside.map(|(name, _)| name).filter(is_name)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn design(rounds: u32) -> Design {
        let variant = |name: &str| Variant {
            name: name.into(),
            binaries: vec![format!("/bin/{name}").into()],
            ..Variant::default()
        };
        let command = vec!["{bin}".into(), "x={bin}".into()];
        Design {
            variants: vec![variant("a"), variant("b")],
            benchmarks: vec![Benchmark {
                name: "x".into(),
                command,
                metrics: vec![Metric::default()],
                ..Benchmark::default()
            }],
            rounds,
            seed: 1,
            margin: 0.01,
            ..Design::default()
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_schedule_and_another_seed_another() {
        let one = design(64);
        let mut two = design(64);
        let orders = |d: &Design| (0..64).map(|r| d.order(0, r)).collect::<Vec<_>>();
        assert_eq!(orders(&one), orders(&two));
        two.seed = 2;
        assert_ne!(orders(&one), orders(&two));
    }

    #[test]
    fn both_orders_of_two_are_about_equally_frequent() {
        let d = design(1000);
        let first = (0..1000).filter(|&r| d.order(0, r)[0].variant == 0).count();
        assert!((440..560).contains(&first), "{first}");
    }

    #[test]
    fn with_layouts_the_programs_as_built_run_twice_and_each_layout_once() {
        let mut d = design(3);
        d.layouts = Layouts::Matched;
        for variant in &mut d.variants {
            variant.binaries.extend(["/l1".into(), "/l2".into()]);
        }
        let mut order = d.order(0, 2);
        order.sort();
        assert_eq!(order, d.slots());
        let of_base: Vec<(u32, u8)> =
            order.iter().filter(|s| s.variant == 0).map(|s| (s.layout, s.copy)).collect();
        assert_eq!(of_base, [(0, 0), (0, 1), (1, 0), (2, 0)]);
        // One that cannot be linked again runs as built.
        d.variants[1].binaries.truncate(1);
        let of_second: Vec<(u32, u8)> =
            d.slots().iter().filter(|s| s.variant == 1).map(|s| (s.layout, s.copy)).collect();
        assert_eq!(of_second, [(0, 0), (0, 1)]);
        assert_eq!((d.layout_count(), d.layouts_of(0), d.layouts_of(1)), (2, 2, 0));
    }

    #[test]
    fn the_binary_is_put_wherever_the_command_names_it() {
        let d = design(1);
        assert_eq!(
            bind(&d.benchmarks[0].command, &d.variants[1].binaries[0]),
            ["/bin/b", "x=/bin/b"]
        );
    }

    #[test]
    fn a_command_without_the_binary_is_refused() {
        let mut d = design(1);
        d.benchmarks[0].command = vec!["true".into()];
        assert!(d.check().unwrap_err().to_string().contains("{bin}"));
    }
}
