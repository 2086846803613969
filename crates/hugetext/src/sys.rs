//! What needs the kernel and raw memory: the constructor, fresh superpages, and the move over
//! running text.
//!
//! Sources: mmap(2), mremap(2), madvise(2), System V ABI ("Initialization and Termination
//! Functions").

use std::io;
use std::ops::Range;
use std::ptr;

use superpages::{Memory, Request, SUPERPAGE};

/// The dynamic linker calls what stands in this section when everything is mapped and relocated.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

extern "C" fn constructor() {
    crate::start();
}

/// Threads of this process.
pub(crate) fn threads() -> io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

/// Gives the environment back as it was without planish, so that other programs are not started
/// with the library.
pub(crate) fn forget_request(request: &Request) {
    for (name, value) in request.restored() {
        match value {
            // SAFETY: there is only this thread (the caller has counted), so nobody else looks at
            // the environment.
            Some(value) => unsafe { std::env::set_var(name, value) },
            // SAFETY: as above.
            None => unsafe { std::env::remove_var(name) },
        }
    }
}

/// Whether code that runs while text is replaced lies in a range: this library, or the C library's
/// calls.
pub(crate) fn runs_here(range: &Range<u64>) -> bool {
    let calls = [
        constructor as extern "C" fn() as usize,
        libc::mremap as *const () as usize,
        libc::mprotect as *const () as usize,
        libc::memcmp as *const () as usize,
    ];
    calls.iter().any(|&call| range.contains(&(call as u64)))
}

/// Memory of this process, at a multiple of a superpage; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Fresh {
    /// The reservation, which begins below the part in use so that this can be aligned.
    base: *mut libc::c_void,
    reserved: usize,
    start: *mut libc::c_void,
    bytes: usize,
    /// Whether it went to another place.
    moved: bool,
}

impl Fresh {
    /// `bytes` bytes, a multiple of a superpage, on superpages as far as memory has them.
    pub(crate) fn new(bytes: usize, memory: Memory) -> io::Result<Fresh> {
        let align = SUPERPAGE as usize;
        let reserved = bytes.checked_add(align).ok_or(io::ErrorKind::InvalidInput)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at a place that the kernel chooses touches no memory in use.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                reserved,
                libc::PROT_NONE,
                flags | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = base.wrapping_byte_add((align - base as usize % align) % align);
        let fresh = Fresh { base, reserved, start, bytes, moved: false };
        let kind = match memory {
            Memory::Anonymous => 0,
            // 21 is the logarithm of 2 MiB.
            Memory::Hugetlb => libc::MAP_HUGETLB | (21 << libc::MAP_HUGE_SHIFT),
        };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: `start..start + bytes` lies in the reservation made above, which nothing else
        // uses.
        let got =
            unsafe { libc::mmap(start, bytes, protection, flags | kind | libc::MAP_FIXED, -1, 0) };
        if got == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if memory == Memory::Anonymous {
            // SAFETY: the range is the mapping just made. A kernel that refuses gives small pages,
            // which the caller sees.
            unsafe { libc::madvise(start, bytes, libc::MADV_HUGEPAGE) };
        }
        Ok(fresh)
    }

    /// Runtime address of the first byte.
    pub(crate) fn address(&self) -> u64 {
        self.start as u64
    }

    /// The memory, to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has so many readable and writable bytes, and is borrowed alone
        // through `self`.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.bytes) }
    }

    /// From now on the memory can be executed and no longer written.
    pub(crate) fn make_executable(&self) -> io::Result<()> {
        // SAFETY: the range is this value's mapping, and nobody holds a reference into it.
        match unsafe { libc::mprotect(self.start, self.bytes, libc::PROT_READ | libc::PROT_EXEC) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Puts the memory in the place of a mapping of the same bytes.
    pub(crate) fn move_to(mut self, address: u64) -> io::Result<()> {
        let place = ptr::with_exposed_provenance_mut::<libc::c_void>(address as usize);
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: the caller has checked that `bytes` bytes at `address` are a mapping with the
        // same content, that no other thread runs, and that neither this code nor the C
        // library's lies there. So whoever comes there later finds the same instructions.
        let got = unsafe { libc::mremap(self.start, self.bytes, self.bytes, flags, place) };
        if got == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.moved = true;
        Ok(())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if !self.moved {
            // SAFETY: the reservation is this value's own.
            unsafe { libc::munmap(self.base, self.reserved) };
            return;
        }
        // What was moved away has left a hole, which belongs to nobody here.
        let before = self.start as usize - self.base as usize;
        let behind = self.reserved - before - self.bytes;
        for (start, bytes) in
            [(self.base, before), (self.start.wrapping_byte_add(self.bytes), behind)]
        {
            if bytes > 0 {
                // SAFETY: the part of the reservation in front of the hole, or behind it.
                unsafe { libc::munmap(start, bytes) };
            }
        }
    }
}

/// Whether as many bytes at an address are the same.
pub(crate) fn equals(fresh: &Fresh, address: u64) -> bool {
    let other = ptr::with_exposed_provenance::<libc::c_void>(address as usize);
    // SAFETY: the caller found a readable mapping of so many bytes at the address; the other range
    // is `fresh`'s own.
    unsafe { libc::memcmp(fresh.start, other, fresh.bytes) == 0 }
}
