//! How do the tests of `planish fleet` run the command, and read what it made?

#![allow(dead_code, reason = "not each test needs all of it")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

use counts::{Counts, artefact};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A fixture of AutoFDO's: a program and recordings of it.
pub fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/autofdo").join(name);
    path.display().to_string()
}

/// Runs planish in a directory; `@binary` is the fixture's program.
pub fn run(folder: &Path, line: &str) -> Output {
    let line = line.replace("@binary", &fixture("test.binary"));
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(folder).args(line.split_whitespace()).stdin(Stdio::null()).output().unwrap()
}

/// What it prints and says as it ends with an exit code.
#[track_caller]
pub fn done(folder: &Path, line: &str, code: i32) -> (String, String) {
    let output = run(folder, line);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{line}: {told}");
    (String::from_utf8_lossy(&output.stdout).into_owned(), told)
}

/// Makes a shard of the fixture's recording, `run.counts`.
#[track_caller]
pub fn shard(folder: &Path) {
    let recording = fixture("test.lbr");
    done(folder, &format!("fleet shard {recording} --binary @binary -o run.counts"), 0);
}

/// Reads counts.
pub fn read(path: &Path) -> Counts {
    artefact::read(path, std::fs::File::open(path).unwrap()).unwrap()
}

/// The samples of a recording dealt out to so many, each with all that is told of processes: `perf.data` files of eight-byte
/// words in the order of this machine.
///
/// Layout: [perf.data-file-format]: the header names the data section, behind which a table names the sections of features.
///
/// [perf.data-file-format]: https://github.com/torvalds/linux/blob/master/tools/perf/Documentation/perf.data-file-format.txt
pub fn dealt_out(recording: &[u8], hosts: usize) -> Vec<Vec<u8>> {
    const DATA_SECTION: usize = 40;
    const SAMPLE: u32 = 9;
    let word = |at: usize| u64::from_le_bytes(recording[at..at + 8].try_into().unwrap());
    let start = usize::try_from(word(DATA_SECTION)).unwrap();
    let end = start + usize::try_from(word(DATA_SECTION + 8)).unwrap();
    let features: u32 = (72..104).step_by(8).map(|at| word(at).count_ones()).sum();
    let (mut at, mut samples) = (start, 0);
    let mut data = vec![Vec::new(); hosts];
    while at < end {
        let kind = u32::from_le_bytes(recording[at..at + 4].try_into().unwrap());
        let size = usize::from(u16::from_le_bytes(recording[at + 6..at + 8].try_into().unwrap()));
        for (host, own) in data.iter_mut().enumerate() {
            if kind != SAMPLE || samples % hosts == host {
                own.extend_from_slice(&recording[at..at + size]);
            }
        }
        samples += usize::from(kind == SAMPLE);
        at += size;
    }
    assert!(samples >= hosts, "{samples} samples");
    let whole = |own: Vec<u8>| {
        let fewer = (end - start - own.len()) as u64;
        let mut file = recording[..start].to_vec();
        file[DATA_SECTION + 8..DATA_SECTION + 16]
            .copy_from_slice(&(own.len() as u64).to_le_bytes());
        file.extend(own);
        for feature in 0..usize::try_from(features).unwrap() {
            let at = end + feature * 16;
            file.extend((word(at) - fewer).to_le_bytes());
            file.extend(&recording[at + 8..at + 16]);
        }
        file.extend(&recording[end + usize::try_from(features).unwrap() * 16..]);
        file
    };
    data.into_iter().map(whole).collect()
}
