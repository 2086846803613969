//! What do shards of a fleet say of themselves, and what became of each when they were merged?

use crate::numbers::numbered;
use crate::{bytes, counts as told_counts};
use counts::aggregate::Aggregated;
use counts::{Counts, Ledger};
use fleet::plan::Why;
use fleet::{Merged, Plan, Recording, Shard, time};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Most files that are named for one reason.
const MOST_NAMED: usize = 10;

/// A file that is not merged, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    /// The file.
    pub path: PathBuf,
    /// Why; names the file where it does not stand before it.
    pub why: String,
}

/// What became of all files of a merge.
#[derive(Clone, Debug)]
pub struct MergedFleet {
    /// Files given.
    pub files: usize,
    /// Files added up.
    pub merged: usize,
    /// Their recordings.
    pub recordings: usize,
    /// The hosts that are named.
    pub hosts: usize,
    /// Recordings of each class of hosts.
    pub classes: BTreeMap<String, u64>,
    /// Rows in and out.
    pub rows: Merged,
    /// Files whose recordings count in another one.
    pub duplicates: Vec<Aside>,
    /// Files that the options leave out.
    pub left_out: Vec<Aside>,
    /// Files that cannot be read or merged.
    pub rejected: Vec<Aside>,
    /// Recordings from the future.
    pub future: usize,
    /// Part of the rows, from 1, and of how many.
    pub part: Option<String>,
    /// What the recordings held.
    pub ledger: Ledger,
}

impl MergedFleet {
    /// What became of the files of a plan, and of those that were rejected before.
    pub fn of(plan: &Plan<'_>, rows: Merged, files: usize, rejected: Vec<Aside>) -> MergedFleet {
        let recordings = &plan.description.recordings;
        let aside = |shard: &Shard, why: String| Aside { path: shard.path.clone(), why };
        let is_duplicate = |why: &Why| matches!(why, Why::Duplicate(_) | Why::Differs(_));
        let of = |duplicate: bool| {
            let fitting = plan.left_out.iter().filter(|(_, why)| is_duplicate(why) == duplicate);
            fitting.map(|(shard, why)| aside(shard, why.told())).collect()
        };
        let mut all = rejected;
        all.extend(plan.rejected.iter().map(|(shard, why)| aside(shard, why.clone())));
        let hosts: BTreeSet<&String> =
            recordings.iter().map(|one| &one.host).filter(|host| !host.is_empty()).collect();
        MergedFleet {
            files,
            merged: plan.chosen.len(),
            recordings: recordings.len(),
            hosts: hosts.len(),
            classes: numbers(recordings, |one| one.host_class.clone()),
            rows,
            duplicates: of(true),
            left_out: of(false),
            rejected: all,
            future: plan.future,
            part: part(&plan.description),
            ledger: plan.ledger.clone(),
        }
    }

    /// As one JSON object.
    pub fn json(&self) -> Value {
        let list = |list: &[Aside]| -> Vec<Value> {
            list.iter().map(|one| json!({ "path": one.path, "reason": one.why })).collect()
        };
        json!({
            "schema": "planish-fleet-merge", "version": 1,
            "files": self.files, "merged": self.merged,
            "recordings": self.recordings, "hosts": self.hosts, "host_classes": self.classes,
            "rows_read": self.rows.rows_read, "rows_written": self.rows.rows_written,
            "intermediate_files": self.rows.intermediate,
            "duplicates": list(&self.duplicates), "left_out": list(&self.left_out),
            "rejected": list(&self.rejected), "from_the_future": self.future,
            "part": self.part, "ledger": self.ledger,
        })
    }

    /// As lines.
    pub fn lines(&self, verbose: bool) -> Vec<String> {
        let files = numbered(self.files as u64, "file", "files");
        let recordings = numbered(self.recordings as u64, "recording", "recordings");
        let hosts = numbered(self.hosts as u64, "named host", "named hosts");
        let Merged { rows_read, rows_written, .. } = self.rows;
        let mut lines = vec![format!(
            "merged {} of {files}: {recordings} of {hosts}; {rows_read} rows in, {rows_written} out",
            self.merged
        )];
        if let Some(part) = &self.part {
            lines.push(format!("this is part {part}; merge all parts to get the whole"));
        }
        for (name, list) in [
            ("duplicate", &self.duplicates),
            ("left out", &self.left_out),
            ("rejected", &self.rejected),
        ] {
            let most = if verbose { usize::MAX } else { MOST_NAMED };
            for Aside { path, why } in list.iter().take(most) {
                let path = path.display().to_string();
                let named = if why.contains(&path) { String::new() } else { format!("{path}: ") };
                lines.push(format!("{name}: {named}{why}"));
            }
            if list.len() > most {
                lines.push(format!("{name}: and {} more (-v names them)", list.len() - most));
            }
        }
        if self.future > 0 {
            let future = numbered(self.future as u64, "recording ends", "recordings end");
            lines.push(format!("note: {future} after --now and weighs as if it ended then"));
        }
        lines.extend(ledger(&self.ledger));
        lines
    }
}

/// How many recordings there are of each.
fn numbers(recordings: &[Recording], of: impl Fn(&Recording) -> String) -> BTreeMap<String, u64> {
    let mut numbers = BTreeMap::new();
    for one in recordings {
        *numbers.entry(of(one)).or_default() += 1;
    }
    numbers
}

fn part(description: &fleet::Description) -> Option<String> {
    let parts = description.partition.as_ref()?;
    let numbers = parts.parts.iter().map(|part| part.saturating_add(1).to_string());
    Some(format!("{} of {}", numbers.collect::<Vec<_>>().join(", "), parts.of))
}

fn ledger(ledger: &Ledger) -> Vec<String> {
    let counts = Counts { images: Vec::new(), ledger: ledger.clone() };
    told_counts::lines(&Aggregated::from(counts), false)
}

/// What shards say of themselves, and which files say nothing, as one JSON object.
pub fn shards_json(shards: &[Shard], rejected: &[Aside]) -> Value {
    let shards = shards.iter().map(|shard| {
        json!({
            "path": shard.path, "bytes": shard.bytes, "rows": shard.about.rows,
            "counts_version": shard.about.version, "names_its_recordings": shard.is_named,
            "halves": shard.description.halves, "part": part(&shard.description),
            "recordings": shard.description.recordings, "ledger": shard.about.ledger,
        })
    });
    let rejected = rejected.iter().map(|one| json!({ "path": one.path, "reason": one.why }));
    json!({
        "schema": "planish-fleet-show", "version": 1,
        "shards": shards.collect::<Vec<_>>(), "rejected": rejected.collect::<Vec<_>>(),
    })
}

/// What a shard says of itself, as lines.
pub fn shard_lines(shard: &Shard) -> Vec<String> {
    let recordings = &shard.description.recordings;
    let mut lines = vec![format!(
        "{}: counts of version {}, {}, {}",
        shard.path.display(),
        shard.about.version,
        numbered(shard.about.rows, "row", "rows"),
        bytes(shard.bytes as f64)
    )];
    let mut line = |name: &str, text: String| lines.push(format!("{name:>20}: {text}"));
    let number = recordings.len();
    let ids: Vec<&str> = recordings.iter().take(3).map(|one| one.id.as_str()).collect();
    let more = if number > ids.len() { ", …" } else { "" };
    line("recordings", format!("{number} ({}{more})", ids.join(", ")));
    if !shard.is_named {
        line("", "the file does not name its recordings and is known by its bytes".to_owned());
    }
    if let Some(part) = part(&shard.description) {
        line("part", part);
    }
    let begin = recordings.iter().filter_map(|one| one.begin.or(one.end)).min();
    let end = recordings.iter().filter_map(Recording::time).max();
    if let (Some(begin), Some(end)) = (begin, end) {
        line("recorded", format!("{} to {} UTC", time::told(begin), time::told(end)));
    }
    let number = |number: Option<u64>| number.map_or_else(String::new, |own| own.to_string());
    /// What a recording says under one head.
    type Said<'s> = &'s dyn Fn(&Recording) -> String;
    let kinds: [(&str, Said<'_>); 9] = [
        ("hosts", &|one| one.host.clone()),
        ("host classes", &|one| one.host_class.clone()),
        ("CPU models", &|one| one.cpu_model.clone()),
        ("architectures", &|one| one.architecture.clone()),
        ("sources", &|one| one.source.clone()),
        ("depths", &|one| number(one.depth.map(u64::from))),
        ("periods", &|one| number(one.period)),
        ("programs", &|one| one.program.clone()),
        ("versions of planish", &|one| one.planish.clone()),
    ];
    for (name, of) in kinds {
        let numbers = numbers(recordings, of);
        let known: Vec<_> = numbers.iter().filter(|(text, _)| !text.is_empty()).collect();
        if known.is_empty() {
            continue;
        }
        let mut told: Vec<String> = known
            .iter()
            .take(MOST_NAMED)
            .map(|(text, number)| format!("{text} ({number})"))
            .collect();
        if known.len() > MOST_NAMED {
            told.push(format!("and {} more", known.len() - MOST_NAMED));
        }
        if let Some(unknown) = numbers.get("") {
            told.push(format!("not told ({unknown})"));
        }
        line(name, told.join(", "));
    }
    lines.extend(ledger(&shard.about.ledger));
    lines
}
