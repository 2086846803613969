//! The pages behind the vdso's clock, which no other process may read: this process has the same
//! ones.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const PAGE: usize = 4096;

/// The clock pages of this process.
pub(crate) struct Vvar {
    start: usize,
    end: usize,
    /// Whether a page can be read at all, by its number; none while that is not known.
    readable: Vec<Option<bool>>,
    probe: OwnedFd,
}

impl Vvar {
    /// Finds them, by the name that the kernel gives their mapping.
    pub(crate) fn here() -> Option<Vvar> {
        let (start, end) = range(&std::fs::read("/proc/self/maps").ok()?)?;
        // SAFETY: the call makes a new descriptor, which is checked.
        let probe = unsafe {
            let fd = libc::memfd_create(c"planish-probe".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return None;
            }
            OwnedFd::from_raw_fd(fd)
        };
        let (start, end) = (start as usize, end as usize);
        Some(Vvar { start, end, readable: vec![None; (end - start) / PAGE], probe })
    }

    /// Copies the page at an offset from the mapping's start; an error where there is none.
    pub(crate) fn page(&mut self, offset: u64, into: &mut [u8; PAGE]) -> io::Result<()> {
        let none = || io::Error::from_raw_os_error(libc::EFAULT);
        let number = usize::try_from(offset).map_err(|_| none())? / PAGE;
        let known = self.readable.get_mut(number).ok_or_else(none)?;
        let page = self.start + number * PAGE;
        if page >= self.end {
            return Err(none());
        }
        if known.is_none() {
            // Some pages of the mapping have nothing behind them, and a load from them ends the
            // program: the kernel tries it first, and answers with an error.
            // SAFETY: the kernel reads one page of this process, or refuses.
            let wrote = unsafe {
                libc::pwrite(self.probe.as_raw_fd(), page as *const libc::c_void, PAGE, 0)
            };
            *known = Some(wrote == PAGE as isize);
        }
        if *known != Some(true) {
            return Err(none());
        }
        for (word, place) in into.chunks_exact_mut(8).enumerate() {
            // SAFETY: the page was just seen to be readable and stays mapped as long as the
            // process; the kernel writes it at any time, so it is read by single
            // volatile loads.
            let value = unsafe { ((page + word * 8) as *const u64).read_volatile() };
            place.copy_from_slice(&value.to_ne_bytes());
        }
        Ok(())
    }
}

/// Where a process has its clock pages: from the first to the last mapping whose name begins so.
pub(crate) fn range(maps: &[u8]) -> Option<(u64, u64)> {
    let mut found: Option<(u64, u64)> = None;
    for line in maps.split(|byte| *byte == b'\n') {
        let text = String::from_utf8_lossy(line);
        if !text.contains("[vvar") {
            continue;
        }
        let (start, end) = text.split_whitespace().next()?.split_once('-')?;
        let (start, end) =
            (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        found = Some(found.map_or((start, end), |(first, _)| (first, end)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_clock_pages_are_found_and_move() {
        let Some(mut vvar) = Vvar::here() else {
            println!("skipped: this kernel maps no [vvar]");
            return;
        };
        let pages = vvar.readable.len();
        let mut one = [0u8; PAGE];
        let read =
            (0..pages).filter(|page| vvar.page((page * PAGE) as u64, &mut one).is_ok()).count();
        assert!(read > 0, "none of {pages} pages can be read");
        assert!(vvar.page((pages * PAGE) as u64, &mut one).is_err());
    }

    #[test]
    fn several_mappings_count_as_one() {
        let maps =
            b"7ff0-7ff4 r--p 0 0 0 [vvar]\n7ff4-7ff6 r--p 0 0 0 [vvar_vclock]\n7ff6-7ff8 r-xp 0 0 0 [vdso]\n";
        assert_eq!(range(maps), Some((0x7ff0, 0x7ff6)));
    }
}
