//! Which samples are wake-ups, and of whom.
//!
//! `sched:sched_waking` is sampled where a thread wakes another, on the waker's stack;
//! `sched:sched_wakeup`, which recordings of scheduling have too, may come later and from another
//! CPU, so it counts only where the other is not recorded. Both say the woken thread in the field
//! `pid` of their data, whose place the recording's own description of the event has (feature
//! `TRACING_DATA`); without one it is where all kernels up to 6.18 have it
//! (`include/trace/events/sched.h`, `sched_wakeup_template`).

use perfdata::{Endian, EventAttr, Features, Input, RawRecord, Sample, feature};

/// `type` of tracepoints (`include/uapi/linux/perf_event.h`).
const TRACEPOINT: u32 = 2;
const USUAL_PID: usize = 24;
/// Descriptions of more are not searched.
const LONGEST_FORMAT: usize = 1 << 16;

/// Which of a recording's events are wake-ups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wakes {
    /// By event: where its data say the woken thread.
    pid_at: Vec<Option<usize>>,
    /// Whether those data have their least significant byte first.
    little: bool,
}

impl Wakes {
    pub(crate) fn of(input: &Input) -> Wakes {
        let little = input.endian() == Endian::Little;
        Wakes { little, ..Wakes::among(input.attrs(), input.features()) }
    }

    fn among(attrs: &[EventAttr], features: &Features) -> Wakes {
        let is = |attr: &EventAttr, wanted: &[&str]| {
            let name = attr.name.as_deref().unwrap_or_default();
            let name = name.strip_prefix("sched:").unwrap_or_default();
            // Modifiers follow.
            let name = name.split(':').next().unwrap_or_default();
            attr.kind == TRACEPOINT && wanted.contains(&name)
        };
        let all: [&[&str]; 2] = [&["sched_waking"], &["sched_wakeup", "sched_wakeup_new"]];
        let has = |names: &&&[&str]| attrs.iter().any(|attr| is(attr, names));
        let Some(names) = all.iter().find(has) else { return Wakes::default() };
        let described = features.unknown.iter().find(|known| known.number == feature::TRACING_DATA);
        let described = described.map(|known| known.bytes.as_slice()).unwrap_or_default();
        let name = names.first().copied().unwrap_or_default();
        let at = field(described, name, "pid").unwrap_or(USUAL_PID);
        let pid_at = attrs.iter().map(|attr| is(attr, names).then_some(at)).collect();
        Wakes { pid_at, ..Wakes::default() }
    }

    /// Whether an event is one.
    pub(crate) fn is(&self, attr_index: u32) -> bool {
        self.pid_at.get(attr_index as usize).is_some_and(Option::is_some)
    }

    /// Whom the sample of a record woke; none: it is no wake-up, or does not say.
    pub(crate) fn woken_in(&self, input: &Input, raw: &RawRecord<'_>) -> Option<i32> {
        let layout = input.layouts().for_sample(raw.body).ok()?;
        self.woken(&layout.parse(raw).ok()?)
    }

    /// The same of a sample.
    pub(crate) fn woken(&self, sample: &Sample<'_>) -> Option<i32> {
        let at = (*self.pid_at.get(sample.attr_index as usize)?)?;
        let bytes = sample.raw?.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if self.little { i32::from_le_bytes(bytes) } else { i32::from_be_bytes(bytes) })
    }
}

/// Where a field of four bytes lies in the data of a tracepoint, by the text that describes it:
/// `name: NAME`, then a line `field:TYPE FIELD; offset:N; size:4; …` for each.
fn field(described: &[u8], name: &str, field: &str) -> Option<usize> {
    let begin = format!("name: {name}\n");
    let at = described.windows(begin.len()).position(|window| window == begin.as_bytes())?;
    let rest = described.get(at + begin.len()..)?;
    let text = String::from_utf8_lossy(rest.get(..LONGEST_FORMAT).unwrap_or(rest));
    // Each format ends with how it is printed.
    let lines = text.lines().take_while(|line| !line.starts_with("print fmt"));
    let wanted = format!(" {field};");
    let line = lines.into_iter().find(|line| {
        line.trim_start().starts_with("field:")
            && line.contains(&wanted)
            && line.contains("size:4;")
    })?;
    let number = line.split_once("offset:")?.1.split_once(';')?.0;
    // Data are small: a sample is below 64 KiB.
    number.trim().parse().ok().filter(|at| *at < LONGEST_FORMAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESCRIBED: &str = "\u{17}\u{8}Dtracing0.6\0…sched\0name: sched_waking_more\nID: 7\nformat:\n\
        \tfield:pid_t pid;\toffset:99;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\nname: sched_waking\nID: 375\n\
        format:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t pid;\toffset:28;\tsize:4;\tsigned:1;\n\nprint fmt: \"pid=%d\", REC->pid\n";

    #[test]
    fn the_description_of_an_event_says_where_its_fields_lie() {
        assert_eq!(field(DESCRIBED.as_bytes(), "sched_waking", "pid"), Some(28));
        assert_eq!(field(DESCRIBED.as_bytes(), "sched_wakeup", "pid"), None);
        assert_eq!(field(b"name: sched_waking\n", "sched_waking", "pid"), None);
        let far = "name: a\n\tfield:int pid;\toffset:99999999999999999999;\tsize:4;\n";
        assert_eq!(field(far.as_bytes(), "a", "pid"), None);
        let wide = "name: a\n\tfield:long pid;\toffset:8;\tsize:8;\n";
        assert_eq!(field(wide.as_bytes(), "a", "pid"), None);
    }

    #[test]
    fn the_waking_counts_where_both_events_are_recorded() {
        let attr = |kind, name: &str| EventAttr {
            kind,
            name: Some(name.to_owned()),
            ..EventAttr::default()
        };
        let features = Features::default();
        let both = [
            attr(TRACEPOINT, "sched:sched_wakeup"),
            attr(1, "cs"),
            attr(TRACEPOINT, "sched:sched_waking:u"),
        ];
        let wakes = Wakes::among(&both, &features);
        assert_eq!([0, 1, 2, 3].map(|event| wakes.is(event)), [false, false, true, false]);
        let wakes = Wakes::among(&both[..2], &features);
        assert_eq!([0, 1, 2].map(|event| wakes.is(event)), [true, false, false]);
        assert!(!Wakes::among(&both[1..2], &features).is(0));
        // A name alone is no tracepoint.
        assert!(!Wakes::among(&[attr(1, "sched:sched_waking")], &features).is(0));
    }
}
