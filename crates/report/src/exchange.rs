//! What became of profiles of other tools, and what was written for them?

use crate::fleet::{Aside, MergedFleet};
use crate::numbers::numbered;
use counts::{Counts, Reason};
use exchange::{File, Form, Format, Sampled};
use fleet::Recording;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Most files of a profile that are named.
const MOST_NAMED: usize = 10;

/// What was read.
#[derive(Clone, Debug)]
pub enum Read {
    /// A profile of samples.
    Samples(Samples),
    /// BOLT's text.
    Bolt,
}

/// What a profile of samples held.
#[derive(Clone, Debug)]
pub struct Samples {
    format: &'static str,
    value: String,
    divisor: u64,
    others: Vec<String>,
    files: Vec<File>,
    entered: u64,
    nowhere: u64,
    no_file: u64,
    no_address: u64,
    kernel: u64,
    rounded_away: u64,
}

/// A profile that was made a shard.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The profile.
    pub input: PathBuf,
    /// The shard.
    pub output: PathBuf,
    /// What it says of itself.
    pub recording: Recording,
    /// What was read.
    pub read: Read,
}

impl Read {
    /// What a profile held, and what of it was counted.
    pub fn of(format: Format, sampled: &Sampled, found: &exchange::Imported) -> Read {
        Read::Samples(Samples {
            format: format.name(),
            value: sampled.value.told(),
            divisor: sampled.divisor,
            others: sampled.others.iter().map(exchange::ValueType::told).collect(),
            files: found.files.clone(),
            entered: found.counts.ledger.samples.entered,
            nowhere: found.nowhere,
            no_file: found.no_file,
            no_address: found.no_address,
            kernel: found.kernel,
            rounded_away: found.rounded_away,
        })
    }

    /// Why most of the samples are not counted.
    pub fn why(&self) -> String {
        let Read::Samples(own) = self else { return "there are none".to_owned() };
        let of_files = own.files.iter().map(|file| (file.samples, told(file)));
        let rest = [
            (own.nowhere, "they name no file that was mapped".to_owned()),
            (own.no_file, "their code was made at run time, or interpreted".to_owned()),
            (own.no_address, "they have names and no addresses".to_owned()),
            (own.kernel, "they are of the kernel".to_owned()),
            (own.rounded_away, "their values make less than half a sample".to_owned()),
        ];
        let most = of_files.chain(rest).max_by_key(|(samples, _)| *samples);
        most.map_or_else(String::new, |(_, why)| why)
    }
}

fn named(file: &File) -> String {
    let path = if file.path.is_empty() { "a file without a name" } else { &file.path };
    let id = file.build_id.map_or_else(String::new, |id| format!(" ({id})"));
    format!("{}{id}", crate::visible(path))
}

/// A file and what became of its samples.
fn told(file: &File) -> String {
    let mut why: Vec<String> = Vec::new();
    for (reason, samples) in &file.unused {
        let reason = match (reason, file.build_id) {
            (Reason::ImageUnavailable, None) => {
                "it has no build ID, so that only --binary tells which program it is".to_owned()
            }
            (Reason::ImageUnavailable, Some(_)) => {
                "its program is not at hand (--binary, --binaries)".to_owned()
            }
            (Reason::BuildIdMismatch, _) => format!(
                "the program at hand is another build ({})",
                file.other_build.as_deref().unwrap_or("none")
            ),
            (Reason::OtherImage, _) => "it was not asked for".to_owned(),
            (Reason::NotExecutable, _) => "they lie in no code of the program".to_owned(),
            (Reason::Unmapped, _) => "they lie outside the mapping".to_owned(),
            (other, _) => format!("{other:?}"),
        };
        let all = *samples == file.samples;
        why.push(if all { reason } else { format!("{samples} not: {reason}") });
    }
    let by_name = if file.by_name { ", known by its name alone" } else { "" };
    let counted = if file.used > 0 { format!("counted{by_name}") } else { "not counted".into() };
    let why = if why.is_empty() { String::new() } else { format!("; {}", why.join("; ")) };
    format!("{}: {counted}{why}", named(file))
}

impl Samples {
    fn lines(&self, verbose: bool) -> Vec<String> {
        let others = if self.others.is_empty() {
            String::new()
        } else {
            format!(" (not {})", self.others.join(", "))
        };
        let scaled = match self.divisor {
            1 => String::new(),
            divisor => format!(", {divisor} for a sample"),
        };
        let mut lines = vec![format!("{:>20}: {}{scaled}{others}", "values", self.value)];
        let share = |samples: u64| 100.0 * samples as f64 / self.entered.max(1) as f64;
        let mut line = |samples: u64, text: &str| {
            if samples > 0 {
                lines.push(format!("{:>18.1} %: {text}", share(samples)));
            }
        };
        let most = if verbose { usize::MAX } else { MOST_NAMED };
        self.files.iter().take(most).for_each(|file| line(file.samples, &told(file)));
        let rest: Vec<&File> = self.files.iter().skip(most).collect();
        let samples = rest.iter().fold(0u64, |sum, file| sum.saturating_add(file.samples));
        line(samples, &format!("{} more files (-v names them)", rest.len()));
        line(self.kernel, "the kernel: not counted");
        line(self.no_file, "made at run time, or interpreted: not counted");
        line(self.no_address, "names without addresses: not counted");
        line(self.nowhere, "in no file that was mapped: not counted");
        if self.rounded_away > 0 {
            let addresses = numbered(self.rounded_away, "address has", "addresses have");
            lines.push(format!("note: {addresses} less than half a sample, and no count"));
        }
        lines
    }

    fn json(&self) -> Value {
        let file = |file: &File| {
            json!({
                "path": file.path, "build_id": file.build_id.map(|id| id.to_string()),
                "addresses": match file.form {
                    Form::Process => "process",
                    Form::Image => "image",
                    Form::File => "file",
                },
                "samples": file.samples, "used": file.used, "by_name": file.by_name,
                "unused": file.unused, "other_build": file.other_build,
            })
        };
        json!({
            "format": self.format, "value": self.value, "divisor": self.divisor,
            "other_values": self.others, "samples": self.entered,
            "files": self.files.iter().map(file).collect::<Vec<_>>(),
            "kernel": self.kernel, "no_file": self.no_file,
            "no_address": self.no_address, "nowhere": self.nowhere,
            "rounded_away": self.rounded_away,
        })
    }
}

impl Imported {
    /// As lines.
    pub fn lines(&self, verbose: bool) -> Vec<String> {
        let format = match &self.read {
            Read::Samples(own) => own.format,
            Read::Bolt => "pre-aggregated text",
        };
        let mut lines = vec![format!("read {}: {format}", self.input.display())];
        if let Read::Samples(own) = &self.read {
            lines.extend(own.lines(verbose));
        }
        let written = [(self.output.clone(), self.recording.clone())];
        lines.extend(crate::fleet::written_lines(&written));
        if self.recording.time().is_none() {
            lines.push(format!(
                "note: {} does not say when it was made, so --since leaves it out; --end says it",
                self.input.display()
            ));
        }
        lines
    }
}

/// All profiles, and which could not be taken in, as one JSON object.
pub fn imported_json(all: &[Imported], rejected: &[Aside]) -> Value {
    let one = |one: &Imported| {
        json!({
            "input": one.input, "path": one.output, "recording": one.recording,
            "read": match &one.read {
                Read::Samples(own) => own.json(),
                Read::Bolt => json!({ "format": "pre-aggregated text" }),
            },
        })
    };
    let shards: Vec<Value> = all.iter().map(one).collect();
    let rejected = rejected.iter().map(|one| json!({ "path": one.path, "reason": one.why }));
    json!({
        "schema": "planish-fleet-import", "version": 1, "shards": shards,
        "rejected": rejected.collect::<Vec<_>>(),
    })
}

/// A profile that was written.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The format.
    pub format: &'static str,
    /// The file.
    pub output: PathBuf,
    /// Images that were counted.
    pub images: usize,
    /// Their samples, branches and ranges.
    pub samples: u128,
    /// Executions of branches.
    pub branches: u128,
    /// Executions of ranges.
    pub ranges: u128,
    /// Whether samples were written, and not branches and ranges.
    pub is_sampled: bool,
}

impl Exported {
    /// What there is to write.
    pub fn of(counts: &Counts, format: &'static str, output: PathBuf) -> Exported {
        let images = &counts.images;
        Exported {
            format,
            output,
            images: images.len(),
            samples: images.iter().map(counts::ImageCounts::sample_total).sum(),
            branches: images.iter().map(counts::ImageCounts::branch_total).sum(),
            ranges: images.iter().map(counts::ImageCounts::fall_through_total).sum(),
            is_sampled: true,
        }
    }

    /// As lines.
    pub fn lines(&self) -> Vec<String> {
        let of = numbered(self.images as u64, "program", "programs");
        let (written, left) = if self.is_sampled {
            let left = format!("{} branches and {} ranges", self.branches, self.ranges);
            (format!("{} samples", self.samples), left)
        } else {
            let written = format!("{} branches and {} ranges", self.branches, self.ranges);
            (written, format!("{} samples", self.samples))
        };
        let mut lines =
            vec![format!("wrote {}: {written} of {of}, as {}", self.output.display(), self.format)];
        let nothing = if self.is_sampled { self.branches + self.ranges } else { self.samples };
        if nothing > 0 {
            lines.push(format!("note: the format has no place for {left}"));
        }
        lines
    }

    /// As one JSON object, with what was merged.
    pub fn json(&self, merged: &MergedFleet) -> Value {
        let text = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        json!({
            "schema": "planish-fleet-export", "version": 1, "format": self.format,
            "output": self.output, "images": self.images,
            "written": if self.is_sampled { "samples" } else { "branches" },
            "samples": text(self.samples), "branches": text(self.branches),
            "ranges": text(self.ranges), "merged": merged.json(),
        })
    }
}
