//! Which rounds of training are recorded already, when an earlier call was interrupted?
//!
//! Beside the recordings lies a list of the rounds that are whole, with a hash over everything that
//! decides what they hold. A call that would record the same goes on behind them; any other begins
//! anew. The list is gone once the counts are written.

use crate::plan::STATE_DIRECTORY;
use crate::rounds::Round;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Ends the name of the list.
const SUFFIX: &str = ".rounds.json";

/// More rounds there never are: the longest limit is a day, and each round doubles what there is.
const MOST_ROUNDS: usize = 32;

/// The list.
#[derive(Debug)]
pub struct KeptRounds {
    path: PathBuf,
    list: List,
}

#[derive(Debug, Serialize, Deserialize)]
struct List {
    made_from: String,
    rounds: Vec<Round>,
}

impl KeptRounds {
    /// The list of the recordings whose names begin with `prefix`. `asked` and the content of the
    /// `program` decide what they hold.
    ///
    /// # Errors
    /// Where the program cannot be read.
    pub fn of(prefix: &Path, asked: &str, program: &Path) -> io::Result<KeptRounds> {
        let mut hash = Sha256::new();
        hash.update(crate::PLANISH.concat());
        hash.update(asked);
        let mut file = std::fs::File::open(program)?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                got => hash.update(buffer.get(..got).unwrap_or_default()),
            }
        }
        let made_from = hex::encode(hash.finalize());
        let mut path = prefix.as_os_str().to_owned();
        path.push(SUFFIX);
        let path = PathBuf::from(path);
        let read = beside::given::read(&path, beside::given::TEXT).ok();
        let list = read.and_then(|bytes| serde_json::from_slice::<List>(&bytes).ok());
        let usable = |list: &List| list.made_from == made_from && list.rounds.len() <= MOST_ROUNDS;
        let list = list.filter(usable).unwrap_or(List { made_from, rounds: Vec::new() });
        Ok(KeptRounds { path, list })
    }

    /// The rounds that are whole, in their order.
    pub fn rounds(&self) -> &[Round] {
        &self.list.rounds
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        self.list.rounds.clear();
        self.forget();
    }

    /// Adds a round that is whole.
    ///
    /// # Errors
    /// Where the list cannot be written.
    pub fn add(&mut self, round: Round) -> io::Result<()> {
        self.list.rounds.push(round);
        beside::write(&self.path, serde_json::to_vec(&self.list)?)
    }

    /// Takes the list away: what it tells of is counted.
    pub fn forget(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The rounds whose recordings count: those behind the last one that took the place of others.
pub fn counting(rounds: &[Round]) -> &[Round] {
    let from = rounds.iter().rposition(|round| round.replaces).unwrap_or(0);
    rounds.get(from..).unwrap_or_default()
}

/// Takes away all lists below the directory of a planish.toml.
pub(crate) fn forget_all(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory.join(STATE_DIRECTORY)) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().ends_with(SUFFIX) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_found_again_unless_something_else_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let (prefix, program) = (folder.path().join("train"), folder.path().join("app"));
        std::fs::write(&program, "first").unwrap();
        let kept = |asked: &str| KeptRounds::of(&prefix, asked, &program).unwrap();
        let round = Round { number: 1, runs: 3, period: None, replaces: false };
        let mut list = kept("a");
        assert_eq!(list.rounds(), []);
        list.add(round).unwrap();
        assert_eq!(kept("a").rounds(), [round]);
        assert_eq!(kept("b").rounds(), []);
        std::fs::write(&program, "second").unwrap();
        assert_eq!(kept("a").rounds(), []);
        std::fs::write(&program, "first").unwrap();
        let mut list = kept("a");
        list.clear();
        assert_eq!(kept("a").rounds(), []);
        list.add(round).unwrap();
        let state = folder.path().join(STATE_DIRECTORY);
        std::fs::create_dir(&state).unwrap();
        std::fs::rename(
            folder.path().join("train.rounds.json"),
            state.join("opt-train.rounds.json"),
        )
        .unwrap();
        forget_all(folder.path());
        assert!(std::fs::read_dir(&state).unwrap().next().is_none());
    }

    #[test]
    fn what_took_the_place_of_others_and_what_follows_it_counts() {
        let round = |number, replaces| Round { number, runs: 1, period: None, replaces };
        let numbers = |rounds: &[Round]| {
            counting(rounds).iter().map(|round| round.number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&[]), [0u64; 0]);
        assert_eq!(numbers(&[round(1, false), round(2, false)]), [1, 2]);
        assert_eq!(numbers(&[round(1, false), round(2, true), round(3, true)]), [3]);
    }
}
