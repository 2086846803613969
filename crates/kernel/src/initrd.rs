//! Which bytes does a kernel unpack into its first file system? A writer of cpio archives in the
//! "newc" form.
//!
//! Form: the kernel's Documentation/driver-api/early-userspace/buffer-format.rst. Each entry is a
//! header of 110 ASCII bytes, the magic `070701` and 13 numbers of 8 hexadecimal digits, then the
//! path with a NUL, then the contents, both padded with NULs to multiples of four; the entry
//! `TRAILER!!!` ends the archive. Owner 0, time 0 and inode numbers in the order of entries: same
//! entries, same bytes.

use std::io::{Error, ErrorKind};

const MAGIC: &str = "070701";
const TRAILER: &str = "TRAILER!!!";
const DIRECTORY: u32 = 0o040_000;
const CHARACTER_DEVICE: u32 = 0o020_000;
const REGULAR: u32 = 0o100_000;

/// An archive in the making. Paths have no leading slash; a directory comes before what lies in it.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a directory that all may read.
    pub fn directory(&mut self, path: &str) {
        self.header(path, DIRECTORY | 0o755, 2, 0, (0, 0));
    }

    /// Adds a character device by its major and minor number.
    pub fn device(&mut self, path: &str, major: u32, minor: u32) {
        self.header(path, CHARACTER_DEVICE | 0o600, 1, 0, (major, minor));
    }

    /// Adds a program.
    ///
    /// # Errors
    /// When it is 4 GiB or more, which the form cannot say.
    pub fn program(&mut self, path: &str, contents: &[u8]) -> Result<(), Error> {
        let size = u32::try_from(contents.len()).map_err(|_| {
            Error::new(ErrorKind::FileTooLarge, "an initramfs holds files below 4 GiB only")
        })?;
        self.header(path, REGULAR | 0o755, 1, size, (0, 0));
        self.bytes.extend_from_slice(contents);
        self.pad();
        Ok(())
    }

    /// The whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.header(TRAILER, 0, 1, 0, (0, 0));
        self.bytes
    }

    fn header(&mut self, path: &str, mode: u32, links: u32, size: u32, device: (u32, u32)) {
        self.entries += 1;
        let inode = if path == TRAILER { 0 } else { self.entries };
        // Paths are ours and short.
        let name_size = u32::try_from(path.len() + 1).unwrap_or(u32::MAX);
        // In the order of the form: ino, mode, uid, gid, nlink, mtime, filesize, maj, min, rmaj,
        // rmin, namesize, chksum.
        let fields = [inode, mode, 0, 0, links, 0, size, 0, 0, device.0, device.1, name_size, 0];
        self.bytes.extend_from_slice(MAGIC.as_bytes());
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_its_header_its_path_and_its_contents() {
        let mut archive = Archive::default();
        archive.program("init", b"abcde").unwrap();
        let bytes = archive.finish();
        let header =
            b"07070100000001000081ed00000000000000000000000100000000000000050000000000000000\
            000000000000000000000005000000000";
        assert_eq!(&bytes[..107], &header[..107]);
        // 110 bytes of header and 5 of path are padded to 116, 5 of contents to 8.
        assert_eq!(&bytes[110..116], b"init\0\0");
        assert_eq!(&bytes[116..124], b"abcde\0\0\0");
        assert_eq!(bytes.len(), 124 + 124);
        assert!(bytes[124..].starts_with(b"07070100000000"));
        assert!(bytes.ends_with(b"TRAILER!!!\0\0\0\0"));
    }
}
