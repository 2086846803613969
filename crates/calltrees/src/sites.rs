//! Which addresses of a function were sampled, with what weight.

use crate::names::{FunctionId, Known, LibraryId, Names};
use crate::rows::of_event;
use crate::{Recorded, Stack, Weight};
use image::ImageAddr;
use rustc_hash::FxHashMap;

/// What was sampled at one address of a function of the symbol table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The function that the code belongs to, whatever was inlined there.
    pub function: FunctionId,
    /// The address; none where no image was at hand.
    pub at: Option<ImageAddr>,
    /// What its samples weigh.
    pub weight: Weight,
}

/// The function that a stack's innermost code belongs to: the first that is not inlined.
pub fn own_function(names: &Names, stack: &Stack) -> Option<FunctionId> {
    let is_own = |id: &&FunctionId| {
        names.function(**id).is_some_and(|function| function.known != Known::Inlined)
    };
    let own = stack.functions.iter().find(is_own).copied();
    own.map(|id| names.without_line(id))
}

/// The sampled addresses of an event, by function and address. Needs
/// [`Options::addresses`](crate::Options::addresses).
pub fn sites(recorded: &Recorded, event: u32) -> Vec<Site> {
    let mut sums: FxHashMap<(FunctionId, Option<ImageAddr>), Weight> = FxHashMap::default();
    for stack in of_event(recorded, event) {
        let Some(function) = own_function(&recorded.names, stack) else { continue };
        sums.entry((function, stack.at)).or_default().add(stack.weight);
    }
    let site = |((function, at), weight)| Site { function, at, weight };
    let mut all: Vec<Site> = sums.into_iter().map(site).collect();
    all.sort_unstable_by_key(|site| (site.function, site.at));
    all
}

/// Those of a library.
pub fn of_library<'s>(
    recorded: &'s Recorded,
    sites: &'s [Site],
    library: LibraryId,
) -> impl Iterator<Item = &'s Site> {
    let of = move |id| recorded.names.function(id).map(|function| function.library);
    sites.iter().filter(move |site| of(site.function) == Some(library))
}
