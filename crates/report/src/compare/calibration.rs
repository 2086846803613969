//! How is a calibration told to whoever made it?

use crate::pct;
use compare::result::Calibration;
use std::fmt::Write;
use std::path::Path;

/// What comparing a program with itself showed, kept in `file`.
pub fn calibration(c: &Calibration, file: &Path) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "The program against itself, {} comparisons of {} rounds{}:",
        c.comparisons,
        c.rounds,
        if c.gauge { " with the gauge" } else { "" }
    );
    let [low, high] = c.interval.map(pct);
    let _ = writeln!(
        text,
        "  called different: {} (95 % interval {low} to {high}; 5 % is right)",
        pct(c.false_positive_rate)
    );
    let resemble = if c.lag1 > 0.2 { "resemble" } else { "do not resemble" };
    let _ = writeln!(
        text,
        "  correlation of a run with the next: {:.2} (runs {resemble} their neighbours)",
        c.lag1
    );
    let _ = writeln!(text, "  spread of single runs: {}", pct(c.within_sd));
    let smallest = pct(c.smallest_effect);
    let _ = writeln!(text, "  smallest difference found with 80 % power: {smallest}");
    if c.was_busy() {
        let share = |share: Option<f64>| share.map_or("an unknown share".to_owned(), pct);
        let _ = writeln!(
            text,
            "The machine was busy: others used {} of the CPUs, runs waited {} of their time for \
             one. Whatever quotes this calibration says so; repeat it on an idle machine if you \
             measure on one.",
            share(c.others_share),
            share(c.queued_share)
        );
    }
    if let (Some(rate), Some(interval), Some(sd)) =
        (c.relinked_rate, c.relinked_interval, c.layout_sd)
    {
        let [low, high] = interval.map(pct);
        let _ = writeln!(
            text,
            "Relinks of the same objects: layout-averaged verdicts \"real\" {} ({low} to {high}); \
             spread between layouts {}",
            pct(rate),
            pct(sd)
        );
    }
    let _ = writeln!(
        text,
        "Stored in {}; every report {}on a machine like this one quotes it.",
        file.display(),
        if c.gauge { "with a gauge " } else { "" }
    );
    text
}
