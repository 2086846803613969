//! The system calls behind superpages: maps, advice, locks, PAGEMAP_SCAN, file system kinds.
//!
//! Sources: mmap(2), madvise(2), posix_fadvise(2), mlock(2), statfs(2), and the kernel's
//! Documentation/admin-guide/mm/pagemap.rst for PAGEMAP_SCAN.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;

/// MADV_COLLAPSE (include/uapi/asm-generic/mman-common.h); newer than some C libraries.
const MADV_COLLAPSE: libc::c_int = 25;

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Memory that this process has mapped, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Map {
    /// The reservation, which begins below the part in use so that this can be aligned.
    base: *mut libc::c_void,
    reserved: usize,
    start: *mut libc::c_void,
    bytes: usize,
}

/// What advice is given for a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Superpages wanted.
    Huge,
    /// Superpages not wanted.
    Small,
    /// Collapse what is there into superpages now.
    Collapse,
}

/// Where the bytes of a mapping come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From<'a> {
    /// A file, from this offset on; private.
    File(&'a File, u64),
    /// Fresh memory of this process.
    Anonymous,
    /// Fresh memory from the pool of reserved superpages (hugetlb).
    Hugetlb,
}

impl Map {
    /// Maps `bytes` bytes at an address that is a multiple of `align` plus the file offset modulo
    /// `align`.
    pub(crate) fn new(
        from: From<'_>,
        bytes: usize,
        align: usize,
        writable: bool,
    ) -> io::Result<Map> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
        let reserved = bytes
            .checked_add(align)
            .filter(|_| bytes > 0 && align.is_power_of_two())
            .ok_or_else(wrong)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at a place that the kernel chooses touches no memory in use.
        let base = unsafe { libc::mmap(ptr::null_mut(), reserved, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = base.wrapping_byte_add((align - base as usize % align) % align);
        let mut map = Map { base, reserved, start, bytes };
        let read_write = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        let (protection, flags, fd, offset) = match from {
            From::File(file, offset) => (read_write, libc::MAP_PRIVATE, file.as_raw_fd(), offset),
            From::Anonymous => (read_write, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
            From::Hugetlb => (
                read_write,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | (21 << 26),
                -1,
                0,
            ),
        };
        let offset = libc::off_t::try_from(offset).map_err(|_| wrong())?;
        // SAFETY: `start..start + bytes` lies in the reservation made above, which nothing else
        // uses.
        let got =
            unsafe { libc::mmap(start, bytes, protection, flags | libc::MAP_FIXED, fd, offset) };
        if got == libc::MAP_FAILED {
            map.bytes = 0;
            return Err(io::Error::last_os_error());
        }
        Ok(map)
    }

    /// Address of the first byte, for `/proc/self/pagemap`.
    pub(crate) fn address(&self) -> u64 {
        self.start as u64
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn advise(&self, advice: Advice) -> io::Result<()> {
        let advice = match advice {
            Advice::Huge => libc::MADV_HUGEPAGE,
            Advice::Small => libc::MADV_NOHUGEPAGE,
            Advice::Collapse => MADV_COLLAPSE,
        };
        // SAFETY: the range is this mapping; none of the three changes what can be read in it.
        checked(unsafe { libc::madvise(self.start, self.bytes, advice) })
    }

    /// Locks the pages into memory, which also faults all of them in.
    pub(crate) fn lock(&self) -> io::Result<()> {
        // SAFETY: the range is this mapping.
        checked(unsafe { libc::mlock(self.start, self.bytes) })
    }

    /// Puts this memory in the place of another mapping of the same size, as text is replaced while
    /// it runs.
    pub(crate) fn move_over(mut self, target: &Map) -> io::Result<()> {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        if self.bytes != target.bytes {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        // SAFETY: both ranges are mappings of this module, of one size; the target keeps its owner.
        let got = unsafe { libc::mremap(self.start, self.bytes, self.bytes, flags, target.start) };
        if got == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.bytes = 0;
        Ok(())
    }

    /// Reads one byte every `step` bytes, so that the pages are there. The file must not shrink
    /// meanwhile: a read behind its end would end the process by SIGBUS, so `limit` is the
    /// file's length from the map's start on.
    pub(crate) fn touch(&self, step: usize, limit: usize) {
        for at in (0..self.bytes.min(limit)).step_by(step.max(1)) {
            // SAFETY: `at` is inside the mapping, which is readable.
            unsafe { ptr::read_volatile(self.start.cast::<u8>().wrapping_add(at)) };
        }
    }

    /// Writes one byte every `step` bytes of a writable map.
    pub(crate) fn touch_to_write(&self, step: usize) {
        for at in (0..self.bytes).step_by(step.max(1)) {
            // SAFETY: `at` is inside the mapping, which the caller mapped writable.
            unsafe { ptr::write_volatile(self.start.cast::<u8>().wrapping_add(at), 1) };
        }
    }

    /// Writes a pointer at `at` to `to`, both offsets in this map. Offsets outside are left alone.
    pub(crate) fn link(&self, at: usize, to: usize) {
        if at.is_multiple_of(8)
            && at.checked_add(8).is_some_and(|end| end <= self.bytes)
            && to < self.bytes
        {
            let value = self.start.cast::<u8>().wrapping_add(to) as usize;
            // SAFETY: eight aligned bytes inside the mapping, which the caller mapped writable.
            unsafe {
                ptr::write_volatile(self.start.cast::<u8>().wrapping_add(at).cast::<usize>(), value)
            };
        }
    }

    /// Follows a ring of `length` pointers from `from` on, `rounds` times; returns where it ended,
    /// or `None` when the pointers are no such ring. What a step costs is the load alone:
    /// nothing is checked while it goes round.
    pub(crate) fn chase(&self, from: usize, length: usize, rounds: usize) -> Option<usize> {
        let first = self.start as usize;
        let start = first.wrapping_add(from);
        let mut at = start;
        for _ in 0..length {
            if !at.is_multiple_of(8) || at.wrapping_sub(first) > self.bytes.checked_sub(8)? {
                return None;
            }
            // SAFETY: eight aligned bytes inside the mapping, checked just above.
            at = unsafe { ptr::read_volatile(at as *const usize) };
        }
        if at != start {
            return None;
        }
        for _ in 0..length.saturating_mul(rounds) {
            // SAFETY: the walk above has found all of these places inside the mapping, aligned and
            // leading back to the first; only this thread has the map, and nothing
            // writes to it meanwhile.
            at = unsafe { ptr::read_volatile(at as *const usize) };
        }
        Some(at)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the reservation is this value's own and nobody refers into it any more.
        unsafe { libc::munmap(self.base, self.reserved) };
    }
}

/// Asks the kernel to forget cached pages of a file; mapped and dirty ones stay.
pub(crate) fn drop_cached(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let number = |value: u64| {
        libc::off_t::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
    };
    let (offset, bytes) = (number(offset)?, number(bytes)?);
    // SAFETY: takes numbers and a file that is open.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, bytes, libc::POSIX_FADV_DONTNEED) }
    {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// A file that lives in memory only.
pub(crate) fn memory_file() -> io::Result<File> {
    // SAFETY: the name is a C string, and the descriptor that comes back is ours alone.
    unsafe {
        match libc::memfd_create(c"planish-pages".as_ptr(), libc::MFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(File::from_raw_fd(fd)),
        }
    }
}

/// Whether a file has capabilities (the attribute `security.capability`).
pub(crate) fn has_capabilities(file: &File) -> bool {
    // SAFETY: with size 0 the kernel writes nothing and returns the size of the value.
    unsafe {
        libc::fgetxattr(file.as_raw_fd(), c"security.capability".as_ptr(), ptr::null_mut(), 0) > 0
    }
}

/// Whether memory that could be written may never be executed in this process and those it starts
/// (PR_SET_MDWE, Linux 6.3).
pub(crate) fn refuses_new_code() -> bool {
    const PR_GET_MDWE: libc::c_int = 66;
    const PR_MDWE_REFUSE_EXEC_GAIN: libc::c_int = 1;
    // SAFETY: takes and returns numbers; kernels that do not know it return an error.
    let got = unsafe { libc::prctl(PR_GET_MDWE, 0, 0, 0, 0) };
    got > 0 && got & PR_MDWE_REFUSE_EXEC_GAIN != 0
}

/// The magic number of the file system that holds a file (statfs(2)).
pub(crate) fn file_system(file: &File) -> io::Result<i64> {
    // SAFETY: an all-zero statfs is a value of its type.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is large enough and ours.
    checked(unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut about) })?;
    Ok(about.f_type as i64)
}

/// The most memory that this process may lock, in bytes; `None` for no limit.
pub(crate) fn lock_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is ours.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } == 0;
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// `struct page_region` (include/uapi/linux/fs.h): pages `start..end` with these categories.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) categories: u64,
}

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

pub(crate) const PAGE_IS_PRESENT: u64 = 1 << 3;
pub(crate) const PAGE_IS_HUGE: u64 = 1 << 6;
/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: u64 = (3 << 30) | ((size_of::<ScanArgument>() as u64) << 16) | (0x66 << 8) | 16;

/// The mapped pages of a range of a process, as runs of equal category, in order. Pages that are
/// not there are left out. `pagemap` is `/proc/PID/pagemap`; kernels before 6.7 answer ENOTTY.
pub(crate) fn scan(pagemap: &File, start: u64, end: u64) -> io::Result<Vec<Region>> {
    let mut found = Vec::new();
    let mut regions = [Region::default(); 512];
    let mut at = start;
    while at < end {
        let mut argument = ScanArgument {
            size: size_of::<ScanArgument>() as u64,
            start: at,
            end,
            vec: regions.as_mut_ptr() as u64,
            vec_len: regions.len() as u64,
            category_mask: PAGE_IS_PRESENT,
            return_mask: PAGE_IS_PRESENT | PAGE_IS_HUGE,
            ..ScanArgument::default()
        };
        // SAFETY: the argument has its stated size, and `vec` and `vec_len` describe the array
        // above.
        let count =
            unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut argument) };
        let Ok(count) = usize::try_from(count) else { return Err(io::Error::last_os_error()) };
        found.extend(regions.iter().take(count));
        // No progress would be an endless loop; the kernel promises it.
        if argument.walk_end <= at {
            break;
        }
        at = argument.walk_end;
    }
    Ok(found)
}
