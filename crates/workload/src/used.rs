//! What did the program use in a run, and how does whoever measures the run get to know it?

use crate::sys;
use processes::Process;
use serde::{Deserialize, Serialize};
use std::io::{Error, Write};
use std::path::Path;

/// What the program used: the command's processes, or a server's while the command ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// `planish-used`.
    pub schema: String,
    /// Version of this form.
    pub version: u32,
    /// From the command's start to its end, nanoseconds.
    pub wall_ns: u64,
    /// CPU time in user mode, nanoseconds.
    pub user_ns: u64,
    /// CPU time in the kernel, nanoseconds.
    pub system_ns: u64,
    /// Largest resident set of a process, bytes.
    pub max_rss_bytes: u64,
    /// Page faults served without reading.
    pub minor_faults: u64,
    /// Page faults that read from disk.
    pub major_faults: u64,
    /// Times a CPU was given away; absent for servers, of which the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voluntary_switches: Option<u64>,
    /// Times a CPU was taken away; likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub involuntary_switches: Option<u64>,
}

const SCHEMA: &str = "planish-used";

impl Used {
    /// What a process and those of its children that it waited for have used until now.
    pub(crate) fn until_now(process: &Process) -> Used {
        let (user, system) = sys::cpu_time(process.pid).unwrap_or_default();
        let tick = sys::tick_ns();
        Used {
            user_ns: user + process.children.0 * tick,
            system_ns: system + process.children.1 * tick,
            max_rss_bytes: largest_resident(process.pid).unwrap_or_default(),
            minor_faults: process.faults.0,
            major_faults: process.faults.1,
            ..Used::default()
        }
    }

    /// The same with schema and version filled in.
    pub(crate) fn named(self) -> Used {
        Used { schema: SCHEMA.to_owned(), version: 1, ..self }
    }

    /// Reads what a run wrote; `None` where it wrote nothing, since it failed before.
    ///
    /// # Errors
    /// Where the bytes hold something else.
    pub fn read(bytes: &[u8]) -> std::io::Result<Option<Used>> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let used: Used = serde_json::from_slice(bytes)?;
        if used.schema == SCHEMA { Ok(Some(used)) } else { Err(Error::other("no planish-used")) }
    }

    /// Writes it into a file that is there and empty.
    ///
    /// # Errors
    /// Where it cannot be opened or written.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut file = beside::given::fill(path)?;
        file.write_all(&serde_json::to_vec(self)?)
    }
}

/// The most memory that a process had resident, bytes (`VmHWM`, in KiB there).
fn largest_resident(pid: i32) -> Option<u64> {
    let status = std::fs::read(Path::new("/proc").join(pid.to_string()).join("status")).ok()?;
    let status = String::from_utf8_lossy(&status).into_owned();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let used = Used { user_ns: 7, ..Used::default() }.named();
        used.write(file.path()).unwrap();
        assert_eq!(Used::read(&std::fs::read(file.path()).unwrap()).unwrap(), Some(used));
        assert_eq!(Used::read(b"").unwrap(), None);
        assert!(Used::read(b"{}").is_err() && Used::read(b"xy").is_err());
    }

    #[test]
    fn this_process_is_there_and_used_something() {
        let own = std::process::id() as i32;
        let all = processes::list();
        let process = all.get(&own).unwrap();
        assert!(!process.zombie && process.parent > 0);
        let used = Used::until_now(process);
        assert!(used.user_ns + used.system_ns > 0 && used.max_rss_bytes > 1 << 20, "{used:?}");
    }
}
