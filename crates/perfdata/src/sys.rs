//! The only unsafe code of this crate: reading a file into memory not yet written, and seeing bytes
//! as words.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

/// Reads up to `want` bytes at `offset` and appends them to `out`, without zeroing the memory first
/// (that would cost as much as the read itself at memory speed). Fewer bytes only at the end of the
/// file.
pub(crate) fn read_at(
    file: &File,
    offset: u64,
    want: usize,
    out: &mut Vec<u8>,
) -> io::Result<usize> {
    out.reserve(want);
    let mut done = 0;
    while done < want {
        let at = offset.checked_add(done as u64).and_then(|at| i64::try_from(at).ok());
        let Some(at) = at else { return Ok(done) };
        let spare = out.spare_capacity_mut();
        let room = spare.len().min(want - done);
        // SAFETY: `spare` points to at least `room` writable bytes owned by `out`, which is not
        // touched meanwhile, and pread writes at most `room` bytes there.
        let got = unsafe { libc::pread64(file.as_raw_fd(), spare.as_mut_ptr().cast(), room, at) };
        if got < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        if got == 0 {
            break;
        }
        let got = (got as usize).min(room);
        // SAFETY: the `got` bytes after the old length were just written by pread and lie within
        // the capacity.
        unsafe { out.set_len(out.len() + got) };
        done += got;
    }
    Ok(done)
}

/// A file that lies in memory alone, and is gone when it is closed.
pub(crate) fn memory_file() -> io::Result<File> {
    // SAFETY: the name is a string that ends with 0, and the call touches no other memory of ours.
    let descriptor = unsafe { libc::memfd_create(c"recording".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made, and nobody else has it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Sees `bytes` as branch entries of three words, when they are aligned for that.
#[inline]
pub(crate) fn as_entries(bytes: &[u8]) -> Option<&[[u64; 3]]> {
    if bytes.as_ptr().align_offset(align_of::<[u64; 3]>()) != 0 {
        return None;
    }
    let entries = bytes.len() / size_of::<[u64; 3]>();
    // SAFETY: the pointer is aligned for u64 (checked above), `entries` whole entries fit into
    // `bytes`, any bit pattern is a valid u64, and the result borrows `bytes`.
    Some(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<[u64; 3]>(), entries) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn reading_past_the_end_gives_what_there_is() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let mut out = b"ab".to_vec();
        assert_eq!(read_at(&file, 4, 100, &mut out).unwrap(), 6);
        assert_eq!(out, b"ab456789");
        assert_eq!(read_at(&file, u64::MAX, 100, &mut out).unwrap(), 0);
    }
}
