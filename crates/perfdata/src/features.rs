//! The feature sections: what a recording says about its machine, events and files.
//!
//! A section that cannot be understood is kept in `unknown` and counted in `damaged`; it never
//! stops the reading.

use crate::attr::EventAttr;
use crate::bytes::{Cursor, Endian, until_nul};
use crate::error::RecordError;
use crate::feature_kinds::{
    BuildIdEntry, CompressedInfo, EventDescription, SampleTime, UnknownFeature, feature,
};
use crate::kinds::misc;

/// What the feature sections of a recording say; empty where they say nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Build IDs of the files that samples fell into.
    pub build_ids: Vec<BuildIdEntry>,
    /// Name of the machine.
    pub hostname: Option<String>,
    /// Release of the kernel.
    pub os_release: Option<String>,
    /// Version of perf.
    pub perf_version: Option<String>,
    /// Machine architecture, as `uname -m`.
    pub arch: Option<String>,
    /// Processors available and online.
    pub cpus: Option<(u32, u32)>,
    /// Name of the processor.
    pub cpu_description: Option<String>,
    /// Vendor, family, model and stepping of the processor.
    pub cpu_id: Option<String>,
    /// Memory, in KiB.
    pub total_memory_kib: Option<u64>,
    /// The recorder's command line.
    pub cmdline: Vec<String>,
    /// Events and their names.
    pub event_desc: Vec<EventDescription>,
    /// The samples carry branch stacks.
    pub branch_stack: bool,
    /// Number and name of each PMU.
    pub pmu_mappings: Vec<(u32, String)>,
    /// First and last sample time.
    pub sample_time: Option<SampleTime>,
    /// Resolution of the clock that the recorder chose, in ns (feature CLOCKID).
    pub clockid: Option<u64>,
    /// The clock's id, its wall clock time and its own time at one moment, in ns (feature
    /// CLOCK_DATA).
    pub clock_data: Option<(u32, u64, u64)>,
    /// Version of the directory form.
    pub dir_format: Option<u64>,
    /// Bytes of the files data.0, data.1 and so on of the directory form. Only planish states them,
    /// behind the version, where perf does not look.
    pub file_bytes: Vec<u64>,
    /// How the data is compressed.
    pub compressed: Option<CompressedInfo>,
    /// Capabilities of PMUs: PMU name, then pairs (features CPU_PMU_CAPS and PMU_CAPS).
    pub pmu_caps: Vec<(String, Vec<(String, String)>)>,
    /// Where AUXTRACE records lie: offset in the file and size without payload, both in bytes.
    pub aux_index: Vec<(u64, u64)>,
    /// Features that are not interpreted.
    pub unknown: Vec<UnknownFeature>,
    /// Sections that could not be read at all or were cut short.
    pub damaged: u32,
}

/// No list in a feature section may claim more entries than bytes; this bounds what one section can
/// allocate.
const MOST_ENTRIES: u32 = 1 << 20;

impl Features {
    /// Takes in one section; `bytes` may be only the beginning of its `size_bytes`.
    pub(crate) fn add(
        &mut self,
        number: u32,
        bytes: &[u8],
        offset: u64,
        size_bytes: u64,
        endian: Endian,
    ) {
        let whole = bytes.len() as u64 == size_bytes;
        match self.interpret(number, bytes, endian) {
            Ok(true) if whole => {}
            Ok(true) => self.damaged = self.damaged.saturating_add(1),
            result => {
                self.damaged = self.damaged.saturating_add(u32::from(result.is_err()));
                let bytes = bytes.to_vec();
                self.unknown.push(UnknownFeature { number, offset, size_bytes, bytes });
            }
        }
    }

    /// Whether this crate interprets the feature.
    pub(crate) fn interprets(number: u32) -> bool {
        use feature::*;
        matches!(
            number,
            BUILD_ID..=CMDLINE | EVENT_DESC | BRANCH_STACK | PMU_MAPPINGS | AUXTRACE | SAMPLE_TIME | CLOCKID..=DIR_FORMAT
                | COMPRESSED..=CLOCK_DATA | PMU_CAPS
        )
    }

    /// Whether the number was one this crate interprets.
    fn interpret(
        &mut self,
        number: u32,
        bytes: &[u8],
        endian: Endian,
    ) -> Result<bool, RecordError> {
        let mut cursor = Cursor::new(bytes, endian);
        let c = &mut cursor;
        match number {
            feature::BUILD_ID => self.build_ids = build_ids(c, endian)?,
            feature::HOSTNAME => self.hostname = Some(text(c)?),
            feature::OSRELEASE => self.os_release = Some(text(c)?),
            feature::VERSION => self.perf_version = Some(text(c)?),
            feature::ARCH => self.arch = Some(text(c)?),
            feature::NRCPUS => self.cpus = Some((c.u32("cpus available")?, c.u32("cpus online")?)),
            feature::CPUDESC => self.cpu_description = Some(text(c)?),
            feature::CPUID => self.cpu_id = Some(text(c)?),
            feature::TOTAL_MEM => self.total_memory_kib = Some(c.u64("memory")?),
            feature::CMDLINE => self.cmdline = list(c, text)?,
            feature::EVENT_DESC => self.event_desc = event_desc(c, endian)?,
            feature::BRANCH_STACK => self.branch_stack = true,
            feature::PMU_MAPPINGS => {
                self.pmu_mappings = list(c, |c| Ok((c.u32("pmu type")?, text(c)?)))?
            }
            feature::AUXTRACE => self.aux_index = aux_index(c)?,
            feature::SAMPLE_TIME => {
                self.sample_time = Some(SampleTime {
                    first_ns: c.u64("first time")?,
                    last_ns: c.u64("last time")?,
                });
            }
            feature::CLOCKID => self.clockid = Some(c.u64("clock resolution")?),
            feature::CLOCK_DATA => {
                c.u32("version")?;
                self.clock_data = Some((c.u32("clockid")?, c.u64("wall clock")?, c.u64("clock")?));
            }
            feature::DIR_FORMAT => {
                self.dir_format = Some(c.u64("version")?);
                let files = c.u64("number of files").unwrap_or(0).min(u64::from(MOST_ENTRIES));
                self.file_bytes = (0..files).map_while(|_| c.u64("bytes of a file").ok()).collect();
            }
            feature::COMPRESSED => {
                self.compressed = Some(CompressedInfo {
                    version: c.u32("version")?,
                    algorithm: c.u32("type")?,
                    level: c.u32("level")?,
                    ratio: c.u32("ratio")?,
                    mmap_len: c.u32("mmap_len")?,
                });
            }
            feature::CPU_PMU_CAPS => {
                let pairs = list(c, |c| Ok((text(c)?, text(c)?)))?;
                self.pmu_caps.push(("cpu".to_owned(), pairs));
            }
            feature::PMU_CAPS => self.pmu_caps.extend(list(c, pmu_caps)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The names of EVENT_DESC for events that have none yet, matched by ids, else by position.
    pub(crate) fn name_attrs(&self, attrs: &mut [EventAttr]) {
        let same_count = attrs.len() == self.event_desc.len();
        for (index, attr) in attrs.iter_mut().enumerate() {
            let by_id = self.event_desc.iter().find(|d| !d.ids.is_empty() && d.ids == attr.ids);
            let by_place = self.event_desc.get(index).filter(|_| same_count);
            if let (None, Some(description)) = (&attr.name, by_id.or(by_place)) {
                attr.name = Some(description.name.clone());
            }
        }
    }
}

/// perf's strings: a length that includes padding, then the text and at least one zero byte.
fn text(c: &mut Cursor<'_>) -> Result<String, RecordError> {
    let len = c.u32("string length")?;
    let bytes = c.take(u64::from(len), "string")?;
    Ok(String::from_utf8_lossy(until_nul(bytes)).into_owned())
}

fn list<'a, T>(
    c: &mut Cursor<'a>,
    mut item: impl FnMut(&mut Cursor<'a>) -> Result<T, RecordError>,
) -> Result<Vec<T>, RecordError> {
    let count = c.u32("number of entries")?;
    if count > MOST_ENTRIES {
        return Err(RecordError::Value { field: "number of entries", value: u64::from(count) });
    }
    // No `with_capacity`: each entry must first prove that its bytes exist.
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(item(c)?);
    }
    Ok(items)
}

fn pmu_caps(c: &mut Cursor<'_>) -> Result<(String, Vec<(String, String)>), RecordError> {
    let pairs = c.u32("number of capabilities")?;
    let name = text(c)?;
    let mut caps = Vec::new();
    for _ in 0..pairs.min(MOST_ENTRIES) {
        caps.push((text(c)?, text(c)?));
    }
    Ok((name, caps))
}

fn event_desc(c: &mut Cursor<'_>, endian: Endian) -> Result<Vec<EventDescription>, RecordError> {
    let events = c.u32("number of events")?;
    let attr_size = c.u32("attribute size")?;
    let mut found = Vec::new();
    for _ in 0..events.min(MOST_ENTRIES) {
        let attr = c.take(u64::from(attr_size), "attribute")?;
        // Only a check that this really is an attribute; the header has them all.
        EventAttr::read(attr, endian)
            .ok_or(RecordError::Value { field: "attribute size", value: u64::from(attr_size) })?;
        let ids = c.u32("number of ids")?;
        let name = text(c)?;
        let ids = c.words(u64::from(ids), "ids")?.iter().collect();
        found.push(EventDescription { name, ids });
    }
    Ok(found)
}

/// The number of entries; then for each where its record lies, and the record's size.
fn aux_index(c: &mut Cursor<'_>) -> Result<Vec<(u64, u64)>, RecordError> {
    let count = c.u64("number of AUX records")?;
    let words = c.words(count.saturating_mul(2), "places of AUX records")?;
    let mut words = words.iter();
    let mut found = Vec::new();
    while let (Some(offset), Some(size)) = (words.next(), words.next()) {
        found.push((offset, size));
    }
    Ok(found)
}

fn build_ids(c: &mut Cursor<'_>, endian: Endian) -> Result<Vec<BuildIdEntry>, RecordError> {
    let mut found = Vec::new();
    while !c.rest().is_empty() {
        c.u32("type")?;
        let misc = c.u16("misc")?;
        let size = c.u16("size")?;
        let body = c.take(u64::from(size.saturating_sub(8)), "build id entry")?;
        found.push(read_build_id(misc, body, endian)?);
    }
    Ok(found)
}

/// The body of a build ID entry: pid, 20 bytes of ID, one size byte when `misc` says so, 3 of
/// padding, path.
pub(crate) fn read_build_id(
    misc: u16,
    body: &[u8],
    endian: Endian,
) -> Result<BuildIdEntry, RecordError> {
    let mut c = Cursor::new(body, endian);
    let pid = c.i32("pid")?;
    let room = c.take(20, "build id")?;
    let size = usize::from(c.u8("build id size")?);
    c.take(3, "padding")?;
    let id = if misc & misc::BUILD_ID_SIZE != 0 { room.get(..size).unwrap_or(room) } else { room };
    Ok(BuildIdEntry {
        pid,
        misc,
        build_id: id.to_vec(),
        path: String::from_utf8_lossy(until_nul(c.rest())).into_owned(),
    })
}
