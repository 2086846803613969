//! Everything that can go wrong while an ELF file is opened or one of its parts is read.

use std::path::PathBuf;

/// Why an image, or a part of it, could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be opened or mapped.
    #[error("{path}: cannot read the file: {source}", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The file is not an ELF file.
    #[error("{path}: not an ELF file: expected the bytes 7f 45 4c 46 at offset 0, found {found:02x?}; {hint}",
            path = path.display(), hint = hint(found))]
    NotElf {
        /// The file.
        path: PathBuf,
        /// The first bytes found, at most four.
        found: Vec<u8>,
    },
    /// A table of the ELF header lies outside the file or has an impossible shape.
    #[error("{path}: {what} cannot be read: {reason} (file has {file_bytes} bytes); \
             the file is truncated or corrupt, copy or build it again", path = path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// Which table.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
        /// Size of the file in bytes.
        file_bytes: u64,
    },
    /// A section lies outside the file, or its compressed bytes are unusable.
    #[error("{path}: section {section}: {reason}", path = path.display())]
    Section {
        /// The file.
        path: PathBuf,
        /// Name of the section.
        section: String,
        /// What is wrong with it, and what to do about it.
        reason: String,
    },
    /// A basic block address map entry cannot be read.
    #[error("{path}: section {section}: basic block address map entry at section offset {offset:#x}: {reason}", path = path.display())]
    Blocks {
        /// The file.
        path: PathBuf,
        /// Name of the section.
        section: String,
        /// Offset of the entry in the section, in bytes.
        offset: u64,
        /// What was expected and found.
        reason: String,
    },
    /// A section of pseudo probes cannot be read.
    #[error("{path}: section {section}: at section offset {offset:#x}: {reason}", path = path.display())]
    Probes {
        /// The file.
        path: PathBuf,
        /// Name of the section.
        section: String,
        /// Offset in the section, in bytes.
        offset: u64,
        /// What was expected and found.
        reason: String,
    },
    /// A debug file that was named explicitly does not belong to the image.
    #[error("{debug}: does not belong to {image}: {reason}", debug = debug.display(), image = image.display())]
    DebugFileMismatch {
        /// The image.
        image: PathBuf,
        /// The debug file.
        debug: PathBuf,
        /// How it was seen.
        reason: String,
    },
}

/// What to do about a file that is no ELF file; kernels and modules are often shipped compressed.
fn hint(found: &[u8]) -> &'static str {
    match found {
        [0xfd, b'7', b'z', b'X'] => "it is compressed, unpack it with unxz first",
        [0x28, 0xb5, 0x2f, 0xfd] => "it is compressed, unpack it with unzstd first",
        [0x1f, 0x8b, ..] => "it is compressed, unpack it with gunzip first",
        [b'!', b'<', b'a', b'r'] => {
            "it is a static library, give the program that was linked with it"
        }
        _ => "give the executable, shared library, vmlinux or .ko file itself",
    }
}
