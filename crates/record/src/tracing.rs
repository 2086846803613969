//! The formats of the recorded tracepoints, as perf keeps them in feature TRACING_DATA (trace.dat
//! version 0.6), so that other programs can print the fields.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The section for these tracepoints (system, name), from the files of tracefs. Empty when there
/// are none.
pub(crate) fn section(tracefs: &Path, tracepoints: &[(String, String)]) -> Vec<u8> {
    if tracepoints.is_empty() {
        return Vec::new();
    }
    let mut bytes = b"\x17\x08\x44tracing0.6\0".to_vec();
    bytes.push(u8::from(cfg!(target_endian = "big")));
    bytes.push(8);
    bytes.extend(4096u32.to_ne_bytes());
    for name in ["header_page", "header_event"] {
        bytes.extend(name.as_bytes());
        bytes.push(0);
        sized(&mut bytes, &read(&tracefs.join("events").join(name)));
    }
    // The events of ftrace itself, which describe its own ring buffer: perf's has none of them.
    bytes.extend(0u32.to_ne_bytes());
    let mut systems: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (system, name) in tracepoints {
        let names = systems.entry(system).or_default();
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    bytes.extend((systems.len() as u32).to_ne_bytes());
    for (system, names) in systems {
        bytes.extend(system.as_bytes());
        bytes.push(0);
        bytes.extend((names.len() as u32).to_ne_bytes());
        for name in names {
            sized(
                &mut bytes,
                &read(&tracefs.join("events").join(system).join(name).join("format")),
            );
        }
    }
    // Kernel symbols, left out, and texts that the formats refer to, both with 32-bit sizes; then
    // the names of tasks.
    bytes.extend(0u32.to_ne_bytes());
    let texts = read(&tracefs.join("printk_formats"));
    bytes.extend((texts.len() as u32).to_ne_bytes());
    bytes.extend(texts);
    sized(&mut bytes, b"");
    bytes
}

/// A 64-bit size and the bytes.
fn sized(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_ne_bytes());
    out.extend(bytes);
}

/// A file that cannot be read is described as empty: the samples themselves are whole without it.
/// Some files of tracefs answer only one read, so the first must have room for all.
fn read(path: &Path) -> Vec<u8> {
    const ROOM: usize = 1 << 16;
    let mut found = Vec::new();
    let Ok(mut file) = File::open(path) else { return found };
    let mut part = vec![0; ROOM];
    while let Ok(taken @ 1..) = file.read(&mut part) {
        found.extend(part.iter().take(taken));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formats_of_each_system_stand_together() {
        let dir = tempfile::tempdir().unwrap();
        for (system, name) in [("a", "one"), ("b", "two"), ("a", "three")] {
            let place = dir.path().join("events").join(system).join(name);
            std::fs::create_dir_all(&place).unwrap();
            std::fs::write(place.join("format"), format!("format of {name}")).unwrap();
        }
        let pair = |system: &str, name: &str| (system.to_owned(), name.to_owned());
        let asked = [pair("a", "one"), pair("b", "two"), pair("a", "three"), pair("a", "one")];
        let bytes = section(dir.path(), &asked);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let place = |what: &str| text.find(what).unwrap();
        assert!(
            place("format of one") < place("format of three")
                && place("format of three") < place("format of two")
        );
        assert_eq!(text.matches("format of one").count(), 1);
        assert!(section(dir.path(), &[]).is_empty());
    }
}
