//! Which objects of a build hold the functions that a profile or a layout speaks of?
//!
//! Most of a kernel is never executed by one workload: building anew only what holds samples saves
//! most of the time. Function names come from the symbol tables of the objects, so assembly and
//! generated code are found too; static functions of one name belong to every object that has one.

use crate::check::compilations;
use crate::command::Area;
use crate::error::Error;
use crate::modules::built;
use object::{Object, ObjectSymbol, SymbolKind};
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The functions that each object of vmlinux and of the modules defines, by the object's name as
/// make has it.
pub type FunctionsOfObjects = BTreeMap<String, Vec<String>>;

/// What was chosen; its JSON has numbers alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Chosen {
    /// Names of objects, as make has them, in order.
    #[serde(serialize_with = "how_many")]
    pub objects: Vec<String>,
    /// How many objects there are to choose from.
    pub of: usize,
    /// Samples of functions that some object defines.
    pub samples_known: u64,
    /// Samples of the functions that the chosen objects define.
    pub samples_held: u64,
    /// All samples.
    pub samples: u64,
}

fn how_many<S: Serializer>(objects: &[String], to: S) -> Result<S::Ok, S::Error> {
    objects.len().serialize(to)
}

impl Chosen {
    /// Part of the samples that belong to functions of this build, 0 to 1; 0 of no samples.
    pub fn known_share(&self) -> f64 {
        if self.samples == 0 { 0.0 } else { self.samples_known as f64 / self.samples as f64 }
    }
}

/// A name without what compilers append to parts and copies of a function.
fn canonical(name: &str) -> &str {
    let parts = [".llvm.", ".cold", ".part.", ".constprop.", ".isra.", ".__part."];
    let end = parts.iter().filter_map(|part| name.find(part)).min();
    end.and_then(|end| name.get(..end)).filter(|rest| !rest.is_empty()).unwrap_or(name)
}

/// Reads the symbol tables of all C objects of vmlinux and the modules in a build.
///
/// # Errors
/// The directory holds no kernel build, or an object that a command made is missing or is no ELF
/// file.
pub fn functions_of_objects(build: &Path) -> Result<FunctionsOfObjects, Error> {
    let mut found = FunctionsOfObjects::new();
    for compilation in compilations(build)? {
        if !matches!(compilation.area(), Area::Kernel | Area::Module) {
            continue;
        }
        let path = build.join(&compilation.object);
        // A command outlives its object where the configuration changed.
        if path.is_file() {
            found.insert(compilation.object, functions(&path)?);
        }
    }
    Ok(found)
}

/// The same for a build with link-time optimisation, whose objects hold no code yet: what vmlinux and
/// each module define.
///
/// # Errors
/// vmlinux, or a module that the build names, is missing or is no ELF file.
pub fn functions_of_links(build: &Path) -> Result<FunctionsOfObjects, Error> {
    let mut found = functions_of_modules(build)?;
    found.insert("vmlinux".to_owned(), functions(&build.join("vmlinux"))?);
    Ok(found)
}

/// The same of the modules that a directory names in its modules.order.
///
/// # Errors
/// Where one is missing or is no ELF file.
pub fn functions_of_modules(directory: &Path) -> Result<FunctionsOfObjects, Error> {
    let mut found = FunctionsOfObjects::new();
    for module in built(directory)? {
        let name = module.strip_prefix(directory).unwrap_or(&module).display().to_string();
        found.insert(name, functions(&module)?);
    }
    Ok(found)
}

fn functions(path: &Path) -> Result<Vec<String>, Error> {
    let bytes = beside::given::read(path, beside::given::DATA).map_err(Error::io(path))?;
    let object = object::File::parse(&*bytes)
        .map_err(|error| Error::Vmlinux { path: path.to_owned(), reason: error.to_string() })?;
    let code = object
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
    let names: BTreeSet<String> = code
        .filter_map(|symbol| symbol.name().ok())
        .map(|name| canonical(name).to_owned())
        .collect();
    Ok(names.into_iter().collect())
}

/// The objects with the most samples that hold together at least `share` (0 to 1) of those that
/// belong to functions of this build. `samples` has a number per function; every object with a
/// function of a name counts it.
pub fn choose(
    functions: &FunctionsOfObjects,
    samples: &BTreeMap<String, u64>,
    share: f64,
) -> Chosen {
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in samples {
        let sum = by_name.entry(canonical(name)).or_default();
        *sum = sum.saturating_add(*count);
    }
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let mut ranked: Vec<(u64, &str)> = Vec::new();
    for (object, names) in functions {
        let here =
            names.iter().filter_map(|name| Some((name.as_str(), *by_name.get(name.as_str())?)));
        let mut sum: u64 = 0;
        for (name, count) in here {
            known.insert(name);
            sum = sum.saturating_add(count);
        }
        if sum > 0 {
            ranked.push((sum, object));
        }
    }
    ranked.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    let total = |names: &mut dyn Iterator<Item = &&str>| {
        names
            .filter_map(|name| by_name.get(*name))
            .fold(0u64, |sum, count| sum.saturating_add(*count))
    };
    let samples_known = total(&mut known.iter());
    // What several objects define may have been executed in any of them, and counts in each.
    let all: u64 = ranked.iter().fold(0, |sum, (count, _)| sum.saturating_add(*count));
    let wanted = (all as f64 * share.clamp(0.0, 1.0)).ceil() as u64;
    let mut chosen = Chosen {
        of: functions.len(),
        samples_known,
        samples: by_name.values().fold(0, |sum: u64, count| sum.saturating_add(*count)),
        ..Chosen::default()
    };
    let (mut held, mut names_held) = (0u64, BTreeSet::new());
    for (count, object) in ranked {
        if held >= wanted {
            break;
        }
        held = held.saturating_add(count);
        let names = functions.get(object).into_iter().flatten().map(String::as_str);
        names_held.extend(names.filter(|name| known.contains(name)));
        chosen.objects.push(object.to_owned());
    }
    chosen.samples_held = total(&mut names_held.iter());
    chosen.objects.sort();
    chosen
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    fn build() -> FunctionsOfObjects {
        let objects =
            [("a.o", vec!["hot", "same"]), ("b.o", vec!["same", "warm"]), ("c.o", vec!["cold"])];
        let named = objects.map(|(object, names)| {
            (object.to_owned(), names.into_iter().map(str::to_owned).collect::<Vec<_>>())
        });
        named.into_iter().collect()
    }

    fn samples(list: &[(&str, u64)]) -> BTreeMap<String, u64> {
        list.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn links_tell_what_objects_of_bitcode_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let program = std::env::current_exe().unwrap();
        for name in ["vmlinux", "m.ko"] {
            std::fs::copy(&program, dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("modules.order"), "m.o\n").unwrap();
        let found = functions_of_links(dir.path()).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["m.ko", "vmlinux"]);
        assert!(found["vmlinux"].iter().any(|name| name == "main"), "{}", found["vmlinux"].len());
        std::fs::remove_file(dir.path().join("m.ko")).unwrap();
        let said = functions_of_links(dir.path()).unwrap_err().to_string();
        assert!(said.contains("modules.order: names m.ko, which is not there"), "{said}");
    }

    #[test]
    fn the_fewest_objects_that_hold_the_share_are_chosen() {
        let of =
            samples(&[("hot", 900), ("warm.llvm.12", 90), ("cold.part.0", 10), ("foreign", 500)]);
        let all = choose(&build(), &of, 1.0);
        assert_eq!(all.objects, ["a.o", "b.o", "c.o"]);
        assert_eq!((all.samples, all.samples_known, all.samples_held), (1500, 1000, 1000));
        assert!((all.known_share() - 2.0 / 3.0).abs() < 1e-9);
        let most = choose(&build(), &of, 0.99);
        assert_eq!(
            (most.objects.as_slice(), most.samples_held),
            (&["a.o".to_owned(), "b.o".to_owned()][..], 990)
        );
    }

    #[test]
    fn functions_of_one_name_bring_every_object_that_has_one() {
        let same = choose(&build(), &samples(&[("same", 5)]), 1.0);
        assert_eq!(same.samples_held, 5);
        assert_eq!(same.objects, ["a.o", "b.o"]);
        assert_eq!(choose(&build(), &samples(&[]), 1.0), Chosen { of: 3, ..Chosen::default() });
        assert_eq!(choose(&build(), &samples(&[("foreign", 5)]), 1.0).known_share(), 0.0);
    }
}
