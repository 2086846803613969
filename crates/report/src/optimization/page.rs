//! What `planish optimize` did and gained as one HTML file that loads nothing.

use super::{Branches, LaidOut, Optimization, Program};
use crate::compare::html::{STYLE as MEASURED, measured};
use crate::compare::markup::Markup;
use crate::layout::{Turned, Worth};
use crate::numbers::{bytes, count, counted, pct};
use crate::page::{Frame, whole};
use ::compare::result::Verdict;

/// The style of the measurements, and what this page has beside them.
const STYLE: &str = MEASURED;

/// Rows of a table at most.
const MOST_ROWS: usize = 100;
/// Characters of a name or a command at most.
const LONGEST: usize = 400;

fn short(text: &str) -> String {
    let mut rest = text.chars();
    let head: String = rest.by_ref().take(LONGEST).collect();
    let more = if rest.next().is_some() { "…" } else { "" };
    format!("{}{more}", crate::visible(&head))
}

impl Optimization {
    /// The page.
    pub fn html(&self) -> String {
        let mut out = Markup::default();
        self.head(&mut out);
        self.notes(&mut out);
        for (number, measurement) in self.measurements.iter().enumerate() {
            out.append(measured(measurement, number));
        }
        for taken in &self.branches {
            branches(&mut out, taken);
        }
        self.sizes(&mut out);
        match &self.layout {
            Some(layout) => laid_out(&mut out, layout),
            None => out.raw(
                "<section><h2>Layout</h2><p>No layout was made: the code stands as the compiler \
                 and the linker put it.</p></section>",
            ),
        }
        self.images(&mut out);
        self.recorded(&mut out);
        self.steps(&mut out);
        self.origin(&mut out);
        let title = format!("planish optimize: {}", short(self.result()));
        whole(Frame { title: &title, style: STYLE, script: "" }, out, None)
    }

    fn head(&self, out: &mut Markup) {
        out.raw("<header><p class=\"brand\">planish optimize</p>");
        out.leaf("h1", &[], &short(&self.headline()));
        let beside_baseline = || {
            let first = self.measurements.first()?;
            first.comparisons.iter().find(|compared| compared.variant == self.result())
        };
        let beside_release =
            || super::conclusion::of_command(&self.beside_release, self.measurements.first()?);
        let compared = beside_release().or_else(beside_baseline);
        if let Some(compared) = compared {
            out.raw("<p class=\"hero\">");
            let class = match compared.verdict {
                Verdict::Faster => "good",
                Verdict::Slower => "bad",
                _ => "grey",
            };
            let change = crate::compare::change(compared.effect - 1.0);
            out.leaf("b", &[("class", &class)], &change);
            if let Some([low, high]) = compared.interval {
                let change = crate::compare::change;
                let text = format!("95 % interval {} to {}", change(low - 1.0), change(high - 1.0));
                out.leaf("span", &[], &text);
            }
            out.leaf("span", &[], &counted(compared.n as u64, "round", "rounds"));
            out.raw("</p>");
        }
        out.leaf("p", &[("class", &"small")], &short(&self.build.command));
        out.raw("</header>");
    }

    fn notes(&self, out: &mut Markup) {
        out.raw("<section class=\"trust\"><h2>What to trust</h2><ul>");
        for line in self.conclusion() {
            out.leaf("li", &[], &short(&line));
        }
        if let Some(evidence) = &self.profile.evidence {
            out.leaf("li", &[], &short(&evidence.line));
        }
        for warning in &self.warnings {
            out.leaf("li", &[("class", &"warn")], &short(warning));
        }
        out.raw("</ul></section>");
    }

    /// The programs side by side.
    fn sizes(&self, out: &mut Markup) {
        out.raw("<section><h2>Programs</h2>");
        table(
            out,
            &["program", "machine code", "beside the baseline", "build ID", "flags"],
            &[1, 2],
        );
        let base = self.build.base.code_bytes;
        for (name, program, flags) in self.columns() {
            out.raw("<tr>");
            out.leaf("th", &[("scope", &"row")], &short(name));
            out.leaf("td", &[("class", &"n")], &bytes(program.code_bytes as f64));
            out.leaf("td", &[("class", &"n")], &growth(program, base));
            let id = program.build_id.as_deref().unwrap_or("none");
            out.leaf("td", &[], &short(id.get(..16).unwrap_or(id)));
            out.leaf("td", &[("class", &"words small")], &short(flags));
            out.raw("</tr>");
        }
        out.raw("</tbody></table></div></section>");
    }

    /// Several images, where the project has libraries.
    fn images(&self, out: &mut Markup) {
        if self.images.is_empty() {
            return;
        }
        out.raw("<section><h2>Images</h2>");
        table(out, &["image", "samples", "share", "machine code"], &[1, 2, 3]);
        for image in self.images.iter().take(MOST_ROWS) {
            let base = image.programs.first().map_or(0, |(_, program)| program.code_bytes);
            out.raw("<tr>");
            out.leaf("th", &[("scope", &"row")], &short(&image.path));
            out.leaf("td", &[("class", &"n")], &count(image.samples));
            out.leaf("td", &[("class", &"n")], &pct(image.share));
            let last = image.programs.last().map(|(_, program)| growth(program, base));
            out.leaf("td", &[("class", &"n")], &last.unwrap_or_default());
            out.raw("</tr>");
        }
        out.raw("</tbody></table></div></section>");
    }

    /// What was recorded, and what the compiler found of it: the books of the profile.
    fn recorded(&self, out: &mut Markup) {
        out.raw("<section><h2>Recorded and profiled</h2>");
        table(
            out,
            &["command", "takes", "samples in the program", "share", "perf.data"],
            &[1, 2, 3, 4],
        );
        for recording in self.recordings.iter().take(MOST_ROWS) {
            let cells = [
                recording.seconds.map(|seconds| format!("{seconds:.1} s")),
                recording.samples.map(count),
                recording.share.map(pct),
                Some(bytes(recording.file_bytes as f64)),
            ];
            out.raw("<tr>");
            out.leaf("td", &[("class", &"words")], &short(&recording.command));
            for cell in cells {
                out.leaf("td", &[("class", &"n")], &cell.unwrap_or_default());
            }
            out.raw("</tr>");
        }
        out.raw("</tbody></table></div><dl>");
        out.leaf("dt", &[], "found by name");
        out.leaf("dd", &[], &short(&self.matched.words()));
        if let Some(cause) = &self.matched.cause {
            out.leaf("dt", &[], "likely cause of what is missing");
            out.leaf("dd", &[], &short(cause));
        }
        for (name, samples) in self.matched.largest_unmatched.iter().take(10) {
            out.leaf("dt", &[], "not found");
            let samples = counted(*samples, "sample", "samples");
            out.leaf("dd", &[], &format!("{} ({samples})", short(name)));
        }
        if let Some(training) = &self.profile.training {
            out.leaf("dt", &[], "training");
            out.leaf("dd", &[], &short(&training.line));
        }
        out.raw("</dl></section>");
    }

    fn steps(&self, out: &mut Markup) {
        out.raw("<section><h2>Steps</h2>");
        table(out, &["step", "time", "command"], &[1]);
        for stage in self.stages.iter().take(MOST_ROWS) {
            out.raw("<tr>");
            out.leaf("th", &[("scope", &"row")], &short(&stage.name));
            out.leaf("td", &[("class", &"n")], &format!("{:.1} s", stage.seconds));
            out.leaf("td", &[("class", &"words small")], &short(&stage.command));
            out.raw("</tr>");
        }
        out.raw("</tbody></table></div></section>");
    }

    fn origin(&self, out: &mut Markup) {
        let machine = &self.machine;
        let built = [
            ("command", short(&self.build.command)),
            ("compiler", short(&self.build.compiler)),
            ("processor", format!("{}, {} CPUs", short(&machine.cpu), machine.cpus)),
            ("kernel", short(&machine.kernel)),
            ("baseline", id(&self.build.base)),
            ("rebuilt", id(&self.build.opt)),
            ("profile", short(&self.profile.path)),
        ];
        out.raw("<section><h2>Where it is from</h2><dl>");
        for (what, fact) in built {
            out.leaf("dt", &[], what);
            out.leaf("dd", &[], &fact);
        }
        out.raw("</dl></section><footer><p class=\"small\">");
        out.text(&format!("planish {}.", short(&self.planish)));
        out.raw(
            " Ratios are program / baseline. To see where time goes before and after: record both \
             programs, then planish report diff --format html.</p></footer>",
        );
    }
}

fn id(program: &Program) -> String {
    let id = program.build_id.as_deref().unwrap_or("no build ID");
    format!("{} ({})", short(&program.path), short(id))
}

fn growth(program: &Program, base: u64) -> String {
    let change = program.code_bytes as f64 / base.max(1) as f64 - 1.0;
    format!("{:+.1} %", change * 100.0)
}

/// The start of a table; columns of numbers stand to the right.
fn table(out: &mut Markup, columns: &[&str], numbers: &[usize]) {
    out.raw("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table><thead><tr>");
    for (at, column) in columns.iter().enumerate() {
        let class = if numbers.contains(&at) { "n" } else { "" };
        out.leaf("th", &[("scope", &"col"), ("class", &class)], column);
    }
    out.raw("</tr></thead><tbody>");
}

/// Taken branches of the programs.
fn branches(out: &mut Markup, taken: &Branches) {
    out.raw("<section><h2>Taken branches</h2><p class=\"small\">");
    out.text(&format!("{}: counted exactly, under emulation", short(&taken.command)));
    out.raw("</p>");
    table(out, &["program", "taken branches", "ratio"], &[1, 2]);
    let base = ("baseline", taken.base);
    for (name, number) in std::iter::once(base).chain(taken.rebuilt()) {
        out.raw("<tr>");
        out.leaf("th", &[("scope", &"row")], &short(name));
        out.leaf("td", &[("class", &"n")], &count(number));
        out.leaf("td", &[("class", &"n")], &taken.ratio(number));
        out.raw("</tr>");
    }
    out.raw("</tbody></table></div></section>");
}

/// A row of the layout's worth.
type WorthRow = (&'static str, fn(&Worth) -> u64);

/// What the layout is worth, and the lines that it straightened.
fn laid_out(out: &mut Markup, layout: &LaidOut) {
    out.raw("<section><h2>Layout</h2>");
    out.leaf("p", &[], &short(&layout.words()));
    table(out, &["computed from the recording", "before", "after"], &[1, 2]);
    let (before, after) = (&layout.summary.before, &layout.summary.after);
    let rows: [WorthRow; 6] = [
        ("taken branches within functions", |worth| worth.taken),
        ("fall-throughs within functions", |worth| worth.fall_throughs),
        ("pages of 4 KiB touched", |worth| worth.pages_4k.0),
        ("pages of 4 KiB with 90 % of the executions", |worth| worth.pages_4k.1),
        ("superpages (2 MiB) touched", |worth| worth.pages_2m.0),
        ("superpages with 90 % of the executions", |worth| worth.pages_2m.1),
    ];
    for (name, of) in rows {
        out.raw("<tr>");
        out.leaf("th", &[("scope", &"row")], name);
        out.leaf("td", &[("class", &"n")], &count(of(before)));
        out.leaf("td", &[("class", &"n")], &count(of(after)));
        out.raw("</tr>");
    }
    out.raw("</tbody></table></div></section>");
    if let Some(turned) = &layout.summary.turned {
        functions(out, turned);
        straightened(out, turned);
    }
}

/// The functions that executed most, and their taken branches before and after.
fn functions(out: &mut Markup, turned: &Turned) {
    if turned.functions.is_empty() {
        return;
    }
    out.raw("<section><h2>Functions before and after</h2>");
    out.raw(
        "<p class=\"small\">As recorded in training: the share of the executed code, and \
         executions of taken branches within the function, in the recorded and in the new \
         layout.</p>",
    );
    table(out, &["executed", "taken before", "taken after", "function"], &[0, 1, 2]);
    for function in turned.functions.iter().take(MOST_ROWS) {
        out.raw("<tr>");
        out.leaf("td", &[("class", &"n")], &pct(function.share));
        let taken = function.taken.map(|(before, after)| [before, after].map(count));
        for cell in taken.unwrap_or_default() {
            out.leaf("td", &[("class", &"n")], &cell);
        }
        let name = crate::calls::demangled(&function.name);
        out.leaf("td", &[("class", &"words")], &short(&name));
        out.raw("</tr>");
    }
    out.raw("</tbody></table></div></section>");
}

/// Source lines whose branches fall through now.
fn straightened(out: &mut Markup, turned: &Turned) {
    out.raw("<section><h2>Straightened branches</h2>");
    let (jumps, executions) = turned.to_fall_through;
    let (bent, bent_executions) = turned.to_taken;
    out.leaf(
        "p",
        &[],
        &format!(
            "{} that were taken fall through now ({}); {} that fell through {} taken now ({}).",
            counted(jumps, "jump", "jumps"),
            counted(executions, "execution", "executions"),
            count(bent),
            if bent == 1 { "is" } else { "are" },
            counted(bent_executions, "execution", "executions"),
        ),
    );
    if !turned.lines.is_empty() {
        table(out, &["executions", "source line", "function"], &[0]);
        for line in turned.lines.iter().take(MOST_ROWS) {
            out.raw("<tr>");
            out.leaf("td", &[("class", &"n")], &count(line.executions));
            let place = match (&line.file, line.line) {
                (Some(file), number) => {
                    format!("{}:{number}", file.rsplit('/').next().unwrap_or(file))
                }
                (None, _) => "no line".to_owned(),
            };
            out.leaf("td", &[], &short(&place));
            out.leaf(
                "td",
                &[("class", &"words")],
                &short(&crate::calls::demangled(&line.function)),
            );
            out.raw("</tr>");
        }
        out.raw("</tbody></table></div>");
    }
    out.raw("</section>");
}
