//! In which order does a link itself put functions, so that this order is part of what is measured?
//!
//! Functions have a place if the link is given an order (`--symbol-ordering-file`), or by the calls
//! that compilers write into objects built with a profile (`.llvm.call-graph-profile`); lld 22 puts
//! the former first and the latter behind them. Which functions have calls lld prints
//! (`--print-symbol-order`), but since LLVM 18 only where it is asked for the algorithm `hfsort`. The
//! order that all of them have in the end shows in the map of a link.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use beside::given;

use crate::map;
use crate::pad::{Pad, STEP};
use crate::random::stream;
use crate::response::Response;

/// About so many functions begin after padding of their own, at most.
const PADDED: usize = 1024;

/// The order of symbols that a link asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnOrder {
    /// Those that are in the program; empty without an order.
    pub(crate) symbols: Vec<String>,
    /// Where it comes from.
    from: &'static str,
    /// Names in it that several functions have: an order of names puts these together.
    shared: usize,
}

impl OwnOrder {
    /// From what [`by_place`] has written down, the names of the link's own file, and a map of the
    /// program.
    pub(crate) fn new(text: &str, of_file: &[String], map: &str) -> OwnOrder {
        let symbols = lines(text);
        let of_file: BTreeSet<&String> = of_file.iter().collect();
        let named = symbols.iter().filter(|name| of_file.contains(name)).count();
        let from = match (named, symbols.len() - named) {
            (0, _) => "the call profile in the objects",
            (_, 0) => "--symbol-ordering-file",
            _ => "--symbol-ordering-file and the call profile in the objects",
        };
        let placed: BTreeSet<&str> = symbols.iter().map(String::as_str).collect();
        let mut times: BTreeMap<&str, u32> = BTreeMap::new();
        for name in map::functions(map).filter(|name| placed.contains(name)) {
            *times.entry(name).or_default() += 1;
        }
        let shared = times.values().filter(|&&times| times > 1).count();
        OwnOrder { symbols, from, shared }
    }

    /// What of it a layout keeps, in words; none without an order.
    pub(crate) fn kept(&self) -> Option<String> {
        let count = self.symbols.len();
        let mut text = format!("the order of {count} symbols by {}", self.from);
        if self.shared > 0 {
            text.push_str(&format!(
                " (names that several functions share, which lie together: {})",
                self.shared
            ));
        }
        (count > 0).then_some(text)
    }

    /// The order with padding before some functions, and the padding: each function moves by a
    /// random multiple of 16 bytes against cache lines and what lies before it. What these bytes
    /// are worth to a loop differs from function to function, and not between links in one order.
    /// A function draws the same in every program with the same seed.
    ///
    /// `section` begins the names of the sections of padding: those of the functions in the order;
    /// without it there is no padding.
    pub(crate) fn shifted(&self, seed: u64, section: Option<&str>) -> (String, Vec<Pad>) {
        let entries = self.symbols.iter().filter(|name| is_entry(name)).count();
        // One function in four; in a large program fewer.
        let one_in = entries.div_ceil(PADDED).max(4);
        let (mut text, mut pads) = (String::new(), Vec::new());
        for (place, symbol) in self.symbols.iter().enumerate() {
            let mut random = stream(seed, symbol);
            let drawn = place == 0 || is_entry(symbol) && random.below(one_in) == 0;
            let bytes = if drawn { random.below(LINE_STEPS) as u64 * STEP } else { 0 };
            if let Some(section) = section.filter(|_| bytes > 0) {
                let name = format!("{section}.planish.{}", pads.len());
                text.push_str(&name);
                text.push('\n');
                pads.push(Pad {
                    symbol: name.clone().into(),
                    section: name.into(),
                    bytes,
                    executable: true,
                    writable: false,
                });
            }
            text.push_str(symbol);
            text.push('\n');
        }
        (text, pads)
    }
}

/// Steps of padding in a cache line of 64 bytes.
const LINE_STEPS: usize = 4;

/// Is it a function, and not a part of one that its other parts may run on into?
fn is_entry(symbol: &str) -> bool {
    !symbol.ends_with(".cold") && !symbol.ends_with(".eh") && !symbol.contains(".__part.")
}

fn lines(text: &str) -> Vec<String> {
    let names =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    names.map(str::to_owned).collect()
}

/// The names in the file that a link names, unpacked below `root`.
pub(crate) fn of_file(response: &Response, root: &Path) -> Vec<String> {
    let read = |file: &str| given::read(&root.join(file.trim_start_matches('/')), given::DATA).ok();
    let bytes = response.value("symbol-ordering-file").and_then(read);
    bytes.map_or(Vec::new(), |bytes| lines(&String::from_utf8_lossy(&bytes)))
}

/// The symbols with a place, of a file and as lld printed them, in the order in which a map has
/// their functions.
pub(crate) fn by_place(of_file: &[String], printed: &str, map: &str) -> String {
    let printed = lines(printed);
    let placed: BTreeSet<&str> = of_file.iter().chain(&printed).map(String::as_str).collect();
    let mut seen = BTreeSet::new();
    let mut text = String::new();
    for symbol in map::functions(map) {
        if placed.contains(symbol) && seen.insert(symbol) {
            text.push_str(symbol);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_an_order_start_anywhere_in_a_cache_line_and_parts_stay_with_them() {
        let symbols = ["f", "f.__part.1", "g", "h", "f.cold", "g.eh"].map(str::to_owned).to_vec();
        let order = OwnOrder { symbols: symbols.clone(), ..OwnOrder::default() };
        let mut starts = [[0u32; 4]; 2];
        for seed in 0..400 {
            let (text, pads) = order.shifted(seed, Some(".text"));
            let kept: Vec<&str> = text.lines().filter(|line| !line.contains("planish")).collect();
            assert_eq!(kept, symbols);
            for pair in text.lines().collect::<Vec<_>>().windows(2) {
                assert!(
                    !pair[0].contains("planish") || ["f", "g", "h"].contains(&pair[1]),
                    "{text}"
                );
            }
            // Where the first function starts, and how far the last one moved against it, within
            // a cache line.
            let moved = |function| {
                let before = text.lines().take_while(|line| *line != function);
                let pads = before.filter_map(|line| pads.iter().find(|pad| pad.symbol == line));
                pads.map(|pad| pad.bytes / 16).sum::<u64>()
            };
            let (first, last) = (moved("f"), moved("h") - moved("f"));
            starts[0][first as usize % 4] += 1;
            starts[1][last as usize % 4] += 1;
        }
        assert!(starts[0].iter().all(|count| (70..=130).contains(count)), "{starts:?}");
        // Of two functions none is drawn in nine of sixteen layouts, and a quarter of the draws is 0.
        assert!((210..=330).contains(&starts[1][0]), "{starts:?}");
        assert!(starts[1][1..].iter().all(|count| (20..=75).contains(count)), "{starts:?}");
    }

    #[test]
    fn a_function_draws_the_same_in_every_order() {
        let before = |symbols: &[&str], function: &str, seed| {
            let symbols = symbols.iter().map(|&name| name.to_owned()).collect();
            let (text, pads) =
                OwnOrder { symbols, ..OwnOrder::default() }.shifted(seed, Some(".text"));
            let lines: Vec<&str> = text.lines().collect();
            let at = lines.iter().position(|&line| line == function).unwrap();
            let pad = pads.iter().find(|pad| at > 0 && pad.symbol == lines[at - 1]);
            pad.map_or(0, |pad| pad.bytes)
        };
        let bare = OwnOrder { symbols: vec!["a".to_owned()], ..OwnOrder::default() };
        assert_eq!(bare.shifted(1, None), ("a\n".to_owned(), Vec::new()));
        let mut moved = 0;
        for seed in 0..100 {
            let bytes = before(&["a", "b", "c"], "c", seed);
            assert_eq!(bytes, before(&["b", "x", "y", "c"], "c", seed));
            moved += u32::from(bytes > 0);
        }
        assert!((8..40).contains(&moved), "{moved} of 100; three in sixteen are expected");
    }

    #[test]
    fn a_large_order_has_no_more_padding_than_objects_hold() {
        let symbols = (0..100_000).map(|number| format!("f{number}")).collect();
        let order = OwnOrder { symbols, ..OwnOrder::default() };
        let (_, pads) = order.shifted(1, Some(".text.hot"));
        assert!((600..1000).contains(&pads.len()), "{}", pads.len());
        assert!(pads.iter().all(|pad| pad.section.starts_with(".text.hot.planish.")));
    }

    #[test]
    fn a_file_and_calls_give_the_functions_and_the_map_their_order() {
        let map = "             VMA              LMA     Size Align Out     In      Symbol\n\
            \x20           0500             0500      100    16 .rodata\n\
            \x20           0500             0500       22    16         a.o:(.rodata.early)\n\
            \x20           0500             0500       22     1                 early\n\
            \x20           16e0             16e0      19c    16 .text\n\
            \x20           16e0             16e0       22    16         a.o:(.text.late)\n\
            \x20           16e0             16e0       22     1                 late\n\
            \x20           1710             1710       b9    16         b.o:(.text.early)\n\
            \x20           1710             1710       b9     1                 early\n\
            \x20           1710             1710       b9     1                 other name\n\
            \x20           1810             1810       b9    16         c.o:(.text.late)\n\
            \x20           1810             1810       b9     1                 late\n";
        assert_eq!(by_place(&[], "early\nlate\ngone\n", map), "late\nearly\n");
        let file = ["other name", "gone"].map(str::to_owned);
        assert_eq!(by_place(&file, "", map), "other name\n");
        assert_eq!(by_place(&file, "late\n", map), "late\nother name\n");
        assert_eq!(by_place(&[], "", map), "");
        let kept = |text: &str, file: &[String]| OwnOrder::new(text, file, map).kept();
        assert_eq!(kept("", &file), None);
        let calls = "the order of 1 symbols by the call profile in the objects";
        assert_eq!(kept("early\n", &[]).as_deref(), Some(calls));
        let both = kept("late\nother name\n", &file).unwrap();
        assert!(
            both.contains("2 symbols by --symbol-ordering-file and the call profile"),
            "{both}"
        );
        assert!(
            both.ends_with("(names that several functions share, which lie together: 1)"),
            "{both}"
        );
    }
}
