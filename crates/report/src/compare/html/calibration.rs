//! The calibration plot: are p-values of programs compared with themselves spread evenly, as they
//! must be?

use super::distribution::steps;
use super::scale::{Scale, labels};
use super::svg::{Anchor, HALF, Picture, figure};
use crate::compare::markup::{Markup, Px};
use crate::compare::words;
use ::compare::result::MeasuredMachine;

const TOP: f64 = 10.0;
const BOTTOM: f64 = 230.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = HALF - 12.0;

/// Nothing for a machine that was not calibrated.
pub(super) fn calibration(id: &str, machine: &MeasuredMachine) -> Option<Markup> {
    let c = machine.calibration.as_ref()?;
    let mut sorted: Vec<f64> =
        c.p_values.iter().copied().filter(|p| (0.0..=1.0).contains(p)).collect();
    if sorted.is_empty() {
        return None;
    }
    sorted.sort_by(f64::total_cmp);
    let x = Scale::linear(0.0, 1.0, LEFT, RIGHT);
    let y = Scale::linear(0.0, 1.0, BOTTOM, TOP);
    let described =
        format!("{}; evenness: {}", words::calibration(machine), words::p_value(c.uniform_p));
    let title = format!("Calibration of {}", machine.name);
    let mut p = Picture::new(id, HALF, BOTTOM + 36.0, &title, &described);
    // Dvoretzky, Kiefer and Wolfowitz: 95 % of all even samples of this size stay inside.
    let half = 1.358 / (sorted.len() as f64).sqrt();
    let corners =
        [(0.0, half), (1.0 - half, 1.0), (1.0, 1.0), (1.0, 1.0 - half), (half, 0.0), (0.0, 0.0)];
    let band: Vec<String> =
        corners.iter().map(|(a, b)| format!("{} {}", Px(x.at(*a)), Px(y.at(*b)))).collect();
    p.path("band", &format!("M{}z", band.join("L")));
    let ticks = x.ticks(5);
    p.axis_x(&x, &ticks, &labels(&ticks, 1.0), BOTTOM, BOTTOM);
    p.axis_y(&y, &ticks, &labels(&ticks, 1.0), LEFT, RIGHT);
    p.line("zero", (x.at(0.0), y.at(0.0)), (x.at(1.0), y.at(1.0)));
    p.line("margin", (x.at(0.05), TOP), (x.at(0.05), BOTTOM));
    p.path("l s1", &steps(&sorted, &x, &y));
    p.text("tick", (RIGHT, BOTTOM + 31.0), Anchor::End, "p-value");
    let mut body = p.finish();
    body.leaf("p", &[("class", &"small")], &words::calibration(machine));
    let smallest = format!(
        "Run by: {}. Smallest difference found with 80 % power: {}. Neighbouring runs correlate \
         by {:.2}.",
        c.command,
        words::percent(c.smallest_effect),
        c.lag1
    );
    body.leaf("p", &[("class", &"small")], &smallest);
    let reading = "A program against itself: the share of p-values up to a value should follow \
                   the diagonal. Grey: 95 % band.";
    Some(figure("half", &title, reading, body))
}
