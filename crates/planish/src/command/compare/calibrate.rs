//! How often is a difference claimed on this machine where there is none? The program compared with
//! itself.

use super::{LayoutMode, What, busy, design, layouts, measure};
use crate::cli::{FINE, Format, Global};
use crate::output;
use anyhow::{Context, bail, ensure};
use build::plan::STATE_DIRECTORY;
use compare::result::Calibration;
use compare::{Layouts, Recorded};
use statistics::Observation;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Comparisons made by re-labelling the recorded runs.
const COMPARISONS: usize = 400;
/// Label swaps of each.
const DRAWS: usize = 999;

/// Measures, prints and stores the calibration of this machine.
pub fn run(what: &What, global: &Global) -> anyhow::Result<u8> {
    let [program] = what.binaries.as_slice() else {
        bail!(
            "--calibrate takes one program, which is compared with itself: planish compare APP \
             --calibrate -- {{bin}} input"
        );
    };
    let rounds = what.how.rounds.unwrap_or(30) as usize;
    ensure!(rounds >= 6, "--rounds {rounds}: fewer than 6 cannot show anything at 5 %");
    let mut own = what.clone();
    own.binaries = vec![program.clone(), program.clone()];
    let wanted = what.how.layouts.filter(|&n| n > 0);
    own.how.layouts = None;
    // Runs for ten comparisons side by side; more are made from windows that overlap.
    own.how.rounds = Some(rounds as u32 * 10);
    let same = design::from_binaries(&own, global)?;
    let fingerprint = same.machine.fingerprint.clone();
    let before = busy::Snapshot::now();
    let (found, interrupted) =
        measure::measure(same, what.how.raw.as_deref(), what.how.resume, global)?;
    if interrupted {
        return Ok(super::INTERRUPTED);
    }
    let (others_share, queued_share) = (before.others_share(), busy::queued_share(&found.runs));
    let stream: Vec<f64> = observations(&found)?.iter().map(|o| o.log).collect();
    let Some(answer) = statistics::calibration::same_binary(
        &stream,
        rounds,
        COMPARISONS,
        DRAWS,
        found.design.seed,
    ) else {
        bail!("there are too few runs for a calibration");
    };
    let mut calibration = Calibration {
        date: today(),
        command: what.command.join(" "),
        rounds,
        comparisons: answer.comparisons,
        false_positive_rate: answer.rate(),
        interval: [answer.low, answer.high],
        uniform_p: answer.ks_p_value,
        p_values: answer.p_values.clone(),
        lag1: answer.autocorrelation,
        within_sd: answer.run_deviation,
        smallest_effect: answer.detectable.exp_m1(),
        others_share,
        queued_share,
        ..Calibration::default()
    };
    if let Some(count) = wanted {
        let Some(()) = relinked(&mut calibration, program, what, count, global)? else {
            return Ok(super::INTERRUPTED);
        };
    }
    let path = store(&fingerprint, &calibration)?;
    tell(&calibration, what.output.format, &path)
}

/// The runs after the warm-up in time order, seen by the deciding metric.
fn observations(found: &Recorded) -> anyhow::Result<Vec<Observation>> {
    let metric = found
        .design
        .benchmarks
        .first()
        .and_then(|b| b.metrics.first())
        .cloned()
        .unwrap_or_default();
    let one = |run: &compare::Run| {
        let seen = metric.observation(run).filter(|_| metric.value(run) != Some(0.0));
        seen.with_context(|| format!("round {}: {} is not above 0", run.round, metric.label()))
    };
    found.runs.iter().filter(|run| run.round > 0).map(one).collect()
}

/// Relinks of one program as both variants: three times as many as one comparison takes.
fn relinked(
    calibration: &mut Calibration,
    program: &str,
    what: &What,
    count: u32,
    global: &Global,
) -> anyhow::Result<Option<()>> {
    let mut own = what.clone();
    own.binaries = vec![program.to_owned(), program.to_owned()];
    own.how.layouts = None;
    own.how.rounds = Some(10);
    let mut design = design::from_binaries(&own, global)?;
    let archive = match what.objects.first() {
        Some(archive) => archive.clone(),
        None => PathBuf::from(format!("{program}.repro.tar")),
    };
    ensure!(
        archive.is_file(),
        "--layouts: there are no objects to link again (no {}); link with -fuse-ld=lld \
         -Wl,--reproduce={} or name the archive with --objects",
        archive.display(),
        archive.display()
    );
    let folder = Path::new(STATE_DIRECTORY).join("layouts");
    let archives = [archive.clone(), archive];
    layouts::add(
        &mut design,
        &archives,
        3 * count,
        Some(LayoutMode::Independent),
        &folder,
        global,
    )?;
    design.layouts = Layouts::Independent;
    let raw = what.how.raw.as_ref().map(|raw| raw.with_extension("relinked.jsonl"));
    let (found, interrupted) = measure::measure(design, raw.as_deref(), what.how.resume, global)?;
    if interrupted {
        return Ok(None);
    }
    let mut observations = observations(&found)?;
    observations.retain(|o| o.layout > 0);
    let answer = statistics::calibration::relinked(
        &observations,
        count as usize,
        COMPARISONS,
        DRAWS,
        found.design.seed,
    );
    let Some(answer) = answer else {
        bail!("{count} layouts are too few for a calibration; 8 are usual")
    };
    calibration.layout_sd = answer.layout_deviation;
    calibration.relinked_rate = Some(answer.rate());
    calibration.relinked_interval = Some([answer.low, answer.high]);
    Ok(Some(()))
}

fn folder() -> Option<PathBuf> {
    let own = std::env::var_os("XDG_DATA_HOME").filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    Some(own.or_else(home)?.join("planish"))
}

fn file() -> Option<PathBuf> {
    Some(folder()?.join("calibrations.json"))
}

/// The stored calibration of a machine of this kind.
pub fn known(fingerprint: &str) -> Option<Calibration> {
    read(&file()?).remove(fingerprint)
}

fn read(path: &Path) -> BTreeMap<String, Calibration> {
    // A damaged file is as good as none: calibrating again writes it anew.
    beside::given::read(path, crate::input::TEXT_BYTES)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

fn store(fingerprint: &str, calibration: &Calibration) -> anyhow::Result<PathBuf> {
    let path =
        file().context("neither XDG_DATA_HOME nor HOME says where to keep the calibration")?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let mut all = read(&path);
    all.insert(fingerprint.to_owned(), calibration.clone());
    output::write_file(&path, |out| Ok(serde_json::to_writer_pretty(out, &all)?))?;
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

fn tell(c: &Calibration, format: Format, path: &Path) -> anyhow::Result<u8> {
    let mut out = output::text();
    if format == Format::Json {
        output::print_json(c)?;
        return Ok(FINE);
    }
    let pct = |share: f64| format!("{:.1} %", share * 100.0);
    let [low, high] = c.interval;
    let rate = pct(c.false_positive_rate);
    writeln!(
        out,
        "The program against itself, {} comparisons of {} rounds:",
        c.comparisons, c.rounds
    )?;
    writeln!(
        out,
        "  called different: {rate} (95 % interval {} to {}; 5 % is right)",
        pct(low),
        pct(high)
    )?;
    let resemble = if c.lag1 > 0.2 {
        "runs resemble their neighbours"
    } else {
        "runs do not resemble their neighbours"
    };
    writeln!(out, "  correlation of a run with the next: {:.2} ({resemble})", c.lag1)?;
    writeln!(out, "  spread of single runs: {}", pct(c.within_sd))?;
    writeln!(out, "  smallest difference found with 80 % power: {}", pct(c.smallest_effect))?;
    if c.was_busy() {
        let share = |share: Option<f64>| share.map_or("an unknown share".to_owned(), pct);
        writeln!(
            out,
            "The machine was busy: others used {} of the CPUs, runs waited {} of their time for \
             one. The calibration is marked so; repeat it on an idle machine if you measure on \
             one.",
            share(c.others_share),
            share(c.queued_share)
        )?;
    }
    if let (Some(rate), Some([low, high]), Some(sd)) =
        (c.relinked_rate, c.relinked_interval, c.layout_sd)
    {
        writeln!(
            out,
            "Relinks of the same objects: layout-averaged verdicts \"real\" {} ({} to {}); spread \
             between layouts {}",
            pct(rate),
            pct(low),
            pct(high),
            pct(sd)
        )?;
    }
    writeln!(
        out,
        "Stored in {}; every report on a machine like this one quotes it.",
        path.display()
    )?;
    Ok(FINE)
}
