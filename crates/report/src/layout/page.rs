//! The maps of the text as a picture (SVG), and as a page that loads nothing.

use super::{HeatView, LayoutView, PageView};
use crate::compare::Screen;
use crate::compare::markup::{Markup, Px};
use crate::numbers::{bytes, count, counted};
use crate::page::{Frame, whole};

/// Side of a cell, and cells in a row.
const CELL: f64 = 12.0;
const ROW: usize = 64;
/// Cells of a map at most; with more pages a cell stands for several.
const MOST_CELLS: usize = ROW * 64;
/// Space above each map, and left of it.
const HEAD: f64 = 26.0;
const SIDE: f64 = 104.0;

/// Of the picture that stands alone: the class is told by the height of the bar in the cell too.
const PICTURE: &str = "svg{font:12px sans-serif;max-width:100%}.hot{fill:#c0392b}.warm{fill:#e59866}.cold{fill:#8e9aa5;fill-opacity:.25}text{fill:currentColor}";
const STYLE: &str = concat!(include_str!("../page.css"), include_str!("page.css"));

/// All maps below each other as one picture that stands alone.
pub fn picture(view: &LayoutView) -> String {
    let mut out = Markup::default();
    svg(&mut out, view, true);
    let mut text = out.finish();
    text.push('\n');
    text
}

/// A page with the picture and the functions that were asked for.
pub fn page(view: &LayoutView) -> String {
    let mut out = Markup::default();
    out.raw("<header><p class=\"brand\">planish layout</p>");
    out.leaf("h1", &[], &headline(view));
    out.leaf("p", &[("class", &"small")], &shown(&view.binary));
    out.raw("</header>");
    pages(&mut out, view);
    maps(&mut out, view);
    for function in &view.functions {
        out.raw("<section>");
        let name = function.names.first().map(|name| crate::calls::demangled(name));
        out.leaf("h2", &[], &shown(&name.unwrap_or_default()));
        out.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Blocks\"><pre>");
        let plain = Screen { style: Default::default(), width: 100, ascii: false };
        for line in super::text::function(function, plain).lines() {
            out.text(line);
            out.raw("\n");
        }
        out.raw("</pre></div></section>");
    }
    out.raw("<footer><p class=\"small\">");
    out.raw(
        "Hot: the fewest pages that hold 90 % of the executions. Warm: the others that were \
         executed. Cold: not seen executed.</p></footer>",
    );
    let title = format!("planish layout: {}", shown(&view.binary));
    whole(Frame { title: &title, style: STYLE, script: "" }, out, None)
}

/// At most so much of a name.
fn shown(name: &str) -> String {
    let mut rest = name.chars();
    let head: String = rest.by_ref().take(400).collect();
    let more = if rest.next().is_some() { "…" } else { "" };
    format!("{}{more}", crate::visible(&head))
}

fn executed(map: &HeatView) -> usize {
    map.count("hot") + map.count("warm")
}

fn headline(view: &LayoutView) -> String {
    let name = shown(view.binary.rsplit('/').next().unwrap_or(&view.binary));
    match view.heat.as_slice() {
        [before, after] => format!(
            "{name}: {} executed as recorded, {} as laid out",
            counted(executed(before) as u64, "page", "pages"),
            count(executed(after) as u64)
        ),
        _ => format!("Layout of {name}"),
    }
}

/// How many pages are hot, warm and cold in each order.
fn pages(out: &mut Markup, view: &LayoutView) {
    out.raw(
        "<section><h2>Pages of the text</h2><div class=\"scroll\"><table \
         class=\"fit\"><thead><tr><th scope=\"col\">order</th><th scope=\"col\" \
         class=\"n\">hot</th><th scope=\"col\" class=\"n\">warm</th><th scope=\"col\" \
         class=\"n\">cold</th><th scope=\"col\" class=\"n\">page size</th></tr></thead><tbody>",
    );
    for map in &view.heat {
        out.raw("<tr>");
        out.leaf("th", &[("scope", &"row")], &map.name);
        for heat in ["hot", "warm", "cold"] {
            out.leaf("td", &[("class", &"n")], &count(map.count(heat) as u64));
        }
        out.leaf("td", &[("class", &"n")], &bytes(map.page_bytes as f64));
        out.raw("</tr>");
    }
    out.raw("</tbody></table></div></section>");
}

/// The maps as a picture with its legend.
fn maps(out: &mut Markup, view: &LayoutView) {
    out.raw(
        "<section><h2>Map of the text</h2><figure class=\"map\"><div \
             class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Map of the text\">",
    );
    svg(out, view, false);
    out.raw("</div><figcaption><ul class=\"legend\">");
    out.raw("<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect class=\"hot\" y=\"1\" width=\"11\" height=\"11\"/></svg><span>hot: full cell</span></li>");
    out.raw("<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect class=\"warm\" y=\"4.8\" width=\"11\" height=\"7.2\"/></svg><span>warm: half cell</span></li>");
    out.raw("<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect class=\"cold\" y=\"9\" width=\"11\" height=\"3\"/></svg><span>cold: a line</span></li>");
    out.raw("</ul></figcaption></figure></section>");
}

fn cells(map: &HeatView) -> (usize, Vec<&[PageView]>) {
    let each = map.pages.len().div_ceil(MOST_CELLS).max(1);
    (each, map.pages.chunks(each).collect())
}

fn svg(out: &mut Markup, view: &LayoutView, alone: bool) {
    let rows = |map: &HeatView| cells(map).1.len().div_ceil(ROW).max(1);
    let height: f64 = view.heat.iter().map(|map| HEAD + rows(map) as f64 * CELL + 8.0).sum();
    let size = format!("0 0 {} {}", Px(SIDE + ROW as f64 * CELL + 4.0), Px(height));
    out.open(
        "svg",
        &[("xmlns", &"http://www.w3.org/2000/svg"), ("viewBox", &size), ("role", &"img")],
    );
    out.leaf("title", &[], &format!("Executed pages of {}", view.binary));
    if alone {
        out.raw("<style>");
        out.raw(PICTURE);
        out.raw("</style>");
    }
    let mut top = 0.0;
    for map in &view.heat {
        let (each, cells) = cells(map);
        let said = format!(
            "{}: {} of {}, {} hot, {} warm, {} cold{}",
            map.name,
            counted(map.pages.len() as u64, "page", "pages"),
            bytes(map.page_bytes as f64),
            count(map.count("hot") as u64),
            count(map.count("warm") as u64),
            count(map.count("cold") as u64),
            if each > 1 { format!("; a cell is {each} pages") } else { String::new() }
        );
        out.leaf("text", &[("x", &Px(0.0)), ("y", &Px(top + HEAD - 8.0))], &said);
        for (row, cells) in cells.chunks(ROW).enumerate() {
            let y = top + HEAD + row as f64 * CELL;
            let address =
                cells.first().and_then(|cell| cell.first()).map_or(0, |page| page.address);
            out.leaf(
                "text",
                &[("x", &Px(0.0)), ("y", &Px(y + CELL - 2.0))],
                &format!("{address:x}"),
            );
            for (column, cell) in cells.iter().enumerate() {
                draw(out, SIDE + column as f64 * CELL, y, cell);
            }
        }
        top += HEAD + rows(map) as f64 * CELL + 8.0;
    }
    out.close("svg");
}

fn draw(out: &mut Markup, x: f64, y: f64, cell: &[PageView]) {
    let has = |heat: &str| cell.iter().any(|page| page.heat == heat);
    let (class, height) = match (has("hot"), has("warm")) {
        (true, _) => ("hot", CELL - 1.0),
        (_, true) => ("warm", CELL * 0.6),
        _ => ("cold", CELL * 0.25),
    };
    let executions = cell.iter().fold(0u64, |sum, page| sum.saturating_add(page.executions));
    let executed: u64 = cell.iter().map(|page| page.executed_bytes).sum();
    let first = cell.first().map_or(0, |page| page.address);
    out.open(
        "rect",
        &[
            ("class", &class),
            ("x", &Px(x)),
            ("y", &Px(y + CELL - 1.0 - height)),
            ("width", &Px(CELL - 1.0)),
            ("height", &Px(height)),
        ],
    );
    let said = format!(
        "{first:x}: {class}, {} executions, {} executed",
        count(executions),
        bytes(executed as f64)
    );
    out.leaf("title", &[], &said);
    out.close("rect");
}
