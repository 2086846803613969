//! A recording as one HTML file that loads nothing: flame graph, tree of calls, functions, threads over
//! time, source lines, and what the numbers do not hold.

mod content;
mod difference;
mod facts;
mod prune;
mod threads;
mod view;

pub use difference::{Side, difference_page};

use super::Selected;
use super::lines::{FunctionLines, LinesView};
use crate::compare::markup::Markup;
use crate::page::{Frame, inert, whole};
use calltrees::Blocks;
use content::{Content, content, shortened};
use serde::Serialize;
use threads::{TimeLine, time_line};
use view::{Space, views};

const STYLE: &str = concat!(include_str!("../../page.css"), include_str!("page.css"));
const SCRIPT: &str = concat!(
    include_str!("calls.js"),
    include_str!("weights.js"),
    include_str!("flame.js"),
    include_str!("tree.js"),
    include_str!("functions.js"),
    include_str!("verdicts.js"),
    include_str!("threads.js"),
    include_str!("lines.js"),
    include_str!("page.js"),
);

/// Bytes of a page at most, whatever the recording: what browsers open at once and mail takes.
pub const LARGEST_PAGE: usize = 5_000_000;

/// Characters of a fact about the recording, and notes, at most.
const LONGEST_FACT: usize = 2000;
/// More bytes than are said about what of a view has no room.
const SAID: usize = 7000;
/// Source lines and instructions may take one in so many of the page's bytes.
const LINES_PART: usize = 4;

/// Where a recording is from: what it says itself.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Its file.
    pub recording: String,
    /// The recorder's command line.
    pub command: Option<String>,
    /// The machine.
    pub host: Option<String>,
    /// The processor, or what kind of one.
    pub processor: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// What recorded it.
    pub recorder: Option<String>,
    /// The version of planish that wrote the page.
    pub planish: String,
}

/// What a page can show beside the stacks.
#[derive(Clone, Debug, Default)]
pub struct Extra<'r> {
    /// The parts of the time that the stacks are told apart by.
    pub blocks: Option<Blocks>,
    /// Functions by line and instruction, the heaviest first.
    pub lines: Vec<FunctionLines<'r>>,
    /// The only threads to tell of, by their name.
    pub comm: Option<String>,
}

/// What the script of a page reads.
#[derive(Debug, Default, Serialize)]
struct Data {
    #[serde(flatten)]
    content: Content,
    time: Option<TimeLine>,
    lines: Vec<LinesView>,
    difference: Option<difference::Rows>,
}

/// The page of a recording, of all its events, that of `selected` first. `limit` and `percent` do not hold: it has all that fits.
pub fn page(selected: &Selected<'_>, origin: &Origin, extra: &Extra<'_>) -> String {
    let recorded = selected.recorded;
    let mut space = Space::of(recorded);
    let views = views(recorded, selected.event, &mut space);
    let mut data = Data::default();
    if let Some(first) = views.first() {
        let is_told = |name: &str| extra.comm.as_deref().is_none_or(|comm| comm == name);
        data.time = time_line(recorded, first, extra.blocks, is_told);
    }
    let empty = markup(selected, origin, &data);
    let title = format!(
        "planish report: {} of {}",
        shortened(&selected.event().name, 200).0,
        shortened(&origin.recording, 200).0
    );
    let frame = Frame { title: &title, style: STYLE, script: SCRIPT };
    let fixed = whole(frame, empty, Some(&json(&data))).len() + SAID * (1 + views.len());
    let room = LARGEST_PAGE.saturating_sub(fixed);
    let of_lines = if extra.lines.is_empty() { 0 } else { room / LINES_PART };
    let blocks = extra.blocks.map_or(0, |blocks| blocks.count());
    data.content = content(&space, &views, blocks, room - of_lines);
    let mut left = of_lines;
    for lines in &extra.lines {
        let Some(&position) = data.content.listed.get(&lines.function) else { continue };
        if let Some(view) = lines.view(position, left) {
            left = left.saturating_sub(inert(&json(&view)).len() + 1);
            data.lines.push(view);
        }
    }
    whole(frame, markup(selected, origin, &data), Some(&json(&data)))
}

/// As JSON: numbers and strings in lists, which cannot fail.
fn json(data: &impl Serialize) -> String {
    serde_json::to_string(data).unwrap_or_default()
}

fn markup(selected: &Selected<'_>, origin: &Origin, data: &Data) -> Markup {
    let mut out = Markup::default();
    out.raw("<header><p class=\"brand\">planish report</p>");
    out.leaf("h1", &[], &shortened(&selected.headline(), LONGEST_FACT).0);
    let command = origin.command.as_ref().unwrap_or(&origin.recording);
    out.leaf("p", &[("class", &"small")], &shortened(command, LONGEST_FACT).0);
    out.raw(
        "</header><noscript><p>The pictures and tables of this page need its script; planish \
         report tree prints the same as text.</p></noscript>",
    );
    facts::trust(&mut out, selected, &data.content);
    out.raw(SECTIONS);
    facts::ledger(&mut out, Some("ledger"), selected.recorded, selected.event);
    facts::provenance(&mut out, Some("origin"), origin, selected.recorded);
    foot(&mut out, &origin.planish);
    out
}

fn foot(out: &mut Markup, planish: &str) {
    out.raw("<footer><p class=\"small\">");
    out.text(&format!("planish {planish}."));
    out.raw(
        " Self is what was sampled in a function itself, total what was sampled in it or in what \
         it called; percentages are of all samples shown here.</p></footer>",
    );
}

/// What is filled in by the script.
const SECTIONS: &str = include_str!("sections.html");
