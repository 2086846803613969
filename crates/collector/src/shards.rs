//! Which shards does a window give? One for each program that was seen in it.
//!
//! A program is known by the path and the build ID of its executable; with it count its libraries
//! and what the kernel did for it. The kernel's own threads have a shard of their own. Of a window
//! with very many programs, those with the fewest samples share one, so that a machine that compiles
//! does not fill the spool with the shards of programs that ran for a moment.

use crate::error::Error;
use crate::window::{Note, Window};
use counts::Counts;
use counts::programs::{Program, Programs};
use fleet::Recording;
use fleet::origin::Sampling;
use fleet::recording::MOST_TEXT;
use sha2::{Digest as _, Sha256};
use std::path::Path;

/// Most shards of a window.
const MOST_PROGRAMS: usize = 64;
/// What is in the place of the path where several programs share a shard.
pub(crate) const OTHERS: &str = "(others)";
/// Most characters of a name in an ID, and of a host's.
const MOST_NAME: usize = 24;
const MOST_HOST: usize = 40;

/// What the IDs of a window's shards begin with: the host, the date, and what no other window has.
pub(crate) fn stem(host: &str, begin_ns: u64, unique: &str) -> String {
    let date: String = fleet::time::told(begin_ns / 1_000_000_000)
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('T'),
            '-' | ':' => None,
            c => Some(c),
        })
        .collect();
    format!("{}-{date}Z-{}", plain(host, MOST_HOST), digest(unique.as_bytes(), 16))
}

/// Of a text what can stand in a file's name. What begins with a dot is hidden, and not whole yet in a spool.
fn plain(text: &str, most: usize) -> String {
    let fits = |at: usize, c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '-') || c == '.' && at > 0
    };
    let plain = text.chars().enumerate().map(|(at, c)| if fits(at, c) { c } else { '_' });
    plain.take(most).collect()
}

fn digest(bytes: &[u8], digits: usize) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>().chars().take(digits).collect()
}

/// The name of a program's shard.
fn id(stem: &str, program: &Program) -> String {
    let name = match program.path.as_str() {
        "" => "kernel",
        OTHERS => "others",
        path => path.rsplit('/').next().unwrap_or(path),
    };
    let unique = format!("{}\0{}", program.path, program.build_id);
    format!("{stem}-{}-{}", plain(name, MOST_NAME), digest(unique.as_bytes(), 8))
}

/// Writes the shards into the window's directory, and marks it as counted; how many there are.
/// They may have so many bytes together.
pub(crate) fn write(
    window: &Window,
    note: &Note,
    programs: Programs,
    sampling: Option<Sampling>,
    most_bytes: u64,
) -> Result<u64, Error> {
    window.forget_shards()?;
    let (mut written, mut left) = (0, most_bytes);
    for program in few(programs.programs)? {
        let id = id(&note.stem, &program);
        let law = sampling.and_then(|sampling| sampling.law(&program.counts.ledger, None));
        let mut recording = Recording { id: id.clone(), law, ..note.recording.clone() };
        if let Some(collected) = &mut recording.collected {
            collected.executable = shortened(&program.path);
            collected.build_id = shortened(&program.build_id);
        }
        let bytes = bytes(&program.counts, recording)?;
        left = left
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| Error::io(&window.data())(std::io::ErrorKind::StorageFull.into()))?;
        window.add(&id, &bytes)?;
        written += 1;
    }
    window.counted()?;
    Ok(written)
}

fn bytes(counts: &Counts, recording: Recording) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    fleet::write(Path::new(&recording.id.clone()), counts, recording, &mut bytes)?;
    Ok(bytes)
}

/// The programs with the most samples, and the rest as one.
fn few(mut programs: Vec<Program>) -> Result<Vec<Program>, Error> {
    if programs.len() <= MOST_PROGRAMS {
        return Ok(programs);
    }
    programs.sort_by_key(|program| std::cmp::Reverse(program.samples()));
    let rest = programs.split_off(MOST_PROGRAMS - 1);
    let counts = counts::merge(rest.into_iter().map(|program| program.counts))?;
    programs.push(Program { path: OTHERS.to_owned(), build_id: String::new(), counts });
    Ok(programs)
}

/// The end of a text, which tells more of a path than its begin, as much as a shard may hold.
fn shortened(text: &str) -> String {
    let from = text.len().saturating_sub(MOST_TEXT);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    text.get(from..).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]

    use super::*;

    fn program(path: &str, samples: u64) -> Program {
        let mut counts = Counts::default();
        counts.ledger.samples.use_up(samples);
        Program { path: path.to_owned(), build_id: "ab".to_owned(), counts }
    }

    #[test]
    fn ids_can_name_files_and_differ_by_path_build_and_window() {
        let host = "höst/../".repeat(10);
        let stem = stem(&host, 1_795_712_400 * 1_000_000_000, "boot-1");
        let long = format!("/usr/bin/{}", "x".repeat(300));
        let id = id(&stem, &program(&long, 1));
        assert!(id.starts_with("h_st_.._") && id.contains("-20261126T170000Z-"), "{id}");
        assert!(id.len() <= 128 && id.bytes().all(|b| b.is_ascii_graphic() && b != b'/'), "{id}");
        let ids = [
            program("/bin/a", 1),
            program("/opt/a", 1),
            Program { build_id: "cd".into(), ..program("/bin/a", 1) },
        ];
        let ids: std::collections::BTreeSet<String> =
            ids.iter().map(|one| super::id(&stem, one)).collect();
        assert_eq!(ids.len(), 3);
        assert_ne!(super::stem("a", 1, "boot-1"), super::stem("a", 1, "boot-2"));
        assert!(super::stem(".dev", 1, "boot-1").starts_with("_dev-"), "seen in a directory");
        assert_eq!(shortened(&"ü".repeat(300)).len(), 256);
        assert_eq!(shortened(&format!("x{}", "ü".repeat(300))).len(), 256);
    }

    #[test]
    fn programs_beyond_so_many_share_a_shard_and_lose_no_sample() {
        let all: Vec<Program> = (0..200).map(|n| program(&format!("/bin/{n}"), n + 1)).collect();
        let before: u64 = all.iter().map(Program::samples).sum();
        let few = few(all).unwrap();
        assert_eq!(few.len(), MOST_PROGRAMS);
        assert_eq!((few[0].path.as_str(), few[63].path.as_str()), ("/bin/199", OTHERS));
        assert_eq!(few.iter().map(Program::samples).sum::<u64>(), before);
    }

    #[test]
    fn a_window_whose_shards_are_too_large_gives_none() {
        let dir = tempfile::tempdir().unwrap();
        let note = Note::new("a".to_owned(), 5, Recording::default());
        let window = Window::begin(dir.path(), 1, &note).unwrap();
        let programs =
            || Programs { programs: vec![program("/bin/a", 1)], samples: 1, notes: Vec::new() };
        assert!(write(&window, &note, programs(), None, 100).unwrap_err().is_no_room());
        assert_eq!(write(&window, &note, programs(), None, 1 << 20).unwrap(), 1);
    }
}
