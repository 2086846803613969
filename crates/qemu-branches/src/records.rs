//! The bytes of the records that are not samples (`include/uapi/linux/perf_event.h`, `enum
//! perf_event_type`).
//!
//! All end with the trailer that `sample_id_all` gives the sample type TID, TIME, IDENTIFIER.

const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const MMAP2: u32 = 10;
const MISC_USER: u16 = 2;
const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;
const READ_EXECUTE: u32 = 5;
const MAP_PRIVATE: u32 = 2;

/// Who a record speaks about, and when.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time: u64,
    /// The event's id.
    pub id: u64,
}

/// An executable part of a file in the guest's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Offset of the first byte in the file.
    pub file_offset: u64,
    /// Major and minor number of the file's device.
    pub device: (u32, u32),
    /// The file's inode.
    pub inode: u64,
    /// The file, or `//anon`, `[vdso]` and the like.
    pub path: Vec<u8>,
    /// The file's build ID; one of up to 20 bytes stands in the record in place of device and
    /// inode.
    pub build_id: Option<Vec<u8>>,
}

struct Record(Vec<u8>);

impl Record {
    fn new(kind: u32, misc: u16) -> Record {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend_from_slice(&kind.to_le_bytes());
        bytes.extend_from_slice(&misc.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        Record(bytes)
    }
    fn u32(mut self, value: u32) -> Record {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    fn u64(mut self, value: u64) -> Record {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    /// A string with its NUL, padded to eight bytes (quipper-based readers stop at any other
    /// padding).
    fn string(mut self, value: &[u8]) -> Record {
        self.0.extend_from_slice(value);
        let with_nul = self.0.len() + 1;
        self.0.resize(with_nul.next_multiple_of(8), 0);
        self
    }
    /// Adds the identifying trailer of `sample_id_all`, and the size.
    fn finish(self, stamp: Stamp) -> Vec<u8> {
        let mut record =
            self.u32(stamp.pid as u32).u32(stamp.tid as u32).u64(stamp.time).u64(stamp.id).0;
        let size = u16::try_from(record.len()).unwrap_or(u16::MAX);
        record[6..8].copy_from_slice(&size.to_le_bytes());
        record
    }
}

/// The thread's name; `exec` when the process just became this program.
pub fn comm(stamp: Stamp, name: &[u8], exec: bool) -> Vec<u8> {
    let name = &name[..name.len().min(15)];
    let misc = if exec { MISC_COMM_EXEC } else { 0 };
    Record::new(COMM, misc).u32(stamp.pid as u32).u32(stamp.tid as u32).string(name).finish(stamp)
}

/// A new thread (parent of the same process) or process.
pub fn fork(stamp: Stamp, parent: (i32, i32)) -> Vec<u8> {
    parent_and_child(FORK, stamp, parent)
}

/// The end of a process.
pub fn exit(stamp: Stamp, parent: (i32, i32)) -> Vec<u8> {
    parent_and_child(EXIT, stamp, parent)
}

fn parent_and_child(kind: u32, stamp: Stamp, (parent_pid, parent_tid): (i32, i32)) -> Vec<u8> {
    Record::new(kind, 0)
        .u32(stamp.pid as u32)
        .u32(parent_pid as u32)
        .u32(stamp.tid as u32)
        .u32(parent_tid as u32)
        .u64(stamp.time)
        .finish(stamp)
}

/// A file's executable part appears in memory.
pub fn mmap2(stamp: Stamp, mapping: &Mapping) -> Vec<u8> {
    let build_id = mapping.build_id.as_ref().filter(|id| id.len() <= 20);
    let misc = MISC_USER | if build_id.is_some() { MISC_MMAP_BUILD_ID } else { 0 };
    let mut record = Record::new(MMAP2, misc)
        .u32(stamp.pid as u32)
        .u32(stamp.tid as u32)
        .u64(mapping.start)
        .u64(mapping.len)
        .u64(mapping.file_offset);
    match build_id {
        Some(id) => {
            let mut field = [0u8; 24];
            field[0] = id.len() as u8;
            field[4..4 + id.len()].copy_from_slice(id);
            record.0.extend_from_slice(&field);
        }
        None => {
            let (major, minor) = mapping.device;
            record = record.u32(major).u32(minor).u64(mapping.inode).u64(0);
        }
    }
    // The size field has 16 bits, and PATH_MAX is 4096.
    let path = &mapping.path[..mapping.path.len().min(4096)];
    record.u32(READ_EXECUTE).u32(MAP_PRIVATE).string(path).finish(stamp)
}

/// The kernel's text appears in memory (PERF_RECORD_MMAP, which perf uses for it).
pub fn kernel_mmap(stamp: Stamp, start: u64, len: u64, name: &[u8]) -> Vec<u8> {
    const MMAP: u32 = 1;
    const MISC_KERNEL: u16 = 1;
    Record::new(MMAP, MISC_KERNEL)
        .u32(stamp.pid as u32)
        .u32(stamp.tid as u32)
        .u64(start)
        .u64(len)
        // perf takes the offset as the address of the reference symbol that the name ends with.
        .u64(start)
        .string(name)
        .finish(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comm_record_is_padded_to_eight_bytes_and_states_its_size() {
        let record = comm(Stamp { pid: 1, tid: 2, time: 3, id: 4 }, b"sqlite", true);
        assert_eq!(record.len(), 8 + 8 + 8 + 24);
        assert_eq!(&record[..8], &[3, 0, 0, 0, 0, 0x20, 48, 0]);
        assert_eq!(&record[16..24], b"sqlite\0\0");
        assert_eq!(
            comm(Stamp { pid: 1, tid: 2, time: 3, id: 4 }, b"eight888", false).len(),
            8 + 8 + 16 + 24
        );
    }

    #[test]
    fn an_mmap2_record_carries_the_build_id_instead_of_the_inode() {
        let mut mapping = Mapping {
            start: 0x40_0000,
            len: 0x1000,
            file_offset: 0x2000,
            device: (8, 1),
            inode: 77,
            path: b"/bin/x".to_vec(),
            build_id: None,
        };
        let stamp = Stamp { pid: 5, tid: 6, time: 7, id: 8 };
        let plain = mmap2(stamp, &mapping);
        assert_eq!(u64::from_le_bytes(plain[48..56].try_into().unwrap()), 77);
        mapping.build_id = Some(vec![0xab; 20]);
        let with_id = mmap2(stamp, &mapping);
        assert_eq!(with_id.len(), plain.len());
        assert_eq!(with_id[5] & 0x40, 0x40);
        assert_eq!((with_id[40], &with_id[44..64]), (20, &[0xab; 20][..]));
    }
}
