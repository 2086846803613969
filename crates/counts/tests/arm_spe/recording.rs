//! A perf.data with Arm SPE data, put together byte by byte: packets after the Arm Architecture
//! Reference Manual, records as perf writes them on an Arm machine.

use perfdata::write::{Encoder, FileWriter};
use perfdata::{
    CpuMode, EventAttr, Features, MmapEvent, RuntimeAddr, SampleId, TaskEvent, attr_flag, kind,
};
use std::path::Path;

/// The number that the kernel gave the SPE unit; any number beyond those of perf_event.h.
const PMU_TYPE: u32 = 8;

/// Packets of SPE records.
#[derive(Clone, Default)]
pub struct Packets(pub Vec<u8>);

/// Events of a record.
pub const RETIRED: u16 = 1 << 1;
pub const NOT_TAKEN: u16 = 1 << 6;
pub const MISPREDICTED: u16 = 1 << 7;

impl Packets {
    fn packet(&mut self, header: u8, payload: &[u8]) -> &mut Self {
        self.0.push(header);
        self.0.extend(payload);
        self
    }

    /// An instruction's address: index 0 itself, 1 the target, 4 the target of the branch before;
    /// at a level.
    pub fn address(&mut self, index: u8, address: u64, level: u64) -> &mut Self {
        let value = address & ((1 << 56) - 1) | 1 << 63 | level << 61;
        self.packet(0xb0 | index, &value.to_le_bytes())
    }

    pub fn context(&mut self, id: u32) -> &mut Self {
        self.packet(0x65, &id.to_le_bytes())
    }

    pub fn operation(&mut self, class: u8, details: u8) -> &mut Self {
        self.packet(0x48 | class, &[details])
    }

    pub fn events(&mut self, events: u16) -> &mut Self {
        self.packet(0x52, &events.to_le_bytes())
    }

    pub fn latency(&mut self, index: u8, cycles: u16) -> &mut Self {
        self.packet(0x98 | index, &cycles.to_le_bytes())
    }

    pub fn padding(&mut self, bytes: usize) -> &mut Self {
        self.0.resize(self.0.len() + bytes, 0);
        self
    }

    /// Closes a record with a time, or, where there is none, with an end packet.
    pub fn end(&mut self, ticks: Option<u64>) -> &mut Self {
        match ticks {
            Some(ticks) => self.packet(0x71, &ticks.to_le_bytes()),
            None => self.packet(1, &[]),
        }
    }

    /// A whole record of a program's branch, in the order in which processors write packets, padded
    /// to 64 bytes.
    pub fn branch(&mut self, branch: Branch) -> &mut Self {
        self.address(0, branch.from, branch.level);
        if let Some(id) = branch.context {
            self.context(id);
        }
        self.operation(2, 0).events(branch.events).latency(0, 9).latency(1, 4);
        self.address(1, branch.to, branch.level);
        if let Some(before) = branch.before {
            self.address(4, before, branch.level);
        }
        let end = if branch.ticks.is_some() { 9 } else { 1 };
        self.padding((64 - (self.0.len() + end) % 64) % 64);
        self.end(branch.ticks)
    }
}

/// A record of a branch.
#[derive(Clone, Copy)]
pub struct Branch {
    pub from: u64,
    pub to: u64,
    /// Target of the branch before.
    pub before: Option<u64>,
    pub events: u16,
    pub context: Option<u32>,
    pub ticks: Option<u64>,
    pub level: u64,
}

impl Branch {
    pub fn new(from: u64, to: u64) -> Branch {
        Branch { from, to, before: None, events: RETIRED, context: None, ticks: None, level: 0 }
    }

    pub fn after(self, before: u64) -> Branch {
        Branch { before: Some(before), ..self }
    }
}

/// A recording in the making.
pub struct Recording {
    encoder: Encoder,
    attr: EventAttr,
    pub bytes: Vec<u8>,
    /// Bytes of AUX data so far, by processor.
    aux: std::collections::BTreeMap<u32, u64>,
}

pub fn at(pid: i32, time: u64, cpu: u32) -> SampleId {
    SampleId {
        pid: Some(pid),
        tid: Some(pid),
        time: Some(time),
        id: Some(7),
        stream_id: None,
        cpu: Some(cpu),
    }
}

impl Recording {
    /// Begins as perf does: who made the AUX data.
    pub fn new(tracer: u32) -> Recording {
        use perfdata::sample_type::{CPU, IDENTIFIER, IP, TID, TIME};
        let attr = EventAttr {
            kind: PMU_TYPE,
            sample_type: IDENTIFIER | IP | TID | TIME | CPU,
            flags: attr_flag::SAMPLE_ID_ALL | attr_flag::MMAP2 | attr_flag::COMM | attr_flag::TASK,
            period_or_freq: 1024,
            ids: vec![7],
            name: Some("arm_spe_0/branch_filter=1,ts_enable=1/u".into()),
            ..EventAttr::default()
        };
        let mut recording = Recording {
            encoder: Encoder::new(&attr),
            attr,
            bytes: Vec::new(),
            aux: Default::default(),
        };
        // Its private words: the unit's number, and that each processor has a buffer.
        let words = [u64::from(tracer), u64::from(PMU_TYPE), 1];
        recording.user(kind::AUXTRACE_INFO, &words.map(u64::to_le_bytes).concat());
        recording
    }

    /// A record of perf's own.
    fn user(&mut self, kind: u32, body: &[u8]) {
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend([0, 0]);
        self.bytes.extend((8 + body.len() as u16).to_le_bytes());
        self.bytes.extend(body);
    }

    /// Ticks become ns by ticks × `mult` + `zero`.
    pub fn conversion(&mut self, mult: u64, zero: u64) {
        let words = [0, mult, zero, 0, u64::MAX, 0];
        self.user(kind::TIME_CONV, &words.map(u64::to_le_bytes).concat());
    }

    /// `piece`: first address, length, file offset.
    pub fn map(&mut self, pid: i32, time: u64, piece: (u64, u64, u64), path: &Path) {
        let (start, len, pgoff) = piece;
        let name = path.to_str().unwrap();
        // As the kernel states it.
        let image = image::Image::open(path).ok();
        let build_id = image.as_ref().and_then(|image| Some(image.build_id()?.as_bytes()));
        let event = MmapEvent {
            build_id,
            pid,
            tid: pid,
            start: RuntimeAddr(start),
            len,
            pgoff,
            executable: true,
            prot: 5,
            path: name.as_bytes(),
            cpumode: CpuMode::User,
            ..MmapEvent::default()
        };
        self.encoder.mmap2(&mut self.bytes, &event, &at(pid, time, 0)).unwrap();
    }

    pub fn fork(&mut self, pid: i32, tid: i32, time: u64) {
        let task = TaskEvent { pid, parent_pid: pid, tid, parent_tid: pid, time };
        self.encoder.fork(&mut self.bytes, &task, &at(pid, time, 0)).unwrap();
    }

    pub fn started(&mut self, pid: i32, time: u64, cpu: u32) {
        let body = [pid.to_le_bytes(), pid.to_le_bytes()].concat();
        self.encoder
            .other(&mut self.bytes, kind::ITRACE_START, 0, &body, &at(pid, time, cpu))
            .unwrap();
    }

    /// A process comes on a processor, in a recording of whole processors.
    pub fn came_on(&mut self, pid: i32, time: u64, cpu: u32) {
        let id = at(pid, time, cpu);
        self.encoder.other(&mut self.bytes, kind::SWITCH_CPU_WIDE, 0, &[0; 8], &id).unwrap();
    }

    /// AUX data of a processor's buffer, and the kernel's record of it, made while `pid` ran.
    pub fn aux(&mut self, data: &[u8], flags: u64, pid: i32, time: u64, cpu: u32) {
        let offset = self.aux.get(&cpu).copied().unwrap_or(0);
        self.aux.insert(cpu, offset + data.len() as u64);
        let body = [offset, data.len() as u64, flags].map(u64::to_le_bytes).concat();
        self.encoder.other(&mut self.bytes, kind::AUX, 0, &body, &at(pid, time, cpu)).unwrap();
        self.buffer(data, offset, (-1, cpu));
    }

    /// The same where the AUXTRACE record names a thread beside the processor; `of`: both.
    pub fn aux_of(&mut self, data: &[u8], pid: i32, time: u64, of: (i32, u32)) {
        let body = [0, data.len() as u64, 0].map(u64::to_le_bytes).concat();
        self.encoder.other(&mut self.bytes, kind::AUX, 0, &body, &at(pid, time, of.1)).unwrap();
        self.buffer(data, 0, of);
    }

    /// AUX data alone; `of`: thread and processor.
    pub fn buffer(&mut self, data: &[u8], offset: u64, of: (i32, u32)) {
        let mut body = [data.len() as u64, offset, 0].map(u64::to_le_bytes).concat();
        body.extend([[0; 4], of.0.to_le_bytes(), of.1.to_le_bytes(), [0; 4]].concat());
        self.user(kind::AUXTRACE, &body);
        self.bytes.extend(data);
    }

    pub fn write(&self, path: &Path) {
        let file = std::fs::File::create(path).unwrap();
        let mut writer = FileWriter::new(file, std::slice::from_ref(&self.attr)).unwrap();
        writer.append(&self.bytes).unwrap();
        let features = Features { arch: Some("aarch64".into()), ..Features::default() };
        writer.finish(&features).unwrap();
    }
}
