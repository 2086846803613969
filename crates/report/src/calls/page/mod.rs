//! A recording as one HTML file that loads nothing: flame graph, tree of calls, functions, and what
//! the numbers do not hold.

mod content;
mod prune;

use super::{Selected, notes};
use crate::compare::markup::Markup;
use crate::page::{Frame, whole};
use content::{Content, content, shortened};

const STYLE: &str = concat!(include_str!("../../page.css"), include_str!("page.css"));
const SCRIPT: &str = concat!(
    include_str!("calls.js"),
    include_str!("flame.js"),
    include_str!("tree.js"),
    include_str!("functions.js"),
    include_str!("page.js"),
);

/// Bytes of a page at most, whatever the recording: what browsers open at once and mail takes.
pub const LARGEST_PAGE: usize = 5_000_000;

/// Characters of a fact about the recording, and notes, at most.
const LONGEST_FACT: usize = 2000;
const MOST_NOTES: usize = 50;

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

/// The page of an event's samples. `limit` and `percent` do not hold: it has all that fits.
pub fn page(selected: &Selected<'_>, origin: &Origin) -> String {
    let empty = markup(selected, origin, &Content::default());
    let title = format!(
        "planish report: {} of {}",
        shortened(&selected.event().name, 200).0,
        shortened(&origin.recording, 200).0
    );
    let frame = Frame { title: &title, style: STYLE, script: SCRIPT };
    // What is said about the data itself takes less than the last thousand.
    let fixed = whole(frame, empty, Some("")).len() + 1000;
    let data = content(selected, LARGEST_PAGE.saturating_sub(fixed));
    let content = markup(selected, origin, &data);
    // Numbers and strings in lists: writing them cannot fail.
    let data = serde_json::to_string(&data).unwrap_or_default();
    whole(frame, content, Some(&data))
}

fn markup(selected: &Selected<'_>, origin: &Origin, data: &Content) -> Markup {
    let mut out = Markup::default();
    out.raw("<header><p class=\"brand\">planish report</p>");
    out.leaf("h1", &[], &shortened(&selected.headline(), LONGEST_FACT).0);
    let command = origin.command.as_ref().unwrap_or(&origin.recording);
    out.leaf("p", &[("class", &"small")], &shortened(command, LONGEST_FACT).0);
    out.raw(
        "</header><noscript><p>The pictures and tables of this page need its script; planish \
         report tree prints the same as text.</p></noscript>",
    );
    trust(&mut out, selected, data);
    out.raw(SECTIONS);
    ledger(&mut out, selected);
    provenance(&mut out, origin);
    out.raw("<footer><p class=\"small\">");
    out.text(&format!("planish {}.", origin.planish));
    out.raw(
        " Self is what was sampled in a function itself, total what was sampled in it or in what \
         it called; percentages are of all samples shown here.</p></footer>",
    );
    out
}

/// What is filled in by the script.
const SECTIONS: &str = include_str!("sections.html");

fn trust(out: &mut Markup, selected: &Selected<'_>, data: &Content) {
    let mut said = notes(selected.recorded, selected.event);
    if let Some(more) = said.len().checked_sub(MOST_NOTES).filter(|more| *more > 0) {
        said.truncate(MOST_NOTES);
        said.push(format!(
            "{}; planish report tree prints them",
            crate::counted(more as u64, "more note", "more notes")
        ));
    }
    said.extend(left_out(selected, data));
    if said.is_empty() {
        return;
    }
    out.raw("<section class=\"trust\"><h2>What to know</h2><ul id=\"notes\">");
    for note in &said {
        out.leaf("li", &[("class", &"warn")], &shortened(note, 500).0);
    }
    out.raw("</ul></section>");
}

/// What the page has no room for.
fn left_out(selected: &Selected<'_>, data: &Content) -> Vec<String> {
    let mut said = Vec::new();
    let (nodes, weight) = data.calls.merged();
    if nodes > 0 {
        said.push(format!(
            "to keep the page small, {} of {:.2} % of the weight {} merged into “lighter calls” of \
             the callers; in the callers' view they begin stacks of their own",
            crate::counted(nodes, "light call path", "light call paths"),
            selected.share(weight, selected.whole()),
            if nodes == 1 { "is" } else { "are" },
        ));
    }
    if data.unlisted > 0 {
        let functions = crate::counted(data.unlisted, "light function", "light functions");
        said.push(format!("to keep the page small, {functions} missing from the table"));
    }
    if data.shortened > 0 {
        let names = crate::counted(data.shortened, "long name", "long names");
        said.push(format!("{names} shortened, with … at the end"));
    }
    said
}

fn ledger(out: &mut Markup, selected: &Selected<'_>) {
    let ledger = &selected.recorded.ledger;
    let other = ledger.used.saturating_sub(selected.whole().samples);
    // The first two lines always stand there, what did not occur is left out of the others.
    let lines = [
        ("samples in the recording", ledger.samples),
        ("used", ledger.used),
        ("of these of other events", other),
        ("left out by the filter", ledger.filtered),
        ("not used: damaged records", ledger.malformed),
        ("not used: no address", ledger.without_address),
        ("not used: too many distinct stacks", ledger.refused),
        ("used without a call chain", ledger.without_chain),
        ("used without callers: too many distinct stacks", ledger.cut),
        ("used, the callers recorded later", ledger.deferred),
        ("used, the callers recorded later are missing", ledger.deferred_missing),
        ("used, the outermost callers are missing", ledger.frames.cut),
        ("lost while recording", ledger.lost),
        ("other records, damaged or unknown", ledger.unknown_records),
        ("bytes missing at the end", ledger.truncated_bytes),
    ];
    out.raw("<section><h2>What was counted</h2><dl id=\"ledger\">");
    for (at, (what, number)) in lines.into_iter().enumerate() {
        if at < 2 || number > 0 {
            out.leaf("dt", &[], what);
            out.leaf("dd", &[], &crate::count(number));
        }
    }
    out.raw("</dl></section>");
}

fn provenance(out: &mut Markup, origin: &Origin) {
    let facts = [
        ("recording", Some(&origin.recording)),
        ("recorded by", origin.command.as_ref()),
        ("recorder", origin.recorder.as_ref()),
        ("machine", origin.host.as_ref()),
        ("processor", origin.processor.as_ref()),
        ("kernel", origin.kernel.as_ref()),
    ];
    out.raw("<section><h2>Where it is from</h2><dl id=\"origin\">");
    for (what, fact) in facts {
        if let Some(fact) = fact {
            out.leaf("dt", &[], what);
            out.leaf("dd", &[], &shortened(fact, LONGEST_FACT).0);
        }
    }
    out.raw("</dl></section>");
}
