//! Layouts on a terminal: the summary, the map of the text, one function.

use super::{BlockView, FunctionView, HeatView, LayoutSummary, LayoutView, VerifyResult, Worth};
use crate::compare::Screen;
use crate::escape::visible;
use crate::numbers::{bytes, count, counted};
use crate::style::Colour;
use std::fmt::Write;

/// How many pages one row of the map shows at most.
const ROW: usize = 64;
/// How many rows the map has at most; with more pages a cell stands for several.
const ROWS: usize = 16;

/// The summary, one line a thing.
pub fn summary(s: &LayoutSummary, screen: Screen) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "{name:>20}: {text}");
    };
    let (blocks, size) = s.hot_blocks;
    line(
        "layout",
        format!(
            "{} of {} in {}",
            counted(s.functions, "function", "functions"),
            count(s.mapped_functions),
            counted(s.clusters, "cluster", "clusters")
        ),
    );
    line("hot", format!("{}, {}", counted(blocks, "block", "blocks"), bytes(size as f64)));
    line(
        "cold",
        format!(
            "{}, {} of the same functions",
            counted(s.cold_blocks.0, "block", "blocks"),
            bytes(s.cold_blocks.1 as f64)
        ),
    );
    if s.clones > 0 {
        line("clones", count(s.clones));
    }
    for (name, change) in changes(&s.before, &s.after) {
        line(name, change);
    }
    for (name, book) in &s.books {
        if book.entered == 0 {
            continue;
        }
        let mut text = format!(
            "{} in, {} used ({:.1} %)",
            count(book.entered),
            count(book.used),
            100.0 * book.used as f64 / book.entered as f64
        );
        for (reason, unused) in &book.unused {
            let _ = write!(text, ", {} {reason}", count(*unused));
        }
        line(name, text);
    }
    for (reason, functions) in &s.left_out {
        line("left out", format!("{}: {reason}", counted(*functions, "function", "functions")));
    }
    if let Some(evidence) = &s.evidence {
        line("evidence", evidence.line.clone());
    }
    for (what, path) in &s.files {
        line("wrote", format!("{} ({what})", visible(path)));
    }
    for warning in &s.warnings {
        let _ =
            writeln!(out, "{} {}", screen.style.paint(Colour::Care, "warning:"), visible(warning));
    }
    out
}

fn changes(before: &Worth, after: &Worth) -> [(&'static str, String); 5] {
    let scores = |b: f64, a: f64| format!("{b:.0} -> {a:.0}{}", percent(b, a));
    let counts =
        |b: u64, a: u64| format!("{} -> {}{}", count(b), count(a), percent(b as f64, a as f64));
    let pages = |b: (u64, u64), a: (u64, u64)| {
        format!(
            "{} -> {} executed, {} -> {} hold 90 %",
            count(b.0),
            count(a.0),
            count(b.1),
            count(a.1)
        )
    };
    [
        ("score in functions", scores(before.score_within, after.score_within)),
        ("score of calls", scores(before.score_calls, after.score_calls)),
        ("taken branches", counts(before.taken, after.taken)),
        ("pages of 4 KiB", pages(before.pages_4k, after.pages_4k)),
        ("pages of 2 MiB", pages(before.pages_2m, after.pages_2m)),
    ]
}

fn percent(before: f64, after: f64) -> String {
    if before == 0.0 {
        String::new()
    } else {
        format!(" ({:+.1} %)", 100.0 * (after / before - 1.0))
    }
}

/// Whether a layout was applied, and what deviates.
pub fn verification(v: &VerifyResult, screen: Screen) -> String {
    let mut out = String::new();
    let (not_checked, executions, of) = v.not_checked;
    let headline = if v.asked == 0 && not_checked > 0 {
        screen.style.paint(Colour::Bad, "nothing of the layout could be looked for")
    } else if v.applied && not_checked > 0 && v.blocks.0 == 0 {
        let known =
            "the sections that were checked are in order; the order of blocks in them is not known";
        screen.style.paint(Colour::Care, known)
    } else if v.applied && not_checked > 0 {
        screen.style.paint(Colour::Care, "the layout is applied, as far as it was checked")
    } else if v.applied && v.blocks.0 > 0 {
        screen.style.paint(Colour::Good, "the layout is applied")
    } else if v.applied {
        screen.style.paint(
            Colour::Good,
            "the sections are in order; the order of blocks in them is not known",
        )
    } else {
        screen.style.paint(Colour::Bad, "the layout is not applied as it was written")
    };
    let _ = writeln!(out, "{}: {headline}", visible(&v.binary));
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "{name:>20}: {text}");
    };
    line(
        "sections",
        format!(
            "{} asked for, {} found, {} in order",
            count(v.asked),
            count(v.found),
            count(v.in_order)
        ),
    );
    if v.blocks.0 > 0 {
        line(
            "blocks",
            format!(
                "{} compared, {} with the blocks asked for",
                counted(v.blocks.0, "section", "sections"),
                count(v.blocks.1)
            ),
        );
    } else {
        line(
            "blocks",
            "not compared: the program has no address map of its blocks, or functions were asked \
             for"
            .into(),
        );
    }
    if not_checked > 0 {
        let share_pct = if of == 0 { 0.0 } else { 100.0 * executions as f64 / of as f64 };
        let functions = counted(not_checked, "function", "functions");
        let names = if not_checked == 1 { "its name is" } else { "their names are" };
        line("not checked", format!("{functions}, {share_pct:.1} % of executions: {names} shared"));
    }
    line(
        "hot text",
        format!("{} within {}", bytes(v.hot_bytes.0 as f64), bytes(v.hot_bytes.1 as f64)),
    );
    for (symbol, what) in &v.first {
        line("deviation", format!("{}: {}", visible(symbol), visible(what)));
    }
    let more = v.deviations.saturating_sub(v.first.len() as u64);
    if more > 0 {
        line("", format!("and {} more", count(more)));
    }
    out
}

/// The maps of the text, a cell a page (or several, where it would not fit).
pub fn heat(view: &LayoutView, screen: Screen) -> String {
    let mut out = String::new();
    let (hot, warm, cold) = if screen.ascii { ('#', '+', '.') } else { ('█', '▒', '·') };
    let width = ROW.min(screen.width.saturating_sub(20)).max(8);
    let pages_a_cell = |map: &HeatView| map.pages.len().div_ceil(width * ROWS).max(1);
    for map in &view.heat {
        let each = pages_a_cell(map);
        let _ = writeln!(
            out,
            "{}  {} of {}: {} hot, {} warm, {} cold",
            screen.style.paint(Colour::Strong, &visible(&map.name)),
            counted(map.pages.len() as u64, "page", "pages"),
            bytes(map.page_bytes as f64),
            count(map.count("hot") as u64),
            count(map.count("warm") as u64),
            count(map.count("cold") as u64),
        );
        for row in map.pages.chunks(each * width) {
            let _ = write!(out, "{:>16x}  ", row.first().map_or(0, |page| page.address));
            for cell in row.chunks(each) {
                let has = |heat: &str| cell.iter().any(|page| page.heat == heat);
                let (colour, shape) = match (has("hot"), has("warm")) {
                    (true, _) => (Colour::Bad, hot),
                    (_, true) => (Colour::Care, warm),
                    _ => (Colour::Faint, cold),
                };
                out.push_str(&screen.style.paint(colour, &shape.to_string()));
            }
            out.push('\n');
        }
        out.push('\n');
    }
    let each = view.heat.iter().map(pages_a_cell).max().unwrap_or(1);
    let cell = if each == 1 {
        "a page".to_owned()
    } else {
        format!("up to {each} pages, the hottest shown")
    };
    let _ = writeln!(
        out,
        "{hot} hot (90 % of the executions)  {warm} warm  {cold} cold (not seen executed); a cell \
         is {cell}"
    );
    out
}

/// One function: its sections with their blocks.
pub fn function(f: &FunctionView, screen: Screen) -> String {
    let mut out = String::new();
    let name = visible(&f.names.join(", ")).into_owned();
    let module =
        f.module.as_ref().map_or_else(String::new, |module| format!("  of {}", visible(module)));
    let _ =
        writeln!(out, "{}  at {:#x}{module}", screen.style.paint(Colour::Strong, &name), f.address);
    if let Some(why) = &f.left_out {
        let _ = writeln!(out, "  not laid out: {}", visible(why));
        return out;
    }
    let _ = writeln!(out, "  score {:.0} -> {:.0}", f.score.0, f.score.1);
    for path in &f.paths {
        let path: Vec<String> = path.iter().map(ToString::to_string).collect();
        let _ = writeln!(out, "  clone path {}", path.join(" "));
    }
    for (symbol, place, blocks) in &f.clusters {
        let _ = writeln!(out, "  {}  section {place} of the text", visible(symbol));
        blocks.iter().for_each(|block| row(&mut out, block));
    }
    if !f.cold.is_empty() {
        let _ = writeln!(out, "  {}", screen.style.paint(Colour::Faint, "cold"));
        f.cold.iter().for_each(|block| row(&mut out, block));
    }
    out
}

fn row(out: &mut String, block: &BlockView) {
    let frequency = block.frequency.map_or_else(|| "-".to_owned(), count);
    let next: Vec<String> =
        block.successors.iter().map(|(id, weight)| format!("{id} ({})", count(*weight))).collect();
    let mut line = format!(
        "    {:>6}  {:>10x}  {:>5} B  {frequency:>14}",
        block.id, block.address, block.size
    );
    if !next.is_empty() {
        let _ = write!(line, "  -> {}", next.join(", "));
    }
    if !block.marks.is_empty() {
        let _ = write!(line, "  [{}]", block.marks.join(", "));
    }
    let _ = writeln!(out, "{line}");
}
