//! What the machine is made of, as perf's feature sections say it: its processor, memory, CPUs,
//! nodes and caches.
//!
//! Source: `tools/perf/util/header.c` (`write_cpudesc`, `write_cpu_topology`,
//! `write_numa_topology`, `write_cache`) and `util/cputopo.c`. What a kernel does not tell is left
//! out.

use crate::cpus;
use perfdata::{Features, UnknownFeature};
use std::path::{Path, PathBuf};

const CPU_TOPOLOGY: u32 = 13;
const NUMA_TOPOLOGY: u32 = 14;
const CACHE: u32 = 20;
/// perf pads strings, with the zero at their end, to multiples of this.
const NAME_ALIGN: usize = 64;
/// Caches of a CPU that perf looks at.
const CACHES: usize = 4;
/// There is only this version of the section.
const CACHE_VERSION: u32 = 1;

/// Where the kernel tells of the machine; other places in tests.
pub(crate) struct Sources {
    /// `/proc`
    pub proc: PathBuf,
    /// `/sys/devices/system`
    pub system: PathBuf,
}

impl Sources {
    /// Those of this machine.
    pub(crate) fn here() -> Sources {
        Sources { proc: "/proc".into(), system: "/sys/devices/system".into() }
    }

    /// Adds what is known of a machine of so many CPUs.
    pub(crate) fn describe(&self, features: &mut Features, cpus: u32) {
        let info = read(&self.proc.join("cpuinfo")).unwrap_or_default();
        let field = |name: &str| {
            let lines = info.lines().filter_map(|line| line.split_once(':'));
            let found = lines.into_iter().find(|(key, _)| key.trim() == name)?.1;
            Some(found.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        features.cpu_description = field("model name").or_else(|| field("Processor"));
        if features.cpu_id.is_none() {
            let parts = ["vendor_id", "cpu family", "model", "stepping"].map(field);
            features.cpu_id =
                parts.into_iter().collect::<Option<Vec<String>>>().map(|parts| parts.join(","));
        }
        features.total_memory_kib =
            read(&self.proc.join("meminfo")).and_then(|text| kib(&text, "MemTotal:"));
        let mut add = |number: u32, bytes: Option<Vec<u8>>| {
            if let Some(bytes) = bytes {
                let size_bytes = bytes.len() as u64;
                features.unknown.push(UnknownFeature { number, offset: 0, size_bytes, bytes });
            }
        };
        add(CPU_TOPOLOGY, self.topology(cpus));
        add(NUMA_TOPOLOGY, self.nodes());
        add(CACHE, self.caches(cpus));
    }

    fn cpu(&self, cpu: u32) -> PathBuf {
        self.system.join(format!("cpu/cpu{cpu}"))
    }

    /// Lists of CPUs that share a package, and a core; of each CPU its core and package; then the
    /// same of dies.
    fn topology(&self, cpus: u32) -> Option<Vec<u8>> {
        let lists = |names: [&str; 2]| {
            let mut found: Vec<String> = Vec::new();
            for cpu in 0..cpus {
                let dir = self.cpu(cpu).join("topology");
                let list = names.iter().find_map(|name| read(&dir.join(name)));
                found.extend(list.filter(|list| !found.contains(list)));
            }
            found
        };
        let number = |cpu: u32, name: &str| {
            let text = read(&self.cpu(cpu).join("topology").join(name));
            // A CPU that is offline tells nothing; perf writes −1.
            text.and_then(|text| text.parse::<i32>().ok()).unwrap_or(-1)
        };
        let packages = lists(["package_cpus_list", "core_siblings_list"]);
        let cores = lists(["core_cpus_list", "thread_siblings_list"]);
        if packages.is_empty() || cores.is_empty() {
            return None;
        }
        let mut bytes = Vec::new();
        put_list(&mut bytes, &packages);
        put_list(&mut bytes, &cores);
        for cpu in 0..cpus {
            bytes.extend(number(cpu, "core_id").to_ne_bytes());
            bytes.extend(number(cpu, "physical_package_id").to_ne_bytes());
        }
        let dies = lists(["die_cpus_list", "die_cpus_list"]);
        // As perf: on other architectures every package has one die, and nothing is said of it.
        if cfg!(target_arch = "x86_64") && !dies.is_empty() {
            put_list(&mut bytes, &dies);
            (0..cpus).for_each(|cpu| bytes.extend(number(cpu, "die_id").to_ne_bytes()));
        }
        Some(bytes)
    }

    /// Of each node its number, memory, free memory, and CPUs.
    fn nodes(&self) -> Option<Vec<u8>> {
        let nodes = cpus::parse(&read(&self.system.join("node/online"))?);
        let mut bytes = (nodes.len() as u32).to_ne_bytes().to_vec();
        for node in &nodes {
            let dir = self.system.join(format!("node/node{node}"));
            let memory = read(&dir.join("meminfo"))?;
            bytes.extend(node.to_ne_bytes());
            bytes.extend(kib(&memory, "MemTotal:")?.to_ne_bytes());
            bytes.extend(kib(&memory, "MemFree:")?.to_ne_bytes());
            put_text(&mut bytes, &read(&dir.join("cpulist"))?);
        }
        (!nodes.is_empty()).then_some(bytes)
    }

    /// Every cache once, by level: its line size, sets and ways, what for, how large, and whose.
    fn caches(&self, cpus: u32) -> Option<Vec<u8>> {
        let mut found: Vec<([u32; 4], [String; 3])> = Vec::new();
        for cpu in 0..cpus {
            for index in 0..CACHES {
                let dir = self.cpu(cpu).join(format!("cache/index{index}"));
                let numbers =
                    ["level", "coherency_line_size", "number_of_sets", "ways_of_associativity"];
                let numbers =
                    numbers.map(|name| read(&dir.join(name)).and_then(|text| text.parse().ok()));
                let texts = ["type", "size", "shared_cpu_list"].map(|name| read(&dir.join(name)));
                let [Some(level), Some(line), Some(sets), Some(ways)] = numbers else { continue };
                let [Some(kind), Some(size), Some(whose)] = texts else { continue };
                let cache = ([level, line, sets, ways], [kind, size, whose]);
                if !found.contains(&cache) {
                    found.push(cache);
                }
            }
        }
        if found.is_empty() {
            return None;
        }
        found.sort_by_key(|(numbers, _)| numbers[0]);
        let mut bytes = CACHE_VERSION.to_ne_bytes().to_vec();
        bytes.extend((found.len() as u32).to_ne_bytes());
        for (numbers, texts) in &found {
            numbers.iter().for_each(|number| bytes.extend(number.to_ne_bytes()));
            texts.iter().for_each(|text| put_text(&mut bytes, text));
        }
        Some(bytes)
    }
}

fn read(path: &Path) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim_end().to_owned())
}

/// The number behind a word, in KiB; before it may stand others (`Node 0 MemTotal:`).
fn kib(text: &str, word: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| Some(line.split_once(word)?.1))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let room = (text.len() + 1).next_multiple_of(NAME_ALIGN);
    bytes.extend((room as u32).to_ne_bytes());
    let end = bytes.len() + room;
    bytes.extend(text.as_bytes());
    bytes.resize(end, 0);
}

fn put_list(bytes: &mut Vec<u8>, texts: &[String]) {
    bytes.extend((texts.len() as u32).to_ne_bytes());
    texts.iter().for_each(|text| put_text(bytes, text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_tells_nothing_is_described_by_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut features = Features::default();
        Sources { proc: dir.path().into(), system: dir.path().into() }.describe(&mut features, 2);
        assert!(
            features.unknown.is_empty()
                && features.cpu_id.is_none()
                && features.total_memory_kib.is_none()
        );
    }

    #[test]
    fn nodes_are_told_with_their_memory_and_cpus() {
        let dir = tempfile::tempdir().unwrap();
        let node = dir.path().join("node/node1");
        std::fs::create_dir_all(&node).unwrap();
        std::fs::write(dir.path().join("node/online"), "1\n").unwrap();
        std::fs::write(
            node.join("meminfo"),
            "Node 1 MemTotal:   23292120 kB\nNode 1 MemFree: 7 kB\n",
        )
        .unwrap();
        std::fs::write(node.join("cpulist"), "0-1\n").unwrap();
        let bytes = Sources { proc: dir.path().into(), system: dir.path().into() }.nodes().unwrap();
        let mut expected = [1u32, 1].map(u32::to_ne_bytes).concat();
        expected.extend([23_292_120u64, 7].map(u64::to_ne_bytes).concat());
        expected.extend(64u32.to_ne_bytes());
        expected.extend(b"0-1");
        expected.resize(4 + 4 + 16 + 4 + 64, 0);
        assert_eq!(bytes, expected);
    }
}
