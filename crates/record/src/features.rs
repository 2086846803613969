//! The feature sections behind the data: where, with what and when the recording was made
//! (`tools/perf/Documentation/perf.data-file-format.txt`).

use crate::attr::{ATTR_BYTES, Attr};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Feature numbers, which are bits of the header and give the order of the sections.
pub(crate) mod number {
    pub const BUILD_ID: u32 = 2;
    pub const HOSTNAME: u32 = 3;
    pub const OSRELEASE: u32 = 4;
    pub const VERSION: u32 = 5;
    pub const ARCH: u32 = 6;
    pub const NRCPUS: u32 = 7;
    pub const CMDLINE: u32 = 11;
    pub const EVENT_DESC: u32 = 12;
    pub const SAMPLE_TIME: u32 = 21;
    pub const CLOCKID: u32 = 23;
}

/// A section's number and bytes.
pub(crate) type Section = (u32, Vec<u8>);

/// A string as the sections hold it: padded length, bytes, NULs.
fn string(to: &mut Vec<u8>, text: &[u8]) {
    let padded = (text.len() + 1).next_multiple_of(64);
    to.extend_from_slice(&(padded as u32).to_ne_bytes());
    let end = to.len() + padded;
    to.extend_from_slice(text);
    to.resize(end, 0);
}

fn string_section(number: u32, text: &[u8]) -> Section {
    let mut bytes = Vec::new();
    string(&mut bytes, text);
    (number, bytes)
}

/// A file by its build ID.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct BuildId {
    pub path: Vec<u8>,
    pub id: Vec<u8>,
    pub kernel: bool,
}

/// The build IDs of all mapped files, as a list of records.
pub(crate) fn build_ids(ids: &[BuildId]) -> Section {
    const MISC_KERNEL: u16 = 1;
    const MISC_USER: u16 = 2;
    const MISC_SIZE: u16 = 1 << 15;
    let mut bytes = Vec::new();
    for file in ids {
        let name_bytes = (file.path.len() + 1).next_multiple_of(64);
        let mut id = [0u8; 24];
        let len = file.id.len().min(20);
        id[..len].copy_from_slice(&file.id[..len]);
        id[20] = len as u8;
        bytes.extend_from_slice(&0u32.to_ne_bytes());
        bytes.extend_from_slice(
            &(if file.kernel { MISC_KERNEL } else { MISC_USER } | MISC_SIZE).to_ne_bytes(),
        );
        bytes.extend_from_slice(&((36 + name_bytes) as u16).to_ne_bytes());
        bytes.extend_from_slice(&(-1i32).to_ne_bytes());
        bytes.extend_from_slice(&id);
        let end = bytes.len() + name_bytes;
        bytes.extend_from_slice(&file.path);
        bytes.resize(end, 0);
    }
    (number::BUILD_ID, bytes)
}

/// The host and the command: everything known before the recording.
pub(crate) fn surroundings(machine: Option<&str>, command: &[OsString]) -> Vec<Section> {
    let host = crate::sys::host();
    let mut cpus = host.cpus_configured.to_ne_bytes().to_vec();
    cpus.extend_from_slice(&host.cpus_online.to_ne_bytes());
    let mut cmdline = (command.len() as u32).to_ne_bytes().to_vec();
    for word in command {
        string(&mut cmdline, word.as_bytes());
    }
    vec![
        string_section(number::HOSTNAME, host.name.as_bytes()),
        string_section(number::OSRELEASE, host.release.as_bytes()),
        string_section(number::VERSION, concat!("planish ", env!("CARGO_PKG_VERSION")).as_bytes()),
        string_section(number::ARCH, machine.unwrap_or(&host.machine).as_bytes()),
        (number::NRCPUS, cpus),
        (number::CMDLINE, cmdline),
    ]
}

/// The event's name, attribute and ids.
pub(crate) fn event_desc(attr: &Attr, name: &str, ids: &[u64]) -> Section {
    let mut bytes = 1u32.to_ne_bytes().to_vec();
    bytes.extend_from_slice(&ATTR_BYTES.to_ne_bytes());
    bytes.extend_from_slice(&attr.bytes());
    bytes.extend_from_slice(&(ids.len() as u32).to_ne_bytes());
    string(&mut bytes, name.as_bytes());
    for id in ids {
        bytes.extend_from_slice(&id.to_ne_bytes());
    }
    (number::EVENT_DESC, bytes)
}

/// Times of the first and the last sample.
pub(crate) fn sample_time(first: u64, last: u64) -> Section {
    let mut bytes = first.to_ne_bytes().to_vec();
    bytes.extend_from_slice(&last.to_ne_bytes());
    (number::SAMPLE_TIME, bytes)
}

/// The clock's resolution: 1 ns.
pub(crate) fn clockid() -> Section {
    (number::CLOCKID, 1u64.to_ne_bytes().to_vec())
}
