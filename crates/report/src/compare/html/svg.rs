//! The parts that all pictures share: frame, axes, markers, paths.

use super::scale::Scale;
use crate::compare::markup::{Attribute, Markup, Px};
use std::fmt::Write;

/// Width of a picture that stands beside another.
pub(super) const HALF: f64 = 440.0;
/// Width of a picture that has the row for itself.
pub(super) const FULL: f64 = 920.0;
/// Colours and shapes there are; more variants start again.
pub(super) const SERIES: usize = 8;

/// A picture under construction.
pub(super) struct Picture {
    pub(super) m: Markup,
}

/// Where text stands at its position.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Picture {
    /// A picture with a name and a description for those who do not see it. `id` is unique on the
    /// page.
    pub(super) fn new(
        id: &str,
        width: f64,
        height: f64,
        title: &str,
        description: &str,
    ) -> Picture {
        let mut m = Markup::default();
        let view = format!("0 0 {} {}", Px(width), Px(height));
        let (t, d) = (format!("{id}-t"), format!("{id}-d"));
        let labelled = format!("{t} {d}");
        m.open(
            "svg",
            &[
                ("class", &"pic"),
                ("viewBox", &view),
                ("role", &"img"),
                ("aria-labelledby", &labelled),
            ],
        );
        m.leaf("title", &[("id", &t)], title);
        m.leaf("desc", &[("id", &d)], description);
        Picture { m }
    }

    /// The finished picture.
    pub(super) fn finish(mut self) -> Markup {
        self.m.close("svg");
        self.m
    }

    /// A straight line.
    pub(super) fn line(&mut self, class: &'static str, from: (f64, f64), to: (f64, f64)) {
        self.m.empty(
            "line",
            &[
                ("class", &class),
                ("x1", &Px(from.0)),
                ("y1", &Px(from.1)),
                ("x2", &Px(to.0)),
                ("y2", &Px(to.1)),
            ],
        );
    }

    /// A filled rectangle, given by two corners.
    pub(super) fn rect(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let (x, y) = (from.0.min(to.0), from.1.min(to.1));
        let (w, h) = ((to.0 - from.0).abs(), (to.1 - from.1).abs());
        self.m.empty(
            "rect",
            &[
                ("class", &class),
                ("x", &Px(x)),
                ("y", &Px(y)),
                ("width", &Px(w)),
                ("height", &Px(h)),
            ],
        );
    }

    /// Text.
    pub(super) fn text(&mut self, class: &'static str, at: (f64, f64), anchor: Anchor, data: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let attributes: [Attribute; 4] =
            [("class", &class), ("x", &Px(at.0)), ("y", &Px(at.1)), ("text-anchor", &anchor)];
        self.m.leaf("text", &attributes, data);
    }

    /// A path; `data` consists of numbers and letters that this crate wrote.
    pub(super) fn path(&mut self, class: &str, data: &str) {
        if !data.is_empty() {
            self.m.empty("path", &[("class", &class), ("d", &data)]);
        }
    }

    /// Whatever `inside` draws, with a tooltip.
    pub(super) fn titled(&mut self, title: &str, inside: impl FnOnce(&mut Picture)) {
        self.m.open("g", &[]);
        self.m.leaf("title", &[], title);
        inside(self);
        self.m.close("g");
    }

    /// A horizontal axis below the plot, with lines up into it.
    pub(super) fn axis_x(
        &mut self,
        x: &Scale,
        ticks: &[f64],
        labels: &[String],
        top: f64,
        bottom: f64,
    ) {
        for (tick, label) in ticks.iter().zip(labels) {
            let at = x.at(*tick);
            self.line("grid", (at, top), (at, bottom));
            self.text("tick", (at, bottom + 15.0), Anchor::Middle, label);
        }
    }

    /// A vertical axis left of the plot, with lines into it.
    pub(super) fn axis_y(
        &mut self,
        y: &Scale,
        ticks: &[f64],
        labels: &[String],
        left: f64,
        right: f64,
    ) {
        for (tick, label) in ticks.iter().zip(labels) {
            let at = y.at(*tick);
            self.line("grid", (left, at), (right, at));
            self.text("tick", (left - 7.0, at + 4.0), Anchor::End, label);
        }
    }
}

/// Class of a variant's colour: as a line (`l`), as an area (`a`) or as both (`m`).
pub(super) fn series(kind: char, variant: usize) -> String {
    format!("{kind} s{}", variant % SERIES)
}

/// Adds a marker of the variant's shape to a path.
pub(super) fn marker(path: &mut String, variant: usize, x: f64, y: f64, r: f64) {
    let (px, d, w) = (Px, 2.0 * r, r * 0.45);
    // Writing to a string does not fail.
    let _ = match variant % SERIES {
        0 => write!(
            path,
            "M{} {}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0-{d} 0",
            px(x - r),
            px(y),
            r = px(r),
            d = px(d)
        ),
        1 => write!(
            path,
            "M{} {}l{r} {r}l-{r} {r}l-{r}-{r}z",
            px(x),
            px(y - r * 1.2),
            r = px(r * 1.2)
        ),
        2 => {
            write!(
                path,
                "M{} {}l{} {}h-{}z",
                px(x),
                px(y - r * 1.2),
                px(r * 1.2),
                px(d * 1.05),
                px(r * 2.4)
            )
        }
        3 => {
            write!(path, "M{} {}h{s}v{s}h-{s}z", px(x - r * 0.9), px(y - r * 0.9), s = px(r * 1.8))
        }
        4 => write!(
            path,
            "M{} {}h{}l-{} {}z",
            px(x - r * 1.2),
            px(y - r),
            px(r * 2.4),
            px(r * 1.2),
            px(d * 1.05)
        ),
        5 => write!(
            path,
            "M{} {}h{a}v{b}h{b}v{a}h-{b}v{b}h-{a}v-{b}h-{b}v-{a}h{b}z",
            px(x - w),
            px(y - r - w / 2.0),
            a = px(2.0 * w),
            b = px(r - w / 2.0)
        ),
        6 => write!(path, "M{} {}h{d}v{h}h-{d}z", px(x - r), px(y - r * 0.5), d = px(d), h = px(r)),
        _ => write!(path, "M{} {}v{d}h{h}v-{d}z", px(x - r * 0.5), px(y - r), d = px(d), h = px(r)),
    };
}

/// A legend of variants: shape, colour and name.
pub(super) fn legend(names: &[(usize, &str)]) -> Markup {
    let mut m = Markup::default();
    m.open("ul", &[("class", &"legend")]);
    for (variant, name) in names {
        m.raw("<li><svg viewBox=\"0 0 14 14\" aria-hidden=\"true\">");
        let mut path = String::new();
        marker(&mut path, *variant, 7.0, 7.0, 4.5);
        m.empty("path", &[("class", &series('a', *variant)), ("d", &path)]);
        m.raw("</svg>");
        m.text(name);
        m.raw("</li>");
    }
    m.close("ul");
    m
}

/// A figure: a heading, how to read it, and the picture (with what belongs below it).
pub(super) fn figure(class: &'static str, heading: &str, reading: &str, picture: Markup) -> Markup {
    let mut m = Markup::default();
    m.open("figure", &[("class", &class)]);
    m.raw("<figcaption>");
    m.leaf("b", &[], heading);
    m.raw(" ");
    m.text(reading);
    m.raw("</figcaption>");
    m.append(picture);
    m.close("figure");
    m
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_has_its_own_shape() {
        let shapes: Vec<String> = (0..SERIES)
            .map(|v| {
                let mut path = String::new();
                marker(&mut path, v, 10.0, 10.0, 3.0);
                assert!(path.starts_with('M') && !path.contains("--"), "{path}");
                path
            })
            .collect();
        assert!(shapes.iter().enumerate().all(|(i, s)| !shapes[..i].contains(s)));
    }

    #[test]
    fn a_picture_names_itself() {
        let mut p = Picture::new("x", 10.0, 20.0, "a<b", "c");
        p.text("t", (1.0, 2.0), Anchor::Middle, "<");
        let text = p.finish().finish();
        assert!(text.starts_with(
            "<svg class=\"pic\" viewBox=\"0 0 10 20\" role=\"img\" aria-labelledby=\"x-t x-d\">"
        ));
        assert!(
            text.contains("<title id=\"x-t\">a&lt;b</title><desc id=\"x-d\">c</desc>"),
            "{text}"
        );
    }
}
