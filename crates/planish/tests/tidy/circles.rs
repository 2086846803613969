//! Do the modules of each crate stand in layers? Where modules need each other in a circle, none of
//! them can be read alone.
//!
//! A module is a source file. It needs another one when a path in it (`crate::…`, `super::…`,
//! `self::…`) names what is defined there; names that a file only hands on (`pub use`) are followed
//! to where they are defined. Tests are left out. Read as text: good enough to keep what was
//! reached.

use std::collections::{BTreeMap, BTreeSet};

use super::{assert_none, texts};

/// Files that need each other are read together, and more than these hold nobody's attention. (The
/// largest circle of ripgrep has 7.)
const MOST: usize = 4;

type Path = Vec<String>;

/// The sources of each crate, by module path.
fn crates() -> BTreeMap<String, BTreeMap<Path, String>> {
    let mut found: BTreeMap<String, BTreeMap<Path, String>> = BTreeMap::new();
    for (path, text) in texts(&[".rs"]) {
        let Some((name, file)) =
            path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        let mut module: Path = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        let last = module.last().map(String::as_str).unwrap_or_default();
        if last == "tests" || last.ends_with("_tests") {
            continue;
        }
        if ["mod", "lib", "main"].contains(&last) {
            module.pop();
        }
        found.entry(name.to_owned()).or_default().insert(module, text);
    }
    found
}

/// Identifiers, `::`, and whatever else, each by itself, without comments and the tests at the end.
fn words(text: &str) -> Vec<String> {
    let tests = ["#[cfg(test)]\nmod ", "#[cfg(test)]\npub(crate) mod "];
    let end = tests.iter().filter_map(|tests| text.find(tests)).min().unwrap_or(text.len());
    let mut words: Vec<String> = Vec::new();
    for line in text[..end].lines() {
        let line = line.split("//").next().unwrap_or_default();
        let mut joins = false;
        for c in line.chars() {
            let of_name = c.is_ascii_alphanumeric() || c == '_';
            match words.last_mut() {
                Some(last) if joins && of_name => last.push(c),
                Some(last) if c == ':' && last == ":" => last.push(c),
                _ if !c.is_whitespace() => words.push(c.to_string()),
                _ => {}
            }
            joins = of_name;
        }
    }
    words
}

/// The paths of a tree as `use` takes them, whose first word stands at `at`:
/// `a::{b, c::d as e}` has `a::b` and `a::c::d`.
fn paths(words: &[String], at: &mut usize) -> Vec<Path> {
    let word = |at: usize| words.get(at).map(String::as_str).unwrap_or_default();
    let first = word(*at).to_owned();
    *at += 1;
    if first == "{" {
        let mut all = Vec::new();
        while *at < words.len() && word(*at) != "}" {
            all.extend(paths(words, at));
        }
        *at += 1;
        return all;
    }
    let is_name = |word: &str| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !is_name(&first) {
        return Vec::new();
    }
    let rest = match (word(*at), word(*at + 1)) {
        ("as", _) => {
            *at += 2;
            Vec::new()
        }
        ("::", next) if next == "{" || is_name(next) => {
            *at += 1;
            paths(words, at)
        }
        _ => Vec::new(),
    };
    if rest.is_empty() {
        return vec![vec![first]];
    }
    rest.into_iter().map(|rest| [vec![first.clone()], rest].concat()).collect()
}

/// Names that a file hands on, and from which of its own modules.
fn handed_on(words: &[String]) -> BTreeMap<String, Path> {
    let mut handed = BTreeMap::new();
    for at in 1..words.len() {
        if words[at] == "use" && ["pub", ")"].contains(&words[at - 1].as_str()) {
            for mut path in paths(words, &mut (at + 1)) {
                if path.first().is_some_and(|first| first == "self") {
                    path.remove(0);
                }
                handed.extend(path.pop().map(|name| (name, path)));
            }
        }
    }
    handed
}

/// Which modules each one needs.
fn needs(sources: &BTreeMap<Path, String>) -> BTreeMap<Path, BTreeSet<Path>> {
    let words: BTreeMap<&Path, Vec<String>> =
        sources.iter().map(|(module, text)| (module, words(text))).collect();
    let handed: BTreeMap<&Path, BTreeMap<String, Path>> =
        words.iter().map(|(module, words)| (*module, handed_on(words))).collect();
    // Where a name is defined: the longest module on its way, hand-overs followed.
    let defined = |path: &[String]| -> Option<Path> {
        let module = (0..=path.len()).rev().map(|end| path[..end].to_vec());
        let module = module.into_iter().find(|module| sources.contains_key(module))?;
        let inner = path.get(module.len()).and_then(|name| handed.get(&module)?.get(name));
        let inner = inner.map(|inner| [module.clone(), inner.clone()].concat());
        Some(inner.filter(|inner| sources.contains_key(inner)).unwrap_or(module))
    };
    let one = |module: &Path| -> BTreeSet<Path> {
        let words = &words[module];
        let starts = |at: &usize| ["crate", "super", "self"].contains(&words[*at].as_str());
        let named = (0..words.len()).filter(starts).flat_map(|at| paths(words, &mut at.clone()));
        let absolute = named.map(|path| {
            let ups = path.iter().skip(1).take_while(|word| *word == "super").count();
            let base = match path[0].as_str() {
                "crate" => 0,
                "super" => module.len().saturating_sub(1 + ups),
                _ => module.len().saturating_sub(ups),
            };
            [&module[..base], &path[1 + ups..]].concat()
        });
        let elsewhere = absolute.filter_map(|path| {
            let target = defined(&path)?;
            let is_above = module.starts_with(&target) && path.len() == target.len();
            (target != *module && !is_above).then_some(target)
        });
        elsewhere.collect()
    };
    sources.keys().map(|module| (module.clone(), one(module))).collect()
}

/// All that a module needs, and what that needs, and so on.
fn reached<'n>(needs: &'n BTreeMap<Path, BTreeSet<Path>>, from: &'n Path) -> BTreeSet<&'n Path> {
    let mut seen: BTreeSet<&Path> = BTreeSet::new();
    let mut open: Vec<&Path> = vec![from];
    while let Some(module) = open.pop() {
        open.extend(needs[module].iter().filter(|next| seen.insert(*next)));
    }
    seen
}

/// Groups of modules that reach each other.
fn circles(needs: &BTreeMap<Path, BTreeSet<Path>>) -> BTreeSet<Vec<String>> {
    let reach: BTreeMap<&Path, BTreeSet<&Path>> =
        needs.keys().map(|module| (module, reached(needs, module))).collect();
    let circle = |(module, reached): (&&Path, &BTreeSet<&Path>)| -> Vec<String> {
        let back = reached.iter().filter(|other| reach[*other].contains(*module));
        back.map(|other| other.join("::")).collect()
    };
    reach.iter().map(circle).filter(|circle| circle.len() > 1).collect()
}

#[test]
fn modules_stand_in_layers() {
    let mut found = Vec::new();
    for (name, sources) in crates() {
        let large = circles(&needs(&sources)).into_iter().filter(|circle| circle.len() > MOST);
        found.extend(large.map(|circle| format!("{name}: {}", circle.join(", "))));
    }
    assert_none("modules that need each other in a large circle", found);
}

#[test]
fn paths_are_found_in_groups_and_circles_by_what_is_handed_on() {
    let read = |text: &str| {
        let joined = paths(&words(text), &mut 0).into_iter().map(|path| path.join("::"));
        joined.collect::<Vec<_>>()
    };
    assert_eq!(
        read("crate::a::{self, b::{C, D as E}, f};"),
        ["crate::a::self", "crate::a::b::C", "crate::a::b::D", "crate::a::f"]
    );
    assert_eq!(read("crate::a::f::<u8>(x)"), ["crate::a::f"]);
    let module = |path: &str, text: &str| {
        let path: Path =
            path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        (path, text.to_owned())
    };
    let sources = BTreeMap::from([
        module("", "mod a;\nmod b;\npub use a::Of;\n// crate::b::f\n"),
        module("a", "use crate::b::f;\npub struct Of;\n"),
        module("b", "use super::{Of};\nfn f() {}\n"),
        module("c", "use crate::b;\n#[cfg(test)]\nmod tests {\n    use crate::a::Of;\n}\n"),
    ]);
    assert_eq!(circles(&needs(&sources)), BTreeSet::from([vec!["a".to_owned(), "b".to_owned()]]));
}
