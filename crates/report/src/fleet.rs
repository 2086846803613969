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

mod profile;

pub use profile::{Added, Build, Fate, FleetProfile};

/// Of fewer files, one may well give most.
const LEAST_TO_OUTWEIGH: usize = 4;
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
    /// Recordings of each source, build as its owner calls it, and region.
    pub sources: BTreeMap<String, u64>,
    /// Of each build.
    pub programs: BTreeMap<String, u64>,
    /// Of each region.
    pub regions: BTreeMap<String, u64>,
    /// Files that were weighed down to what their time and CPUs allow.
    pub capped: Vec<PathBuf>,
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
    /// The file with one of them.
    pub ahead: Option<PathBuf>,
    /// A file that gives more than half of the executions of several, and its share.
    pub outweighs: Option<(PathBuf, f64)>,
    /// Part of the rows, from 1, and of how many.
    pub part: Option<String>,
    /// Objects fetched from stores, and their bytes.
    pub fetched: (usize, u64),
    /// Whether the counts were weighed, and whether to executions.
    pub weighed: bool,
    /// Whether the result counts executions.
    pub executions: bool,
    /// What the recordings held.
    pub ledger: Ledger,
}

impl MergedFleet {
    /// What became of the files of a plan, and of those that were rejected before.
    pub fn of(plan: &Plan<'_>, rows: Merged, files: usize, rejected: Vec<Aside>) -> MergedFleet {
        let recordings = &plan.description.recordings;
        let aside = |shard: &Shard, why: String| Aside { path: shard.path.clone(), why };
        let is_duplicate = |why: &Why| matches!(why, Why::Duplicate(_));
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
            sources: numbers(recordings, |one| one.source.clone()),
            programs: numbers(recordings, |one| one.program.clone()),
            regions: numbers(recordings, |one| one.region.clone()),
            capped: plan.capped.iter().map(|shard| shard.path.clone()).collect(),
            rows,
            duplicates: of(true),
            left_out: of(false),
            rejected: all,
            future: plan.future,
            ahead: plan.ahead.map(|shard| shard.path.clone()),
            outweighs: outweighing(plan),
            part: part(&plan.description),
            fetched: (0, 0),
            weighed: plan.chosen.iter().any(|chosen| chosen.weight != fleet::Weight::ONE),
            executions: plan.description.executions,
            ledger: plan.ledger.clone(),
        }
    }

    /// Whether there were counts, and weights have left none of them.
    pub fn is_nothing(&self) -> bool {
        self.rows.rows_read > 0 && self.rows.rows_written == 0 && self.part.is_none()
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
            "intermediate_files": self.rows.intermediate, "reused_files": self.rows.reused,
            "duplicates": list(&self.duplicates), "left_out": list(&self.left_out),
            "rejected": list(&self.rejected), "from_the_future": self.future,
            "objects_fetched": self.fetched.0, "bytes_fetched": self.fetched.1,
            "part": self.part, "weighed": self.weighed, "executions": self.executions,
            "sources": self.sources, "programs": self.programs, "regions": self.regions,
            "capped": self.capped, "ledger": self.ledger,
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
        for (name, list) in [
            ("builds", &self.programs),
            ("host classes", &self.classes),
            ("regions", &self.regions),
        ] {
            // One that is not told says nothing.
            if list.keys().any(|text| !text.is_empty()) {
                lines.push(format!("recordings of {name}: {}", listed(list)));
            }
        }
        let capped = self.capped.iter().take(if verbose { usize::MAX } else { MOST_NAMED });
        for path in capped {
            lines.push(format!(
                "capped: {}: says that more passed than its time and CPUs allow",
                path.display()
            ));
        }
        if self.capped.len() > MOST_NAMED && !verbose {
            lines.push(format!(
                "capped: and {} more (-v names them)",
                self.capped.len() - MOST_NAMED
            ));
        }
        if self.executions {
            lines.push(format!(
                "counts are executions, estimated by what the samples of each source stand for: {}",
                listed(&self.sources)
            ));
        }
        if let (objects @ 1.., size) = self.fetched {
            let objects = numbered(objects as u64, "object", "objects");
            lines.push(format!("fetched {objects}, {}", bytes(size as f64)));
        }
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
        if self.is_nothing() {
            lines.push(
                "note: the weights leave nothing of the counts; is a --weight 0, --decay too short, or \
                 --now long after the recordings?"
                    .to_owned(),
            );
        }
        if let Some((path, share)) = &self.outweighs {
            lines.push(format!(
                "note: {} gives {:.0} % of the executions of {} files; is it right about what passed?",
                path.display(),
                100.0 * share,
                self.merged
            ));
        }
        if let Some(path) = &self.ahead {
            let future = numbered(self.future as u64, "recording ends", "recordings end");
            lines.push(format!(
                "note: {future} in the future ({}); is that host's clock right? --decay and \
                 --max-per-host take it for the newest",
                path.display()
            ));
        }
        lines.extend(ledger(&self.ledger));
        lines
    }
}

/// The shard that gives more than half of the executions, where there are some more.
fn outweighing(plan: &Plan<'_>) -> Option<(PathBuf, f64)> {
    if !plan.description.executions || plan.chosen.len() < LEAST_TO_OUTWEIGH {
        return None;
    }
    let given = plan.chosen.iter().map(|chosen| {
        let recordings = &chosen.shard.description.recordings;
        let counts = recordings.iter().filter_map(|one| one.law).map(|law| law.counts as f64);
        (chosen.shard, counts.sum::<f64>() * chosen.weight.bits() as f64)
    });
    let given: Vec<_> = given.collect();
    let whole: f64 = given.iter().map(|(_, executions)| executions).sum();
    let most = given.into_iter().max_by(|one, other| one.1.total_cmp(&other.1));
    let (shard, executions) = most?;
    (2.0 * executions > whole && whole > 0.0).then(|| (shard.path.clone(), executions / whole))
}

/// Names with their numbers.
fn listed(numbers: &BTreeMap<String, u64>) -> String {
    let known = numbers.iter().filter(|(text, _)| !text.is_empty());
    let mut told: Vec<String> = known
        .take(MOST_NAMED)
        .map(|(text, number)| format!("{} ({number})", crate::visible(text)))
        .collect();
    let known = numbers.keys().filter(|text| !text.is_empty()).count();
    if known > MOST_NAMED {
        told.push(format!("and {} more", known - MOST_NAMED));
    }
    if let Some(unknown) = numbers.get("") {
        told.push(format!("unknown ({unknown})"));
    }
    told.join(", ")
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

/// The shards that were written, as one JSON object.
pub fn written_json(written: &[(PathBuf, Recording)]) -> Value {
    let one =
        |(path, recording): &(PathBuf, Recording)| json!({ "path": path, "recording": recording });
    let shards: Vec<Value> = written.iter().map(one).collect();
    json!({ "schema": "planish-fleet-shard", "version": 1, "shards": shards })
}

/// The shards that were written, a line each.
pub fn written_lines(written: &[(PathBuf, Recording)]) -> Vec<String> {
    let one = |(path, recording): &(PathBuf, Recording)| {
        let known = |text: &str| if text.is_empty() { "?" } else { text }.to_owned();
        let when = recording.time().map_or_else(|| "?".to_owned(), time::told);
        format!(
            "wrote {}: {} of {}, {when} UTC",
            path.display(),
            known(&recording.source),
            crate::visible(&known(&recording.host))
        )
    };
    written.iter().map(one).collect()
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
    let kinds: [(&str, Said<'_>); 10] = [
        ("hosts", &|one| one.host.clone()),
        ("host classes", &|one| one.host_class.clone()),
        ("regions", &|one| one.region.clone()),
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
        if numbers.keys().any(|text| !text.is_empty()) {
            line(name, listed(&numbers));
        }
    }
    for (name, text) in crate::collector::heads(recordings) {
        line(name, text);
    }
    lines.extend(ledger(&shard.about.ledger));
    lines
}
