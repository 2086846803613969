//! Which code goes by a function's name, and what was sampled there?

use calltrees::{Function, Known, Site, Weight};
use image::{Image, ImageAddr};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

/// A piece of code with its samples: mostly the whole function, but a file may hold several of one
/// name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its addresses.
    pub code: Range<ImageAddr>,
    /// What was sampled in it, by address.
    pub samples: Vec<(ImageAddr, Weight)>,
    /// Their sum.
    pub weight: Weight,
}

/// The pieces of code of a function, those that weigh most first. `own` are the sites of the
/// function, `around` those of its whole library: where a file has no symbols, each address is a
/// function to [`calltrees`], and `.eh_frame` tells which of them belong together.
pub fn parts(image: &Image, function: &Function, own: &[Site], around: &[Site]) -> Vec<Part> {
    let mut found: BTreeMap<(ImageAddr, ImageAddr), Part> = BTreeMap::new();
    let part =
        |code: Range<ImageAddr>| Part { code, samples: Vec::new(), weight: Weight::default() };
    if function.known == Known::Symbol {
        let all = image.functions().iter().chain(image.functions().local_labels());
        let named = all.filter(|other| other.name == function.name);
        for other in named.filter(|other| other.size > 0) {
            found.insert((other.address, other.end()), part(other.address..other.end()));
        }
    }
    let range_of = |at: ImageAddr| match image.functions().find_shown(at) {
        Some(function) => function.address..function.end(),
        None => image.unwind_range(at).unwrap_or(at..ImageAddr(at.0.saturating_add(1))),
    };
    let stated = function.name.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let stated = stated.filter(|_| function.known == Known::Address).map(ImageAddr);
    for at in own.iter().filter_map(|site| site.at).chain(stated) {
        let code = range_of(at);
        found.entry((code.start, code.end)).or_insert_with(|| part(code));
    }
    let sites = if function.known == Known::Address { around } else { own };
    for site in sites {
        let Some(at) = site.at else { continue };
        let code = range_of(at);
        if let Some(part) = found.get_mut(&(code.start, code.end)) {
            part.samples.push((at, site.weight));
            part.weight.add(site.weight);
        }
    }
    let mut all: Vec<Part> = found.into_values().collect();
    for part in &mut all {
        part.samples.sort_unstable_by_key(|(at, _)| *at);
    }
    all.sort_by_key(|part| Reverse((part.weight.period, part.weight.samples)));
    all
}
