//! Which input sections does a link use? Reads the link map of lld.

use std::collections::{BTreeMap, BTreeSet};

/// The files of a link and the sections of each that got into the program. Files are named as lld
/// does: `dir/a.o`, or `dir/lib.a(a.o)`.
pub(crate) type LiveSections = BTreeMap<String, BTreeSet<String>>;

/// Reads a map: lines of address, load address, size, alignment, then by indentation an output
/// section, an input section as `FILE:(SECTION)`, or a symbol.
pub(crate) fn parse(map: &str) -> LiveSections {
    let mut live = LiveSections::new();
    for line in map.lines() {
        if let Some((file, section)) = input_section(line) {
            live.entry(file.to_owned()).or_default().insert(section.to_owned());
        }
    }
    live
}

/// Output sections without functions begin so.
const DATA: [&str; 6] = [".rodata", ".data", ".bss", ".tdata", ".tbss", ".tm_clone"];

/// The names of the symbols of a map that may be functions, in the order of their places; without
/// the version of a symbol that has one.
pub(crate) fn functions(map: &str) -> impl Iterator<Item = &str> {
    let mut is_data = false;
    map.lines().filter_map(move |line| {
        let rest = after_numbers(line)?.strip_prefix(' ')?;
        if !rest.starts_with(' ') {
            is_data = DATA.iter().any(|data| rest.starts_with(data));
        }
        let symbol = rest.strip_prefix("                ").filter(|_| !is_data)?;
        Some(symbol.split_once('@').map_or(symbol, |(name, _)| name))
    })
}

/// The file and the section of a line, when it is about an input section.
fn input_section(line: &str) -> Option<(&str, &str)> {
    // One blank, then a column of eight for output sections.
    let name = after_numbers(line)?.strip_prefix("         ")?;
    let name = Some(name).filter(|name| !name.starts_with(' '))?;
    let (file, section) = name.strip_suffix(')')?.rsplit_once(":(")?;
    (file != "<internal>").then_some((file, section))
}

/// What stands behind address, load address, size and alignment.
fn after_numbers(line: &str) -> Option<&str> {
    let mut rest = line;
    for _ in 0..4 {
        rest = rest.trim_start_matches(' ');
        let end = rest.find(' ')?;
        u64::from_str_radix(&rest[..end], 16).ok()?;
        rest = &rest[end..];
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_sections_are_found_by_their_indentation() {
        let map = "             VMA              LMA     Size Align Out     In      Symbol\n\
            \x20           16e0             16e0      19c    16 .text\n\
            \x20           16e0             16e0       22    16         lib/Scrt1.o:(.text)\n\
            \x20           16e0             16e0       22     1                 _start\n\
            \x20           1710             1710       b9    16         usr/lib (old)/lib.a(begin.o):(.text.f)\n\
            \x20            594              594       13     1         <internal>:(.rodata.str1.1)\n";
        let live = parse(map);
        let found: Vec<_> =
            live.iter().map(|(file, sections)| (file.as_str(), sections.len())).collect();
        assert_eq!(found, [("lib/Scrt1.o", 1), ("usr/lib (old)/lib.a(begin.o)", 1)]);
        assert!(live["usr/lib (old)/lib.a(begin.o)"].contains(".text.f"));
    }
}
