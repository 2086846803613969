//! Which functions of the map take part: named, in a section that is laid out, and not confusable.

use std::collections::BTreeMap;

use image::{Image, ImageAddr, Section};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::report::{BuildReport, Unused};
use crate::rules::{BuildOptions, Modules, Rules, Sections};
use crate::table::{End, Spot, Table};

/// Of functions with a common name, the one with at least this share of their weight is kept, in
/// percent.
const DOMINANT_PCT: u128 = 90;

/// What a function is called by the linker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) names: Vec<String>,
    pub(crate) section: String,
    /// The file of its compilation unit, where only that tells it from another function.
    pub(crate) module: Option<String>,
}

/// The functions with counts, and what became of each.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    functions: FxHashMap<u32, Result<Identity, Unused>>,
}

impl Selection {
    /// Decides about the functions that have a weight.
    pub(crate) fn new(
        image: &Image,
        table: &Table,
        weights: &FxHashMap<u32, u64>,
        options: &BuildOptions,
        modules: Modules<'_>,
        report: &mut BuildReport,
    ) -> Selection {
        let sections = CodeSections::new(image);
        let identify = |candidate: u32| {
            let address = table.candidate(candidate).ok_or(Unused::NoSymbol)?.address;
            sections.identify(address, options.sections)
        };
        let functions = weights.keys().map(|&candidate| (candidate, identify(candidate))).collect();
        let mut selection = Selection { functions };
        if options.rules != Rules::Upstream {
            report.told_by_module = selection.tell_apart(table, modules);
        }
        for candidate in selection.confusable(weights, options.rules) {
            selection.functions.insert(candidate, Err(Unused::DuplicateName));
        }
        for (candidate, outcome) in &selection.functions {
            let weight = weights.get(candidate).copied().unwrap_or(0);
            let shared = matches!(outcome, Err(Unused::DuplicateName));
            if shared {
                report.shared_name_weight = report.shared_name_weight.saturating_add(weight);
            }
            if shared || outcome.is_ok() {
                report.weight = report.weight.saturating_add(weight);
            }
        }
        for reason in selection.functions.values().filter_map(|outcome| outcome.as_ref().err()) {
            *report.left_out.entry(*reason).or_default() += 1;
        }
        selection
    }

    /// The functions of each name.
    fn by_name(&self) -> BTreeMap<&str, Vec<u32>> {
        let mut by_name: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for (&candidate, identity) in &self.functions {
            for name in identity.iter().flat_map(|identity| &identity.names) {
                by_name.entry(name).or_default().push(candidate);
            }
        }
        by_name
    }

    /// Gives functions that share a name the files of their units, where each of them has one, and
    /// another one than the others. Says how many functions that were.
    fn tell_apart(&mut self, table: &Table, modules: Modules<'_>) -> u64 {
        let by_name = self.by_name();
        let shared: Vec<&Vec<u32>> = by_name.values().filter(|group| group.len() > 1).collect();
        let address = |candidate: &u32| Some((table.candidate(*candidate)?.address, *candidate));
        let asked: BTreeMap<ImageAddr, u32> =
            shared.iter().copied().flatten().filter_map(address).collect();
        if asked.is_empty() {
            return 0;
        }
        let addresses: Vec<ImageAddr> = asked.keys().copied().collect();
        // A list cannot hold a name with blanks.
        let usable = |module: Option<String>| {
            let module = module.map(|module| module.trim_start_matches("./").to_owned());
            module.filter(|module| {
                !module.is_empty()
                    && !module.contains(|c: char| c.is_whitespace() || c.is_control())
            })
        };
        let found: FxHashMap<u32, String> = asked
            .values()
            .zip(modules(&addresses))
            .filter_map(|(candidate, module)| Some((*candidate, usable(module)?)))
            .collect();
        let told = |group: &&Vec<u32>| {
            let modules: FxHashSet<&String> =
                group.iter().filter_map(|candidate| found.get(candidate)).collect();
            modules.len() == group.len()
        };
        let (good, bad): (Vec<&Vec<u32>>, Vec<&Vec<u32>>) = shared.into_iter().partition(told);
        let confusable: FxHashSet<u32> = bad.into_iter().flatten().copied().collect();
        let told: FxHashSet<u32> = good
            .into_iter()
            .flatten()
            .copied()
            .filter(|candidate| !confusable.contains(candidate))
            .collect();
        for candidate in &told {
            if let Some(Ok(identity)) = self.functions.get_mut(candidate) {
                identity.module = found.get(candidate).cloned();
            }
        }
        told.len() as u64
    }

    /// Functions that a list of names would take for another one.
    fn confusable(&self, weights: &FxHashMap<u32, u64>, rules: Rules) -> FxHashSet<u32> {
        let mut dropped = FxHashSet::default();
        let told =
            |candidate: &u32| self.identity(*candidate).is_some_and(|own| own.module.is_some());
        let by_name = self.by_name();
        for group in by_name.values().filter(|group| group.len() > 1 && !group.iter().all(told)) {
            let weight = |candidate: &u32| u128::from(weights.get(candidate).copied().unwrap_or(0));
            let sum: u128 = group.iter().map(weight).sum();
            let kept = group.iter().find(|candidate| weight(candidate) * 100 >= sum * DOMINANT_PCT);
            let kept = if rules == Rules::Upstream || sum == 0 { None } else { kept };
            dropped.extend(group.iter().filter(|&candidate| Some(candidate) != kept).copied());
        }
        dropped
    }

    /// The block at an address, if its function takes part.
    pub(crate) fn find(
        &self,
        table: &Table,
        address: ImageAddr,
        side: End,
        unmapped: Unused,
    ) -> Result<Spot, Unused> {
        let spot = table.find(address, side).ok_or(unmapped)?;
        match self.functions.get(&spot.candidate) {
            Some(Ok(_)) => Ok(spot),
            Some(Err(reason)) => Err(*reason),
            None => Err(unmapped),
        }
    }

    /// What a function that takes part is called.
    pub(crate) fn identity(&self, candidate: u32) -> Option<&Identity> {
        self.functions.get(&candidate)?.as_ref().ok()
    }
}

/// The names at an address that mean the same function: those of the largest size. A name that a
/// list cannot hold, because it contains blanks, is none.
fn names(image: &Image, address: ImageAddr) -> Vec<String> {
    let mut functions = image.functions().at(address).peekable();
    let size = functions.peek().map(|function| function.size);
    let same = functions.filter(|function| Some(function.size) == size);
    let usable = same.filter(|function| !function.name.contains(char::is_whitespace));
    usable.map(|function| function.name.to_owned()).collect()
}

/// Sections with code by address.
pub(crate) struct CodeSections<'i> {
    image: &'i Image,
    sections: Vec<&'i Section>,
}

impl<'i> CodeSections<'i> {
    pub(crate) fn new(image: &'i Image) -> Self {
        let mut sections: Vec<&Section> = image
            .sections()
            .iter()
            .filter(|section| section.is_executable() && section.size != 0)
            .collect();
        sections.sort_by_key(|section| section.address);
        CodeSections { image, sections }
    }

    /// The name of the section at an address; empty where there is none.
    pub(crate) fn at(&self, address: ImageAddr) -> &'i str {
        let after = self.sections.partition_point(|section| section.address <= address);
        let section = after.checked_sub(1).and_then(|position| self.sections.get(position));
        let holds = |section: &&&Section| {
            address.distance_from(section.address).is_some_and(|distance| distance < section.size)
        };
        section.filter(holds).map_or("", |section| self.image.section_name(section))
    }

    /// Names and section of the function at an address, if it may be laid out.
    pub(crate) fn identify(
        &self,
        address: ImageAddr,
        included: Sections,
    ) -> Result<Identity, Unused> {
        let section = self.at(address);
        if !included.include(section) {
            return Err(Unused::SectionExcluded);
        }
        let names = names(self.image, address);
        if names.is_empty() {
            return Err(Unused::NoSymbol);
        }
        Ok(Identity { names, section: section.to_owned(), module: None })
    }
}
