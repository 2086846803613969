//! A recording as text in the form of `perf script -F comm,pid,tid,cpu,time,period,event,ip,sym,dso`,
//! which many programs read.
//!
//! Source: `process_event` in Linux's `tools/perf/builtin-script.c` and `sample__fprintf_callchain`
//! in `tools/perf/util/evsel_fprintf.c`, as they print in perf 6.1.

use super::{Error, Export, short};
use calltrees::{Frame, Kind, Known, PlaceId, Timed};
use rustc_hash::FxHashMap;
use std::io::Write;

const UNKNOWN: &str = "[unknown]";

/// Writes the samples of all events, or of one, in time order; says how many.
///
/// # Errors
/// Where the recording cannot be read or the text not be written.
pub fn script(export: &Export<'_>, event: Option<u32>, out: &mut dyn Write) -> Result<u64, Error> {
    let mut script = Script::new(export, out);
    let mut written = 0u64;
    export.session.each(export.recorded, export.progress, &mut |sample: &Timed<'_>| {
        if event.is_none_or(|event| event == sample.event) {
            written += u64::from(script.sample(sample)?);
        }
        Ok::<(), Error>(())
    })??;
    if written == 0 { Err(Error::Nothing) } else { Ok(written) }
}

struct Script<'s, 'e> {
    export: &'s Export<'e>,
    out: &'s mut dyn Write,
    /// What stands behind the address, for each function of a place.
    texts: FxHashMap<PlaceId, Vec<String>>,
    comms: Vec<Option<String>>,
    events: Vec<String>,
    width: usize,
}

impl<'s, 'e> Script<'s, 'e> {
    fn new(export: &'s Export<'e>, out: &'s mut dyn Write) -> Script<'s, 'e> {
        let recorded = export.recorded;
        let sampled = recorded.events.iter().filter(|event| event.off_cpu.is_none());
        let events: Vec<String> = sampled.map(|event| short(&event.name)).collect();
        let width = events.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let comms = vec![None; recorded.threads.len()];
        Script { export, out, texts: FxHashMap::default(), comms, events, width }
    }

    /// Whether the sample counts.
    fn sample(&mut self, sample: &Timed<'_>) -> Result<bool, Error> {
        let Some(thread) = self.export.thread(sample.thread) else { return Ok(false) };
        if !self.export.keeps_sample(thread, sample) {
            return Ok(false);
        }
        let out = &mut self.out;
        let comm = self.comms.get_mut(sample.thread as usize);
        let comm = comm.map(|slot| slot.get_or_insert_with(|| comm_of(&thread.name, thread.tid)));
        let comm = comm.map_or("", |comm| comm.as_str());
        if sample.has_chain {
            write!(out, "{comm} ")?;
        } else {
            write!(out, "{comm:>16} ")?;
        }
        write!(out, "{:>5}/{:<5} ", thread.pid, thread.tid)?;
        if let Some(cpu) = sample.cpu {
            write!(out, "[{cpu:03}] ")?;
        }
        if let Some(time) = sample.time {
            let (seconds, micros) = (time / 1_000_000_000, time % 1_000_000_000 / 1000);
            write!(out, "{seconds:>5}.{micros:06}: ")?;
        }
        let event = self.events.get(sample.event as usize).map_or("", String::as_str);
        write!(out, "{:>10} {event:>width$}: ", sample.period, width = self.width)?;
        out.write_all(if sample.has_chain { b"\n" } else { b" " })?;
        for frame in sample.frames {
            self.frame(frame, sample.has_chain)?;
        }
        if sample.has_chain {
            self.out.write_all(b"\n")?;
        }
        Ok(true)
    }

    fn frame(&mut self, frame: &Frame, in_chain: bool) -> Result<(), Error> {
        let export = self.export;
        let mark = if in_chain { "\t" } else { "" };
        // perf shows where user code of a chain lies in its file.
        let at = frame.offset.filter(|_| in_chain).map_or(frame.address.0, |offset| offset.0);
        let Some(place) = frame.place else {
            writeln!(self.out, "{mark}{at:>16x} {UNKNOWN} ({UNKNOWN})")?;
            return Ok(());
        };
        // What stands for missing frames has no address; perf says nothing there.
        if export.session.kind(place) == Kind::Nobody {
            return Ok(());
        }
        let texts = self.texts.entry(place).or_insert_with(|| texts(export, place));
        for text in texts.iter().take(if in_chain { usize::MAX } else { 1 }) {
            writeln!(self.out, "{mark}{at:>16x} {text}")?;
        }
        Ok(())
    }
}

/// perf calls a thread whose name nobody recorded by its number.
fn comm_of(name: &str, tid: i32) -> String {
    if name.is_empty() { format!(":{tid}") } else { short(name) }
}

/// `NAME (FILE)` for each function of a place.
fn texts(export: &Export<'_>, place: PlaceId) -> Vec<String> {
    let names = &export.recorded.names;
    let functions = export.session.functions(place);
    let text = |id: &calltrees::FunctionId| {
        let name = export.name(*id).unwrap_or_else(|| UNKNOWN.to_owned());
        let inlined = names.function(*id).is_some_and(|f| f.known == Known::Inlined);
        let library = names.library(*id).map_or(UNKNOWN, |library| library.path.as_str());
        match inlined {
            true => format!("{name} (inlined)"),
            false => format!("{name} ({})", file(library)),
        }
    };
    functions.iter().map(text).collect()
}

/// As perf calls what is no file.
fn file(path: &str) -> String {
    match path.strip_prefix("[JIT ").and_then(|rest| rest.strip_suffix(']')) {
        Some(pid) => format!("/tmp/perf-{}.map", short(pid)),
        None if path == "[kernel]" => "[kernel.kallsyms]".to_owned(),
        None if matches!(path, "[elsewhere]" | "[none]") => UNKNOWN.to_owned(),
        None => short(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_called_as_perf_calls_it() {
        assert_eq!(file("[JIT 12]"), "/tmp/perf-12.map");
        assert_eq!(file("[kernel]"), "[kernel.kallsyms]");
        assert_eq!(file("/usr/lib/a\nb.so"), "/usr/lib/a b.so");
        assert_eq!(comm_of("", 7), ":7");
        assert!(!comm_of("a\nb", 7).contains('\n'));
    }
}
