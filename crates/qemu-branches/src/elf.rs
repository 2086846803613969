//! Which parts of an ELF file are code, and what its build ID is: from the program headers alone.

use std::fs::File;
use std::os::unix::fs::FileExt;

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PF_X: u32 = 1;
const NT_GNU_BUILD_ID: u32 = 3;
/// A note segment larger than this holds more than notes; it is not worth reading.
const MAX_NOTE_BYTES: u64 = 1 << 20;

/// A PT_LOAD with bytes in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Where its bytes begin in the file.
    pub file_offset: u64,
    /// How many bytes of the file it has.
    pub file_bytes: u64,
    /// The address that the file states.
    pub address: u64,
    /// Whether it may be executed.
    pub executable: bool,
}

/// What a recording needs to know about a file.
#[derive(Clone, Default, Debug)]
pub struct ElfFile {
    /// All PT_LOADs with bytes in the file.
    pub segments: Vec<Segment>,
    /// The GNU build ID.
    pub build_id: Option<Vec<u8>>,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// The build ID in a note segment.
fn build_id(notes: &[u8]) -> Option<Vec<u8>> {
    let mut at = 0usize;
    loop {
        let name_bytes = u32_at(notes, at)? as usize;
        let value_bytes = u32_at(notes, at.checked_add(4)?)? as usize;
        let kind = u32_at(notes, at.checked_add(8)?)?;
        let name_at = at.checked_add(12)?;
        let value_at = name_at.checked_add(name_bytes.checked_next_multiple_of(4)?)?;
        let value = notes.get(value_at..value_at.checked_add(value_bytes)?)?;
        if kind == NT_GNU_BUILD_ID && notes.get(name_at..name_at.checked_add(4)?)? == b"GNU\0" {
            return Some(value.to_vec());
        }
        at = value_at.checked_add(value_bytes.checked_next_multiple_of(4)?)?;
    }
}

/// Reads the program headers of a 64-bit little-endian ELF file; `None` when it is something else.
pub fn read(file: &File) -> Option<ElfFile> {
    let mut header = [0u8; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    if header[..6] != *b"\x7fELF\x02\x01" {
        return None;
    }
    let (table_at, entry_bytes, entries) =
        (u64_at(&header, 32)?, u16_at(&header, 54)? as usize, u16_at(&header, 56)? as usize);
    let mut table = vec![0u8; entry_bytes.max(56) * entries];
    file.read_exact_at(&mut table, table_at).ok()?;
    let mut found = ElfFile::default();
    for entry in table.chunks_exact(entry_bytes.max(56)) {
        let (kind, flags) = (u32_at(entry, 0)?, u32_at(entry, 4)?);
        let (file_offset, file_bytes) = (u64_at(entry, 8)?, u64_at(entry, 32)?);
        if kind == PT_LOAD && file_bytes != 0 {
            let (address, executable) = (u64_at(entry, 16)?, flags & PF_X != 0);
            found.segments.push(Segment { file_offset, file_bytes, address, executable });
        } else if kind == PT_NOTE && found.build_id.is_none() && file_bytes <= MAX_NOTE_BYTES {
            let mut notes = vec![0u8; file_bytes as usize];
            if file.read_exact_at(&mut notes, file_offset).is_ok() {
                found.build_id = build_id(&notes);
            }
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_program_itself_has_code() {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        assert!(read(&file).unwrap().segments.iter().any(|segment| segment.executable));
    }

    #[test]
    fn a_note_that_claims_too_much_is_no_build_id() {
        let mut notes = vec![4, 0, 0, 0, 200, 0, 0, 0, 3, 0, 0, 0];
        notes.extend_from_slice(b"GNU\0");
        assert_eq!(build_id(&notes), None);
        notes[4] = 2;
        notes.extend_from_slice(&[7, 8, 0, 0]);
        assert_eq!(build_id(&notes), Some(vec![7, 8]));
    }
}
