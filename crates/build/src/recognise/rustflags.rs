//! Which flags of rustc does cargo's configuration give? They count only where RUSTFLAGS is not set, and planish sets it.
//!
//! Lists are joined, those of configurations further down behind. Flags of the target come before those of every build, which
//! count only where there are none (The Cargo Book, "Configuration", `build.rustflags`).

use crate::cargo_config;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The flags as words of a shell's double quotes, and what the user should know of flags that are left out.
pub(super) fn configured(directory: &Path, triple: &str) -> (String, Vec<String>) {
    let mut notes = Vec::new();
    let tables: Vec<(PathBuf, Table)> = cargo_config::tables(directory);
    let flags = |key: &[&str]| -> Vec<String> {
        let of = |table: &Table| {
            let first = key.first().and_then(|name| table.get(*name));
            let rest = key.get(1..).unwrap_or_default();
            words(rest.iter().try_fold(first?, |value, name| value.get(*name)))
        };
        tables.iter().filter_map(|(_, table)| of(table)).flatten().collect()
    };
    for (path, table) in &tables {
        let targets = table.get("target").and_then(Value::as_table).into_iter().flatten();
        let conditional = |(name, value): &(&String, &Value)| {
            name.starts_with("cfg(") && value.get("rustflags").is_some()
        };
        notes.extend(targets.filter(conditional).map(|(name, _)| {
            format!(
                "{}: the rustflags of {} are left out; give them in [build] command",
                path.display(),
                name.replace(char::is_control, " ")
            )
        }));
    }
    let mut found = flags(&["target", triple, "rustflags"]);
    if found.is_empty() {
        found = flags(&["build", "rustflags"]);
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "_=+,.:/@-".contains(c);
    let (kept, odd): (Vec<String>, Vec<String>) =
        found.into_iter().partition(|word| word.chars().all(plain));
    if !odd.is_empty() {
        notes.push(format!(
            "rustflags of cargo's configuration that a shell would change are left out: {}; give them in [build] command",
            odd.join(" ").replace(char::is_control, " ")
        ));
    }
    (kept.join(" "), notes)
}

/// A list of words, or one line of them.
fn words(value: Option<&Value>) -> Option<Vec<String>> {
    match value? {
        Value::String(line) => Some(line.split_whitespace().map(str::to_owned).collect()),
        Value::Array(list) => {
            Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    fn of(config: &str, above: &str) -> (String, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        for (place, text) in [(folder.path(), above), (&project, config)] {
            std::fs::create_dir_all(place.join(".cargo")).unwrap();
            std::fs::write(place.join(".cargo/config.toml"), text).unwrap();
        }
        configured(&project, "x86_64-unknown-linux-gnu")
    }

    #[test]
    fn flags_are_joined_from_above_and_those_of_the_target_count_alone() {
        let (flags, notes) = of(
            "[build]\nrustflags = ['-Ctarget-cpu=native']\n",
            "[build]\nrustflags = '-Cforce-frame-pointers=yes'\n",
        );
        assert!(flags.ends_with("-Cforce-frame-pointers=yes -Ctarget-cpu=native"), "{flags}");
        assert!(notes.is_empty());
        let target = "[target.x86_64-unknown-linux-gnu]\nrustflags = ['-Cpanic=abort']\n";
        let (flags, _) = of(target, "[build]\nrustflags = '-Copt-level=1'\n");
        assert!(flags.ends_with("-Cpanic=abort") && !flags.contains("opt-level"), "{flags}");
    }

    #[test]
    fn what_cannot_be_handed_on_is_told() {
        let (flags, notes) = of(
            "[build]\nrustflags = ['-Clink-arg=-Wl,-rpath,$ORIGIN', '-Cdebuginfo=0']\n[target.'cfg(unix)']\nrustflags = ['-Ca=b']\n",
            "not toml",
        );
        assert!(flags.ends_with("-Cdebuginfo=0") && !flags.contains("ORIGIN"), "{flags}");
        assert!(notes.iter().any(|note| note.contains("cfg(unix)")), "{notes:?}");
        assert!(notes.iter().any(|note| note.contains("$ORIGIN")), "{notes:?}");
    }
}
