//! Which programs does a Meson project make, and how?
//!
//! Source: the Meson reference manual, functions `project`, `executable` and `subdir`.

use super::{Found, Made, files};
use std::path::Path;

/// What the meson.build of the project and below it say.
pub(super) fn found(directory: &Path) -> Found {
    let mut programs = Vec::new();
    let mut project = String::new();
    for (folder, text) in files::all(directory, "meson.build") {
        if folder.as_os_str().is_empty() {
            project = first_strings(&text, "project").into_iter().next().unwrap_or_default();
        }
        programs.extend(
            first_strings(&text, "executable").into_iter().map(|name| Made {
                binary: folder.join(&name).to_string_lossy().into_owned(),
                name,
            }),
        );
    }
    let minor = |made: &Made| {
        let path = made.binary.to_lowercase();
        ["test", "bench", "example", "demo", "fuzz"].iter().any(|word| path.contains(word))
    };
    programs.sort_by_key(|made| (made.name != project, minor(made)));
    Found {
        programs,
        // plain: the optimisation is the one that the flags name, in all builds.
        command: "CC=\"$PLANISH_CC\" CXX=\"$PLANISH_CXX\" CFLAGS=\"$PLANISH_CFLAGS\" \
                  CXXFLAGS=\"$PLANISH_CXXFLAGS\" LDFLAGS=\"$PLANISH_LDFLAGS\" meson setup \
                  --buildtype=plain -Db_ndebug=true --default-library=static \"$PLANISH_OUT\" && \
                  ninja -C \"$PLANISH_OUT\""
            .to_owned(),
        release: "meson setup --buildtype=release --default-library=static \"$PLANISH_OUT\" && \
                  ninja -C \"$PLANISH_OUT\""
            .to_owned(),
        optimize: None,
        takes_paths: true,
        notes: Vec::new(),
    }
}

/// The first argument of each call of a function, where it is a string.
fn first_strings(text: &str, function: &str) -> Vec<String> {
    let code: String = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    let mut found = Vec::new();
    let mut rest = code.as_str();
    while let Some(at) = rest.find(function) {
        let (before, after) = rest.split_at(at);
        let after = after.get(function.len()..).unwrap_or_default();
        let is_word = before.chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_');
        let argument = after.trim_start().strip_prefix('(').map(str::trim_start);
        if let (true, Some(argument)) = (is_word, argument)
            && let Some(quoted) = argument.strip_prefix('\'')
            && let Some((name, _)) = quoted.split_once('\'')
            && !name.is_empty()
        {
            found.push(name.to_owned());
        }
        rest = after;
    }
    found
}
