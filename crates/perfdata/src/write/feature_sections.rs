//! Feature sections as bytes, in the order of their numbers.

use crate::attr::EventAttr;
use crate::bytes::Endian;
use crate::feature_kinds::{BuildIdEntry, feature};
use crate::features::Features;
use crate::kinds::{kind, misc};
use std::collections::BTreeMap;

/// perf pads strings to this (`NAME_ALIGN`).
const NAME_ALIGN: usize = 64;

struct Section {
    bytes: Vec<u8>,
    endian: Endian,
}

impl Section {
    fn u32(&mut self, value: u32) {
        self.bytes.extend(self.endian.put_u32(value));
    }

    fn u64(&mut self, value: u64) {
        self.bytes.extend(self.endian.put_u64(value));
    }

    fn text(&mut self, text: &str) {
        let room = (text.len() + 1).next_multiple_of(NAME_ALIGN);
        self.u32(room as u32);
        let end = self.bytes.len() + room;
        self.bytes.extend(text.as_bytes());
        self.bytes.resize(end, 0);
    }
}

/// All sections that the features have something to say for, by number.
pub(super) fn sections(
    features: &Features,
    attrs: &[&EventAttr],
    endian: Endian,
) -> Vec<(u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for unknown in &features.unknown {
        if unknown.bytes.len() as u64 == unknown.size_bytes {
            found.insert(unknown.number, unknown.bytes.clone());
        }
    }
    let mut add = |number: u32, write: &dyn Fn(&mut Section)| {
        let mut section = Section { bytes: Vec::new(), endian };
        write(&mut section);
        found.insert(number, section.bytes);
    };
    if !features.build_ids.is_empty() {
        add(feature::BUILD_ID, &|s| s.bytes = build_id_section(&features.build_ids, endian));
    }
    let texts = [
        (feature::HOSTNAME, &features.hostname),
        (feature::OSRELEASE, &features.os_release),
        (feature::VERSION, &features.perf_version),
        (feature::ARCH, &features.arch),
        (feature::CPUDESC, &features.cpu_description),
        (feature::CPUID, &features.cpu_id),
    ];
    for (number, text) in texts {
        if let Some(text) = text {
            add(number, &|s| s.text(text));
        }
    }
    if let Some((available, online)) = features.cpus {
        add(feature::NRCPUS, &|s| {
            s.u32(available);
            s.u32(online);
        });
    }
    if !features.cmdline.is_empty() {
        add(feature::CMDLINE, &|s| {
            s.u32(features.cmdline.len() as u32);
            features.cmdline.iter().for_each(|argument| s.text(argument));
        });
    }
    if attrs.iter().any(|attr| attr.name.is_some()) || !features.event_desc.is_empty() {
        add(feature::EVENT_DESC, &|s| event_desc(s, features, attrs));
    }
    if features.branch_stack {
        add(feature::BRANCH_STACK, &|_| ());
    }
    if !features.pmu_mappings.is_empty() {
        add(feature::PMU_MAPPINGS, &|s| {
            s.u32(features.pmu_mappings.len() as u32);
            for (number, name) in &features.pmu_mappings {
                s.u32(*number);
                s.text(name);
            }
        });
    }
    if !features.aux_index.is_empty() {
        add(feature::AUXTRACE, &|s| {
            s.u64(features.aux_index.len() as u64);
            features.aux_index.iter().for_each(|(offset, size)| {
                s.u64(*offset);
                s.u64(*size);
            });
        });
    }
    numbers(features, &mut add);
    found.into_iter().collect()
}

/// The sections that hold only numbers, and the capabilities.
fn numbers(features: &Features, add: &mut impl FnMut(u32, &dyn Fn(&mut Section))) {
    let words =
        [(feature::TOTAL_MEM, features.total_memory_kib), (feature::CLOCKID, features.clockid)];
    for (number, word) in words {
        if let Some(word) = word {
            add(number, &|s| s.u64(word));
        }
    }
    if let Some(version) = features.dir_format {
        add(feature::DIR_FORMAT, &|s| {
            s.u64(version);
            if !features.file_bytes.is_empty() {
                s.u64(features.file_bytes.len() as u64);
                features.file_bytes.iter().for_each(|bytes| s.u64(*bytes));
            }
        });
    }
    if let Some(time) = features.sample_time {
        add(feature::SAMPLE_TIME, &|s| {
            s.u64(time.first_ns);
            s.u64(time.last_ns);
        });
    }
    if let Some((clock, wall_ns, clock_ns)) = features.clock_data {
        add(feature::CLOCK_DATA, &|s| {
            s.u32(1);
            s.u32(clock);
            s.u64(wall_ns);
            s.u64(clock_ns);
        });
    }
    if let Some(c) = features.compressed {
        add(feature::COMPRESSED, &|s| {
            [c.version, c.algorithm, c.level, c.ratio, c.mmap_len]
                .into_iter()
                .for_each(|word| s.u32(word));
        });
    }
    if !features.pmu_caps.is_empty() {
        add(feature::PMU_CAPS, &|s| {
            s.u32(features.pmu_caps.len() as u32);
            for (pmu, caps) in &features.pmu_caps {
                s.u32(caps.len() as u32);
                s.text(pmu);
                for (name, value) in caps {
                    s.text(name);
                    s.text(value);
                }
            }
        });
    }
}

/// Every event with its attribute, ids and name; the events' own names come before those of the
/// feature.
fn event_desc(s: &mut Section, features: &Features, attrs: &[&EventAttr]) {
    s.u32(attrs.len() as u32);
    s.u32(EventAttr::WRITTEN_BYTES);
    for (index, attr) in attrs.iter().enumerate() {
        attr.write(&mut s.bytes, s.endian);
        s.u32(attr.ids.len() as u32);
        let described = features.event_desc.get(index).map(|description| description.name.as_str());
        s.text(attr.name.as_deref().or(described).unwrap_or("unknown"));
        attr.ids.iter().for_each(|&id| s.u64(id));
    }
}

fn build_id_section(entries: &[BuildIdEntry], endian: Endian) -> Vec<u8> {
    entries.iter().flat_map(|entry| build_id_record(entry, endian, 0)).collect()
}

/// The same entries as records of the pipe form.
pub(super) fn build_id_records(entries: &[BuildIdEntry], endian: Endian) -> Vec<u8> {
    entries.iter().flat_map(|entry| build_id_record(entry, endian, kind::HEADER_BUILD_ID)).collect()
}

fn build_id_record(entry: &BuildIdEntry, endian: Endian, kind: u32) -> Vec<u8> {
    let path = entry.path.as_bytes();
    let path = path.get(..path.len().min(4095)).unwrap_or(path);
    let room = (path.len() + 1).next_multiple_of(NAME_ALIGN);
    let id_len = entry.build_id.len().min(20);
    let mut out = endian.put_u32(kind).to_vec();
    out.extend(endian.put_u16(entry.misc | misc::BUILD_ID_SIZE));
    // At most 4,096 + 64 + 36 bytes.
    out.extend(endian.put_u16((36 + room) as u16));
    out.extend(endian.put_u32(entry.pid as u32));
    let mut id = [0u8; 24];
    id[..id_len].copy_from_slice(&entry.build_id[..id_len]);
    id[20] = id_len as u8;
    out.extend(id);
    let end = out.len() + room;
    out.extend(path);
    out.resize(end, 0);
    out
}
