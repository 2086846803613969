//! Which functions a name stands for.

use crate::analysis::Analysis;
use crate::graph::NodeId;
use crate::patch::same_file;
use std::collections::BTreeMap;

/// No name of the source is longer by much; comparing longer ones takes time.
const LONGEST: usize = 200;

/// What a name does not tell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    /// There is no such function.
    #[error("no function {name} in this build{}", near(.nearest))]
    Unknown {
        /// What was asked for.
        name: String,
        /// Names like it, the nearest first.
        nearest: Vec<String>,
    },
    /// Several source files have one.
    #[error("{name} is the name of {} functions; choose one: {}", .choices.len(), .choices.join(", "))]
    Several {
        /// What was asked for.
        name: String,
        /// `FILE:NAME` of each.
        choices: Vec<String>,
    },
}

fn near(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("; did you mean {}?", names.join(" or ")) }
}

/// The functions of a name, or of `FILE:NAME` with a source or object file: one of the source, in
/// all units that hold it.
///
/// # Errors
/// When there is none, or there are several in the source.
pub fn select(analysis: &Analysis, asked: &str) -> Result<Vec<NodeId>, Unclear> {
    let graph = &analysis.graph;
    let (file, name) = parts(asked);
    let unit = |node: NodeId| {
        let unit = graph.get(node).map_or(0, |node| node.unit.0);
        analysis.units.get(unit as usize).map_or("", String::as_str)
    };
    let place = |node: NodeId| graph.get(node).and_then(|node| node.place.as_ref());
    let in_file = |node: NodeId, file: &str| {
        same_file(unit(node), file) || place(node).is_some_and(|place| same_file(&place.file, file))
    };
    let mut all = graph.named(name).to_vec();
    if all.is_empty() && name.len() <= LONGEST {
        let reads = |node: &(NodeId, &crate::Node)| {
            demangled(&node.1.name).is_some_and(|names| names.contains(&name.to_owned()))
        };
        all = graph.nodes().filter(reads).map(|(id, _)| id).collect();
    }
    let nodes: Vec<NodeId> =
        all.into_iter().filter(|node| file.is_none_or(|file| in_file(*node, file))).collect();
    let mut by_place: BTreeMap<String, Vec<NodeId>> = BTreeMap::new();
    // One function of the source, inlined here and there, may be known by its place in some units
    // only.
    let any_place = nodes.iter().any(|node| place(*node).is_some());
    for &node in &nodes {
        match place(node) {
            Some(place) => by_place.entry(place.file.to_string()).or_default().push(node),
            None if any_place => {}
            None => by_place.entry(unit(node).to_owned()).or_default().push(node),
        }
    }
    match by_place.len() {
        0 => Err(Unclear::Unknown { name: asked.to_owned(), nearest: nearest(analysis, name) }),
        1 => Ok(nodes),
        _ if file.is_some_and(|file| {
            by_place.keys().filter(|key| same_file(key, file)).count() == 1
        }) =>
        {
            Ok(nodes)
        }
        _ => {
            let choices = by_place.keys().map(|file| format!("{file}:{name}")).collect();
            Err(Unclear::Several { name: asked.to_owned(), choices })
        }
    }
}

/// File and name of `FILE:NAME`. In `a::b`, a name of C++ or Rust, no colon stands alone.
fn parts(asked: &str) -> (Option<&str>, &str) {
    let is_colon = |at: Option<usize>| at.and_then(|at| asked.as_bytes().get(at)) == Some(&b':');
    let alone = |at: &usize| !is_colon(at.checked_sub(1)) && !is_colon(at.checked_add(1));
    let at = asked.match_indices(':').map(|(at, _)| at).find(alone);
    match at.and_then(|at| asked.split_at_checked(at)) {
        Some((file, name)) if !file.is_empty() => (Some(file), name.get(1..).unwrap_or_default()),
        _ => (None, asked),
    }
}

/// How people write a mangled name of C++, with and without parameters, or one that clang made
/// unique (`-funique-internal-linkage-names`: `_ZL4freePv.__uniq.123` is a function of C, too).
fn demangled(name: &str) -> Option<[String; 2]> {
    let bare = name.split_once(".__uniq.").map_or(name, |(bare, _)| bare);
    if !bare.starts_with("_Z") {
        return (bare.len() < name.len()).then(|| [bare.to_owned(), bare.to_owned()]);
    }
    let symbol = cpp_demangle::Symbol::new(bare).ok()?;
    let options = cpp_demangle::DemangleOptions::new().no_params();
    Some([symbol.demangle().ok()?, symbol.demangle_with_options(&options).ok()?])
}

fn nearest(analysis: &Analysis, name: &str) -> Vec<String> {
    if name.len() > LONGEST {
        return Vec::new();
    }
    let allowed = (name.len() / 3).max(1);
    let mut found: Vec<(usize, &str)> = Vec::new();
    for (_, node) in analysis.graph.nodes() {
        let part = name.len() >= 4 && node.name.contains(name);
        if part || node.name.len().abs_diff(name.len()) <= allowed {
            let distance = if part { 1 } else { strsim::levenshtein(name, &node.name) };
            if distance <= allowed {
                found.push((distance, &node.name));
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_clang_made_unique_are_read() {
        let reads = |name: &str, wanted: &str| {
            demangled(name).is_some_and(|names| names.contains(&wanted.into()))
        };
        assert!(reads("_ZL17sqlite3StatusDownii.__uniq.1640", "sqlite3StatusDown"));
        assert!(reads("free.__uniq.12", "free") && reads("_ZN2ns1fEi", "ns::f(int)"));
        assert_eq!(demangled("free"), None);
    }

    #[test]
    fn a_file_stands_before_a_colon_that_is_alone() {
        assert_eq!(parts("fs/open.c:f"), (Some("fs/open.c"), "f"));
        assert_eq!(parts("a.cc:ns::f"), (Some("a.cc"), "ns::f"));
        for name in ["f", "ns::f", "a::b::c", ":f", ""] {
            assert_eq!(parts(name), (None, name));
        }
    }
}
