//! What the numbers of a run amount to, in words that claim no more than the numbers do.

use super::{Optimization, metric_words};
use crate::compare::ratio_words;
use ::compare::result::{Compared, Measurement, Verdict};

/// A verdict with the number behind it.
pub(super) fn verdict_words(metric: &str, compared: &Compared) -> String {
    let mut ratio = ratio_words(compared);
    if let Some(averaged) = &compared.layouts {
        ratio.push_str(&format!(", averaged over {} layouts", averaged.count));
    }
    match compared.verdict {
        Verdict::Faster => format!("faster, {metric} {ratio}"),
        Verdict::Slower => format!("slower, {metric} {ratio}"),
        Verdict::Same => format!("no difference shown in {metric}, {ratio}"),
        Verdict::LayoutLuck => format!("only layout luck in {metric}, {ratio}"),
        Verdict::Undecided => format!("undecided in {metric}, {ratio}"),
    }
}

/// The pair that was compared on the command of a measurement.
pub(super) fn of_command<'p>(
    pairs: &'p [Compared],
    measurement: &Measurement,
) -> Option<&'p Compared> {
    let command = measurement.benchmarks.first().map(|benchmark| benchmark.name.as_str());
    pairs.iter().find(|pair| Some(pair.benchmark.as_str()) == command)
}

/// Why an interval that leaves out 1 is no claim; nothing where there is no such interval. `result`
/// is the result beside the baseline.
fn open_words(compared: &Compared, result: Option<&Compared>) -> String {
    let beside_one = compared.interval.is_some_and(|[low, high]| low > 1.0 || high < 1.0);
    let links = result.filter(|result| compared.is_within_links_of(result));
    let band = links.and_then(|result| result.layouts).map_or(0.0, |layouts| layouts.one_relink);
    match compared.confirmation {
        _ if compared.verdict != Verdict::Undecided || !beside_one => String::new(),
        _ if links.is_some() => format!(
            "; both were linked once for that, and another link of the same code moves the time by up \
             to {:.1} %",
            band * 100.0
        ),
        Some(second) => {
            format!("; the {} rounds that were to confirm it did not", second.rounds)
        }
        None if compared.p_corrected <= compared.p_value => String::new(),
        None => format!(
            "; with so many comparisons in one run that can be chance (p = {:.3} alone, {:.3} among \
             all of them)",
            compared.p_value, compared.p_corrected
        ),
    }
}

impl Optimization {
    /// The closing lines: the result beside the baseline, and what its last step added.
    pub(super) fn conclusion(&self) -> Vec<String> {
        let result = self.result();
        let mut lines = Vec::new();
        let several = self.measurements.len() > 1;
        for measurement in &self.measurements {
            let metric = metric_words(measurement);
            let of = |command: Option<&str>| match command {
                Some(command) if several => format!(" ({command})"),
                _ => String::new(),
            };
            let command =
                measurement.benchmarks.first().map(|benchmark| benchmark.command.as_str());
            let whole = measurement.comparisons.iter().find(|c| c.variant == result);
            let beside = |compared: &Compared, what: &str| {
                let (words, open) = (verdict_words(metric, compared), open_words(compared, whole));
                format!("{result} beside {what}{}: {words}{open}", of(command))
            };
            let dropped = measurement.stopped.iter().find(|one| self.is_release(&one.variant));
            lines.extend(dropped.map(|one| {
                format!(
                    "{result} is not compared with the project's own release build{}: {}",
                    of(command),
                    one.reason
                )
            }));
            let release = of_command(&self.beside_release, measurement);
            lines.extend(release.map(|own| beside(own, "the project's own release build")));
            let base = release.map(|own| own.base.as_str());
            if let Some(own) =
                measurement.comparisons.iter().find(|c| Some(c.variant.as_str()) == base)
            {
                lines.push(format!(
                    "the project's own release build beside the baseline{}: {}; that is what flags and \
                     compilers differ by, without profile and layout",
                    of(command),
                    verdict_words(metric, own)
                ));
            }
            if let Some(whole) = whole {
                lines.push(beside(whole, "the baseline"));
            }
            if let Some(step) =
                of_command(&self.last_step, measurement).filter(|step| step.variant == result)
            {
                let by = if step.variant.ends_with(".rest") { "BOLT" } else { "the layout" };
                let added = match step.verdict {
                    Verdict::Faster | Verdict::Slower => String::new(),
                    _ => format!("; that {by} adds to the profile is not shown"),
                };
                lines.push(beside(step, &format!("{} (the profile alone)", step.base)) + &added);
            }
        }
        lines.extend(self.advice());
        lines
    }

    /// What to do where the result is not the best that was measured.
    fn advice(&self) -> Option<String> {
        let result = self.result();
        match self.advised() {
            Advised::Result => None,
            Advised::Before(program) if lost(self.steps_of(result)) => {
                Some(format!("take {program}: {result} is slower than it, on what was measured"))
            }
            Advised::Before(program) => Some(format!(
                "take {program}: it is faster than the baseline; no such gain is shown for {result}"
            )),
            Advised::Release if lost(self.beside_release.iter()) => Some(format!(
                "keep the project's own release build: {result} is slower than it, on what was measured"
            )),
            Advised::Release => Some(format!(
                "keep the project's own release build: it is faster than the baseline; no such gain is shown for {result}"
            )),
            Advised::Baseline if self.rows_of(result).any(Compared::is_slower) => Some(format!(
                "keep the program as it was: {result} is slower, on what was measured"
            )),
            Advised::Baseline => Some(format!(
                "keep the program as it was: {result} took longer in both blocks of rounds, though that \
                 is not certain"
            )),
        }
    }

    /// A program beside the baseline, on every command.
    fn rows_of<'r>(&'r self, name: &str) -> impl Iterator<Item = &'r Compared> + Clone {
        let rows = self.measurements.iter().flat_map(|m| &m.comparisons);
        rows.filter(move |row| row.variant == name)
    }

    /// The last step's effect on a program, on every command.
    fn steps_of<'r>(&'r self, name: &str) -> impl Iterator<Item = &'r Compared> + Clone {
        self.last_step.iter().filter(move |row| row.variant == name)
    }

    /// Whether a program is shown to be faster than the baseline on some command, and slower on none.
    pub fn is_shown_faster(&self, name: &str) -> bool {
        let gains = self.rows_of(name).any(|row| row.verdict == Verdict::Faster);
        gains && !self.rows_of(name).any(Compared::is_slower)
    }

    /// Which program the measurements speak for.
    pub fn advised(&self) -> Advised<'_> {
        let result = self.result();
        let step = self.steps_of(result);
        let alone = step.clone().next().map(|row| row.base.as_str());
        let release = self.beside_release.first().map(|row| row.base.as_str());
        // Never compared with each other, both are with the baseline.
        let effect = |name: &str| self.rows_of(name).next().map_or(f64::INFINITY, |row| row.effect);
        let release_gains = release.is_some_and(|name| self.is_shown_faster(name));
        let faster = |row: &Compared| row.verdict == Verdict::Faster;
        let gains = |name: &str| self.rows_of(name).any(faster);
        let beside = self.beside_release.iter().any(faster);
        // No comparison shows that the result gains, and one does for the profile alone.
        let unshown = |before: &str| {
            self.is_shown_faster(before) && !gains(result) && !beside && !step.clone().any(faster)
        };
        match alone.filter(|before| lost(step.clone()) || unshown(before)) {
            Some(before)
                if !lost(self.rows_of(before))
                    && effect(before) <= release.map_or(f64::INFINITY, effect)
                    && (gains(before) || !release_gains) =>
            {
                return Advised::Before(before);
            }
            _ if lost(self.beside_release.iter()) => return Advised::Release,
            _ => {}
        }
        let own_gain = beside || gains(result) || step.clone().any(faster);
        match release_gains && !own_gain {
            true => Advised::Release,
            false if lost(self.rows_of(result)) => Advised::Baseline,
            false => Advised::Result,
        }
    }
}

/// Whether a program is slower on one command, or took longer there in both blocks of rounds, and
/// faster on none.
fn lost<'r>(mut rows: impl Iterator<Item = &'r Compared> + Clone) -> bool {
    let won = rows.clone().any(|row| row.verdict == Verdict::Faster);
    !won && rows.any(|row| row.is_slower() || row.is_slower_twice())
}

/// Which program to take, by what was measured. Against the result speaks what was slower on one
/// command, and faster on none, and a gain that is shown for another program alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advised<'r> {
    /// What all the steps led to.
    Result,
    /// The program of this name, which the last step has made slower, or which alone is shown to be
    /// faster than the baseline.
    Before(&'r str),
    /// The project's own release build.
    Release,
    /// The program without profile.
    Baseline,
}

impl Advised<'_> {
    /// The word that JSON has for it ([`Take::which`](super::Take::which)).
    pub fn word(self) -> &'static str {
        match self {
            Advised::Result => "result",
            Advised::Before(_) => "before",
            Advised::Release => "release",
            Advised::Baseline => "baseline",
        }
    }
}
