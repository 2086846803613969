//! Which CPUs belong together: the cores and NUMA nodes of `/sys/devices/system`.

use crate::cpus::{self, ONLINE};
use crate::settings::Wrong;
use crate::streaming::{Affinity, Mask, Spread};
use std::collections::BTreeMap;

/// The CPUs in groups: each alone, by core, package or node, or as they are named.
pub(crate) fn groups(cpus: &[i32], spread: &Spread) -> Vec<Vec<i32>> {
    let mut groups: Vec<Vec<i32>> = Vec::new();
    for cpu in cpus {
        if groups.iter().any(|group| group.contains(cpu)) {
            continue;
        }
        let mut group = match spread {
            Spread::Cpu => vec![*cpu],
            Spread::Core => core(*cpu),
            Spread::Package => package(*cpu),
            Spread::Node => node(*cpu),
            Spread::Masks(masks) => named(*cpu, masks).map_or_else(
                || cpus.iter().copied().filter(|other| named(*other, masks).is_none()).collect(),
                |mask| mask.rings.clone(),
            ),
        };
        group.retain(|member| cpus.contains(member));
        groups.push(if group.contains(cpu) { group } else { vec![*cpu] });
    }
    groups
}

/// Where a reader of a CPU's ring may run; none: anywhere.
pub(crate) fn near(cpu: i32, affinity: Affinity) -> Option<Vec<i32>> {
    match affinity {
        Affinity::Cpu => Some(vec![cpu]),
        Affinity::Node => Some(node(cpu)),
        Affinity::System => None,
    }
}

impl Spread {
    /// Refuses a mask with none of this machine's CPUs.
    pub fn check(&self) -> Result<(), Wrong> {
        let (Spread::Masks(masks), Some(online)) = (self, list(ONLINE)) else { return Ok(()) };
        let absent = |cpus: &[i32]| !cpus.iter().any(|cpu| online.contains(cpu));
        let mut lists = masks.iter().flat_map(|mask| [&mask.rings, &mask.near]);
        match lists.find(|cpus| absent(cpus)) {
            Some(cpus) => Err(Wrong {
                found: format!("{cpus:?}"),
                expected: "a list with one of this machine's CPUs".to_owned(),
            }),
            None => Ok(()),
        }
    }
}

/// What is said of the reader of a CPU's ring.
pub(crate) fn named(cpu: i32, masks: &[Mask]) -> Option<&Mask> {
    masks.iter().find(|mask| mask.rings.contains(&cpu))
}

fn list(path: &str) -> Option<Vec<i32>> {
    let cpus = cpus::parse(std::fs::read_to_string(path).ok()?.trim());
    (!cpus.is_empty()).then_some(cpus)
}

/// The first list of CPUs that the kernel has under one of these names.
fn beside(cpu: i32, names: [&str; 2]) -> Vec<i32> {
    let at = |name: &str| list(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}"));
    names.into_iter().find_map(at).unwrap_or_else(|| vec![cpu])
}

fn core(cpu: i32) -> Vec<i32> {
    beside(cpu, ["core_cpus_list", "thread_siblings_list"])
}

fn package(cpu: i32) -> Vec<i32> {
    beside(cpu, ["package_cpus_list", "core_siblings_list"])
}

/// The NUMA node of each CPU; none on a kernel without NUMA.
pub(crate) fn nodes() -> BTreeMap<i32, u32> {
    let online = list("/sys/devices/system/node/online").unwrap_or_default();
    let of = |node: i32| {
        let number = u32::try_from(node).ok()?;
        let cpus = list(&format!("/sys/devices/system/node/node{node}/cpulist"))?;
        Some(cpus.into_iter().map(move |cpu| (cpu, number)))
    };
    online.into_iter().filter_map(of).flatten().collect()
}

/// A kernel without NUMA has one node of all CPUs.
fn node(cpu: i32) -> Vec<i32> {
    let nodes = nodes();
    let Some(own) = nodes.get(&cpu) else { return list(ONLINE).unwrap_or_else(|| vec![cpu]) };
    nodes.iter().filter(|(_, node)| *node == own).map(|(cpu, _)| *cpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_is_in_one_group() {
        let cpus = list(ONLINE).unwrap();
        let masks = Spread::Masks(vec![Mask { rings: vec![cpus[0], 9999], near: vec![cpus[0]] }]);
        assert_eq!(groups(&cpus, &masks).first(), Some(&vec![cpus[0]]));
        assert!(groups(&cpus, &masks).len() <= 2);
        for spread in [Spread::Cpu, Spread::Core, Spread::Package, Spread::Node, masks] {
            let mut all: Vec<i32> = groups(&cpus, &spread).into_iter().flatten().collect();
            all.sort_unstable();
            assert_eq!(all, cpus, "{spread:?}");
        }
        assert!(near(cpus[0], Affinity::Node).unwrap().contains(&cpus[0]));
    }
}
