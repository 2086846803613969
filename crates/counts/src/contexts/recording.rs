//! Contexts from a perf.data, in two passes: what was mapped, then the samples.

use super::code::Code;
use super::unwind::{self, Entry};
use super::{ContextCounts, ContextLedger};
use crate::aggregate::CountOptions;
use crate::binding::{Binding, Bindings};
use crate::error::Error;
use crate::listed;
use crate::resolve::Spaces;
use crate::sideband::read_sideband;
use address_spaces::Clock;
use address_spaces::Timeline;
use image::{Image, ImageAddr};
use perfdata::{DeferredChains, EventAttr, Input, RuntimeAddr, Sample, raw_records, sample_type};
use rustc_hash::FxHashMap;
use std::path::Path;
use std::sync::Arc;

/// Values of a call chain from here on say whose the next ones are (`enum perf_callchain_context`).
const CHAIN_MARKS: u64 = -4095i64 as u64;
/// The event of emulated recordings (`planish record --branches=emulated`).
const EMULATED: &str = "taken-branches:u";

/// Counts what `image` did in each of its calling contexts, from the samples of `input` that have a
/// branch stack and a call chain. `path` names the recording in messages; of the options only the
/// process matters.
///
/// # Errors
/// Where the recording cannot be read, holds no sample, or none that has both and touches the
/// image.
pub fn of_recording(
    path: &Path,
    input: &Input,
    image: &Arc<Image>,
    options: CountOptions,
) -> Result<ContextCounts, Error> {
    let fault = |source| Error::Recording { path: path.to_owned(), source };
    let clock = Clock::of(input);
    let sideband = read_sideband(input, options.threads, clock).map_err(fault)?;
    let timeline = Timeline::build(sideband.changes);
    let images = std::slice::from_ref(image);
    let bindings = Bindings::new(timeline.files(), images, listed::of(input, &sideband.build_ids));
    let mut unwinder = Unwinder::new(&timeline, &bindings, image, options.pid);
    unwinder.exact_chains = has_exact_chains(input);
    unwinder.deferred = DeferredChains::read(input).map_err(fault)?;
    for stream in 0..input.stream_count() {
        let mut position = sideband.bases.get(stream).copied().unwrap_or(0);
        let mut chunks = input.stream_chunks(stream).map_err(fault)?;
        while let Some(chunk) = chunks.next() {
            let chunk = chunk.map_err(fault)?;
            for raw in raw_records(&chunk.bytes, chunk.offset, input.endian()) {
                if raw.kind != perfdata::kind::SAMPLE {
                    continue;
                }
                let at = position.wrapping_add(raw.offset.wrapping_sub(chunk.offset));
                match input.layouts().for_sample(raw.body).and_then(|layout| layout.parse(&raw)) {
                    Ok(sample) => unwinder.recorded(&sample, clock, at),
                    Err(_) => unwinder.malformed(),
                }
            }
            position += chunk.bytes.len() as u64;
            chunks.recycle(chunk.bytes);
        }
    }
    unwinder.counts.ledger.truncated_bytes = sideband.truncated_bytes;
    unwinder.counts.ledger.lost = sideband.lost_records.max(sideband.lost_samples);
    checked(path, image, unwinder.counts)
}

/// Whether the recorder followed every call itself, so that chains are whole everywhere: planish's
/// emulator, which is told by the name of its event. Nothing else of that name records call chains.
fn has_exact_chains(input: &Input) -> bool {
    let chained = |attr: &&EventAttr| attr.sample_type & sample_type::CALLCHAIN != 0;
    let mut attrs = input.attrs().iter().filter(chained).peekable();
    attrs.peek().is_some() && attrs.all(|attr| attr.name.as_deref() == Some(EMULATED))
}

/// Refuses counts that say nothing, with the reason.
pub(super) fn checked(
    path: &Path,
    image: &Image,
    counts: ContextCounts,
) -> Result<ContextCounts, Error> {
    debug_assert!(counts.ledger.balances());
    if counts.ledger.samples == 0 {
        return Err(Error::NoSamples { path: path.to_owned() });
    }
    if counts.is_empty() {
        let ContextLedger { samples, without_chain, without_branches, .. } = counts.ledger;
        if without_chain + without_branches == samples {
            return Err(Error::NoContexts {
                path: path.to_owned(),
                samples,
                without_chain,
                without_branches,
            });
        }
        return Err(Error::NothingMatches {
            path: path.to_owned(),
            samples,
            images: image.path().display().to_string(),
            cause: counts.ledger.lines().join("; "),
        });
    }
    Ok(counts)
}

/// Unwinds samples one after the other.
pub(super) struct Unwinder<'t> {
    timeline: &'t Timeline,
    bindings: &'t Bindings<'t>,
    code: Code<'t>,
    pid: Option<i32>,
    /// The address spaces of the last sample, and what was looked up in them.
    current: Option<(i32, Spaces<'t>)>,
    places: FxHashMap<u64, Option<ImageAddr>>,
    chain: Vec<Option<ImageAddr>>,
    entries: Vec<Entry>,
    /// User parts of chains that came later.
    deferred: DeferredChains,
    /// Whether chains are whole also at the start and end of functions.
    exact_chains: bool,
    pub counts: ContextCounts,
}

impl<'t> Unwinder<'t> {
    pub fn new(
        timeline: &'t Timeline,
        bindings: &'t Bindings<'t>,
        image: &'t Image,
        pid: Option<i32>,
    ) -> Unwinder<'t> {
        Unwinder {
            timeline,
            bindings,
            code: Code::new(image),
            pid,
            current: None,
            places: FxHashMap::default(),
            chain: Vec::new(),
            entries: Vec::new(),
            deferred: DeferredChains::default(),
            exact_chains: false,
            counts: ContextCounts::default(),
        }
    }

    pub fn malformed(&mut self) {
        self.counts.ledger.samples += 1;
        self.counts.ledger.malformed += 1;
    }

    fn recorded(&mut self, sample: &Sample<'_>, clock: Clock, position: u64) {
        let Some(pid) = sample.pid else { return self.malformed() };
        let time = if clock == Clock::Time { sample.time.unwrap_or(0) } else { position };
        // perf_event.h: bits 24 and 25 of the flags tell of speculation, 1 = executed on the wrong
        // path.
        let branches = sample.branches.iter().flat_map(|stack| stack.iter());
        let branches = branches.map(|e| (e.from.0, e.to.0, (e.flags.0 >> 24) & 3 == 1));
        let tid = sample.tid.unwrap_or(pid);
        let chain = sample
            .callchain
            .as_ref()
            .map(|chain| self.deferred.whole(tid, chain))
            .unwrap_or_default();
        self.counts.ledger.deferred_missing += u64::from(chain.missing);
        self.sample(pid, time, chain.words.into_iter(), branches);
    }

    /// Unwinds a sample of the process at the time. `chain` is innermost first and may have marks
    /// in it; `branches` are newest first: from, to, and whether on a wrong path.
    pub fn sample(
        &mut self,
        pid: i32,
        time: u64,
        chain: impl Iterator<Item = u64>,
        branches: impl Iterator<Item = (u64, u64, bool)>,
    ) {
        self.counts.ledger.samples += 1;
        if self.pid.is_some_and(|wanted| wanted != pid) {
            self.counts.ledger.other_process += 1;
            return;
        }
        self.enter(pid, time);
        let (mut frames, mut entries) =
            (std::mem::take(&mut self.chain), std::mem::take(&mut self.entries));
        frames.clear();
        entries.clear();
        frames.extend(
            chain
                .filter(|word| *word < CHAIN_MARKS)
                .map(|address| self.place(RuntimeAddr(address))),
        );
        let mut wrong = 0;
        for (from, to, wrong_path) in branches {
            if wrong_path {
                wrong += 1;
            } else {
                entries.push(Entry {
                    from: self.place(RuntimeAddr(from)),
                    to: self.place(RuntimeAddr(to)),
                });
            }
        }
        self.counts.ledger.wrong_path += wrong;
        if frames.is_empty() {
            self.counts.ledger.without_chain += 1;
        } else if entries.is_empty() {
            self.counts.ledger.without_branches += 1;
        } else {
            self.counts.ledger.leaf_only += u64::from(frames.len() < 2);
            let exact = self.exact_chains;
            unwind::sample(&mut self.code, &mut self.counts, &frames, &mut entries, exact);
        }
        (self.chain, self.entries) = (frames, entries);
    }

    fn enter(&mut self, pid: i32, time: u64) {
        if self.current.as_ref().is_some_and(|(of, spaces)| *of == pid && spaces.holds_at(time)) {
            return;
        }
        self.places.clear();
        self.current = Some((pid, Spaces::at(self.timeline, pid, time)));
    }

    fn place(&mut self, address: RuntimeAddr) -> Option<ImageAddr> {
        if let Some(known) = self.places.get(&address.0) {
            return *known;
        }
        let place = self.current.as_ref().and_then(|(_, spaces)| {
            let mapping = spaces.find(address)?;
            match self.bindings.get(mapping.file) {
                Binding::Image(bound) => bound.address(&mapping, address),
                _ => None,
            }
        });
        self.places.insert(address.0, place);
        place
    }
}
