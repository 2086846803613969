//! How often is a difference claimed on this machine where there is none? The program compared with
//! itself.

use crate::busy::{Snapshot, queued_share};
use crate::kept::Keep;
use crate::layouts::{self, LayoutMode};
use crate::result::Calibration;
use crate::runs::Recorded;
use crate::teller::Teller;
use crate::{Design, Error, Layouts, Run, measure};
use statistics::Observation;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

/// Comparisons made by re-labelling the recorded runs: a rate of 5 % is then known to ± 2 %.
const COMPARISONS: usize = 400;
/// Label swaps drawn for each: p-values in steps of a thousandth.
const DRAWS: usize = 999;
/// Fewer rounds cannot show a difference at 5 %.
const LEAST_ROUNDS: u32 = 6;
/// Runs for so many comparisons side by side; more are made from windows that overlap.
const SIDE_BY_SIDE: u32 = 10;
/// Layouts for so many times as one comparison takes.
const TIMES_LAYOUTS: u32 = 3;

/// Relinks of the program that are part of a calibration.
#[derive(Clone, Copy, Debug)]
pub struct Relinks<'a> {
    /// Layouts of one comparison.
    pub count: u32,
    /// The inputs of the program's link.
    pub archive: &'a Path,
    /// Where links go.
    pub folder: &'a Path,
}

/// Calibrates: `same` is a comparison of a program with itself, with the rounds of one comparison.
/// `None` where the user ended it by `stop`.
///
/// # Errors
/// Where there are too few rounds or layouts, or the program cannot be run or linked.
pub fn calibrate(
    same: Design,
    relinks: Option<Relinks<'_>>,
    keep: Keep<'_>,
    stop: &AtomicBool,
    teller: &mut dyn Teller,
) -> Result<Option<Calibration>, Error> {
    let rounds = same.rounds;
    if rounds < LEAST_ROUNDS {
        return Err(Error::Design(format!(
            "--rounds {rounds}: fewer than {LEAST_ROUNDS} cannot show a difference at 5 %"
        )));
    }
    if same.gauge && 2 * rounds < statistics::gauge::LEAST_RUNS as u32 {
        return Err(Error::Design(format!(
            "--rounds {rounds}: fewer than {} are too few for --gauge",
            statistics::gauge::LEAST_RUNS / 2
        )));
    }
    let words = same.benchmarks.first().map(|benchmark| benchmark.command.join(" "));
    let before = Snapshot::now();
    let many = Design { rounds: rounds * SIDE_BY_SIDE, ..same.clone() };
    let (found, interrupted) = measure(many, keep, stop, teller)?;
    if interrupted {
        return Ok(None);
    }
    let others_share = before.others_share();
    // The gauge keeps runs waiting, too.
    let queued_share = queued_share(&found.runs).filter(|_| !found.design.gauge);
    let (stream, gauge) = seen(&found)?;
    let stream: Vec<f64> = stream.iter().map(|o| o.log).collect();
    let answer = statistics::calibration::same_binary(
        &stream,
        gauge.as_deref(),
        rounds as usize,
        COMPARISONS,
        DRAWS,
        found.design.seed,
    );
    let answer = answer
        .ok_or_else(|| Error::TooFew("there are too few runs for a calibration".to_owned()))?;
    let mut calibration = Calibration {
        date: today(),
        command: words.unwrap_or_default(),
        rounds: rounds as usize,
        comparisons: answer.comparisons,
        false_positive_rate: answer.rate(),
        interval: [answer.low, answer.high],
        uniform_p: answer.ks_p_value,
        p_values: answer.p_values.clone(),
        lag1: answer.autocorrelation,
        within_sd: answer.run_deviation,
        smallest_effect: answer.detectable.exp_m1(),
        gauge: found.design.gauge,
        others_share,
        queued_share,
        ..Calibration::default()
    };
    let Some(relinks) = relinks else { return Ok(Some(calibration)) };
    let whole = relinked(&mut calibration, same, relinks, keep, stop, teller)?;
    Ok(whole.then_some(calibration))
}

/// The runs after the warm-up in time order, seen by the deciding metric, and what the gauge showed
/// beside them, where it may be taken out.
fn seen(found: &Recorded) -> Result<(Vec<Observation>, Option<Vec<f64>>), Error> {
    let metric = found
        .design
        .benchmarks
        .first()
        .and_then(|b| b.metrics.first())
        .cloned()
        .unwrap_or_default();
    let one = |run: &&Run| {
        let seen = metric.observation(run).filter(|_| metric.value(run) != Some(0.0));
        seen.ok_or_else(|| {
            Error::TooFew(format!("round {}: {} is not above 0", run.round, metric.label()))
        })
    };
    let runs: Vec<&Run> = found.runs.iter().filter(|run| run.round > 0).collect();
    let observations = runs.iter().map(one).collect::<Result<_, _>>()?;
    let gauge = crate::analyse::gauge(&metric, &runs);
    if found.design.gauge && gauge.is_none() {
        return Err(Error::TooFew(
            "the gauge could not be read during every run, or what is measured is no time; give the \
             program more work, or leave out --gauge"
                .into(),
        ));
    }
    Ok((observations, gauge))
}

/// Relinks of one program as both variants; false where the user ended it.
fn relinked(
    calibration: &mut Calibration,
    same: Design,
    relinks: Relinks<'_>,
    keep: Keep<'_>,
    stop: &AtomicBool,
    teller: &mut dyn Teller,
) -> Result<bool, Error> {
    let mut design = Design { rounds: SIDE_BY_SIDE, ..same };
    let Relinks { count, archive, folder } = relinks;
    let again = Some(layouts::Again::link(archive.to_owned()));
    let layouts = TIMES_LAYOUTS * count;
    layouts::add(
        &mut design,
        &[again.clone(), again],
        layouts,
        LayoutMode::Independent,
        folder,
        teller,
    )?;
    design.layouts = Layouts::Independent;
    let raw = keep.raw.map(|raw| raw.with_extension("relinked.jsonl"));
    let keep = Keep { raw: raw.as_deref(), ..keep };
    let (found, interrupted) = measure(design, keep, stop, teller)?;
    if interrupted {
        return Ok(false);
    }
    let (mut observations, gauge) = seen(&found)?;
    if let Some(gauge) = gauge {
        // Without a usable gauge they stay as they are.
        let _ = statistics::gauge::take_out(&mut observations, &gauge);
    }
    observations.retain(|o| o.layout > 0);
    let answer = statistics::calibration::relinked(
        &observations,
        count as usize,
        COMPARISONS,
        DRAWS,
        found.design.seed,
    );
    let answer = answer.ok_or_else(|| {
        Error::TooFew(format!("{count} layouts are too few for a calibration; 8 are usual"))
    })?;
    calibration.layout_sd = answer.layout_deviation;
    calibration.relinked_rate = Some(answer.rate());
    calibration.relinked_interval = Some([answer.low, answer.high]);
    Ok(true)
}

fn folder() -> Option<PathBuf> {
    let own = std::env::var_os("XDG_DATA_HOME").filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    Some(own.or_else(home)?.join("planish"))
}

fn file() -> Option<PathBuf> {
    Some(folder()?.join("calibrations.json"))
}

/// The stored calibration of a machine of this kind, with the gauge or without.
pub fn known(fingerprint: &str, gauge: bool) -> Option<Calibration> {
    read(&file()?).remove(&key(fingerprint, gauge))
}

/// Under which calibrations are stored: what is measured with a gauge has another error.
fn key(fingerprint: &str, gauge: bool) -> String {
    if gauge { format!("{fingerprint}, gauged") } else { fingerprint.to_owned() }
}

fn read(path: &Path) -> BTreeMap<String, Calibration> {
    // A damaged file is as good as none: calibrating again writes it anew.
    beside::given::read(path, beside::given::TEXT)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

/// Keeps the calibration of a machine of this kind; gives the file.
///
/// # Errors
/// Where it cannot be written.
pub fn store(fingerprint: &str, calibration: &Calibration) -> Result<PathBuf, Error> {
    let path = file().ok_or_else(|| {
        Error::Design(
            "neither XDG_DATA_HOME nor HOME says where to keep the calibration".to_owned(),
        )
    })?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(Error::file(folder))?;
    }
    let mut all = read(&path);
    all.insert(key(fingerprint, calibration.gauge), calibration.clone());
    let text = serde_json::to_vec_pretty(&all).map_err(|error| Error::problem(&path, error))?;
    beside::write(&path, text).map_err(Error::file(&path))?;
    Ok(path)
}

/// The date in UTC, from the days since 1970 (proleptic Gregorian calendar, years from March).
fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
    let days = seconds as i64 / 86_400 + 719_468;
    let era = days.div_euclid(146_097);
    let day = days.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (month_day, month) =
        (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    format!("{:04}-{month:02}-{month_day:02}", year + era * 400 + i64::from(month <= 2))
}
