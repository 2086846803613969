//! Which files of a source directory can change a build?

use rustix::fs::FileType;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

/// Whether a file's beginning shows that planish wrote it: a report, a measurement, a recording or a
/// log that a user keeps among the sources is none of them.
pub(crate) fn is_made_by_planish(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    // Other names are not worth opening on every call.
    if !matches!(extension, "md" | "json" | "jsonl" | "data" | "log" | "txt" | "out" | "err" | "") {
        return false;
    }
    let mut start = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(256).read_to_end(&mut start));
    read.is_ok() && shows_it(&start)
}

fn shows_it(start: &[u8]) -> bool {
    if start.starts_with(b"PERFILE2") {
        return true;
    }
    let text = String::from_utf8_lossy(start);
    let first = text.lines().next().unwrap_or_default();
    match text.trim_start().chars().next() {
        Some('{') => {
            let words: String = text.chars().filter(|c| !c.is_whitespace()).collect();
            ["{\"schema\":\"planish-", "{\"format\":\"planish-"]
                .iter()
                .any(|mark| words.starts_with(mark))
        }
        Some('#') => first.starts_with("# ") && first.contains(", rebuilt with its profile"),
        _ => text.lines().any(is_of_a_log),
    }
}

/// Whether a line is one that a run begins with (`[1/12] build: make`), or that its result does.
fn is_of_a_log(line: &str) -> bool {
    let step = line.strip_prefix("[1/").and_then(|rest| rest.split_once("] "));
    let begins = step.is_some_and(|(all, step)| {
        let name = step.split(':').next().unwrap_or_default();
        all.parse::<u32>().is_ok() && matches!(name, "build" | "rebuild")
    });
    let result = line.split_once(", rebuilt with its profile");
    begins
        || result.is_some_and(|(name, rest)| {
            !name.contains(' ') && (rest.starts_with(':') || rest.starts_with(" and "))
        })
}

/// Whether what planish says goes to this file: it grows while it is looked at.
pub(crate) fn is_own_output(path: &Path) -> bool {
    static OWN: OnceLock<Vec<(u64, u64)>> = OnceLock::new();
    let own = OWN.get_or_init(|| {
        let outputs = [rustix::fs::fstat(std::io::stdout()), rustix::fs::fstat(std::io::stderr())];
        let files = outputs.into_iter().flatten();
        let files = files.filter(|stat| FileType::from_raw_mode(stat.st_mode).is_file());
        files.map(|stat| (stat.st_dev, stat.st_ino)).collect()
    });
    // Mostly it is a terminal or a pipe, and no source needs a look.
    !own.is_empty()
        && std::fs::metadata(path).is_ok_and(|about| own.contains(&(about.dev(), about.ino())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_runs_and_recordings_are_recognised_and_sources_are_not() {
        for made in [
            "PERFILE2\0\0",
            "{\n  \"schema\": \"planish-optimize\",",
            "{\"format\":\"planish-runs\",\"version\":1",
            "# app, rebuilt with its profile: CPU time 0.9\n",
            "# app, rebuilt with its profile and a layout: CPU time 0.9\n",
            "[1/12] build: make\n",
            "note: by gcc\n[1/12] build: up to date\n",
            "[1/1] rebuild: make\n",
            "app, rebuilt with its profile: undecided\n",
        ] {
            assert!(shows_it(made.as_bytes()), "{made}");
        }
        for source in [
            "",
            "{\"schema\": \"other\"}",
            "# planish is rebuilt",
            "int main(void);",
            "[1/3] first",
            "[1/a] build: x",
            "what we sold, rebuilt with its profile: x",
        ] {
            assert!(!shows_it(source.as_bytes()), "{source}");
        }
    }
}
