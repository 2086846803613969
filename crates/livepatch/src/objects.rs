//! Symbol table and debug information of an object file to what they say of functions.

use crate::analysis::Skipped;
use crate::facts::{End, Facts};
use crate::graph::{Reason, Source};
use crate::{Error, symbols};
use image::debug::{DebugInfo, SourceFunction};
use image::{DebugSearch, Functions, Image};

/// Adds what an object file says.
pub(crate) fn read(image: &Image, facts: &mut Facts) -> Result<(), Error> {
    let functions = image.functions();
    let comment = image.section(".comment");
    facts.is_clang = comment.is_some_and(|text| text.windows(5).any(|word| word == b"clang"));
    // gcc's sections of link-time optimisation; clang's objects for it are no ELF files.
    facts.is_link_time =
        image.sections().iter().any(|section| image.section_name(section).starts_with(".gnu.lto_"));
    for function in functions.iter() {
        let own = facts.named(function.name);
        facts.functions.push((own.name, function.weak));
        if let Some((base, reason)) = symbols::origin(function.name) {
            let base = facts.named(base);
            facts.tie(base, own, reason, Source::Symbols);
        }
    }
    if !functions.is_empty() {
        facts.sources.push(Source::Symbols);
    }
    for group in symbols::same_bytes(functions) {
        for (a, b) in symbols::both_ways(&group) {
            let (a, b) = (facts.named(a), facts.named(b));
            facts.tie(a, b, Reason::SameAddress, Source::Symbols);
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
    let mut names = Vec::with_capacity(sources.functions.len());
    for function in &sources.functions {
        let stated = facts.named(&function.name);
        // Debug information calls a copy like its original; the symbol table knows its own name.
        let symbol = own_symbol(functions, function);
        let own = symbol.map_or(stated, |name| facts.named(name));
        if let Some(file) = &function.file {
            let place = (facts.files.number(file), function.line);
            facts.places.push((stated.name, place));
            // clang writes `f.avx2` as the linkage name of a copy.
            if let Some((base, _)) = symbols::origin(&function.name) {
                let base = facts.named(base);
                facts.places.push((base.name, place));
            }
            facts.places.push((own.name, place));
        }
        if let Some((_, reason)) = symbol.and_then(symbols::origin) {
            facts.tie(stated, own, reason, Source::Debug);
        }
        names.push(own);
    }
    outlined_by_place(&sources.functions, &names, facts);
    for call in &sources.inlined {
        if let (Some(callee), Some(caller)) =
            (names.get(call.callee as usize), names.get(call.caller as usize))
        {
            facts.tie(*callee, *caller, Reason::Inlined, Source::Debug);
        }
    }
    Ok(())
}

/// The name that the symbol table has for a function's code, where it is another one than debug
/// information states.
fn own_symbol<'t>(functions: Functions<'t>, function: &SourceFunction) -> Option<&'t str> {
    let mut names = functions.at(function.address?).map(|function| function.name);
    let first = names.next()?;
    (first != function.name && names.all(|name| name != function.name)).then_some(first)
}

/// clang names the tasks of OpenMP without a word of the function that they stand in
/// (`.omp_task_entry.`): it is the one that begins last before them.
fn outlined_by_place(functions: &[SourceFunction], names: &[End], facts: &mut Facts) {
    let is_outlined = |name: &str| name.starts_with(".omp") || name.starts_with("__omp");
    let named: Vec<bool> = names
        .iter()
        .map(|end| facts.names.get(end.name).is_some_and(|name| is_outlined(name)))
        .collect();
    let all = || functions.iter().zip(names).zip(&named);
    for ((inner, end), _) in
        all().filter(|((function, _), outlined)| **outlined && function.address.is_some())
    {
        let around = all().filter(|((function, _), outlined)| {
            function.file == inner.file && function.line <= inner.line && !**outlined
        });
        if let Some(((_, around), _)) = around.max_by_key(|((function, _), _)| function.line) {
            facts.tie(*around, *end, Reason::Outlined, Source::Debug);
        }
    }
}
