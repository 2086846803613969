//! In which order does a link itself put functions, so that this order is part of what is measured?
//!
//! Either it is given one (`--symbol-ordering-file`), or lld makes one of the calls that compilers
//! write into objects built with a profile (`.llvm.call-graph-profile`). Which functions the latter
//! places lld prints (`--print-symbol-order`), but only where it is asked for the algorithm `hfsort`;
//! how its default, `cdsort`, orders them shows in the map of a link.

use std::collections::BTreeSet;

use beside::given;

use crate::layout::STEP;
use crate::pad::Pad;
use crate::response::Response;

/// At most so many functions begin after padding of their own.
const MOST_PADS: usize = 4096;

/// The order of symbols that a link asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnOrder {
    /// Empty without one.
    pub(crate) symbols: Vec<String>,
    /// Where it comes from.
    pub(crate) from: Option<&'static str>,
}

impl OwnOrder {
    /// From the file that a link names, unpacked below `root`; none where it names none.
    pub(crate) fn of_file(response: &Response, root: &std::path::Path) -> Option<OwnOrder> {
        let file = response.value("symbol-ordering-file")?;
        let bytes = given::read(&root.join(file.trim_start_matches('/')), given::DATA).ok()?;
        let from = Some("--symbol-ordering-file");
        Some(OwnOrder { symbols: lines(&String::from_utf8_lossy(&bytes)), from })
    }

    /// From the calls in the objects, as [`by_calls`] has written it down.
    pub(crate) fn of_calls(text: &str) -> OwnOrder {
        let symbols = lines(text);
        let from = (!symbols.is_empty()).then_some("the call profile in the objects");
        OwnOrder { symbols, from }
    }

    /// The order with padding before some functions, which moves each of them by a random multiple
    /// of 16 bytes against cache lines and what lies before it, and the padding. What these bytes
    /// are worth to a loop differs from function to function, and not between links in one order.
    ///
    /// `section` begins the names of the sections of padding: those of the functions in the order.
    pub(crate) fn shifted(
        &self,
        random: &mut ::random::Random,
        section: &str,
    ) -> (String, Vec<Pad>) {
        let entries = self.symbols.iter().filter(|name| is_entry(name)).count();
        // One function in four; in a large program fewer.
        let one_in = (entries / MOST_PADS + 1) * 4;
        let (mut text, mut pads) = (String::new(), Vec::new());
        for (place, symbol) in self.symbols.iter().enumerate() {
            let drawn = place == 0 || is_entry(symbol) && random.below(one_in) == 0;
            let bytes = if drawn { random.below(LINE_STEPS) as u64 * STEP } else { 0 };
            if bytes > 0 {
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

/// Has a link that leaves calls in the objects to lld an order of its own?
pub(crate) fn asks_for_calls(response: &Response) -> bool {
    response.value("symbol-ordering-file").is_none()
        && response.value("call-graph-profile-sort") != Some("none")
}

/// The symbols that lld printed in the order in which a map has them.
pub(crate) fn by_calls(printed: &str, map: &str) -> String {
    let placed: BTreeSet<String> = lines(printed).into_iter().collect();
    let mut seen = BTreeSet::new();
    let mut text = String::new();
    for symbol in crate::map::symbols(map) {
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
        let order = OwnOrder { symbols: symbols.clone(), from: None };
        let mut starts = [[0u32; 4]; 2];
        for seed in 0..400 {
            let mut random = crate::random::stream(seed, "test");
            let (text, pads) = order.shifted(&mut random, ".text");
            let kept: Vec<&str> = text.lines().filter(|line| !line.contains("planish")).collect();
            assert_eq!(kept, symbols);
            for pair in text.lines().collect::<Vec<_>>().windows(2) {
                assert!(
                    !pair[0].contains("planish") || ["f", "g", "h"].contains(&pair[1]),
                    "{text}"
                );
            }
            // Where the first and the third function start, were all of 64 bytes.
            for (of, function) in starts.iter_mut().zip(["f", "h"]) {
                let before = text.lines().take_while(|line| *line != function);
                let bytes = before.filter_map(|line| pads.iter().find(|pad| pad.symbol == line));
                let at = bytes.map(|pad| pad.bytes / 16).sum::<u64>() % 4;
                of[at as usize] += 1;
            }
        }
        for count in starts.concat() {
            assert!((70..=130).contains(&count), "{starts:?}");
        }
    }

    #[test]
    fn a_large_order_has_no_more_padding_than_objects_hold() {
        let symbols = (0..100_000).map(|number| format!("f{number}")).collect();
        let order = OwnOrder { symbols, from: None };
        let (_, pads) = order.shifted(&mut crate::random::stream(1, "test"), ".text.hot");
        assert!((500..MOST_PADS).contains(&pads.len()), "{}", pads.len());
        assert!(pads.iter().all(|pad| pad.section.starts_with(".text.hot.planish.")));
    }

    #[test]
    fn calls_give_the_functions_and_the_map_their_order() {
        let map = "             VMA              LMA     Size Align Out     In      Symbol\n\
            \x20           16e0             16e0      19c    16 .text\n\
            \x20           16e0             16e0       22    16         a.o:(.text.late)\n\
            \x20           16e0             16e0       22     1                 late\n\
            \x20           1710             1710       b9    16         b.o:(.text.early)\n\
            \x20           1710             1710       b9     1                 early\n\
            \x20           1710             1710       b9     1                 other name\n";
        assert_eq!(by_calls("early\nlate\ngone\n", map), "late\nearly\n");
        assert_eq!(by_calls("other name\n", map), "other name\n");
        assert_eq!(by_calls("", map), "");
    }
}
