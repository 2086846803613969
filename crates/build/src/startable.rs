//! Can the commands of planish.toml be started at all? Asked before anything is built: each first runs
//! after the baseline, which may take minutes.

use crate::around::{Around, BIN};
use crate::split_words;
use std::ffi::OsStr;
use std::path::Path;

/// Programs whose first argument is a script.
const INTERPRETERS: [&str; 9] =
    ["sh", "bash", "dash", "zsh", "python3", "python", "perl", "ruby", "node"];

/// Says what is not there of the lines of `[table]`; `root` is the directory of planish.toml, `path` the
/// value of PATH.
pub(crate) fn check(
    table: &str,
    lines: &[&str],
    around: &Around,
    root: &Path,
    path: &OsStr,
) -> Result<(), String> {
    // What the set-up makes is not there yet.
    let makes = around.set_up.is_some();
    let base = around.directory.map_or_else(|| root.to_owned(), |below| root.join(below));
    if !makes && !base.is_dir() {
        return Err(format!("{table} directory: there is no directory {}", base.display()));
    }
    let searched = !around.environment.contains_key("PATH");
    for line in lines.iter().copied().chain(around.start) {
        // What is wrong with the words has been said.
        let words = split_words(line).unwrap_or_default();
        if let Some(word) = words.iter().find(|word| is_mistyped(word)) {
            return Err(format!(
                "{table} {line:?}: {word} stands for nothing; {BIN} stands for the program"
            ));
        }
        let Some(first) = words.first().filter(|word| !word.contains('{')) else { continue };
        let found = match first.contains('/') {
            true => makes || base.join(first).exists(),
            false => {
                !searched
                    || makes
                    || std::env::split_paths(path).any(|folder| folder.join(first).is_file())
            }
        };
        if !found {
            let place = match first.contains('/') {
                true => base.display().to_string(),
                false => "the directories of PATH".to_owned(),
            };
            let hint = if base.join(first).is_file() {
                format!("; ./{first} is in {}", base.display())
            } else {
                String::new()
            };
            return Err(format!("{table} {line:?}: there is no {first} in {place}{hint}"));
        }
        let name = first.rsplit('/').next().unwrap_or(first);
        let script = words.get(1).filter(|word| !word.starts_with('-') && !word.contains('{'));
        if let (true, false, Some(script)) = (INTERPRETERS.contains(&name), makes, script)
            && !base.join(script).exists()
        {
            return Err(format!("{table} {line:?}: there is no {script} in {}", base.display()));
        }
    }
    Ok(())
}

/// Whether a word is `{bin}` but for a letter.
fn is_mistyped(word: &str) -> bool {
    let Some(inside) = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        return false;
    };
    let inside = inside.to_ascii_lowercase();
    word != BIN && is_one_letter_off(&inside, "bin")
}

/// Whether one letter more, less or another makes `b` of `a`, or none.
fn is_one_letter_off(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let same = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let ends = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let longer = a.len().max(b.len());
    a.len().abs_diff(b.len()) <= 1 && same + ends + 1 >= longer
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use crate::Config;
    use std::path::Path;

    fn said(workload: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/run.sh"), "").unwrap();
        let text = format!(
            "[build]\ncommand = 'make'\nbinary = 'app'\nsources = []\n[evaluate]\ncommand = '{{bin}}'\n\
             [workload]\n{workload}\n"
        );
        let file = Path::new("planish.toml");
        let checked = Config::parse(&text, file).unwrap().check_paths(folder.path(), file);
        checked.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn what_is_not_there_is_said_before_anything_is_built() {
        assert!(said("train = '{bim} a'").contains("{bim} stands for nothing; {bin}"));
        assert!(said("train = 'sh -c {Bin}'").contains("{Bin} stands for nothing"));
        assert!(said("train = './run.sh {bin}'").contains("there is no ./run.sh in /"));
        assert!(said("train = ['{bin} a', 'sh run.sh']").contains("there is no run.sh in /"));
        assert!(said("train = 'no-such-program-at-all'").contains("directories of PATH"));
        assert!(said("train = '{bin}'\ndirectory = 'other'").contains("there is no directory"));
        let server = "drive = '{bin}'\nready = 'file:x'\nstart = './server {bin}'";
        assert!(said(server).contains("there is no ./server"));
    }

    #[test]
    fn what_is_there_or_may_come_is_taken() {
        for fine in [
            "train = '{bin} {} {print} {port} {build}'",
            "train = 'sh sub/run.sh {bin}'",
            "train = ['./run.sh {bin}', 'sh run.sh']\ndirectory = 'sub'",
            "train = './made.sh {bin}'\nset_up = 'make made.sh'",
            "train = 'own-tool {bin}'\nenvironment = { PATH = '/opt/own' }",
            "train = 'sh -c {bin}'",
        ] {
            assert_eq!(said(fine), "", "{fine}");
        }
    }
}
