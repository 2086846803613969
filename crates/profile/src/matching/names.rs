//! Which function of the newer program a name of the profile means.
//!
//! A name that the program has means that function. Else the one whose name differs only in what
//! compilers append to the names of local and promoted functions (`.__uniq.1`, `.llvm.1`), if there
//! is exactly one that no name of the profile means already, and only one name of the profile asks
//! for it.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::ProgramShape;
use crate::{FunctionProfile, Name, SampleProfile};

/// What became of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The program has a function of this name.
    Same(String),
    /// The program has it under this name.
    Renamed(String),
    /// Several functions could be meant.
    Ambiguous,
    /// The program has no such function.
    Gone,
}

impl Known {
    /// The name of the function in the program.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Known::Same(name) | Known::Renamed(name) => Some(name),
            Known::Ambiguous | Known::Gone => None,
        }
    }
}

/// The names of a profile and what they mean in a program; and a number for each function by which
/// calls are compared.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: BTreeMap<Name, Known>,
    numbers: FxHashMap<String, u32>,
}

impl Names {
    pub(super) fn new(profile: &SampleProfile, shape: &ProgramShape) -> Names {
        let mut wanted = BTreeSet::new();
        for function in profile.functions.values() {
            collect(function, &mut wanted);
        }
        let hashed = wanted.iter().any(|name| name.as_text().is_none());
        let by_hash: FxHashMap<u64, &String> = match hashed {
            true => shape.functions.keys().map(|name| (crate::name_hash(name), name)).collect(),
            false => FxHashMap::default(),
        };
        let exact = |name: &Name| match name {
            Name::Text(text) => shape.functions.get_key_value(&**text).map(|found| found.0.clone()),
            Name::Hash(hash) => by_hash.get(hash).map(|name| (*name).clone()),
        };
        let mut names = Names::default();
        let mut taken: BTreeSet<String> = BTreeSet::new();
        let mut open: BTreeMap<String, Vec<Name>> = BTreeMap::new();
        for name in wanted {
            if let Some(same) = exact(&name) {
                taken.insert(same.clone());
                names.known.insert(name, Known::Same(same));
            } else if let Some(text) = name.as_text() {
                open.entry(stem(text).to_owned()).or_default().push(name);
            } else {
                names.known.insert(name, Known::Gone);
            }
        }
        let mut free: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
        for name in shape.functions.keys().filter(|name| !taken.contains(*name)) {
            if open.contains_key(stem(name)) {
                free.entry(stem(name)).or_default().push(name);
            }
        }
        for (stem, wanting) in open {
            let free = free.get(stem.as_str()).map_or(&[][..], Vec::as_slice);
            for name in &wanting {
                let known = match (free, wanting.len()) {
                    ([], _) => Known::Gone,
                    ([one], 1) => Known::Renamed((*one).clone()),
                    _ => Known::Ambiguous,
                };
                names.known.insert(name.clone(), known);
            }
        }
        names
    }

    /// What became of a name of the profile.
    pub(super) fn known(&self, name: &Name) -> &Known {
        self.known.get(name).unwrap_or(&Known::Gone)
    }

    /// The name as the newer program has it, or as it was.
    pub(super) fn renamed(&self, name: &Name) -> Name {
        match (self.known(name), name) {
            (Known::Renamed(new), _) => Name::text(new),
            _ => name.clone(),
        }
    }

    /// The number by which a call of this function of the profile is recognised.
    pub(super) fn number(&mut self, name: &Name) -> u32 {
        let known = self.known(name).name().map(str::to_owned);
        let spelled = known.unwrap_or_else(|| name.to_string());
        self.number_of(&spelled)
    }

    /// The same for a function of the program.
    pub(super) fn number_of(&mut self, name: &str) -> u32 {
        let (stem, next) = (stem(name), self.numbers.len() as u32);
        if let Some(number) = self.numbers.get(stem) {
            return *number;
        }
        self.numbers.insert(stem.to_owned(), next);
        next
    }
}

fn collect(function: &FunctionProfile, into: &mut BTreeSet<Name>) {
    into.insert(function.name.clone());
    for sample in function.body.values() {
        into.extend(sample.targets.keys().cloned());
    }
    for (_, callee) in function.inlined_calls() {
        collect(callee, into);
    }
}

/// The name without what differs between builds of one source.
pub(super) fn stem(name: &str) -> &str {
    let mut name = name;
    while let Some((rest, digits)) = name.rsplit_once('.') {
        let marked = ["llvm", "__uniq", "part"]
            .iter()
            .find_map(|mark| rest.strip_suffix(mark)?.strip_suffix('.'));
        match marked {
            Some(stem) if !stem.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                name = stem
            }
            _ => break,
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::{Known, Names, stem};
    use crate::matching::{FunctionShape, ProgramShape};
    use crate::{Name, SampleProfile, name_hash};

    #[test]
    fn a_stem_is_the_name_without_numbers_of_the_build() {
        assert_eq!(stem("f.__uniq.123"), "f");
        assert_eq!(stem("f.__uniq.123.llvm.77"), "f");
        for name in ["f", "f.cold", "f.__uniq.x", ".llvm.1", "f.isra.0", "a.b.c"] {
            assert_eq!(stem(name), name);
        }
    }

    fn known(profile: &[Name], program: &[&str]) -> Vec<Known> {
        let mut all = SampleProfile::default();
        for name in profile {
            all.function(name);
        }
        let functions =
            program.iter().map(|name| ((*name).to_owned(), FunctionShape::default())).collect();
        let names = Names::new(&all, &ProgramShape { functions, ..ProgramShape::default() });
        profile.iter().map(|name| names.known(name).clone()).collect()
    }

    #[test]
    fn a_name_means_itself_or_the_only_one_of_its_stem() {
        let same = |name: &str| Known::Same(name.to_owned());
        let renamed = |name: &str| Known::Renamed(name.to_owned());
        assert_eq!(
            known(&["f".into(), "g.__uniq.1".into()], &["f", "g.__uniq.2"]),
            [same("f"), renamed("g.__uniq.2")]
        );
        assert_eq!(
            known(&["f.__uniq.1".into()], &["f.__uniq.2", "f.__uniq.3"]),
            [Known::Ambiguous]
        );
        assert_eq!(
            known(&["f.__uniq.1".into(), "f.__uniq.2".into()], &["f.__uniq.2", "f.__uniq.3"]),
            [renamed("f.__uniq.3"), same("f.__uniq.2")]
        );
        assert_eq!(
            known(&["f.llvm.1".into(), "f.llvm.2".into()], &["f"]),
            [Known::Ambiguous, Known::Ambiguous]
        );
        let hash = |name| Name::Hash(name_hash(name));
        assert_eq!(known(&[hash("f"), hash("g")], &["f"]), [same("f"), Known::Gone]);
    }
}
