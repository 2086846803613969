//! Where recorded bytes go until the recording ends: a file that every emulated process and thread
//! maps.
//!
//! The file begins with a page of counters ([`Header`]). After it lie chunks, each of a multiple of
//! [`GRANULE_BYTES`] and written by one thread alone: a [`ChunkHeader`], then perf records in time
//! order. A thread that fills a chunk takes the next one by an atomic addition in the header page.
//! Since the pages are mapped shared, nothing is lost when a process is killed, and no buffer is
//! written twice after a fork. Where branches are counted ([`crate::traces`]), the one chunk holds
//! their counts in place of records.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// First eight bytes of the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"plspool1");
/// First eight bytes of a chunk.
pub const CHUNK_MAGIC: u64 = u64::from_le_bytes(*b"plchunk1");
/// Bytes before the first chunk.
pub const HEADER_BYTES: u64 = 64 * 1024;
/// Chunks begin at multiples of this, so that a reader can step over one whose header was never
/// written.
pub const GRANULE_BYTES: u64 = 64 * 1024;
/// Size of a thread's chunks after its first one, which takes one granule.
const LARGE_CHUNK_BYTES: u64 = 1024 * 1024;
/// Bytes of a chunk before its records.
pub const CHUNK_HEADER_BYTES: usize = size_of::<ChunkHeader>();

/// `perf_event_attr.sample_type` of the samples: IP, TID, TIME, PERIOD, BRANCH_STACK, IDENTIFIER.
pub const SAMPLE_TYPE: u64 = 1 | (1 << 1) | (1 << 2) | (1 << 8) | (1 << 11) | (1 << 16);
/// The bit that samples with a call chain have besides: CALLCHAIN, between PERIOD and BRANCH_STACK.
pub const CALL_CHAIN: u64 = 1 << 5;
/// The event's id in every record.
pub const EVENT_ID: u64 = 1;
/// Entries of a full branch stack.
pub const STACK_ENTRIES: usize = 32;

/// Counters at the start of the file.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`], written last when the file is made.
    pub magic: AtomicU64,
    /// Offset of the first free granule.
    pub free: AtomicU64,
    /// Streams (threads and processes) that took chunks.
    pub streams: AtomicU64,
    /// Processes that recorded.
    pub processes: AtomicU64,
    /// Threads that recorded.
    pub threads: AtomicU64,
    /// Samples that found no room: the disk was full, or the file could not be opened (a changed
    /// root).
    pub lost_samples: AtomicU64,
    /// Programs that the guest started; they run natively, unrecorded.
    pub native_programs: AtomicU64,
    /// Taken branches.
    pub taken_branches: AtomicU64,
    /// Instructions executed (counting mode only).
    pub instructions: AtomicU64,
    /// Nonzero once the plugin was installed: the proof that qemu loaded it.
    pub installed: AtomicU64,
    /// Nonzero once the disk took no more. Nobody asks it again: each sample would pay for that.
    pub full: AtomicU64,
}

/// What stands before a chunk's records.
#[repr(C)]
pub struct ChunkHeader {
    /// [`CHUNK_MAGIC`], written after the other fields.
    pub magic: AtomicU64,
    /// Bytes of the chunk with this header.
    pub chunk_bytes: u64,
    /// Which stream wrote it; a stream's chunks lie in its own order.
    pub stream: u64,
    /// Bytes of complete records after the header.
    pub used: AtomicU64,
    reserved: [u64; 4],
}

/// Makes a new file an empty spool; its chunks are added by [`Stream`].
pub fn begin(mut file: &File) -> io::Result<()> {
    use std::io::Write;
    let mut first = vec![0; HEADER_BYTES as usize];
    first[..8].copy_from_slice(&MAGIC.to_le_bytes());
    first[8..16].copy_from_slice(&HEADER_BYTES.to_le_bytes());
    file.write_all(&first)
}

/// Maps `bytes` of the file from `offset`, writable and shared.
fn map(path: &Path, offset: u64, bytes: u64, reserve: bool) -> io::Result<NonNull<u8>> {
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let offset = i64::try_from(offset).map_err(io::Error::other)?;
    let flags = libc::MAP_SHARED | if reserve { libc::MAP_POPULATE } else { 0 };
    if reserve {
        // A full disk must be an error here, not a SIGBUS in the middle of the guest.
        // SAFETY: a system call on a descriptor that is open; no memory is passed.
        let error = unsafe { libc::posix_fallocate(file.as_raw_fd(), offset, bytes as i64) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping where the kernel likes; no existing memory is touched.
    let address = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes as usize, access, flags, file.as_raw_fd(), offset)
    };
    match NonNull::new(address.cast::<u8>()) {
        Some(address) if address.as_ptr().cast() != libc::MAP_FAILED => Ok(address),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The counters of a spool file, mapped for as long as the process lives.
pub fn open(path: &Path) -> io::Result<&'static Header> {
    let address = map(path, 0, HEADER_BYTES, false)?;
    // SAFETY: the mapping is page aligned, larger than the header, never unmapped, and atomics bear
    // other writers.
    let header: &'static Header = unsafe { address.cast::<Header>().as_ref() };
    if header.magic.load(Ordering::Acquire) != MAGIC {
        return Err(io::Error::other("not a spool file"));
    }
    Ok(header)
}

/// One thread's place in the file.
#[derive(Debug)]
pub struct Stream {
    chunk: *mut u8,
    chunk_bytes: usize,
    used: usize,
    id: u64,
}

// SAFETY: the pointer leads to this stream's own chunk, which no other thread writes.
unsafe impl Send for Stream {}

impl Stream {
    /// A stream without a chunk yet.
    pub const fn new() -> Stream {
        Stream { chunk: std::ptr::null_mut(), chunk_bytes: 0, used: 0, id: 0 }
    }

    /// Forgets the chunk without unmapping it: a forked child must leave its parent's chunk alone.
    pub fn forget(&mut self) {
        *self = Stream::new();
    }

    /// Ends the stream: what is written later belongs to another one.
    pub fn close(&mut self) {
        if !self.chunk.is_null() {
            // SAFETY: only this stream had a pointer to its chunk.
            unsafe { libc::munmap(self.chunk.cast(), self.chunk_bytes) };
        }
        self.forget();
    }

    /// Room for one record of `bytes`; `None` when the file cannot grow. [`Stream::commit`] makes
    /// it count.
    #[inline]
    pub fn reserve(&mut self, file: &SpoolFile, bytes: usize) -> Option<*mut u8> {
        if self.chunk_bytes - self.used < bytes {
            self.next_chunk(file, bytes)?;
        }
        // SAFETY: `used + bytes` lies within the chunk, by the test above.
        Some(unsafe { self.chunk.add(self.used) })
    }

    /// The record that [`Stream::reserve`] gave room for is complete.
    #[inline]
    pub fn commit(&mut self, bytes: usize) {
        self.used += bytes;
        // SAFETY: after `reserve` the chunk is mapped and begins with its header.
        let header = unsafe { &*self.chunk.cast::<ChunkHeader>() };
        header.used.store((self.used - CHUNK_HEADER_BYTES) as u64, Ordering::Release);
    }

    /// Appends a record that lies elsewhere.
    pub fn append(&mut self, file: &SpoolFile, record: &[u8]) -> Option<()> {
        let room = self.reserve(file, record.len())?;
        // SAFETY: `reserve` gave room for exactly so many bytes, in memory of its own.
        unsafe { std::ptr::copy_nonoverlapping(record.as_ptr(), room, record.len()) };
        self.commit(record.len());
        Some(())
    }

    #[cold]
    fn next_chunk(&mut self, file: &SpoolFile, bytes: usize) -> Option<()> {
        if file.header.full.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let first = self.id == 0;
        if first {
            self.id = file.header.streams.fetch_add(1, Ordering::Relaxed) + 1;
        }
        let wanted = (bytes + CHUNK_HEADER_BYTES) as u64;
        let least = if first { GRANULE_BYTES } else { LARGE_CHUNK_BYTES };
        let size = wanted.max(least).next_multiple_of(GRANULE_BYTES);
        let offset = file.header.free.fetch_add(size, Ordering::Relaxed);
        let chunk = map(file.path, offset, size, true).map_err(|error| {
            if [Some(libc::ENOSPC), Some(libc::EDQUOT), Some(libc::EFBIG)]
                .contains(&error.raw_os_error())
            {
                file.header.full.store(1, Ordering::Relaxed);
            }
        });
        let chunk = chunk.ok()?;
        if !self.chunk.is_null() {
            // SAFETY: the old chunk is full, and only this stream had a pointer to it.
            unsafe { libc::munmap(self.chunk.cast(), self.chunk_bytes) };
        }
        (self.chunk, self.chunk_bytes, self.used) =
            (chunk.as_ptr(), size as usize, CHUNK_HEADER_BYTES);
        // SAFETY: the new mapping is page aligned, larger than the header and this stream's alone.
        let header = unsafe { &mut *self.chunk.cast::<ChunkHeader>() };
        (header.chunk_bytes, header.stream) = (size, self.id);
        header.magic.store(CHUNK_MAGIC, Ordering::Release);
        Some(())
    }
}

impl Default for Stream {
    fn default() -> Stream {
        Stream::new()
    }
}

/// A spool file as the writers see it.
#[derive(Clone, Copy)]
pub struct SpoolFile {
    /// Where it lies; absolute, since the guest may change its directory. It is opened anew for
    /// each chunk, since a descriptor kept open would be the guest's to close.
    pub path: &'static Path,
    /// Its counters.
    pub header: &'static Header,
}
