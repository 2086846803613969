//! Which programs does a CMake project make, and how?
//!
//! Source: the CMake manual, commands `project`, `set` and `add_executable`.

use super::{Found, Made, files};
use std::collections::BTreeMap;
use std::path::Path;

/// What the CMakeLists.txt of the project and below it say.
pub(super) fn found(directory: &Path) -> Found {
    let (mut known, mut outputs) = (BTreeMap::new(), BTreeMap::new());
    let mut programs = Vec::new();
    for (_, text) in files::all(directory, "CMakeLists.txt") {
        programs.extend(executables(&text, &mut known, &mut outputs));
    }
    let project = known.get("PROJECT_NAME").cloned().unwrap_or_default();
    // The program that is named like the project is likelier meant than its tests and examples.
    let likely = |name: &str| {
        let minor = ["test", "bench", "example", "demo", "fuzz", "sample"];
        (
            outputs.get(name).is_none_or(|file| *file != project) && name != project,
            minor.iter().any(|word| name.to_lowercase().contains(word)),
        )
    };
    programs.sort_by_key(|name| likely(name));
    let mut seen: Vec<String> = Vec::new();
    programs.retain(|name| {
        !seen.contains(name) && {
            seen.push(name.clone());
            true
        }
    });
    let made = |name: String| {
        let file = outputs.get(&name).unwrap_or(&name);
        Made { binary: format!("planish-bin/{file}"), name }
    };
    Found {
        programs: programs.into_iter().map(made).collect(),
        // As in the project's own release builds, but for the level, which would come last and count
        // whatever [build] optimize says.
        command: "cmake -S . -B \"$PLANISH_OUT\" -DCMAKE_BUILD_TYPE=Release \
                  -DCMAKE_C_FLAGS_RELEASE=-DNDEBUG -DCMAKE_CXX_FLAGS_RELEASE=-DNDEBUG \
                  -DCMAKE_C_COMPILER=\"$PLANISH_CC\" -DCMAKE_CXX_COMPILER=\"$PLANISH_CXX\" \
                  -DCMAKE_C_FLAGS=\"$PLANISH_CFLAGS\" -DCMAKE_CXX_FLAGS=\"$PLANISH_CXXFLAGS\" \
                  -DCMAKE_EXE_LINKER_FLAGS=\"$PLANISH_LDFLAGS\" \
                  -DCMAKE_SHARED_LINKER_FLAGS=\"$PLANISH_LDFLAGS\" \
                  -DCMAKE_RUNTIME_OUTPUT_DIRECTORY=\"$PLANISH_OUT/planish-bin\" && cmake --build \
                  \"$PLANISH_OUT\" --parallel \"$(nproc)\" --target @PROGRAM@"
            .to_owned(),
        release: "cmake -S . -B \"$PLANISH_OUT\" -DCMAKE_BUILD_TYPE=Release \
                  -DCMAKE_RUNTIME_OUTPUT_DIRECTORY=\"$PLANISH_OUT/planish-bin\" && cmake --build \
                  \"$PLANISH_OUT\" --parallel \"$(nproc)\" --target @PROGRAM@"
            .to_owned(),
        optimize: Some("-O3"),
        takes_paths: true,
        notes: Vec::new(),
    }
}

/// The names of executables in one file; `known` holds the variables of the files before, `outputs`
/// the file names of targets that are not called like their files.
fn executables(
    text: &str,
    known: &mut BTreeMap<String, String>,
    outputs: &mut BTreeMap<String, String>,
) -> Vec<String> {
    let mut names = Vec::new();
    for (command, words) in commands(text) {
        let Some(first) = words.first() else { continue };
        let resolved = resolve(first, known);
        match (command.as_str(), resolved) {
            ("project", Some(name)) => {
                known.entry("PROJECT_NAME".to_owned()).or_insert_with(|| name.clone());
                known.entry("CMAKE_PROJECT_NAME".to_owned()).or_insert(name);
            }
            ("set", Some(name)) => {
                if let Some(value) = words.get(1).and_then(|word| resolve(word, known)) {
                    known.insert(name, value);
                }
            }
            ("add_executable", Some(name)) => {
                let made = words.iter().all(|word| word != "IMPORTED" && word != "ALIAS");
                names.extend(made.then_some(name));
            }
            // set_target_properties(A B PROPERTIES OUTPUT_NAME c), set_property(TARGET A PROPERTY …).
            ("set_target_properties" | "set_property", _) => {
                let of = |word: &String| resolve(word, known);
                let value = words.iter().position(|word| word == "OUTPUT_NAME");
                let Some(file) = value.and_then(|at| of(words.get(at + 1)?)) else { continue };
                let targets = words.iter().take_while(|word| !word.starts_with("PROPERT"));
                let targets = targets.filter(|word| *word != "TARGET").filter_map(of);
                outputs.extend(targets.map(|target| (target, file.clone())));
            }
            _ => {}
        }
    }
    names
}

/// The commands of a file: lower-case name and words.
fn commands(text: &str) -> Vec<(String, Vec<String>)> {
    let uncommented: String = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    let mut found = Vec::new();
    let mut rest = uncommented.as_str();
    while let Some((before, after)) = rest.split_once('(') {
        let name = before.split_whitespace().next_back().unwrap_or_default().to_lowercase();
        let (inside, next) = after.split_once(')').unwrap_or((after, ""));
        let words = inside.split_whitespace().map(|word| word.trim_matches('"').to_owned());
        found.push((name, words.collect()));
        rest = next;
    }
    found
}

/// A word with the variables that are known; none where another one is left.
fn resolve(word: &str, known: &BTreeMap<String, String>) -> Option<String> {
    let mut word = word.to_owned();
    for (name, value) in known {
        word = word.replace(&format!("${{{name}}}"), value);
    }
    (!word.contains(['$', '<', '{']) && !word.is_empty()).then_some(word)
}
