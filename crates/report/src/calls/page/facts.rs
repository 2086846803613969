//! What does a page say of its recordings in words? What to know, what was counted, where it is from.

use super::content::{Content, shortened};
use super::{LONGEST_FACT, Origin};
use crate::calls::libraries::remarks;
use crate::calls::{Selected, losses};
use crate::compare::markup::Markup;
use calltrees::Recorded;

const MOST_NOTES: usize = 50;
/// Libraries in the list of build IDs at most.
const MOST_LIBRARIES: usize = 100;

/// What to know, if there is anything.
pub(super) fn trust(out: &mut Markup, selected: &Selected<'_>, data: &Content) {
    let mut said = losses(selected.recorded);
    said.extend(remarks(selected.recorded, selected.event, "samples"));
    if let Some(more) = said.len().checked_sub(MOST_NOTES).filter(|more| *more > 0) {
        said.truncate(MOST_NOTES);
        said.push(format!(
            "{}; planish report tree prints them",
            crate::counted(more as u64, "more note", "more notes")
        ));
    }
    said.extend(left_out(data));
    list(out, &said);
}

/// Notes as a section.
pub(super) fn list(out: &mut Markup, said: &[String]) {
    if said.is_empty() {
        return;
    }
    out.raw("<section class=\"trust\"><h2>What to know</h2><ul id=\"notes\">");
    for note in said {
        out.leaf("li", &[("class", &"warn")], &shortened(note, 500).0);
    }
    out.raw("</ul></section>");
}

/// What the page has no room for.
pub(super) fn left_out(data: &Content) -> Vec<String> {
    let mut said = Vec::new();
    for view in &data.views {
        let (nodes, weight) = view.calls.merged();
        let of = if data.views.len() > 1 { format!(" of {}", view.name) } else { String::new() };
        if nodes > 0 {
            said.push(format!(
                "to keep the page small, {} of {:.2} % of the weight{of} {} merged into “lighter \
                 calls” of the callers; in the callers' view they begin stacks of their own",
                crate::counted(nodes, "light call path", "light call paths"),
                100.0 * weight.period as f64 / view.weight.max(1) as f64,
                if nodes == 1 { "is" } else { "are" },
            ));
        }
        if view.unlisted > 0 {
            let functions = crate::counted(view.unlisted, "light function", "light functions");
            said.push(format!("to keep the page small, {functions}{of} missing from the table"));
        }
    }
    if data.shortened > 0 {
        let names = crate::counted(data.shortened, "long name", "long names");
        said.push(format!("{names} shortened, with … at the end"));
    }
    said
}

/// The books of a recording.
pub(super) fn ledger(out: &mut Markup, id: Option<&'static str>, recorded: &Recorded, event: u32) {
    let ledger = &recorded.ledger;
    let other = ledger.used.saturating_sub(calltrees::rows::whole(recorded, event).samples);
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
    out.raw("<section><h2>What was counted</h2>");
    match id {
        Some(id) => out.open("dl", &[("id", &id)]),
        None => out.open("dl", &[]),
    }
    for (at, (what, number)) in lines.into_iter().enumerate() {
        if at < 2 || number > 0 {
            out.leaf("dt", &[], what);
            out.leaf("dd", &[], &crate::count(number));
        }
    }
    out.raw("</dl></section>");
}

/// Where a recording is from, and what ran in it.
pub(super) fn provenance(
    out: &mut Markup,
    id: Option<&'static str>,
    origin: &Origin,
    recorded: &Recorded,
) {
    let facts = [
        ("recording", Some(&origin.recording)),
        ("recorded by", origin.command.as_ref()),
        ("recorder", origin.recorder.as_ref()),
        ("machine", origin.host.as_ref()),
        ("processor", origin.processor.as_ref()),
        ("kernel", origin.kernel.as_ref()),
    ];
    out.raw("<section><h2>Where it is from</h2>");
    match id {
        Some(id) => out.open("dl", &[("id", &id)]),
        None => out.open("dl", &[]),
    }
    for (what, fact) in facts {
        if let Some(fact) = fact {
            out.leaf("dt", &[], what);
            out.leaf("dd", &[], &shortened(fact, LONGEST_FACT).0);
        }
    }
    out.raw("</dl>");
    build_ids(out, recorded);
    out.raw("</section>");
}

/// The files that ran, with their build IDs: what symbols must be looked up by.
fn build_ids(out: &mut Markup, recorded: &Recorded) {
    let mut known: Vec<(String, String)> = Vec::new();
    for library in recorded.names.libraries() {
        let Some(id) = &library.build_id else { continue };
        let digits = id.iter().map(|byte| format!("{byte:02x}")).collect();
        known.push((shortened(&library.path, 400).0, digits));
    }
    known.sort();
    known.dedup();
    if known.is_empty() {
        return;
    }
    out.raw("<details class=\"ids\"><summary>");
    out.text(&crate::counted(known.len() as u64, "recorded build ID", "recorded build IDs"));
    out.raw("</summary><dl>");
    for (path, id) in known.iter().take(MOST_LIBRARIES) {
        out.leaf("dt", &[], path);
        out.leaf("dd", &[], id);
    }
    out.raw("</dl>");
    if let Some(more) = known.len().checked_sub(MOST_LIBRARIES).filter(|more| *more > 0) {
        out.leaf("p", &[("class", &"small")], &format!("and {more} more"));
    }
    out.raw("</details>");
}
