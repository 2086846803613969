//! Programs and recordings in the making, for tests of who is matched with what.

#![allow(dead_code, reason = "no test file needs all of it")]

use counts::aggregate::{Aggregated, CountOptions, aggregate};
use counts::resolve::Rules;
use counts::{Counts, Error};
use image::Image;
use perfdata::write::{Encoder, FileWriter, SampleValues, StackValues};
use perfdata::{
    BranchEntry, BranchFlags, BuildIdEntry, CpuMode, EventAttr, Features, MmapEvent, RuntimeAddr,
    SampleId, TaskEvent, attr_flag, branch_sample, sample_type,
};
use std::io::Cursor;
use std::sync::Arc;

/// One loadable segment of a made-up program: address, file offset, executable.
pub type Piece = (u64, u64, bool);

pub const CODE_BYTES: usize = 0x100;

/// A program of position-independent code: each executable piece is one-byte instructions, then a
/// jump at +0x80.
pub fn elf(pieces: &[Piece], align: u64, build_id: u8) -> Vec<u8> {
    let note_at = 0x40 + 56 * (pieces.len() + 1);
    let mut out = vec![0u8; 0x40];
    out[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    out[16..20].copy_from_slice(&[3, 0, 62, 0]);
    out[20] = 1;
    out[32] = 0x40;
    out[52..58].copy_from_slice(&[64, 0, 56, 0, pieces.len() as u8 + 1, 0]);
    let mut header = |kind: u32, flags: u32, offset: u64, address: u64, size: u64, align: u64| {
        out.extend(kind.to_le_bytes());
        out.extend(flags.to_le_bytes());
        for word in [offset, address, address, size, size, align] {
            out.extend(word.to_le_bytes());
        }
    };
    header(4, 4, note_at as u64, note_at as u64, 36, 4);
    for &(address, offset, executable) in pieces {
        header(1, if executable { 5 } else { 4 }, offset, address, CODE_BYTES as u64, align);
    }
    out.extend([4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0]);
    out.extend(b"GNU\0");
    out.extend([build_id; 20]);
    for &(_, offset, _) in pieces {
        out.resize(out.len().max(offset as usize + CODE_BYTES), 0);
        out[offset as usize..][..CODE_BYTES].fill(0x90);
        out[offset as usize + 0x80..][..2].copy_from_slice(&[0xeb, 0xfe]);
    }
    out
}

pub fn program(build_id: u8) -> Arc<Image> {
    let bytes = elf(&[(0x1000, 0x1000, true)], 0x1000, build_id);
    Arc::new(Image::from_bytes("/opt/app", bytes).expect("image"))
}

/// A recording in the making.
pub struct Recording {
    encoder: Encoder,
    attr: EventAttr,
    bytes: Vec<u8>,
    /// What the header lists.
    pub build_ids: Vec<BuildIdEntry>,
}

impl Recording {
    pub fn new() -> Recording {
        use sample_type::{BRANCH_STACK, IP, TID, TIME};
        let attr = EventAttr {
            sample_type: IP | TID | TIME | BRANCH_STACK,
            flags: attr_flag::SAMPLE_ID_ALL,
            branch_sample_type: branch_sample::ANY | branch_sample::USER,
            ..EventAttr::default()
        };
        Recording { encoder: Encoder::new(&attr), attr, bytes: Vec::new(), build_ids: Vec::new() }
    }

    /// `piece`: first address, length, file offset.
    pub fn map(
        &mut self,
        pid: i32,
        time: u64,
        piece: (u64, u64, u64),
        path: &str,
        id: Option<&[u8]>,
    ) {
        let (start, len, pgoff) = piece;
        let event = MmapEvent {
            pid,
            tid: pid,
            start: RuntimeAddr(start),
            len,
            pgoff,
            executable: true,
            build_id: id,
            prot: 5,
            path: path.as_bytes(),
            cpumode: if pid < 0 { CpuMode::Kernel } else { CpuMode::User },
            ..MmapEvent::default()
        };
        self.encoder.mmap2(&mut self.bytes, &event, &at(pid, time)).expect("encoded");
    }

    pub fn fork(&mut self, pid: i32, parent: i32, time: u64) {
        let task = TaskEvent { pid, parent_pid: parent, tid: pid, parent_tid: parent, time };
        self.encoder.fork(&mut self.bytes, &task, &at(pid, time)).expect("encoded");
    }

    pub fn exec(&mut self, pid: i32, time: u64) {
        self.encoder
            .comm(&mut self.bytes, pid, pid, b"app", true, &at(pid, time))
            .expect("encoded");
    }

    /// An entry of the header's list of build IDs.
    pub fn list(&mut self, path: &str, id: u8, mode: CpuMode) {
        let (build_id, misc) = (vec![id; 20], mode.bits());
        self.build_ids.push(BuildIdEntry { pid: -1, misc, build_id, path: path.to_owned() });
    }

    /// A sample whose stack (newest first) holds `branches`.
    pub fn sample(&mut self, pid: i32, time: u64, branches: &[(u64, u64, u64)]) {
        let branches: Vec<BranchEntry> = branches
            .iter()
            .map(|&(f, t, flags)| BranchEntry {
                from: RuntimeAddr(f),
                to: RuntimeAddr(t),
                flags: BranchFlags(flags),
            })
            .collect();
        let ip = branches[0].to.0;
        let stacks = StackValues { branches: &branches, ..StackValues::default() };
        let values = SampleValues {
            cpumode: CpuMode::User,
            id: at(pid, time),
            ip,
            stacks,
            ..SampleValues::default()
        };
        self.encoder.sample(&mut self.bytes, &values).expect("encoded");
    }

    pub fn file(&self) -> Vec<u8> {
        let mut writer = FileWriter::new(Cursor::new(Vec::new()), std::slice::from_ref(&self.attr))
            .expect("begun");
        writer.append(&self.bytes).expect("appended");
        let features = Features { build_ids: self.build_ids.clone(), ..Features::default() };
        writer.finish(&features).expect("finished").into_inner()
    }

    pub fn count(&self, images: &[Arc<Image>]) -> Result<Counts, Error> {
        self.count_by(images, Rules::Auto)
    }

    pub fn count_by(&self, images: &[Arc<Image>], rules: Rules) -> Result<Counts, Error> {
        self.aggregated(images, rules).map(|found| found.counts)
    }

    pub fn aggregated(&self, images: &[Arc<Image>], rules: Rules) -> Result<Aggregated, Error> {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        std::fs::write(file.path(), self.file()).expect("written");
        let input = perfdata::Input::open(file.path()).expect("opened");
        let found = aggregate(
            file.path(),
            &input,
            images,
            CountOptions { rules, threads: 2, pid: None, paths: false },
            &|_| {},
        )?;
        assert!(found.counts.ledger.balances());
        Ok(found)
    }
}

pub fn at(pid: i32, time: u64) -> SampleId {
    SampleId { pid: Some(pid), tid: Some(pid), time: Some(time), ..SampleId::default() }
}
