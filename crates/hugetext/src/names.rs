//! Which function lies where, for perf? Anonymous memory has no file, so perf looks into
//! `/tmp/perf-PID.map`: a line `START SIZE name` for each function, in hexadecimal
//! (tools/perf/Documentation/jit-interface.txt).
//!
//! What no symbol covers gets the name of its file in brackets, so that no sample is without a
//! place.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::Path;

use object::{
    Object as _, ObjectSegment as _, ObjectSymbol as _, ReadCache, SegmentFlags, SymbolKind,
};

use crate::maps::Mapping;

/// Writes the file; its path, or why there is none.
pub(crate) fn write(mappings: &[Mapping]) -> Result<String, String> {
    let path = format!("/tmp/perf-{}.map", std::process::id());
    let failed = |error: io::Error| format!("{path}: {error}");
    // Others may write to this folder, and the name is known; one of an earlier process of this
    // number is replaced.
    let file = beside::Unfinished::at(Path::new(&path)).map_err(failed)?.with_mode(0o644);
    let mut out = BufWriter::new(file);
    for mapping in mappings {
        let Some(range) = mapping.superpages() else { continue };
        let functions = functions(mapping).unwrap_or_default();
        let file = Path::new(&mapping.path).file_name().unwrap_or_default().to_string_lossy();
        lines(&mut out, range, &functions, &format!("[{file}]")).map_err(failed)?;
    }
    out.into_inner()
        .map_err(|error| error.into_error())
        .and_then(beside::Unfinished::finish)
        .map_err(failed)?;
    Ok(path)
}

/// A function at runtime addresses.
type Function = (Range<u64>, String);

/// The functions of a mapping's file, by address, one for each address.
fn functions(mapping: &Mapping) -> Option<Vec<Function>> {
    let cache = ReadCache::new(File::open(&mapping.path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    // Only text: the page in front of it may hold the end of another segment, too.
    let is_text = |flags| matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.0 & object::elf::PF_X.0 != 0);
    let mut texts = file.segments().filter(|segment| is_text(segment.flags()));
    let bias = texts.find_map(|segment| {
        let (offset, size) = segment.file_range();
        let inside = mapping.offset.checked_sub(offset - offset % 4096)?;
        let first = segment.address().checked_sub(offset % 4096)?;
        (inside < size + offset % 4096)
            .then(|| mapping.addresses.start.wrapping_sub(first.wrapping_add(inside)))
    })?;
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let text =
        symbols.filter(|s| s.kind() == SymbolKind::Text && s.is_definition() && s.size() > 0);
    let mut found: Vec<Function> = text
        .filter_map(|symbol| {
            let start = symbol.address().wrapping_add(bias);
            let name = symbol.name().ok().filter(|name| !name.is_empty())?;
            Some((start..start.checked_add(symbol.size())?, name.replace('\n', "?")))
        })
        .collect();
    found.sort_by(|a, b| (a.0.start, &a.1).cmp(&(b.0.start, &b.1)));
    found.dedup_by_key(|function| function.0.start);
    Some(found)
}

/// Lines for a range, of functions in order; `rest` is the name of what lies between them.
fn lines(
    out: &mut impl Write,
    range: Range<u64>,
    functions: &[Function],
    rest: &str,
) -> io::Result<()> {
    let mut at = range.start;
    for (addresses, name) in functions {
        let (start, end) = (addresses.start.max(at), addresses.end.min(range.end));
        if start >= end {
            continue;
        }
        if start > at {
            writeln!(out, "{at:x} {:x} {rest}", start - at)?;
        }
        writeln!(out, "{start:x} {:x} {name}", end - start)?;
        at = end;
    }
    if at < range.end {
        writeln!(out, "{at:x} {:x} {rest}", range.end - at)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_the_range_has_one_name() {
        let functions = [
            (0x50..0x110, "before"),
            (0x100..0x180, "nested"),
            (0x190..0x1a0, "g"),
            (0x1f0..0x300, "end"),
        ]
        .map(|(range, name)| (range, name.to_owned()));
        let mut out = Vec::new();
        lines(&mut out, 0x100..0x200, &functions, "[a.so]").unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "100 10 before\n110 70 nested\n180 10 [a.so]\n190 10 g\n1a0 50 [a.so]\n1f0 10 end\n"
        );
    }

    #[test]
    fn the_functions_of_this_program_are_found_where_they_lie() {
        let here = the_functions_of_this_program_are_found_where_they_lie as fn() as usize as u64;
        let own = crate::maps::own().unwrap();
        let mapping = own.iter().find(|mapping| mapping.addresses.contains(&here)).unwrap();
        let functions = functions(mapping).unwrap();
        let found = functions.iter().find(|(range, _)| range.start == here);
        assert!(
            found.is_some_and(|(_, name)| name.contains("are_found_where_they_lie")),
            "{found:?}"
        );
    }
}
