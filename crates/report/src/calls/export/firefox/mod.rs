//! A recording as a profile of the Firefox Profiler, in its processed form: threads with their
//! samples over time, and waits as markers.
//!
//! Memory is the distinct stacks and at most some samples ([`reduce`]), whatever the recording has.

mod frames;
mod reduce;
mod waits;

use super::{Error, Export, short};
use calltrees::switching::{Interval, Reason};
use calltrees::{PlaceId, Thread, Timed};
use frames::Frames;
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, MarkerTiming, ProcessHandle, Profile,
    ReferenceTimestamp, SamplingInterval, StackHandle, ThreadHandle, Timestamp,
};
use reduce::{Held, Samples};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;
use waits::{WaitMarker, Waits};

/// What the profile does not have of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reduced {
    /// Samples of the recording that count.
    pub samples: u64,
    /// Samples of the profile, each with the weight of those that it stands for.
    pub written: u64,
    /// Within so many ns, samples of one thread and stack became one; 0: none did.
    pub slot_ns: u64,
    /// Waits that are no markers: the shortest.
    pub waits_left_out: u64,
}

/// Writes the samples of an event, and all waits; `product` is what was recorded.
///
/// # Errors
/// Where samples have no times, nothing is left to write, or it cannot be written.
pub fn firefox(
    export: &Export<'_>,
    event: u32,
    product: &str,
    out: &mut dyn Write,
) -> Result<Reduced, Error> {
    let mut stacks = Stacks::default();
    let mut samples = Samples::new(reduce::MOST);
    let mut waits = Waits::of(export);
    let mut reduced = Reduced { waits_left_out: waits.left_out, ..Reduced::default() };
    export.session.each::<Error>(export.recorded, export.progress, &mut |sample: &Timed<
        '_,
    >| {
        let Some(thread) = export.thread(sample.thread) else { return Ok(()) };
        if (sample.event != event && sample.wait.is_none()) || !export.keeps_sample(thread, sample)
        {
            return Ok(());
        }
        let time = sample.time.ok_or(Error::NoTimes)?;
        let stack = stacks.number(sample);
        if let Some(wait) = sample.wait {
            waits.began(wait, sample.thread, stack);
        }
        if sample.event == event {
            reduced.samples += 1;
            let (thread, period) = (sample.thread, sample.period);
            samples.add(Held { time, thread, stack, count: 1, period });
        }
        Ok(())
    })??;
    let (samples, slot_ns) = samples.finish();
    if samples.is_empty() {
        return Err(Error::Nothing);
    }
    reduced.slot_ns = slot_ns;
    reduced.written = samples.len() as u64;
    let mut building = Building::new(export, event, &samples, &waits, product);
    for sample in &samples {
        building.sample(&stacks, sample);
    }
    building.waits(&stacks, &waits);
    serde_json::to_writer(&mut *out, &building.profile).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(reduced)
}

/// Distinct lists of places.
#[derive(Default)]
struct Stacks {
    numbers: FxHashMap<Box<[PlaceId]>, u32>,
    all: Vec<Box<[PlaceId]>>,
    present: Vec<PlaceId>,
}

impl Stacks {
    fn number(&mut self, sample: &Timed<'_>) -> u32 {
        self.present.clear();
        self.present.extend(sample.frames.iter().filter_map(|frame| frame.place));
        if let Some(number) = self.numbers.get(self.present.as_slice()) {
            return *number;
        }
        let number = self.all.len() as u32;
        let stack: Box<[PlaceId]> = self.present.as_slice().into();
        self.all.push(stack.clone());
        self.numbers.insert(stack, number);
        number
    }

    fn get(&self, number: u32) -> &[PlaceId] {
        self.all.get(number as usize).map_or(&[], |stack| stack)
    }
}

struct Building<'b, 'e> {
    export: &'b Export<'e>,
    profile: Profile,
    frames: Frames<'b, 'e>,
    /// By index.
    threads: Vec<ThreadHandle>,
    stacks: FxHashMap<(u32, u32), Option<StackHandle>>,
    begin: u64,
    is_clock: bool,
}

impl<'b, 'e> Building<'b, 'e> {
    fn new(
        export: &'b Export<'e>,
        event: u32,
        samples: &[Held],
        waits: &Waits<'_>,
        product: &str,
    ) -> Building<'b, 'e> {
        let recorded = export.recorded;
        let first = samples.first().map_or(0, |sample| sample.time);
        let begin = waits.told().map(|(wait, _)| wait.wait.start_ns).fold(first, u64::min);
        let is_clock = recorded.events.get(event as usize).is_some_and(|event| event.is_clock);
        let (count, period) = samples.iter().fold((0u64, 0u64), |(count, period), sample| {
            (count.saturating_add(sample.count), period.saturating_add(sample.period))
        });
        let usual = if is_clock { period / count.max(1) } else { 1_000_000 };
        let reference = ReferenceTimestamp::from_duration_since_unix_epoch(Duration::ZERO);
        let interval = SamplingInterval::from_nanos(usual.max(1));
        let mut profile = Profile::new(&short(product), reference, interval);
        profile.set_os_name("Linux");
        profile.set_symbolicated(true);
        let frames = Frames::new(export, &mut profile);
        let threads = threads(&mut profile, &recorded.threads);
        let stacks = FxHashMap::default();
        Building { export, profile, frames, threads, stacks, begin, is_clock }
    }

    fn at(&self, time: u64) -> Timestamp {
        Timestamp::from_nanos_since_reference(time.saturating_sub(self.begin))
    }

    fn stack(&mut self, stacks: &Stacks, thread: u32, stack: u32) -> Option<StackHandle> {
        let handle = *self.threads.get(thread as usize)?;
        if let Some(known) = self.stacks.get(&(thread, stack)) {
            return *known;
        }
        let frames = self.frames.of(&mut self.profile, stacks.get(stack));
        let found = self.profile.intern_stack_frames(handle, frames.into_iter());
        self.stacks.insert((thread, stack), found);
        found
    }

    fn sample(&mut self, stacks: &Stacks, sample: &Held) {
        let Some(handle) = self.threads.get(sample.thread as usize).copied() else { return };
        let stack = self.stack(stacks, sample.thread, sample.stack);
        let ran = CpuDelta::from_nanos(if self.is_clock { sample.period } else { 0 });
        let weight = i32::try_from(sample.count).unwrap_or(i32::MAX);
        self.profile.add_sample(handle, self.at(sample.time), stack, ran, weight);
    }

    fn wait_marker(
        &mut self,
        wait: &Interval,
        reason: Reason,
        category: CategoryHandle,
    ) -> WaitMarker {
        let mut text = |text: &str| self.profile.intern_string(text);
        let cpu = |cpu: Option<u32>| cpu.map_or("-".to_owned(), |cpu| cpu.to_string());
        WaitMarker {
            name: text(reason.event()),
            kind: text(reason.event()),
            left: text(&cpu(wait.left_cpu)),
            came: text(&cpu(wait.came_cpu)),
            category,
        }
    }

    fn waits(&mut self, stacks: &Stacks, waits: &Waits<'_>) {
        let named = self.export.named;
        let category = self.profile.add_category("Off CPU", CategoryColor::Purple);
        let threads = &self.export.recorded.threads;
        let of = |(index, thread): (u32, &Thread)| ((thread.pid, thread.tid), index);
        let last: FxHashMap<(i32, i32), u32> = (0u32..).zip(threads).map(of).collect();
        for (wait, sampled) in waits.told() {
            let own = sampled.map(|(thread, _)| thread);
            let Some(index) = own.or_else(|| last.get(&(wait.pid, wait.wait.tid)).copied()) else {
                continue;
            };
            // What has no sample goes through no function.
            let Some(thread) = threads.get(index as usize) else { continue };
            if sampled.is_none() && !named.keeps(thread, 0, std::iter::empty()) {
                continue;
            }
            let Some(handle) = self.threads.get(index as usize).copied() else { continue };
            let mut begin = wait.wait.start_ns;
            for (reason, ns) in wait.wait.parts() {
                let end = begin.saturating_add(ns);
                let marker = self.wait_marker(wait, reason, category);
                let timing = MarkerTiming::Interval(self.at(begin), self.at(end));
                let marker = self.profile.add_marker(handle, timing, marker);
                if let Some((thread, stack)) = sampled {
                    let stack = self.stack(stacks, thread, stack);
                    self.profile.set_marker_stack(handle, marker, stack);
                }
                begin = end;
            }
        }
    }
}

/// A track for each thread, under each of its names.
fn threads(profile: &mut Profile, threads: &[Thread]) -> Vec<ThreadHandle> {
    let begin = Timestamp::from_nanos_since_reference(0);
    let number = |id: i32| u32::try_from(id).unwrap_or(0);
    let mut names: BTreeMap<i32, &str> = BTreeMap::new();
    for thread in threads {
        let name = names.entry(thread.pid).or_insert(&thread.name);
        if thread.pid == thread.tid {
            *name = &thread.name;
        }
    }
    let mut processes: BTreeMap<i32, ProcessHandle> = BTreeMap::new();
    for (pid, name) in names {
        processes.insert(pid, profile.add_process(&short(name), number(pid), begin));
    }
    let mut handles = Vec::with_capacity(threads.len());
    for thread in threads {
        let Some(process) = processes.get(&thread.pid) else { continue };
        let is_main = thread.pid == thread.tid;
        let handle = profile.add_thread(*process, number(thread.tid), begin, is_main);
        profile.set_thread_name(handle, &short(&thread.name));
        handles.push(handle);
    }
    handles
}
