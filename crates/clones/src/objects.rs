//! Symbol table and debug information of an object file to what they say of functions.

use crate::graph::{Place, Reason, Source};
use crate::read::{End, Facts, Skipped};
use crate::{Error, symbols};
use image::debug::{DebugInfo, SourceFunction};
use image::{DebugSearch, Image, ImageAddr};

/// Adds what an object file says.
pub(crate) fn read(image: &Image, facts: &mut Facts) -> Result<(), Error> {
    let functions = image.functions();
    let comment = image.section(".comment");
    facts.is_clang = comment.is_some_and(|text| text.windows(5).any(|word| word == b"clang"));
    for function in functions.iter() {
        facts.functions.push((function.name.to_owned(), function.weak));
        if let Some((base, reason)) = symbols::origin(function.name) {
            facts.ties.push((End::named(base), End::named(function.name), reason, Source::Symbols));
        }
    }
    if !functions.is_empty() {
        facts.sources.push(Source::Symbols);
    }
    for group in symbols::same_bytes(functions) {
        for (a, b) in pairs(&group) {
            facts.ties.push((End::named(a), End::named(b), Reason::SameAddress, Source::Symbols));
        }
    }
    let debug = DebugInfo::load(image, &DebugSearch::default())?;
    if debug.is_empty() {
        return Ok(());
    }
    let sources = debug.source_functions(1);
    if let Some(first) = &sources.problems.first {
        facts.skipped.push(Skipped { path: image.path().to_owned(), reason: first.clone() });
    }
    facts.sources.push(Source::Debug);
    // Debug information calls a copy like its original; the symbol table knows its own name.
    let own_name = |name: &str, address: Option<ImageAddr>| -> String {
        let at = |address| functions.at(address).map(|function| function.name);
        let names: Vec<&str> = address.into_iter().flat_map(at).collect();
        if names.contains(&name) { name.to_owned() } else { names.first().unwrap_or(&name).to_string() }
    };
    let mut names = Vec::with_capacity(sources.functions.len());
    for function in &sources.functions {
        let name = own_name(&function.name, function.address);
        if let Some(file) = &function.file {
            let place = Place { file: file.clone(), line: function.line };
            facts.places.push((function.name.clone(), place.clone()));
            // clang writes `f.avx2` as the linkage name of a copy.
            if let Some((base, _)) = symbols::origin(&function.name) {
                facts.places.push((base.to_owned(), place.clone()));
            }
            facts.places.push((name.clone(), place));
        }
        if name != function.name
            && let Some((_, reason)) = symbols::origin(&name)
        {
            facts.ties.push((End::named(&function.name), End::named(&name), reason, Source::Debug));
        }
        names.push(name);
    }
    outlined_by_place(&sources.functions, &names, facts);
    for call in &sources.inlined {
        if let (Some(callee), Some(caller)) =
            (names.get(call.callee as usize), names.get(call.caller as usize))
        {
            facts.ties.push((End::named(callee), End::named(caller), Reason::Inlined, Source::Debug));
        }
    }
    Ok(())
}

/// clang names the tasks of OpenMP without a word of the function that they stand in (`.omp_task_entry.`): it is the
/// one that begins last before them.
fn outlined_by_place(functions: &[SourceFunction], names: &[String], facts: &mut Facts) {
    let is_outlined = |name: &str| name.starts_with(".omp") || name.starts_with("__omp");
    let all = || functions.iter().zip(names);
    for (inner, name) in all().filter(|(function, name)| is_outlined(name) && function.address.is_some()) {
        let around = all().filter(|(function, name)| {
            function.file == inner.file && function.line <= inner.line && !is_outlined(name)
        });
        if let Some((_, around)) = around.max_by_key(|(function, _)| function.line) {
            facts.ties.push((End::named(around), End::named(name), Reason::Outlined, Source::Debug));
        }
    }
}

/// All ordered pairs next to each other, both ways: enough for a closure, and few.
fn pairs<'t>(group: &[&'t str]) -> Vec<(&'t str, &'t str)> {
    let next = group.iter().zip(group.iter().skip(1));
    next.flat_map(|(a, b)| [(*a, *b), (*b, *a)]).collect()
}
