//! The variance bars: does the noise come from single runs, from the link, or from a machine that
//! drifts?

use super::forest::shorten;
use super::svg::{Anchor, HALF, Picture, figure};
use crate::compare::markup::Markup;
use crate::compare::words;
use ::compare::result::{Averaged, Compared};

const ROW: f64 = 62.0;
const LEFT: f64 = 14.0;
const PARTS: [(&str, &str); 3] = [("within", "runs"), ("layout", "layouts"), ("drift", "drift")];

/// One bar per comparison with layouts; nothing without any.
pub(super) fn variance(id: &str, rows: &[&Compared]) -> Option<Markup> {
    let measured: Vec<(&str, Averaged)> =
        rows.iter().filter_map(|c| Some((c.variant.as_str(), c.layouts?))).collect();
    if measured.is_empty() {
        return None;
    }
    let described: Vec<String> =
        measured.iter().map(|(name, a)| format!("{name}: {}", parts(a).join(", "))).collect();
    let height = ROW * measured.len() as f64 + 6.0;
    let mut p = Picture::new(id, HALF, height, "Where the noise comes from", &described.join("; "));
    for (index, (name, a)) in measured.iter().enumerate() {
        let top = ROW * index as f64;
        p.text("label", (LEFT, top + 15.0), Anchor::Start, &shorten(name, 56));
        let squares = deviations(a).map(|d| d * d);
        let whole: f64 = squares.iter().sum();
        let mut x = LEFT;
        for ((square, (class, _)), words) in squares.iter().zip(PARTS).zip(parts(a)) {
            let width = if whole > 0.0 { (HALF - 2.0 * LEFT) * square / whole } else { 0.0 };
            p.titled(&words, |p| p.rect(class, (x, top + 22.0), (x + width, top + 38.0)));
            x += width;
        }
        p.text("tick", (LEFT, top + 53.0), Anchor::Start, &parts(a).join("  ·  "));
    }
    let mut body = p.finish();
    body.raw(
        "<ul class=\"legend\"><li><i class=\"key within\"></i>single runs of one \
         binary</li><li><i class=\"key layout\"></i>between layouts</li><li><i class=\"key \
         drift\"></i>drift of the machine</li></ul>",
    );
    Some(figure(
        "half",
        "Noise",
        "Shares of the variance; the standard deviations stand below each bar.",
        body,
    ))
}

fn deviations(a: &Averaged) -> [f64; 3] {
    [a.within_sd, a.layout_sd, a.drift_sd].map(|d| if d.is_finite() { d.max(0.0) } else { 0.0 })
}

fn parts(a: &Averaged) -> Vec<String> {
    let named = deviations(a).into_iter().zip(PARTS);
    named.map(|(d, (_, word))| format!("{word} {}", words::percent(d))).collect()
}
