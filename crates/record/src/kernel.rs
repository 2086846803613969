//! Recording the kernel of an emulated machine: `qemu-system` with the plugin, and what the guest
//! says on its console.
//!
//! [`record`] samples branch stacks into a perf.data; [`count`] has the plugin count every branch
//! in its memory.
//!
//! Only the guest knows where its kernel lies, so its init must print two lines on the serial
//! console, which must be qemu's standard output (`-serial stdio`):
//!
//! ```sh
//! echo "planish-text $(grep ' _text$' /proc/kallsyms | cut -d' ' -f1) $(grep ' _etext$' /proc/kallsyms | cut -d' ' -f1)"
//! echo "planish-notes $(hexdump -v -e '1/1 "%02x"' /sys/kernel/notes)"
//! ```
//!
//! A kernel for arm64 lists `_stext` alone, unless it has `KALLSYMS_ALL`: that address with
//! `_stext` as the line's last word does too. Each module that is loaded may have a line
//! `planish-module`, with its line of /proc/modules and, as hexadecimal digits behind it, what
//! /sys/module/NAME/notes/.note.gnu.build-id holds.

use crate::emulate::Spool;
use crate::features::features;
use crate::file::Output;
use crate::machine::{Board, Limits, Plugin, Run, Transcript, Watcher};
use crate::modules::{apart, parse_line};
use crate::seen::BuildId;
use crate::streaming::Compression;
use crate::sys::{ForwardSignals, Map};
use crate::{Error, Summary, attr, merge};
use qemu_branches::records::{self, Stamp};
use qemu_branches::spool;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

mod traces;

pub use crate::modules::Module;
pub use traces::{Counted, TraceCount, count};

/// Name of the event in perf.data.
pub const EVENT: &str = "taken-branches:k";
/// The name under which perf records the kernel's text.
pub const MAP_NAME: &str = "[kernel.kallsyms]_text";
/// The same where the kernel lists no symbol `_text`.
pub(crate) const STEXT_MAP_NAME: &str = "[kernel.kallsyms]_stext";

/// How to record a machine's kernel.
#[derive(Clone, Debug)]
pub struct KernelOptions {
    /// Taken branches of the kernel between two samples; [`count`] takes none. The real intervals
    /// vary by a quarter around it, in a fixed sequence, lest they fall into step with a loop;
    /// each sample states its own.
    pub period: u64,
    /// The plugin, when it is not where it is looked for.
    pub plugin: Option<PathBuf>,
    /// Only what the machine does in these sections of its run is recorded, as markers tell them
    /// apart; all of it without. By agreement 1 to 99 are for training.
    pub sections: Option<RangeInclusive<u8>>,
    /// The machine is killed, and nothing recorded, when it did not end after this much wall time.
    pub timeout: Option<Duration>,
    /// The workload must print `planish: end` before the machine ends.
    pub to_the_end: bool,
    /// Files of modules by their names, for those that the guest says it has loaded. Others are named
    /// `[NAME]` in the recording.
    pub modules: BTreeMap<String, PathBuf>,
    /// The command that the file states, where it is not to be the one that runs: that of a
    /// temporary initrd would be another each time.
    pub stated: Option<Vec<OsString>>,
}

impl Default for KernelOptions {
    fn default() -> KernelOptions {
        KernelOptions {
            period: 1000,
            plugin: None,
            sections: None,
            timeout: None,
            to_the_end: false,
            modules: BTreeMap::new(),
            stated: None,
        }
    }
}

/// A recorded machine.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// What the recording came to. Taken branches are those that the kernel took while it was
    /// recorded.
    pub summary: Summary,
    /// What the guest said.
    pub transcript: Transcript,
}

/// Where a kernel's text lies while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Text {
    /// Run-time address of the symbol at its start.
    start: u64,
    /// That of `_etext`.
    end: u64,
    /// The name of its mapping, which ends in the symbol at its start.
    map_name: &'static str,
}

/// What the guest said on its console.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    /// Where its text lies.
    text: Option<Text>,
    build_id: Option<Vec<u8>>,
    /// Modules by their names, with all of their memory.
    modules: Vec<Module>,
}

/// A guest says of more modules that they are loaded than any kernel has: these are left out.
const MOST_MODULES: usize = 10_000;

impl Said {
    fn text(&self) -> Result<Text, Error> {
        self.text.ok_or_else(|| Error::Empty {
            reason: "the guest did not print its `planish-text` line on the console; does its \
                     init, and is `-serial stdio` given?"
                .to_owned(),
        })
    }

    fn line(&mut self, line: &str) {
        // The firmware leaves terminal sequences before the first line.
        let after = |word: &str| line.split_once(word).map(|(_, rest)| rest.trim());
        if let Some(rest) = after("planish-text ") {
            let mut words = rest.split_whitespace();
            let mut number = || u64::from_str_radix(words.next()?, 16).ok();
            if let (Some(start), Some(end)) = (number(), number()) {
                let is_stext = words.next() == Some("_stext");
                let map_name = if is_stext { STEXT_MAP_NAME } else { MAP_NAME };
                let text = Text { start, end, map_name };
                self.text = Some(text).filter(|_| start != 0 && start < end);
            }
        } else if let Some(rest) = after("planish-notes ") {
            self.build_id = build_id(&bytes(rest));
        } else if let Some(rest) = after("planish-module ") {
            let notes = rest.rsplit(' ').next().unwrap_or_default();
            let module = parse_line(rest).map(|(start, len, name)| Module {
                path: name.to_owned(),
                start,
                len,
                build_id: build_id(&bytes(notes)),
            });
            self.modules.extend(module.filter(|_| self.modules.len() < MOST_MODULES));
        }
    }

    /// Where modules lie; `files` by their names.
    fn modules(&self, files: &BTreeMap<String, PathBuf>) -> Vec<Module> {
        let named = |module: &Module| {
            let file = files.get(&module.path).map(|file| file.display().to_string());
            Module { path: file.unwrap_or_else(|| format!("[{}]", module.path)), ..module.clone() }
        };
        apart(self.modules.iter().map(named).collect())
    }
}

/// Hexadecimal digits to bytes, as far as they are such.
fn bytes(digits: &str) -> Vec<u8> {
    let good = digits.bytes().take_while(u8::is_ascii_hexdigit).count() & !1;
    hex::decode(digits.get(..good).unwrap_or_default()).unwrap_or_default()
}

/// The build ID among ELF notes (`NT_GNU_BUILD_ID` of the owner `GNU`).
fn build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    let word = |at: usize, notes: &[u8]| -> Option<usize> {
        Some(u32::from_le_bytes(notes.get(at..at + 4)?.try_into().ok()?) as usize)
    };
    loop {
        let (name_bytes, value_bytes, kind) = (word(0, notes)?, word(4, notes)?, word(8, notes)?);
        let value_at = 12usize.checked_add(name_bytes.checked_next_multiple_of(4)?)?;
        let value = notes.get(value_at..value_at.checked_add(value_bytes)?)?;
        if kind == 3 && notes.get(12..16) == Some(b"GNU\0") {
            return Some(value.to_vec());
        }
        notes = notes.get(value_at.checked_add(value_bytes.checked_next_multiple_of(4)?)?..)?;
    }
}

/// Runs a machine, `argv` being a command of `qemu-system` with `-serial stdio`, and records
/// its kernel into `output`: samples of the kernel's branch stacks, a mapping of its text, and its
/// build ID. `watch` gets the lines of the console as they come.
///
/// The times of the samples are taken branches, as nanoseconds, so two runs of a deterministic
/// machine (see [`crate::machine::Guest`]) give the same bytes where [`KernelOptions::sections`] are
/// recorded. A whole run ends when qemu acts on the guest's reset, which on a busy host may be some
/// samples earlier or later.
///
/// # Errors
/// When qemu or the plugin is missing, the machine or its workload failed, hung or was interrupted,
/// the guest did not say where its kernel lies, or nothing was recorded. There is no file then, and
/// no machine.
pub fn record(
    argv: &[OsString],
    output: &Path,
    options: &KernelOptions,
    watch: &mut Watcher<'_>,
) -> Result<Recorded, Error> {
    let start = Instant::now();
    let attr = attr::emulated_kernel(options.period, EVENT);
    // To the very end: when the machine has ended, the file is completed.
    let forward = ForwardSignals::to(0);
    let mut file = Output::create(output, std::slice::from_ref(&attr))?;
    let spool = Spool::create(directory(output))?;
    let settings = vec![("period", options.period.to_string().into())];
    let (said, transcript) = run(argv, options, settings, &spool, &forward, watch)?;
    let Text { start: text, end, map_name } = said.text()?;
    let stamp = Stamp { pid: -1, tid: 0, time: 0, id: spool::EVENT_ID };
    file.records(&records::kernel_mmap(stamp, text, end - text, map_name.as_bytes()))?;
    let modules = said.modules(&options.modules);
    modules.iter().try_for_each(|module| file.records(&module.record(stamp)))?;
    file.records(&records::comm(Stamp { pid: 0, ..stamp }, b"swapper", false))?;
    let map = File::open(&spool.path).and_then(|file| Map::of(&file));
    let map = map.map_err(Error::io(&spool.path, "read"))?;
    let mut rounds = merge::Rounds::into(&mut file, Compression::Off)?;
    let merged = merge::merge(&spool.path, &map, &mut rounds, false)?;
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Acquire);
    let (taken, lost) = (count(&spool.header.taken_branches), count(&spool.header.lost_samples));
    if merged.samples == 0 {
        return Err(Error::Empty { reason: empty(taken, lost, output, options) });
    }
    let id =
        said.build_id.map(|id| BuildId { path: b"[kernel.kallsyms]".to_vec(), id, kernel: true });
    let ids = id.into_iter().chain(modules.iter().filter_map(Module::file));
    let board = argv.first().and_then(|program| Board::of_emulator(program)).unwrap_or_default();
    let stated = options.stated.as_deref().unwrap_or(argv);
    let mut features = features(Some(board.processor()), Some(stated), &merged, ids);
    features.clockid = None;
    let summary = Summary {
        output: output.to_owned(),
        bytes: file.finish(&features)?,
        branches: "emulated",
        event: EVENT.to_owned(),
        samples: merged.samples,
        branch_entries: merged.branch_entries,
        lost_samples: lost,
        taken_branches: Some(taken),
        processes: 0,
        native_programs: 0,
        elapsed: start.elapsed(),
        ending: transcript.ending,
        notes: Vec::new(),
        look_ahead: None,
        aux: None,
        streamed: None,
    };
    Ok(Recorded { summary, transcript })
}

/// Where a file lies.
fn directory(output: &Path) -> &Path {
    output.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Why there is no sample.
fn empty(taken: u64, lost: u64, output: &Path, options: &KernelOptions) -> String {
    match &options.sections {
        _ if lost > 0 => {
            format!("{lost} samples found no room beside {}; is the disk full?", output.display())
        }
        Some(sections) if taken == 0 => no_branch(sections),
        _ => {
            let period = options.period;
            format!(
                "the kernel took {taken} branches, and a sample is taken every {period}; lower \
                 the period"
            )
        }
    }
}

fn no_branch(sections: &RangeInclusive<u8>) -> String {
    format!(
        "the kernel took no branch in the sections {} to {}; does the workload execute their \
         markers?",
        sections.start(),
        sections.end()
    )
}

/// Runs the machine; `settings` say what the plugin does there.
fn run(
    argv: &[OsString],
    options: &KernelOptions,
    mut settings: Vec<(&'static str, OsString)>,
    spool: &Spool,
    forward: &ForwardSignals,
    watch: &mut Watcher<'_>,
) -> Result<(Said, Transcript), Error> {
    settings.push(("spool", spool.path.clone().into_os_string()));
    if let Some(sections) = &options.sections {
        settings.push(("from", sections.start().to_string().into()));
        settings.push(("to", sections.end().to_string().into()));
    }
    let limits = Limits { timeout: options.timeout, to_the_end: options.to_the_end };
    let plugin = Some(Plugin { path: options.plugin.as_deref(), settings });
    let machine = Run { argv, plugin, limits };
    let mut said = Said::default();
    let loaded = || spool.header.installed.load(Ordering::Acquire) != 0;
    let transcript = machine.run_under(forward, &loaded, &mut |line, statement| {
        said.line(line);
        watch(line, statement);
    })?;
    Ok((said, transcript))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_tells_where_the_kernel_lies_and_which_it_is() {
        let mut said = Said::default();
        said.line("\x1b[2Jplanish-text ffffffff81000000 ffffffff81e01ef2\r");
        said.line(
            "planish-notes \
             04000000040000000600000058656e00aabbccdd040000000200000003000000474e5500beef0000",
        );
        let (start, end) = (0xffff_ffff_8100_0000, 0xffff_ffff_81e0_1ef2);
        assert_eq!(said.text, Some(Text { start, end, map_name: "[kernel.kallsyms]_text" }));
        assert_eq!(said.build_id, Some(vec![0xbe, 0xef]));
        said.line("planish-text 0000000000000000 0000000000000000");
        assert_eq!(said.text, None, "kptr_restrict hides the addresses");
        said.line("planish-text ffff800080010000 ffff800080380000 _stext\r");
        assert_eq!(said.text.unwrap().map_name, "[kernel.kallsyms]_stext");
        let note = "040000000200000003000000474e5500beef0000";
        said.line(&format!("planish-module fat 8192 1 vfat, Live 0xffffffffc0001000 {note}\r"));
        said.line("planish-module vfat 4096 0 - Live 0xffffffffc0002000 (E)");
        said.line("planish-module hidden 4096 0 - Live 0x0000000000000000");
        said.line("planish-module ../x 4096");
        let files = BTreeMap::from([("fat".to_owned(), PathBuf::from("/out/fat.ko"))]);
        let found = said.modules(&files);
        let shown: Vec<_> = found.iter().map(|module| (module.path.as_str(), module.len)).collect();
        assert_eq!(shown, [("/out/fat.ko", 4096), ("[vfat]", 4096)]);
        assert_eq!((&found[0].build_id, &found[1].build_id), (&Some(vec![0xbe, 0xef]), &None));
        assert_eq!(build_id(&[255; 40]), None);
        assert_eq!(build_id(&[]), None);
    }
}
