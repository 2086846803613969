//! Puts one mapping of text into superpages of this process.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};

use superpages::Memory;

use crate::maps::Mapping;
use crate::sys::{self, Fresh};

/// At least this share, in per cent, of the copy must lie on superpages to be worth its memory.
const LEAST_PCT: u64 = 90;

/// Replaces the whole superpages of a mapping by a copy of what the file has there.
pub(crate) fn replace(mapping: &Mapping, memory: Memory) -> Result<(), String> {
    let range = mapping.superpages().ok_or("it spans no superpage")?;
    if sys::runs_here(&mapping.addresses) {
        return Err("the code that copies runs there".into());
    }
    let file =
        File::open(&mapping.path).map_err(|error| format!("the file cannot be read: {error}"))?;
    let about = file.metadata().map_err(|error| format!("the file cannot be read: {error}"))?;
    let device = about.dev();
    if (libc::major(device), libc::minor(device), about.ino()) != mapping.identity {
        return Err("another file has its name now".into());
    }
    let bytes = usize::try_from(range.end - range.start).map_err(|error| error.to_string())?;
    let mut fresh = Fresh::new(bytes, memory).map_err(|error| match memory {
        Memory::Anonymous => format!("there is no memory for the copy: {error}"),
        Memory::Hugetlb => {
            format!(
                "too few superpages are reserved ({} are needed, vm.nr_hugepages): {error}",
                bytes >> 21
            )
        }
    })?;
    let offset = mapping.offset + (range.start - mapping.addresses.start);
    fill(&file, fresh.bytes_mut(), offset)
        .map_err(|error| format!("the file cannot be read: {error}"))?;
    if !sys::equals(&fresh, range.start) {
        return Err("it was changed in memory, by breakpoints, probes or text relocations".into());
    }
    let huge = match memory {
        Memory::Hugetlb => bytes as u64,
        Memory::Anonymous => superpages::own_superpage_bytes(fresh.address(), bytes as u64)
            .map_err(|error| error.to_string())?,
    };
    if huge.saturating_mul(100) < (bytes as u64).saturating_mul(LEAST_PCT) {
        return Err(format!("memory gave {} of {} superpages", huge >> 21, bytes >> 21));
    }
    fresh.make_executable().map_err(|error| {
        format!(
            "the kernel lets no written memory be executed: {error} (PR_SET_MDWE, SELinux or a \
             seccomp filter)"
        )
    })?;
    fresh.move_to(range.start).map_err(|error| format!("it cannot be moved into place: {error}"))
}

/// Reads from `offset` on; what lies behind the end of the file is zero, as it is in a mapping.
fn fill(file: &File, mut bytes: &mut [u8], mut offset: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match file.read_at(bytes, offset) {
            Ok(0) => break,
            Ok(count) => {
                bytes = bytes.get_mut(count..).unwrap_or_default();
                offset += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
