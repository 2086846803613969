//! Records of what exists before a recording begins: processes, threads, mappings, the kernel's own
//! text.

use crate::file::Output;
use crate::kernel::{MAP_NAME, STEXT_MAP_NAME};
use crate::modules::Places;
use crate::processes::threads;
use crate::seen::BuildId;
use crate::target::Target;
use crate::{Error, cgroups, planned};
use perfdata::write::Encoder;
use perfdata::{EventAttr, SampleId, attr_flag, kind, sample_type};
use qemu_branches::records::{self, Mapping, Stamp};
use qemu_branches::{elf, maps};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Describes what exists already. The result is the kernel's files by build ID.
pub(crate) fn existing(
    target: &Target,
    attrs: &[EventAttr],
    file: &mut Output,
) -> Result<Vec<BuildId>, Error> {
    let kernel = describe(target.processes(), attrs, file)?;
    file.finish_round()?;
    Ok(kernel)
}

/// Describes the kernel, where samples may lie in it, and these processes.
pub(crate) fn describe(
    processes: impl IntoIterator<Item = i32>,
    attrs: &[EventAttr],
    file: &mut Output,
) -> Result<Vec<BuildId>, Error> {
    let tracks = |attr: &&EventAttr| attr.flags & attr_flag::MMAP2 != 0;
    let Some(tracker) = attrs.iter().find(tracks).or(attrs.first()) else { return Ok(Vec::new()) };
    let sees = |attr: &EventAttr| attr.flags & attr_flag::EXCLUDE_KERNEL == 0;
    let sees_kernel = attrs.iter().any(|attr| sees(attr) && !planned::is_tracker(attr));
    let mut synthesizer = Synthesizer::new(file, tracker);
    synthesizer.system(sees_kernel, tracker)?;
    processes.into_iter().try_for_each(|pid| synthesizer.process(pid))?;
    Ok(synthesizer.kernel_files)
}

/// Writes the records of existing processes, with time 0: they were there before anything else.
struct Synthesizer<'o> {
    output: &'o mut Output,
    id: u64,
    /// The event's records say on which CPU they were made.
    with_cpu: bool,
    /// Files of the kernel, by their build IDs.
    kernel_files: Vec<BuildId>,
    build_ids: HashMap<Vec<u8>, Option<Vec<u8>>>,
}

impl<'o> Synthesizer<'o> {
    /// For the event that tracks processes.
    fn new(output: &'o mut Output, event: &EventAttr) -> Synthesizer<'o> {
        let id = event.ids.first().copied().unwrap_or(0);
        let with_cpu = event.sample_type & sample_type::CPU != 0;
        Synthesizer { output, id, with_cpu, kernel_files: Vec::new(), build_ids: HashMap::new() }
    }

    /// Writes a record; its trailer gets the CPU where the event has one.
    fn write(&mut self, mut record: Vec<u8>) -> Result<(), Error> {
        const IDENTIFIER_BYTES: usize = 8;
        if let (true, Some(at)) = (self.with_cpu, record.len().checked_sub(IDENTIFIER_BYTES)) {
            record.splice(at..at, [0; 8]);
            let size = u16::try_from(record.len()).unwrap_or(u16::MAX).to_ne_bytes();
            record.splice(6..8, size);
        }
        self.output.records(&record)
    }

    /// What belongs to no process: the kernel, where samples may lie in it, and the control groups,
    /// where samples name them.
    fn system(&mut self, sees_kernel: bool, tracker: &EventAttr) -> Result<(), Error> {
        if sees_kernel {
            self.kernel(&Places::here())?;
        }
        if tracker.sample_type & sample_type::CGROUP == 0 {
            return Ok(());
        }
        cgroups::all().iter().try_for_each(|(id, path)| self.cgroup(tracker, *id, path))
    }

    /// A control group: its number in samples, and its path.
    fn cgroup(&mut self, tracker: &EventAttr, id: u64, path: &str) -> Result<(), Error> {
        let mut record = Vec::new();
        let body = [&id.to_ne_bytes(), path.as_bytes(), &[0]].concat();
        let stamp = SampleId {
            pid: Some(-1),
            tid: Some(0),
            time: Some(0),
            id: Some(self.id),
            ..SampleId::default()
        };
        // A path that does not fit into a record is one that nobody could see.
        if Encoder::new(tracker).other(&mut record, kind::CGROUP, 0, &body, &stamp).is_ok() {
            self.output.records(&record)?;
        }
        Ok(())
    }

    /// All threads and mappings of a process. One that ends meanwhile is left out, as far as it is
    /// gone.
    fn process(&mut self, pid: i32) -> Result<(), Error> {
        for tid in threads(pid) {
            let stamp = Stamp { pid, tid, time: 0, id: self.id };
            if tid != pid {
                self.write(records::fork(stamp, (pid, pid)))?;
            }
            if let Ok(name) = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")) {
                self.write(records::comm(stamp, name.trim_ascii_end(), false))?;
            }
        }
        let Ok(text) = std::fs::read(format!("/proc/{pid}/maps")) else { return Ok(()) };
        let stamp = Stamp { pid, tid: pid, time: 0, id: self.id };
        let lines = text.split(|byte| *byte == b'\n').filter_map(maps::parse_line);
        let mut lines: Vec<_> = lines.filter(|line| line.executable).collect();
        // The program itself first, as when it began: what is mapped first is the executable.
        if let Ok(own) = std::fs::read_link(format!("/proc/{pid}/exe")) {
            lines.sort_by_key(|line| line.path != own.as_os_str().as_bytes());
        }
        for line in lines {
            let path = if line.path.is_empty() { b"//anon".to_vec() } else { line.path.to_vec() };
            let mapping = Mapping {
                start: line.start,
                len: line.end - line.start,
                file_offset: line.file_offset,
                device: line.device,
                inode: line.inode,
                build_id: self.build_id(&path),
                path,
            };
            self.write(records::mmap2(stamp, &mapping))?;
        }
        Ok(())
    }

    fn build_id(&mut self, path: &[u8]) -> Option<Vec<u8>> {
        if path.first() != Some(&b'/') || path.starts_with(b"//") {
            return None;
        }
        let read = |path: &[u8]| {
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
            let regular = std::fs::metadata(&path).is_ok_and(|found| found.is_file());
            let file = if regular { File::open(&path).ok() } else { None };
            file.and_then(|file| elf::read(&file))?.build_id
        };
        self.build_ids.entry(path.to_vec()).or_insert_with(|| read(path)).clone()
    }

    /// The kernel's text and its modules as perf names them, where addresses are shown (root, or
    /// kptr_restrict 0).
    fn kernel(&mut self, places: &Places) -> Result<(), Error> {
        /// Build IDs of the kernel stand in the features under this name.
        const NAME: &[u8] = b"[kernel.kallsyms]";
        let stamp = Stamp { pid: -1, tid: 0, time: 0, id: self.id };
        let symbols = File::open(&places.kallsyms).ok().map(BufReader::new);
        if let Some((start, end, name)) =
            symbols.and_then(|symbols| kernel_text(symbols, places.kernel_code_bytes()))
        {
            self.write(records::kernel_mmap(stamp, start, end - start, name.as_bytes()))?;
            let id = places.kernel_build_id();
            self.kernel_files.extend(id.map(|id| BuildId {
                path: NAME.to_vec(),
                id,
                kernel: true,
            }));
        }
        for module in places.loaded() {
            self.write(module.record(stamp))?;
            self.kernel_files.extend(module.file());
        }
        Ok(())
    }
}

/// Start and end of the kernel's text, and the name of its mapping, which ends in the symbol at its
/// start: on arm64 `_text` is listed with all other symbols or not at all. The list of symbols costs
/// the kernel time to write: where the size is known, only its beginning is read.
fn kernel_text(kallsyms: impl BufRead, bytes: Option<u64>) -> Option<(u64, u64, &'static str)> {
    let (mut start, mut end, mut map_name) = (None, None, MAP_NAME);
    for line in kallsyms.lines().map_while(Result::ok) {
        let mut words = line.split(' ');
        let (address, _, name) = (words.next()?, words.next()?, words.next()?);
        match name {
            "_text" => {
                start = u64::from_str_radix(address, 16).ok();
                map_name = MAP_NAME;
            }
            // Behind `_text`, where that is listed.
            "_stext" if start.is_none() => {
                start = u64::from_str_radix(address, 16).ok();
                map_name = STEXT_MAP_NAME;
            }
            "_etext" => end = u64::from_str_radix(address, 16).ok(),
            _ => continue,
        }
        let size_known = start.zip(bytes).and_then(|(start, bytes)| start.checked_add(bytes));
        if let (Some(start), Some(end)) = (start, end.or(size_known)) {
            return (start != 0 && end > start).then_some((start, end, map_name));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_text_is_found_only_where_addresses_are_shown() {
        let text =
            "ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff82000000 T _etext\n";
        assert_eq!(
            kernel_text(text.as_bytes(), None),
            Some((0xffff_ffff_8100_0000, 0xffff_ffff_8200_0000, "[kernel.kallsyms]_text"))
        );
        assert_eq!(
            kernel_text(text.as_bytes(), Some(4096)),
            Some((0xffff_ffff_8100_0000, 0xffff_ffff_8100_1000, "[kernel.kallsyms]_text"))
        );
        assert_eq!(
            kernel_text(&b"0000000000000000 T _text\n0000000000000000 T _etext\n"[..], None),
            None
        );
        let arm = "ffff800080010000 T _stext\nffff800080a10000 T _etext\n";
        assert_eq!(
            kernel_text(arm.as_bytes(), None),
            Some((0xffff_8000_8001_0000, 0xffff_8000_80a1_0000, "[kernel.kallsyms]_stext"))
        );
        assert_eq!(kernel_text(&b""[..], Some(1)), None);
    }

    #[test]
    fn perf_lists_the_build_ids_of_the_kernel_and_its_modules() {
        let dir = tempfile::tempdir().unwrap();
        let places = crate::modules::tests::machine(dir.path());
        std::fs::write(&places.kallsyms, "ffffffff81000000 T _text\nffffffff82000000 T _etext\n")
            .unwrap();
        for cpu in [0, sample_type::CPU] {
            let attr = EventAttr { ids: vec![7], ..crate::attr::emulated_kernel(1, "x") };
            let attr = EventAttr {
                sample_type: attr.sample_type & !sample_type::BRANCH_STACK | cpu,
                ..attr
            };
            let path = dir.path().join("perf.data");
            let mut file = Output::create(&path, std::slice::from_ref(&attr)).unwrap();
            let mut synthesizer = Synthesizer::new(&mut file, &attr);
            synthesizer.kernel(&places).unwrap();
            let kernel = std::mem::take(&mut synthesizer.kernel_files);
            assert_eq!(kernel.len(), 3);
            let mut words: Vec<u64> = vec![7, 0xffff_ffff_c000_3010, 1 | 1 << 32, 5];
            words.extend((cpu != 0).then_some(0));
            words.push(1);
            let header = 9u64 | 1 << 32 | ((words.len() as u64 + 1) * 8) << 48;
            let sample: Vec<u8> =
                [header].iter().chain(&words).flat_map(|word| word.to_ne_bytes()).collect();
            file.records(&sample).unwrap();
            let seen = crate::seen::Seen::default();
            file.finish(&crate::features::features(None, None, &seen, kernel)).unwrap();
            let perf = |words: &[&str]| {
                let done = std::process::Command::new("perf")
                    .args(words)
                    .arg("-i")
                    .arg(&path)
                    .output()
                    .ok()?;
                Some(String::from_utf8_lossy(&done.stdout).into_owned())
            };
            let Some(listed) = perf(&["buildid-list"]) else {
                return eprintln!("skipped: perf is not installed");
            };
            assert!(
                listed.contains(&"ee".repeat(20)) && listed.contains("[kernel.kallsyms]"),
                "{listed}"
            );
            assert!(listed.contains(&"5d".repeat(20)) && listed.contains("snd-hda.ko"), "{listed}");
            let script = perf(&["script", "-F", "ip,dso"]).unwrap();
            assert!(script.contains("snd_hda") || script.contains("snd-hda.ko"), "{script}");
            let maps = perf(&["script", "--show-mmap-events"]).unwrap();
            assert!(maps.contains("fat.ko.xz") && maps.contains(&"fa".repeat(20)), "{maps}");
            let report = perf(&["report", "--stdio", "--sort", "dso"]).unwrap();
            assert!(report.contains("[snd_hda]") || report.contains("snd-hda"), "{report}");
        }
    }
}
