//! Which CPUs belong together: the cores and NUMA nodes of `/sys/devices/system`.

use crate::open::{ONLINE, parse_cpus};
use crate::streaming::{Affinity, Spread};

/// The CPUs in groups: each alone, by core, or by node.
pub(crate) fn groups(cpus: &[i32], spread: Spread) -> Vec<Vec<i32>> {
    let mut groups: Vec<Vec<i32>> = Vec::new();
    for cpu in cpus {
        if groups.iter().any(|group| group.contains(cpu)) {
            continue;
        }
        let mut group = match spread {
            Spread::Cpu => vec![*cpu],
            Spread::Core => core(*cpu),
            Spread::Node => node(*cpu),
        };
        group.retain(|member| cpus.contains(member));
        groups.push(if group.contains(cpu) { group } else { vec![*cpu] });
    }
    groups
}

/// Where a reader of a CPU's ring may run.
pub(crate) fn near(cpu: i32, affinity: Affinity) -> Vec<i32> {
    match affinity {
        Affinity::Cpu => vec![cpu],
        Affinity::Node => node(cpu),
    }
}

fn list(path: &str) -> Option<Vec<i32>> {
    let cpus = parse_cpus(std::fs::read_to_string(path).ok()?.trim());
    (!cpus.is_empty()).then_some(cpus)
}

fn core(cpu: i32) -> Vec<i32> {
    let at = |name: &str| list(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}"));
    at("core_cpus_list").or_else(|| at("thread_siblings_list")).unwrap_or_else(|| vec![cpu])
}

/// A kernel without NUMA has one node of all CPUs.
fn node(cpu: i32) -> Vec<i32> {
    let entries =
        std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let node =
        names.into_iter().find(|name| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok()));
    let cpus = node.and_then(|node| list(&format!("/sys/devices/system/node/{node}/cpulist")));
    cpus.or_else(|| list(ONLINE)).unwrap_or_else(|| vec![cpu])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_is_in_one_group() {
        let cpus = list(ONLINE).unwrap();
        for spread in [Spread::Cpu, Spread::Core, Spread::Node] {
            let mut all: Vec<i32> = groups(&cpus, spread).into_iter().flatten().collect();
            all.sort_unstable();
            assert_eq!(all, cpus, "{spread:?}");
        }
        assert!(near(cpus[0], Affinity::Node).contains(&cpus[0]));
    }
}
