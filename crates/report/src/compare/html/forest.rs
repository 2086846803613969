//! The forest plot: how large is each effect, how sure is it, and what would another link alone
//! have done?

use super::scale::{Scale, around, ratio_labels};
use super::svg::{Anchor, HALF, Picture, figure};
use crate::compare::markup::Markup;
use crate::compare::words;
use ::compare::result::{Compared, Direction, MetricInfo};

const ROW: f64 = 46.0;
const TOP: f64 = 10.0;
const LEFT: f64 = 14.0;

/// All comparisons of one benchmark; `id` is unique on the page.
pub(super) fn forest(
    id: &str,
    rows: &[&Compared],
    margin: f64,
    machines: usize,
    metric: &MetricInfo,
) -> Markup {
    let ends = rows.iter().flat_map(|c| {
        let own = [c.effect, c.as_built.ratio].into_iter().chain(c.interval.into_iter().flatten());
        let built = c.as_built.interval.filter(|_| c.layouts.is_none()).into_iter().flatten();
        let band = c.layouts.into_iter().flat_map(|a| [1.0 - a.one_relink, 1.0 + a.one_relink]);
        own.chain(built).chain(band)
    });
    let [low, high] = around(ends.chain([1.0 - margin, 1.0 + margin]).filter(|r| *r > 0.0), 0.06);
    let x = Scale::ratios(low, high, LEFT, HALF - LEFT);
    let bottom = TOP + ROW * rows.len() as f64;
    let described: Vec<String> = rows.iter().map(|c| row_words(c, metric, machines)).collect();
    let mut p = Picture::new(
        id,
        HALF,
        bottom + 38.0,
        "Effects with their intervals",
        &described.join("; "),
    );
    for (index, c) in rows.iter().enumerate() {
        if let Some(a) = &c.layouts {
            let y = TOP + ROW * index as f64;
            p.rect(
                "band",
                (x.at(1.0 - a.one_relink), y + 18.0),
                (x.at(1.0 + a.one_relink), y + ROW - 2.0),
            );
        }
    }
    let ticks = x.ticks(5);
    p.axis_x(&x, &ticks, &ratio_labels(&x, &ticks), TOP, bottom);
    for edge in [1.0 - margin, 1.0 + margin] {
        if x.holds(edge) {
            p.line("margin", (x.at(edge), TOP), (x.at(edge), bottom));
        }
    }
    p.line("zero", (x.at(1.0), TOP), (x.at(1.0), bottom));
    for (index, c) in rows.iter().enumerate() {
        let words = row_words(c, metric, machines);
        draw_row(&mut p, &x, c, TOP + ROW * index as f64, (machines, &words));
    }
    let (left, right) = match metric.better {
        Direction::Lower => ("← better", "worse →"),
        Direction::Higher => ("← worse", "better →"),
    };
    p.text("tick", (LEFT, bottom + 31.0), Anchor::Start, left);
    p.text("tick", (HALF - LEFT, bottom + 31.0), Anchor::End, right);
    let reading = if rows.iter().any(|c| c.layouts.is_some()) {
        "Bar: averaged over layouts, 95 %. Diamond: as built. Grey: what one relink of unchanged \
         code may do. Dashed: margin."
    } else {
        "Diamond and bar: as built, 95 %; no layouts were measured, so luck of the link is in it. \
         Dashed: margin."
    };
    figure("half", "Effects", reading, p.finish())
}

fn row_words(c: &Compared, metric: &MetricInfo, machines: usize) -> String {
    let place = if machines > 1 { format!(" on {}", c.machine) } else { String::new() };
    let numbers = format!("{} {}", words::ratio(c.effect), words::interval(c.interval));
    format!(
        "{}{place}: {numbers}, as built {}, {}",
        c.variant,
        words::ratio(c.as_built.ratio),
        words::word_of(c.verdict, words::measures_speed(metric))
    )
}

fn draw_row(p: &mut Picture, x: &Scale, c: &Compared, top: f64, (machines, words): (usize, &str)) {
    let name =
        if machines > 1 { format!("{} · {}", c.variant, c.machine) } else { c.variant.clone() };
    let numbers = format!("{} {}", words::ratio(c.effect), words::interval(c.interval));
    let middle = top + 31.0;
    p.titled(words, |p| {
        p.text("label", (LEFT, top + 13.0), Anchor::Start, &shorten(&name, 30));
        let sign = words::glyph(c.verdict, c.negligible).0;
        p.text("number", (HALF - LEFT, top + 13.0), Anchor::End, &format!("{numbers} {sign}"));
        let class = verdict_class(c);
        if let Some([low, high]) = c.interval.filter(|i| i.iter().all(|e| e.is_finite())) {
            let thick = if c.layouts.is_some() { 3.5 } else { 1.2 };
            p.rect(class, (x.at(low), middle - thick), (x.at(high), middle + thick));
        }
        let (at, r) = (x.at(c.as_built.ratio), 6.0);
        let [l, t] = [at, middle - r].map(crate::compare::markup::Px);
        let r = crate::compare::markup::Px(r);
        p.path("diamond", &format!("M{l} {t}l{r} {r}l-{r} {r}l-{r}-{r}z"));
        if c.layouts.is_some() {
            p.line("centre", (x.at(c.effect), middle - 7.0), (x.at(c.effect), middle + 7.0));
        }
    });
}

/// Class of what is drawn for a verdict: green and red only for what was shown after correction.
pub(super) fn verdict_class(c: &Compared) -> &'static str {
    use ::compare::result::Verdict::{Faster, Slower};
    match (c.verdict, words::is_shown(c)) {
        (Faster, true) => "good",
        (Slower, true) => "bad",
        _ => "grey",
    }
}

/// At most `most` characters, the rest as an ellipsis.
pub(super) fn shorten(text: &str, most: usize) -> String {
    match text.chars().count() {
        n if n <= most => text.to_owned(),
        _ => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}
