//! What this machine's kernel says about its PMUs (sysfs) and tracepoints (tracefs).

use super::error::Error;
use super::names::nearest;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where the kernel's descriptions lie.
#[derive(Clone, Debug)]
pub struct EventSources {
    /// A directory per PMU.
    pub pmus: PathBuf,
    /// The mounted tracefs, when there is one.
    pub tracefs: Option<PathBuf>,
}

impl EventSources {
    /// This machine.
    pub fn here() -> EventSources {
        let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
        EventSources {
            pmus: PathBuf::from("/sys/bus/event_source/devices"),
            tracefs: places.into_iter().find(|place| place.join("events").is_dir()),
        }
    }

    /// Names of the PMUs, sorted.
    pub fn pmu_names(&self) -> Vec<String> {
        entries(&self.pmus)
    }

    /// Number and name of each PMU, sorted.
    pub(crate) fn pmu_types(&self) -> Vec<(u32, String)> {
        let names = self.pmu_names().into_iter();
        let mut found: Vec<(u32, String)> = names
            .filter_map(|name| {
                Some((read(&self.pmus.join(&name).join("type"))?.parse().ok()?, name))
            })
            .collect();
        found.sort();
        found
    }

    /// A PMU by its name.
    pub(crate) fn pmu(&self, name: &str) -> Result<Pmu, Error> {
        let unknown = || Error::UnknownPmu { name: name.to_owned(), known: self.pmu_names() };
        if !plain(name) {
            return Err(unknown());
        }
        let dir = self.pmus.join(name);
        let kind =
            read(&dir.join("type")).and_then(|text| text.parse().ok()).ok_or_else(unknown)?;
        let formats = entries(&dir.join("format"));
        let formats = formats.into_iter().filter_map(|format| {
            let text = read(&dir.join("format").join(&format))?;
            Some((format, Format::parse(&text)?))
        });
        Ok(Pmu { name: name.to_owned(), kind, formats: formats.collect(), dir })
    }

    /// The PMU that has an event of this name.
    pub(crate) fn pmu_with_event(&self, event: &str) -> Option<Pmu> {
        let has =
            |pmu: &String| plain(event) && self.pmus.join(pmu).join("events").join(event).is_file();
        self.pmu(&self.pmu_names().into_iter().find(has)?).ok()
    }

    /// Names of all PMUs' own events.
    pub(crate) fn pmu_events(&self) -> impl Iterator<Item = String> {
        self.pmu_names().into_iter().flat_map(|pmu| events_of(&self.pmus.join(pmu)))
    }

    /// System, name and number of the tracepoints that match; `*` and `?` stand for any text and
    /// character.
    pub(crate) fn tracepoints(
        &self,
        system: &str,
        name: &str,
    ) -> Result<Vec<(String, String, u64)>, Error> {
        let wrong = |reason: String| Error::Tracepoint { name: format!("{system}:{name}"), reason };
        let denied =
            || Error::Denied { name: format!("{system}:{name}"), reason: NO_TRACEFS.to_owned() };
        let Some(events) = self.tracefs.as_ref().map(|tracefs| tracefs.join("events")) else {
            return Err(denied());
        };
        let matching = |dir: &Path, pattern: &str| -> Vec<String> {
            if pattern.contains(['*', '?']) {
                entries(dir).into_iter().filter(|entry| matches(pattern, entry)).collect()
            } else if plain(pattern) {
                vec![pattern.to_owned()]
            } else {
                Vec::new()
            }
        };
        let mut found = Vec::new();
        let mut locked = false;
        for system in matching(&events, system) {
            for name in matching(&events.join(&system), name) {
                let place = events.join(&system).join(&name).join("id");
                let id = read(&place);
                locked |= id.is_none() && is_locked(&place);
                found
                    .extend(id.and_then(|id| id.parse().ok()).map(|id| (system.clone(), name, id)));
            }
        }
        if found.is_empty() && locked {
            return Err(denied());
        }
        if found.is_empty() {
            let known = entries(&events).into_iter().flat_map(|system| {
                let names = entries(&events.join(&system));
                names.into_iter().map(move |name| format!("{system}:{name}"))
            });
            let near = nearest(&format!("{system}:{name}"), known);
            let near = if near.is_empty() {
                String::new()
            } else {
                format!("; did you mean {}?", near.join(", "))
            };
            return Err(wrong(format!("{} has none of that name{near}", events.display())));
        }
        Ok(found)
    }
}

const NO_TRACEFS: &str = "tracefs cannot be read here: as root, `mount -t tracefs none \
                          /sys/kernel/tracing`, and to let others use it `chmod -R a+rX \
                          /sys/kernel/tracing`";

/// Whether a file is there, or may be, and is not ours to read.
fn is_locked(path: &Path) -> bool {
    std::fs::File::open(path)
        .is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

/// A performance monitoring unit as sysfs describes it.
pub(crate) struct Pmu {
    pub name: String,
    pub kind: u32,
    pub formats: BTreeMap<String, Format>,
    dir: PathBuf,
}

impl Pmu {
    /// The terms that an event of this PMU stands for.
    pub(crate) fn alias(&self, event: &str) -> Option<String> {
        if !plain(event) || event.contains('.') {
            None
        } else {
            read(&self.dir.join("events").join(event))
        }
    }

    /// The unit of an event's counts and the factor that gives it, where there is one.
    pub(crate) fn unit(&self, event: &str) -> Option<(String, String)> {
        self.alias(event)?;
        let said = |what: &str| read(&self.dir.join("events").join(format!("{event}.{what}")));
        let (unit, scale) = (said("unit"), said("scale"));
        (unit.is_some() || scale.is_some())
            .then(|| (unit.unwrap_or_default(), scale.unwrap_or_else(|| "1".to_owned())))
    }

    /// A number that the driver tells of the unit (`caps/`).
    pub(crate) fn capability(&self, name: &str) -> Option<u64> {
        read(&self.dir.join("caps").join(name))?.parse().ok()
    }

    /// What it calls its terms and events.
    pub(crate) fn words(&self) -> impl Iterator<Item = String> {
        self.formats.keys().cloned().chain(events_of(&self.dir))
    }

    /// The CPUs that count for all others (an uncore PMU's), when there are such.
    pub(crate) fn cpus(&self) -> Option<String> {
        read(&self.dir.join("cpumask"))
            .or_else(|| read(&self.dir.join("cpus")))
            .filter(|text| !text.is_empty())
    }
}

fn events_of(dir: &Path) -> impl Iterator<Item = String> + use<> {
    // NAME.scale and NAME.unit describe the event NAME.
    entries(&dir.join("events")).into_iter().filter(|name| !name.contains('.'))
}

/// Which bits of which config word a term fills, low bits first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// 0 `config` to 3 `config3`.
    pub word: usize,
    ranges: Vec<(u32, u32)>,
}

impl Format {
    /// `config1:0-7,32-35`
    fn parse(text: &str) -> Option<Format> {
        let (word, ranges) = text.split_once(':')?;
        let word = match word.strip_prefix("config")? {
            "" => 0,
            number => number.parse().ok().filter(|number| (1..=3).contains(number))?,
        };
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first <= last && last < 64).then_some((first, last))
        };
        let ranges: Option<Vec<_>> = ranges.split(',').map(range).collect();
        let ranges = ranges?;
        let bits: u32 = ranges.iter().map(|(first, last)| last - first + 1).sum();
        (bits <= 64).then_some(Format { word, ranges })
    }

    /// The largest value that fits.
    pub(crate) fn largest(&self) -> u64 {
        let bits: u32 = self.ranges.iter().map(|(first, last)| last - first + 1).sum();
        u64::MAX.checked_shr(64 - bits).unwrap_or(0)
    }

    /// The mask of the bits, and the value spread over them.
    pub(crate) fn spread(&self, mut value: u64) -> (u64, u64) {
        let (mut mask, mut spread) = (0u64, 0u64);
        for (first, last) in &self.ranges {
            let bits = last - first + 1;
            let ones = u64::MAX >> (64 - bits);
            mask |= ones << first;
            spread |= (value & ones) << first;
            value = value.checked_shr(bits).unwrap_or(0);
        }
        (mask, spread)
    }
}

/// Whether a name can be a file's in the directory that it is looked for in.
fn plain(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != ".."
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn entries(dir: &Path) -> Vec<String> {
    let found = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        found.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Whether a name matches a pattern with `*` and `?`.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(letter) if *letter == b'?' || Some(letter) == name.get(n) => {
                p += 1;
                n += 1;
            }
            _ => {
                // The last star takes one more character.
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                (p, n) = (at + 1, taken + 1);
            }
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|letter| *letter == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_is_spread_over_the_bits_of_its_format() {
        let event = Format::parse("config:0-7,32-35").unwrap();
        assert_eq!(event.largest(), 0xfff);
        assert_eq!(event.spread(0xa3c), (0xf_0000_00ff, 0xa_0000_003c));
        assert_eq!(Format::parse("config1:0-63").unwrap().spread(u64::MAX), (u64::MAX, u64::MAX));
        assert_eq!(Format::parse("config2:5").unwrap().spread(1), (32, 32));
        for wrong in
            ["", "config", "config4:0", "config:9-1", "config:64", "config:0-63,0", "attr:1"]
        {
            assert_eq!(Format::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn patterns_match_as_a_shell_does() {
        for (pattern, name) in
            [("*", ""), ("sys_*", "sys_a"), ("*_exit_*", "a_exit_b"), ("a?c", "abc"), ("*b", "bab")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("?", ""), ("a*c", "ab"), ("ab", "abc")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
