//! How is measured? What the user asked for, what planish.toml says where they said nothing, and
//! what is usual.

use crate::layouts::LayoutMode;
use crate::{
    Aslr, Design, Error, MOST_LAYOUTS, MOST_ROUNDS, Metric, Stopping, calibrate, this_machine,
};
use build::variants::CompareConfig;

/// Rounds where none are asked for.
const ROUNDS: u32 = 30;
/// Differences within ± this share count as none, where nothing else is asked for.
const MARGIN: f64 = 0.01;

/// How to measure; what is absent is as planish.toml has it, or usual.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Rounds that count.
    pub rounds: Option<u32>,
    /// Decides every order.
    pub seed: Option<u64>,
    /// The numbers that are looked at; the first decides.
    pub metrics: Vec<Metric>,
    /// Differences within ± this share (0.01 for 1 %) count as none.
    pub margin: Option<f64>,
    /// Random layouts of each variant; 0 for the programs as built alone.
    pub layouts: Option<u32>,
    /// Which orders these have.
    pub layout_mode: Option<LayoutMode>,
    /// When the measurement ends.
    pub stopping: Stopping,
    /// Measure a slower variant a second time.
    pub confirm: bool,
    /// Longest time of a run, in seconds.
    pub timeout_s: Option<f64>,
    /// Compare programs although they print different things.
    pub ignore_output: bool,
    /// Address-space layout randomisation.
    pub aslr: Aslr,
    /// The CPU that everything runs on.
    pub cpu: Option<u32>,
    /// The machine's name in reports.
    pub machine: Option<String>,
}

impl Settings {
    /// A design of these settings, without variants and benchmarks.
    pub fn design(&self) -> Design {
        let mut machine = this_machine(self.machine.as_deref());
        machine.calibration = calibrate::known(&machine.fingerprint);
        Design {
            rounds: self.rounds(),
            seed: self.seed.unwrap_or(1),
            margin: self.margin.unwrap_or(MARGIN),
            stopping: self.stopping,
            confirm: self.confirm,
            ignore_output: self.ignore_output,
            timeout_s: self.timeout_s,
            aslr: self.aslr,
            pinned_cpu: self.cpu,
            machine,
            ..Design::default()
        }
    }

    /// The rounds asked for, or as many as are usual.
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(ROUNDS)
    }

    /// The metrics asked for, or CPU time.
    pub fn metrics(&self) -> Vec<Metric> {
        or_usual(self.metrics.clone())
    }

    /// How many layouts are wanted, where any are.
    pub fn layouts(&self) -> Option<u32> {
        self.layouts.filter(|&count| count > 0)
    }

    /// These settings, with what `[compare]` and `[evaluate]` say where they say nothing.
    ///
    /// # Errors
    /// Where the file asks for what cannot be done.
    pub fn or_of(mut self, config: &CompareConfig) -> Result<Settings, Error> {
        let file = &config.compare;
        let evaluate = config.evaluate.as_ref().filter(|_| config.benchmarks.is_empty());
        self.rounds = self.rounds.or(file.rounds).or(evaluate.map(|e| e.rounds));
        self.seed = self.seed.or(file.seed).or(evaluate.map(|e| e.seed));
        self.layouts = self.layouts.or(file.layouts);
        // Before anything is built for them.
        enough_layouts("[compare] layouts =", self.layouts)?;
        if let Some(rounds) = self.rounds.filter(|&rounds| rounds > MOST_ROUNDS) {
            return Err(Error::Design(format!(
                "rounds = {rounds}: they would not end; {MOST_ROUNDS} are the most, 30 are usual"
            )));
        }
        self.margin = self.margin.or(file.margin.map(|per_cent| per_cent / 100.0));
        self.timeout_s = self.timeout_s.or(file.timeout);
        self.ignore_output |=
            file.ignore_output.unwrap_or(evaluate.is_some_and(|e| e.ignore_output));
        if let (None, Some(word)) = (self.layout_mode, file.layout_mode.as_deref()) {
            let mode = LayoutMode::parse(word).ok_or_else(|| {
                Error::Design(format!(
                    "[compare] layout_mode = {word:?}: known are auto, matched and independent"
                ))
            })?;
            self.layout_mode = Some(mode);
        }
        Ok(self)
    }
}

/// Metrics by their names, or CPU time where none is named.
///
/// # Errors
/// Where a name is not known.
pub fn metrics(given: &[String]) -> Result<Vec<Metric>, Error> {
    Ok(or_usual(given.iter().map(|metric| Metric::parse(metric)).collect::<Result<_, _>>()?))
}

fn or_usual(metrics: Vec<Metric>) -> Vec<Metric> {
    if metrics.is_empty() { vec![Metric::default()] } else { metrics }
}

/// Refuses more layouts than there can be; each is linked before anything is measured. `named` is
/// where the number stands.
///
/// # Errors
/// Where there are more.
pub fn enough_layouts(named: &str, layouts: Option<u32>) -> Result<(), Error> {
    match layouts.filter(|&count| count > MOST_LAYOUTS) {
        Some(count) => Err(Error::Design(format!(
            "{named} {count}: {MOST_LAYOUTS} are the most, 8 are usual; each is a link of every \
             program"
        ))),
        None => Ok(()),
    }
}
