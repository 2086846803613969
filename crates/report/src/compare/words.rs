//! Verdicts, effects and what limits them, in words and signs.

use crate::style::Colour;
use ::compare::result::{
    Accumulated, Averaged, Compared, Direction, Effect, Extreme, Index, MeasuredMachine,
    Measurement, MetricInfo, Variant, Verdict,
};

/// Verdicts in the order in which they are told.
pub(crate) const VERDICTS: [Verdict; 5] =
    [Verdict::Faster, Verdict::Slower, Verdict::Same, Verdict::LayoutLuck, Verdict::Undecided];

/// A sign for the verdict, and its ASCII form. Hollow where the difference lies within the margin.
pub(crate) fn glyph(verdict: Verdict, negligible: bool) -> (&'static str, &'static str) {
    match (verdict, negligible) {
        (Verdict::Faster, false) => ("▲", "++"),
        (Verdict::Faster, true) => ("△", "+"),
        (Verdict::Slower, false) => ("▼", "--"),
        (Verdict::Slower, true) => ("▽", "-"),
        (Verdict::Same, _) => ("=", "="),
        (Verdict::LayoutLuck, _) => ("≈", "~"),
        (Verdict::Undecided, _) => ("?", "?"),
    }
}

/// One or two words for the verdict.
pub fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Same => "same",
        Verdict::LayoutLuck => "layout luck",
        Verdict::Undecided => "undecided",
    }
}

/// The verdict in a word that fits the metric: memory is more or less, not slower or faster.
pub(crate) fn verdict(m: &Measurement, c: &Compared) -> &'static str {
    word_of(c.verdict, is_speed(m, c))
}

pub(crate) fn word_of(verdict: Verdict, is_speed: bool) -> &'static str {
    match verdict {
        Verdict::Faster if !is_speed => "less",
        Verdict::Slower if !is_speed => "more",
        other => word(other),
    }
}

/// Is the deciding metric a time or a rate?
pub(crate) fn is_speed(m: &Measurement, c: &Compared) -> bool {
    let benchmark = m.benchmarks.iter().find(|b| b.name == c.benchmark);
    benchmark.is_none_or(|b| measures_speed(&super::find::metric(b, Some(&c.metric))))
}

/// As above, of a metric.
pub(crate) fn measures_speed(metric: &MetricInfo) -> bool {
    metric.unit == "ns" || metric.better == Direction::Higher || metric.name == "cycles"
}

/// The colour on a terminal: green and red only for what was shown after correction.
pub fn colour(c: &Compared) -> Colour {
    match c.verdict {
        Verdict::Faster if is_shown(c) => Colour::Good,
        Verdict::Slower if is_shown(c) => Colour::Bad,
        Verdict::LayoutLuck | Verdict::Undecided => Colour::Care,
        _ => Colour::Strong,
    }
}

/// Is a difference shown after the correction for all rows?
pub(crate) fn is_shown(c: &Compared) -> bool {
    matches!(c.verdict, Verdict::Faster | Verdict::Slower) && c.p_corrected < 0.05
}

/// `0.964`.
pub(crate) fn ratio(r: f64) -> String {
    if r.is_finite() { format!("{r:.3}") } else { "none".into() }
}

/// `[0.958, 0.971]`.
pub(crate) fn interval(i: Option<[f64; 2]>) -> String {
    match i {
        Some([low, high]) => format!("[{low:.3}, {high:.3}]"),
        None => "[no interval]".into(),
    }
}

/// `0.964 [0.958, 0.971]`.
pub(crate) fn effect(e: &Effect) -> String {
    format!("{} {}", ratio(e.ratio), interval(e.interval))
}

/// `0.964 (95 % interval 0.958 to 0.971)`: the quoted effect in a running sentence.
pub fn ratio_words(c: &Compared) -> String {
    match c.interval {
        Some([low, high]) => format!("{} (95 % interval {low:.3} to {high:.3})", ratio(c.effect)),
        None => format!("{} (too little for an interval)", ratio(c.effect)),
    }
}

/// A share with its sign: `+1.6 %`, `−0.3 %`, `0 %`.
pub fn change(share: f64) -> String {
    let text = percent(share.abs());
    match share {
        _ if text.trim_start_matches(['0', '.', ' ']) == "%" => "0 %".into(),
        s if s < 0.0 => format!("−{text}"),
        _ => format!("+{text}"),
    }
}

/// A share with two or three digits: `4.6 %`, `0.42 %`, `12 %`.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        p if !p.is_finite() => "none".into(),
        p if p.abs() < 0.995 => format!("{p:.2} %"),
        p if p.abs() < 9.95 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// `p < 0.001`, `p = 0.012`.
pub(crate) fn p_value(p: f64) -> String {
    match p {
        p if !p.is_finite() => "p unknown".into(),
        p if p < 0.001 => "p < 0.001".into(),
        p => format!("p = {p:.3}"),
    }
}

/// A value with four digits and its unit.
pub fn quantity(value: f64, unit: &str) -> String {
    if !value.is_finite() {
        return "none".into();
    }
    let (divisor, unit) = scale_of(value.abs(), unit);
    let text = four_digits(value / divisor);
    if unit.is_empty() { text } else { format!("{text} {unit}") }
}

/// What values of this size are divided by, and the unit they then have.
pub(crate) fn scale_of(value: f64, unit: &str) -> (f64, &str) {
    match unit {
        "ns" if value >= 1e9 => (1e9, "s"),
        "ns" if value >= 1e6 => (1e6, "ms"),
        "ns" if value >= 1e3 => (1e3, "µs"),
        "bytes" if value >= 1073741824.0 => (1073741824.0, "GiB"),
        "bytes" if value >= 1048576.0 => (1048576.0, "MiB"),
        "bytes" if value >= 1024.0 => (1024.0, "KiB"),
        "bytes" => (1.0, "B"),
        _ => (1.0, unit),
    }
}

fn four_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 1e15 => format!("{value:.3e}"),
        v if v >= 1e5 => crate::numbers::count(v.round() as u64),
        v if v >= 999.95 || v == v.round() && v < 1000.0 => format!("{value:.0}"),
        v if v >= 99.995 => format!("{value:.1}"),
        v if v >= 9.9995 => format!("{value:.2}"),
        v if v >= 0.01 => format!("{value:.3}"),
        _ => format!("{value:.3e}"),
    }
}

/// What calibration says about the machine.
pub(crate) fn calibration(machine: &MeasuredMachine) -> String {
    let Some(c) = &machine.calibration else {
        return "not calibrated: run planish compare calibrate PROGRAM -- {bin} ARGUMENTS".into();
    };
    let [low, high] = c.interval.map(|share| share * 100.0);
    let mut text = format!(
        "calibrated{}: {:.1} % [{low:.1}, {high:.1}] at α = 5 %",
        if c.gauge { " with the gauge" } else { "" },
        c.false_positive_rate * 100.0
    );
    if let (Some(rate), Some([low, high])) = (c.relinked_rate, c.relinked_interval) {
        text +=
            &format!("; relinked {:.1} % [{:.1}, {:.1}]", rate * 100.0, low * 100.0, high * 100.0);
    }
    if c.was_busy() {
        let share = |share: Option<f64>| percent(share.unwrap_or(0.0));
        text += &format!(
            ", taken on a busy machine (others used {} of the CPUs, runs waited {} of their time \
             for one)",
            share(c.others_share),
            share(c.queued_share)
        );
    }
    text + &format!(" ({} comparisons of {} rounds, {})", c.comparisons, c.rounds, c.date)
}

/// What the layouts of a comparison say, in one line.
pub(crate) fn layouts(a: &Averaged, variant: Option<&Variant>) -> String {
    let mut text =
        format!("{} {} layouts", a.count, if a.matched { "matched" } else { "independent" });
    if let Some(share) = variant.and_then(|v| v.matched_share).filter(|_| a.matched) {
        text += &format!(" ({} of the bytes at equal addresses)", percent(share));
    }
    match a.layout_sd_interval {
        // The estimate is cut at 0 where the runs scatter more than the layouts.
        Some([_, high]) if a.layout_sd < 1e-6 => {
            text += &format!(
                ", layout noise hidden by that of the runs (at most ±{})",
                percent(2.0 * high)
            );
        }
        _ => {
            text += &format!(", layout noise ±{}", percent(2.0 * a.layout_sd));
            text += &format!(", one relink moves ±{}", percent(a.one_relink));
        }
    }
    // Few layouts tell nothing of it.
    if a.luck.interval.is_some() {
        text += &format!(", luck of the link as built {}", effect(&a.luck));
    }
    if let Some(r) = a.correlation.filter(|_| a.matched) {
        text += &format!(", correlation {r:.2}");
    }
    text
}

/// A row of the index.
pub(crate) fn index(i: &Index) -> String {
    let place = i.machine.as_deref().map_or("all machines".into(), |m| format!("machine {m}"));
    let mut text = format!(
        "{}, {place}: geometric mean {} {} over {} rows, lowest {}, highest {}",
        i.variant,
        ratio(i.mean),
        interval(i.interval),
        i.rows,
        ratio(i.range[0]),
        ratio(i.range[1])
    );
    if i.sample_interval.is_some() {
        text += &format!("; taken as a sample of benchmarks {}", interval(i.sample_interval));
    }
    if let (Some(mean), Some(_)) = (i.random_effects, i.prediction) {
        text += &format!(
            "; random effects {}, another row within {}",
            ratio(mean),
            interval(i.prediction)
        );
    }
    text
}

/// A benchmark over its parameters and machines: the mean, then the lowest and the highest of its
/// rows.
pub(crate) fn accumulated(own: &Accumulated) -> String {
    format!("{} [{}, {}]", ratio(own.mean), ratio(own.lowest.ratio), ratio(own.highest.ratio))
}

/// The name of a benchmark over its parameters and machines, with which way is good where that is
/// not less.
pub(crate) fn family(own: &Accumulated) -> String {
    match own.better {
        Direction::Higher => format!("{} (larger is better)", own.benchmark),
        Direction::Lower => own.benchmark.clone(),
    }
}

/// Which row that is; the machine only where there are several.
pub(crate) fn place(extreme: &Extreme, m: &Measurement) -> String {
    match m.machines.len() {
        0 | 1 => extreme.benchmark.clone(),
        _ => format!("{}, {}", extreme.benchmark, extreme.machine),
    }
}

/// The result in plain words: the sentence of the only comparison, else how many of each verdict
/// there are.
pub fn headline(m: &Measurement) -> String {
    headlines(m).join(" ")
}

/// The same in parts that may stand on lines of their own: one per variant, unless there are many.
pub(crate) fn headlines(m: &Measurement) -> Vec<String> {
    let variants = super::find::others(m);
    match m.comparisons.as_slice() {
        [] => vec!["Nothing was compared.".into()],
        [one] => vec![sentence(one)],
        _ if variants.len() > 3 => vec![format!("All variants: {}.", tally(m, &|_| true))],
        _ => variants
            .iter()
            .map(|name| format!("{name}: {}.", tally(m, &|c| c.variant == *name)))
            .collect(),
    }
}

/// How many there are of each verdict.
fn tally(m: &Measurement, wanted: &dyn Fn(&Compared) -> bool) -> String {
    let all = m.comparisons.iter().filter(|c| wanted(c)).count();
    let number =
        |verdict| m.comparisons.iter().filter(|c| wanted(c) && c.verdict == verdict).count();
    let mut text = String::new();
    let speeds = m.comparisons.iter().filter(|c| wanted(c)).map(|c| is_speed(m, c));
    let (all_speeds, no_speeds) =
        (speeds.clone().all(|speed| speed), speeds.clone().all(|speed| !speed));
    for verdict in VERDICTS {
        let found = number(verdict);
        let what = match verdict {
            _ if found == 0 => continue,
            Verdict::Same => format!("the same within ±{}", percent(m.margin)),
            Verdict::LayoutLuck => "only layout luck".into(),
            Verdict::Undecided => format!("undecided{}", beyond(m, wanted)),
            Verdict::Faster if !all_speeds && !no_speeds => "better".into(),
            Verdict::Slower if !all_speeds && !no_speeds => "worse".into(),
            other => word_of(other, all_speeds).into(),
        };
        // The first says of how many.
        let of = if text.is_empty() { format!("{found} of {all}") } else { format!(", {found}") };
        text += &format!("{of} {what}");
    }
    text
}

/// Undecided rows whose whole interval lies beyond the margin: they are not nothing, whatever the
/// correction says.
fn beyond(m: &Measurement, wanted: &dyn Fn(&Compared) -> bool) -> String {
    let open =
        |c: &&Compared| wanted(c) && c.verdict == Verdict::Undecided && c.is_beyond(m.margin);
    let found: Vec<&Compared> = m.comparisons.iter().filter(open).collect();
    if found.is_empty() {
        return String::new();
    }
    let one = |c: &&Compared| {
        format!("{} on {} {} {}", c.variant, c.benchmark, ratio(c.effect), interval(c.interval))
    };
    let named: Vec<String> = found.iter().take(3).map(one).collect();
    let more = if found.len() > 3 { ", …" } else { "" };
    format!(", of these {} beyond ±{} ({}{more})", found.len(), percent(m.margin), named.join("; "))
}

/// The verdict's sentence behind the variant's name; when the file has none, the verdict.
pub(crate) fn sentence(c: &Compared) -> String {
    if !c.sentence.trim().is_empty() {
        return format!("{}: {}", c.variant, c.sentence);
    }
    let limit = if c.negligible { ", by less than the margin" } else { "" };
    format!("{} against {}: {}{limit}.", c.variant, c.base, word(c.verdict))
}

/// The rows that claims are corrected for: these, and those of other measurements of the same question.
pub(crate) fn rows_in_all(m: &Measurement) -> usize {
    m.among.max(m.comparisons.len())
}

/// A row's notes, without those that several rows share.
pub(crate) fn own_notes<'m>(
    m: &'m Measurement,
    c: &'m Compared,
) -> impl Iterator<Item = &'m String> {
    c.warnings.iter().filter(|note| rows_with(m, note) < 2)
}

/// The notes that several rows share, each once, and how many rows these are.
pub(crate) fn shared_notes(m: &Measurement) -> Vec<String> {
    let mut seen: Vec<&String> = Vec::new();
    for note in m.comparisons.iter().flat_map(|c| &c.warnings) {
        if rows_with(m, note) > 1 && !seen.contains(&note) {
            seen.push(note);
        }
    }
    let told = |note: &String| match rows_with(m, note) {
        rows if rows == m.comparisons.len() => format!("every row: {note}"),
        rows => {
            let mut names: Vec<&str> = with(m, note).map(|c| c.variant.as_str()).collect();
            names.dedup();
            let more = if names.len() > MOST_NAMES { ", …" } else { "" };
            names.truncate(MOST_NAMES);
            format!("{rows} rows ({}{more}): {note}", names.join(", "))
        }
    };
    seen.into_iter().map(told).collect()
}

/// Variants that a note is told of by name.
const MOST_NAMES: usize = 5;

fn rows_with(m: &Measurement, note: &String) -> usize {
    with(m, note).count()
}

fn with<'m>(m: &'m Measurement, note: &'m String) -> impl Iterator<Item = &'m Compared> {
    m.comparisons.iter().filter(move |c| c.warnings.contains(note))
}

/// What the numbers hold for, and what they do not.
pub(crate) fn trust(m: &Measurement) -> Vec<String> {
    let mut lines = Vec::new();
    let counts: Vec<usize> =
        m.comparisons.iter().map(|c| c.layouts.map_or(0, |l| l.count)).collect();
    match (counts.iter().min(), counts.iter().max()) {
        (Some(0), Some(0)) => lines.push(
            "Only the programs as built were measured. The verdicts are about these files: a \
             relink of the same code can move them. Layouts (--layouts) tell the change from the \
             link."
                .into(),
        ),
        (Some(0), Some(_)) => {
            lines.push(
                "Some rows were measured without layouts; their verdicts are about the files as \
                 built."
                    .into(),
            );
        }
        (Some(low), Some(high)) => {
            let number = if low == high { low.to_string() } else { format!("{low} to {high}") };
            lines.push(format!(
                "Effects are averaged over {number} random layouts of each program, so they are \
                 about the change and not about where one link put the functions."
            ));
        }
        _ => {}
    }
    if rows_in_all(m) > 1 {
        let rule = match m.correction.as_str() {
            "bh" => "Benjamini and Hochberg: of the differences claimed, 5 % may be false",
            "holm" => "Holm: 5 % chance of any false claim",
            other => other,
        };
        lines.push(format!("Claims are corrected for {} rows ({rule}).", rows_in_all(m)));
    }
    let mut smallest: Vec<f64> = m.comparisons.iter().filter_map(|c| c.smallest_effect).collect();
    smallest.sort_by(f64::total_cmp);
    match smallest.as_slice() {
        [] => {}
        [one] => lines.push(format!("A difference of {} is found with 80 % power.", percent(*one))),
        [low, .., high] => {
            lines.push(format!(
                "Differences of {} (quietest row) to {} (noisiest) are found with 80 % power.",
                percent(*low),
                percent(*high)
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_keep_four_digits() {
        let shown = [498.23e6, 2.2345e6, 12.3456e9, 999.0].map(|ns| quantity(ns, "ns"));
        assert_eq!(shown, ["498.2 ms", "2.235 ms", "12.35 s", "999 ns"]);
        assert_eq!(quantity(123456.4, "rows/s"), "123,456 rows/s");
        assert_eq!(quantity(3.0 * 1048576.0, "bytes"), "3 MiB");
        assert_eq!(quantity(f64::NAN, ""), "none");
    }

    #[test]
    fn changes_carry_a_sign_unless_nothing_changed() {
        assert_eq!(
            [0.0164, -0.0032, 0.0, 0.25, -1e-9].map(change),
            ["+1.6 %", "−0.32 %", "0 %", "+25 %", "0 %"]
        );
    }

    #[test]
    fn a_calibration_taken_on_a_busy_machine_says_so() {
        let calibration =
            ::compare::result::Calibration { others_share: Some(0.42), ..Default::default() };
        let machine =
            MeasuredMachine { calibration: Some(calibration), ..MeasuredMachine::default() };
        let text = super::calibration(&machine);
        assert!(text.contains("taken on a busy machine (others used 42 % of the CPUs"), "{text}");
    }

    #[test]
    fn calibration_is_quoted_or_asked_for() {
        let mut machine = MeasuredMachine::default();
        assert_eq!(
            calibration(&machine),
            "not calibrated: run planish compare calibrate PROGRAM -- {bin} ARGUMENTS"
        );
        machine.calibration = Some(::compare::result::Calibration {
            false_positive_rate: 0.046,
            interval: [0.031, 0.065],
            comparisons: 200,
            rounds: 30,
            date: "2026-11-20".into(),
            ..Default::default()
        });
        assert!(calibration(&machine).starts_with("calibrated: 4.6 % [3.1, 6.5] at α = 5 %"));
    }
}
