//! Which functions are the same in all variants of a program, and in which order do all of them
//! lie?

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use crate::error::Error;
use crate::inputs::Inputs;
use crate::own_order::OwnOrder;
use crate::pad::Pad;
use crate::random::stream;
use crate::units::{self, Unit};

/// The symbol of the padding between what is the same and what is not.
pub(crate) const PAD_SYMBOL: &str = "planish.pad.changed";

/// How a section differs between variants, in the order in which sections lie: the first kind moves
/// nothing that comes after it (a line number that code holds is such a difference, and one edit
/// changes hundreds of them).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    Content,
    Size,
    Missing,
}

/// One variant of the program.
#[derive(Debug)]
struct Variant {
    identity: String,
    root: PathBuf,
    /// The order that the variant's own link asks for.
    own_order: OwnOrder,
    units: BTreeMap<String, Unit>,
}

/// How the layouts of several variants match: what they have in common, and what differs.
pub struct MatchPlan {
    variants: Vec<Variant>,
    common: Vec<String>,
    changed: Vec<String>,
    common_bytes: u64,
    text_bytes: u64,
    unnamed: usize,
}

impl fmt::Debug for MatchPlan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = out.debug_struct("MatchPlan");
        parts.field("common_bytes", &self.common_bytes).field("text_bytes", &self.text_bytes);
        parts.field("changed", &self.changed).finish_non_exhaustive()
    }
}

impl MatchPlan {
    /// Compares the functions of all variants, the base first.
    ///
    /// # Errors
    ///
    /// [`Error::LinkTime`] and [`Error::Object`] when the functions cannot be told apart before the
    /// link; a caller then uses independent layouts and says so.
    pub fn new(variants: &[&Inputs]) -> Result<MatchPlan, Error> {
        let variants =
            variants.iter().map(|inputs| variant(inputs)).collect::<Result<Vec<_>, _>>()?;
        let first = variants.first().map(|variant| &variant.units);
        let everywhere =
            |key: &String| variants.iter().all(|variant| variant.units.contains_key(key));
        let same = |key: &String, unit: &Unit| {
            let others = variants.iter().map(|variant| variant.units.get(key));
            others.into_iter().all(|other| {
                other
                    .is_some_and(|o| o.hash == unit.hash && o.name.is_some() && unit.name.is_some())
            })
        };
        let units = first.into_iter().flatten();
        let common: Vec<String> =
            units.filter(|(key, unit)| same(key, unit)).map(|(key, _)| key.clone()).collect();
        let known: BTreeSet<&String> = common.iter().collect();
        let mut differing: BTreeMap<&String, &Unit> = BTreeMap::new();
        for (key, unit) in variants.iter().flat_map(|variant| &variant.units) {
            if !known.contains(key) && unit.executable {
                differing.entry(key).or_insert(unit);
            }
        }
        let mark = |(key, unit): (&&String, &&Unit)| {
            if everywhere(key) {
                unit.shown.clone()
            } else {
                format!("{} (not in all variants)", unit.shown)
            }
        };
        let changed = differing.iter().map(mark).collect();
        let bytes = |keep: &dyn Fn(&String) -> bool| {
            let units =
                first.into_iter().flatten().filter(|(key, unit)| unit.executable && keep(key));
            units.map(|(_, unit)| unit.size).sum()
        };
        let (common_bytes, text_bytes) = (bytes(&|key| known.contains(key)), bytes(&|_| true));
        let unnamed = variants
            .iter()
            .flat_map(|variant| variant.units.values())
            .filter(|unit| unit.name.is_none());
        let unnamed = unnamed.count();
        Ok(MatchPlan { changed, common_bytes, text_bytes, unnamed, common, variants })
    }

    /// The functions that differ between variants or are in some of them only, by symbol name,
    /// sorted by file and name.
    #[must_use]
    pub fn changed(&self) -> &[String] {
        &self.changed
    }

    /// Bytes of code in the base that are the same in all variants.
    #[must_use]
    pub fn common_bytes(&self) -> u64 {
        self.common_bytes
    }

    /// Bytes of code in the base that layouts can move.
    #[must_use]
    pub fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// Sections of all variants that no symbol names; these lie behind the others.
    #[must_use]
    pub fn unnamed(&self) -> usize {
        self.unnamed
    }

    /// Does the link of any variant ask for an order itself?
    #[must_use]
    pub fn has_own_order(&self) -> bool {
        self.variants.iter().any(|variant| !variant.own_order.symbols.is_empty())
    }

    /// The files to link a variant from.
    pub(crate) fn root(&self, variant: usize, inputs: &Inputs) -> Result<PathBuf, Error> {
        let wrong = Error::Variant { variant, variants: self.variants.len() };
        let found =
            self.variants.get(variant).filter(|variant| variant.identity == inputs.identity());
        found.map(|variant| variant.root.clone()).ok_or(wrong)
    }

    fn difference(&self, key: &str) -> Difference {
        let mut sizes = BTreeSet::new();
        for variant in &self.variants {
            match variant.units.get(key) {
                Some(unit) => sizes.insert((unit.size, unit.align)),
                None => return Difference::Missing,
            };
        }
        if sizes.len() == 1 { Difference::Content } else { Difference::Size }
    }

    /// The order of symbols of a variant: its own order if it has one, with padding before some of
    /// its functions, what is the same in all variants in the random order of the seed, the padding
    /// before what differs, and that; and the padding in the own order, whose sections' names begin
    /// with `section` (none without).
    pub(crate) fn order(
        &self,
        variant: usize,
        seed: u64,
        section: Option<&str>,
    ) -> (String, Vec<Pad>) {
        let Some(variant) = self.variants.get(variant) else { return Default::default() };
        let mut keys: Vec<&String> = self.common.iter().collect();
        stream(seed, "order").shuffle(&mut keys);
        let known: BTreeSet<&String> = self.common.iter().collect();
        let mut rest: Vec<(Difference, u64, &String)> = Vec::new();
        for key in variant.units.keys().filter(|key| !known.contains(key)) {
            // By the key and not by a shuffle: the place among the others is then the same in all
            // variants.
            rest.push((self.difference(key), stream(seed, key).next_bits(), key));
        }
        rest.sort_unstable();
        let name = |key: &String| variant.units.get(key).and_then(|unit| unit.name.as_deref());
        let common = keys.into_iter().filter_map(name);
        let rest = rest.into_iter().filter_map(|(_, _, key)| name(key));
        let (mut text, pads) = variant.own_order.shifted(seed, section);
        for symbol in common.chain([PAD_SYMBOL]).chain(rest) {
            text.push_str(symbol);
            text.push('\n');
        }
        (text, pads)
    }
}

fn variant(inputs: &Inputs) -> Result<Variant, Error> {
    if inputs.survey().bitcode_objects > 0 {
        let objects = inputs.survey().bitcode_objects;
        return Err(Error::LinkTime { path: inputs.archive().to_owned(), objects });
    }
    if let Some((object, found)) = &inputs.unreadable {
        return Err(Error::Object { object: object.clone(), found: found.clone() });
    }
    let (units, root) = units::of(inputs)?;
    let units = units.into_iter().map(|unit| (unit.key.clone(), unit)).collect();
    Ok(Variant {
        identity: inputs.identity().to_owned(),
        root,
        own_order: inputs.own_order.clone(),
        units,
    })
}
