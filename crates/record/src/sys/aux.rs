//! The AUX area of an event: memory that its hardware fills by itself, mapped beside the ring of
//! its records (`man 2 perf_event_open`, `aux_offset` and what follows).

use super::page_bytes;
use super::perf::{AUX_HEAD_AT, AUX_OFFSET_AT, AUX_SIZE_AT, AUX_TAIL_AT, Ring};
use crate::span::Span;
use perf_events::Event;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// A mapped AUX area. Its positions stand in the first page of the ring that it was mapped with.
pub(crate) struct AuxArea {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the area alone, and any thread may use it.
unsafe impl Send for AuxArea {}
// SAFETY: the recorder only reads it; room is freed through an exclusive reference.
unsafe impl Sync for AuxArea {}

impl AuxArea {
    /// Maps the area of the event whose ring this is; `bytes` is a power of two, and a page at
    /// least. The event must be one that writes AUX data.
    pub(crate) fn map(event: &Event, ring: &Ring, bytes: usize) -> io::Result<AuxArea> {
        let offset = (page_bytes() + ring.data_bytes()).next_multiple_of(bytes.max(page_bytes()));
        ring.position(AUX_OFFSET_AT).store(offset as u64, Ordering::Relaxed);
        ring.position(AUX_SIZE_AT).store(bytes as u64, Ordering::Release);
        let place = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // Writable, or the kernel would write over what was not read.
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let fd = event.as_fd().as_raw_fd();
        // SAFETY: a new mapping where the kernel likes; no existing memory is touched.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd, place) };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(AuxArea { base, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Its size, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What was written and not yet freed, and where that begins in the AUX stream, in bytes.
    pub(crate) fn filled(&self, ring: &Ring) -> (u64, Span<'_>) {
        let head = ring.position(AUX_HEAD_AT).load(Ordering::Acquire);
        let tail = ring.position(AUX_TAIL_AT).load(Ordering::Relaxed);
        let filled = usize::try_from(head.wrapping_sub(tail)).unwrap_or(usize::MAX).min(self.bytes);
        let start = head.wrapping_sub(filled as u64);
        let at = (start as usize) & (self.bytes - 1);
        let first = filled.min(self.bytes - at);
        // SAFETY: the area is `bytes` long; the hardware does not write between tail and head until
        // the tail moves, which takes `&mut self`.
        let span = unsafe {
            let data = self.base.as_ptr();
            Span {
                one: std::slice::from_raw_parts(data.add(at), first),
                two: std::slice::from_raw_parts(data, filled - first),
            }
        };
        (start, span)
    }

    /// Gives all room before this place of the AUX stream back.
    pub(crate) fn free(&mut self, ring: &Ring, end: u64) {
        ring.position(AUX_TAIL_AT).store(end, Ordering::Release);
    }
}

impl Drop for AuxArea {
    fn drop(&mut self) {
        // SAFETY: exactly the range that was mapped.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
