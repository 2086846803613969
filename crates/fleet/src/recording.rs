//! What does a shard say of the recordings in it? One JSON value in the metadata of the counts file,
//! under the key [`KEY`].
//!
//! Invariant of what is read: recordings are sorted by ID, each there once, and texts are short. A
//! counts file without the key is one recording, of which no more is known than its bytes.

use crate::collected::Collected;
use crate::law::Law;
use serde::{Deserialize, Serialize};

/// The key of the metadata.
pub const KEY: &str = "planish.fleet";
/// Newest version of the value.
pub const VERSION: u32 = 1;
/// Most recordings of a shard: they are in memory at once.
pub const MOST_RECORDINGS: usize = 1 << 20;
/// Most bytes of an ID.
const MOST_ID: usize = 128;
/// The most CPUs that Linux knows of a machine (NR_CPUS of x86-64).
const MOST_CPUS: u32 = 8192;
/// Most bytes of any other text.
pub const MOST_TEXT: usize = 256;
/// Most parts that a result is divided into.
pub const MOST_PARTS: u32 = 4096;

/// One recording. What is unknown is empty or absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Recording {
    /// Names it among all recordings: a shard delivered twice counts once.
    pub id: String,
    /// The machine, by any name that no other one has.
    pub host: String,
    /// What kind of machine it is, as its owner calls it.
    pub host_class: String,
    /// Where it stands, as its owner calls it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// Its CPUs that were online.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Model of its CPU.
    pub cpu_model: String,
    /// Architecture of its kernel (`x86_64`, `aarch64`).
    pub architecture: String,
    /// When it began, in seconds since 1970 (UTC).
    pub begin: Option<u64>,
    /// When it ended.
    pub end: Option<u64>,
    /// What a sample is: `hardware-branches`, `software-branches`, `spe`, `clock`, `event`,
    /// `emulated` or `simulated`.
    pub source: String,
    /// Entries of a branch stack, at most.
    pub depth: Option<u32>,
    /// Events for each sample.
    pub period: Option<u64>,
    /// How many executions its counts stand for, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub law: Option<Law>,
    /// Build of the program, as its owner calls it.
    pub program: String,
    /// Version of planish that counted it.
    pub planish: String,
    /// How a collector made it; absent where it was no collector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collected: Option<Collected>,
    /// Weights that merging gave it, in turn, in 1/65536; those of 1 are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<u64>,
}

/// Which of the rows a shard has, where it has not all of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Parts {
    /// Into how many parts the rows are divided ([`crate::part_of`]).
    pub of: u32,
    /// The parts that are here, from 0, sorted.
    pub parts: Vec<u32>,
}

/// What a shard says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Version of this value.
    pub version: u32,
    /// Whether all counts are told apart by halves of the samples.
    pub halves: bool,
    /// Absent where all rows are here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<Parts>,
    /// Whether the counts are estimates of executions, weighed by the laws of the recordings.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executions: bool,
    /// The recordings, sorted by ID.
    pub recordings: Vec<Recording>,
}

/// Why a value is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It is of a newer version.
    Newer(u64),
    /// What was expected, and what is there.
    Other(String, String),
}

impl Recording {
    /// When it was made, as far as is known: its end, else its beginning.
    pub fn time(&self) -> Option<u64> {
        self.end.or(self.begin)
    }

    fn check(&self) -> Result<(), (String, String)> {
        let id = &self.id;
        if id.is_empty() || id.len() > MOST_ID || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            let found: String = id.chars().take(MOST_ID).collect();
            let expected = format!("an ID of 1 to {MOST_ID} printable ASCII characters");
            return Err((expected, format!("`{found}`")));
        }
        let collected = self.collected.iter();
        let own = collected.flat_map(|collected| [&collected.executable, &collected.build_id]);
        let texts = [
            &self.host,
            &self.host_class,
            &self.region,
            &self.cpu_model,
            &self.architecture,
            &self.source,
            &self.program,
            &self.planish,
        ];
        if let Some(long) = texts.into_iter().chain(own).find(|text| text.len() > MOST_TEXT) {
            let found = format!("one of {} in recording {id}", long.len());
            return Err((format!("texts of at most {MOST_TEXT} bytes"), found));
        }
        if let Some(cpus) = self.cpus.filter(|cpus| *cpus > MOST_CPUS) {
            let found = format!("{cpus} in recording {id}");
            return Err((format!("at most {MOST_CPUS} CPUs"), found));
        }
        if let (Some(begin), Some(end)) = (self.begin, self.end)
            && begin > end
        {
            let found = format!("{begin} and {end} in recording {id}");
            return Err(("a begin before the end".to_owned(), found));
        }
        Ok(())
    }
}

impl Parts {
    fn check(&self) -> Result<(), (String, String)> {
        let sorted = self.parts.is_sorted_by(|one, next| one < next);
        let within = self.parts.iter().all(|part| *part < self.of);
        if (2..=MOST_PARTS).contains(&self.of) && sorted && within && !self.parts.is_empty() {
            return Ok(());
        }
        let expected = format!("parts in order, each below their number, 2 to {MOST_PARTS}");
        let parts: Vec<u32> = self.parts.iter().take(8).copied().collect();
        Err((expected, format!("{parts:?} of {}", self.of)))
    }
}

impl Description {
    /// That of recordings, in any order.
    pub fn of(mut recordings: Vec<Recording>, halves: bool) -> Description {
        recordings.sort();
        Description { version: VERSION, halves, partition: None, executions: false, recordings }
    }

    /// Reads the value.
    ///
    /// # Errors
    /// Where it is none.
    pub fn read(text: &str) -> Result<Description, Wrong> {
        #[derive(Deserialize)]
        struct Stated {
            version: u64,
        }
        let json = |error: serde_json::Error| {
            Wrong::Other("a description of recordings in JSON".to_owned(), error.to_string())
        };
        let stated: Stated = serde_json::from_str(text).map_err(json)?;
        if stated.version > u64::from(VERSION) {
            return Err(Wrong::Newer(stated.version));
        }
        let read: Description = serde_json::from_str(text).map_err(json)?;
        read.check().map_err(|(expected, found)| Wrong::Other(expected, found))?;
        Ok(read)
    }

    /// Says what is wrong, as what was expected and found.
    pub(crate) fn check(&self) -> Result<(), (String, String)> {
        let number = self.recordings.len();
        if !(1..=MOST_RECORDINGS).contains(&number) {
            return Err((format!("1 to {MOST_RECORDINGS} recordings"), number.to_string()));
        }
        self.recordings.iter().try_for_each(Recording::check)?;
        let pairs = self.recordings.iter().zip(self.recordings.iter().skip(1));
        if let Some((_, next)) = pairs.into_iter().find(|(one, next)| one.id >= next.id) {
            let expected = "recordings by ID, each once".to_owned();
            return Err((expected, format!("{} out of order", next.id)));
        }
        self.partition.as_ref().map_or(Ok(()), Parts::check)
    }

    /// The value as text.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The architecture that all recordings have; empty where they differ or do not tell.
    pub fn architecture(&self) -> &str {
        let first = self.recordings.first().map_or("", |first| first.architecture.as_str());
        if self.recordings.iter().all(|one| one.architecture == first) { first } else { "" }
    }

    /// Into how many parts the rows are divided, and which of them are here.
    pub fn parts(&self) -> (u32, &[u32]) {
        self.partition.as_ref().map_or((1, &[0]), |parts| (parts.of, &parts.parts))
    }
}
