//! Reading another process's memory: `process_vm_readv`, else its `/proc/PID/mem`.

use perfdata::RuntimeAddr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
/// `IOV_MAX`: so many pages go into one call.
const MOST_PAGES: usize = 1024;

fn remote(address: RuntimeAddr, len: usize) -> libc::iovec {
    libc::iovec { iov_base: address.0 as *mut libc::c_void, iov_len: len }
}

fn transfer(pid: i32, local: &[libc::iovec], remote: &[libc::iovec]) -> io::Result<usize> {
    // SAFETY: the local vectors describe memory that the callers own and may write; the remote ones
    // are the other process's and are checked by the kernel.
    let read = unsafe {
        libc::process_vm_readv(
            pid,
            local.as_ptr(),
            local.len() as libc::c_ulong,
            remote.as_ptr(),
            remote.len() as libc::c_ulong,
            0,
        )
    };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

fn from_file(pid: i32, address: RuntimeAddr, bytes: &mut [u8]) -> io::Result<usize> {
    File::open(format!("/proc/{pid}/mem"))?.read_at(bytes, address.0)
}

/// Reads from an address as far as memory is mapped there; how many bytes that were.
pub(crate) fn read(pid: i32, address: RuntimeAddr, bytes: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    match transfer(pid, &[local], &[remote(address, bytes.len())]) {
        Ok(read) => Ok(read),
        // Pages that may only be executed, and devices: the file can do more.
        Err(error) => from_file(pid, address, bytes).map_err(|_| error),
    }
}

/// Reads whole pages, in order, until one cannot be read; how many that were.
pub(crate) fn read_pages(pid: i32, addresses: &[RuntimeAddr], pages: &mut [[u8; PAGE]]) -> usize {
    let mut done = 0;
    for (addresses, pages) in addresses.chunks(MOST_PAGES).zip(pages.chunks_mut(MOST_PAGES)) {
        let wanted = addresses.len().min(pages.len());
        let local: Vec<libc::iovec> = pages
            .iter_mut()
            .take(wanted)
            .map(|page| libc::iovec { iov_base: page.as_mut_ptr().cast(), iov_len: PAGE })
            .collect();
        // Neighbours are one piece: the kernel looks each piece up anew.
        let pieces = addresses
            .get(..wanted)
            .unwrap_or_default()
            .chunk_by(|one, next| one.0 + PAGE as u64 == next.0);
        let there: Vec<libc::iovec> = pieces
            .filter_map(|piece| piece.first().map(|first| remote(*first, piece.len() * PAGE)))
            .collect();
        let mut read = transfer(pid, &local, &there).unwrap_or(0) / PAGE;
        if read == 0 {
            // Where the call is not allowed at all, the file may still be.
            for (address, page) in addresses.iter().zip(pages.iter_mut()) {
                if !matches!(from_file(pid, *address, page), Ok(PAGE)) {
                    break;
                }
                read += 1;
            }
        }
        done += read;
        if read < wanted {
            break;
        }
    }
    done
}
