//! How is measured? What the user asked for, what planish.toml says where they said nothing, and
//! what is usual.

use crate::layouts::LayoutMode;
use crate::{Aslr, Design, Error, MOST_LAYOUTS, Metric, Stopping, calibrate, this_machine};

/// Rounds where none are asked for: enough to show 1 % among runs that spread by 1 %.
const ROUNDS: u32 = 30;
/// Differences within ± this share count as none, where nothing else is asked for: what another
/// link of the same code can do (docs/explanation/statistics.md).
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
    /// Time fixed work on it during each run.
    pub gauge: bool,
    /// The machine's name in reports.
    pub machine: Option<String>,
}

impl Settings {
    /// A design of these settings, without variants and benchmarks.
    pub fn design(&self) -> Design {
        let mut machine = this_machine(self.machine.as_deref());
        machine.calibration = calibrate::known(&machine.fingerprint, self.gauge);
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
            gauge: self.gauge,
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

/// Independent layouts of each program without which no difference can be shown, however large.
pub const LEAST_LAYOUTS: u32 = statistics::least_layouts(false) as u32;

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
