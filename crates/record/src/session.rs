//! The beginning and the end of a recording: rings dealt out to streams, and streams made into a
//! complete file.

use crate::aux::Resuming;
use crate::backlog::Backlog;
use crate::file::{Output, Part};
use crate::follow::Ended;
use crate::losses::{self, Account, Losses, RingLosses};
use crate::open::Opened;
use crate::readers::Shared;
use crate::rotate::Rotation;
use crate::seen::Seen;
use crate::sink::Sink;
use crate::stream::{Emptied, Stream};
use crate::streaming::{Spread, Streaming};
use crate::topology;
use crate::{Ending, Error, Streamed};
use perfdata::{EventAttr, Features};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Refuses options that exclude each other.
pub(crate) fn check(how: &Streaming, output: &Path) -> Result<(), Error> {
    let piped = output.as_os_str() == "-";
    let given = [
        (piped, "-o -"),
        (how.threads.is_some(), "--threads"),
        (how.switch.is_some(), "--switch-output"),
        (how.overwrite, "--overwrite"),
        (how.max_bytes.is_some(), "--max-size"),
    ];
    let [piped, threads, switch, overwrite, limited] = given;
    let wrong = [
        (piped, threads),
        (piped, switch),
        (piped, limited),
        (threads, switch),
        (threads, overwrite),
        (overwrite, limited),
    ];
    match wrong.into_iter().find(|(one, other)| one.0 && other.0) {
        Some((one, other)) => Err(Error::Together(one.1, other.1)),
        None => Ok(()),
    }
}

/// Deals the rings out: all to one stream into the recording itself, or those of each group of CPUs
/// to a stream with a file of its own beside the recording, which is handed back.
pub(crate) fn streams(
    opened: &mut Opened,
    attrs: &[EventAttr],
    mut output: Output,
    how: &Streaming,
) -> Result<(Vec<Shared>, Option<Output>), Error> {
    let areas =
        std::mem::take(&mut opened.areas).into_iter().chain(std::iter::repeat_with(|| None));
    let rings =
        std::mem::take(&mut opened.rings).into_iter().zip(areas).zip(&opened.cpus).enumerate();
    let nodes = topology::nodes();
    let mut rings: Vec<Emptied> = rings
        .map(|(number, ((ring, aux), cpu))| Emptied {
            account: Account { cpu: *cpu, bytes: ring.data_bytes() as u64, ..Account::default() },
            near: near(*cpu, how),
            node: nodes.get(cpu).copied().unwrap_or(0),
            thread: opened.thread,
            ring,
            aux,
            resuming: Resuming::default(),
            number,
        })
        .collect();
    // What exists is written before anything is recorded: a directory whose recorder is killed, or
    // whose disk gets full, has its header.
    output.flush()?;
    let Some(spread) = &how.threads else {
        let stream = Stream::new(rings, attrs, Sink::Whole(output), how.compression, true)?;
        return Ok((vec![Mutex::new(stream)], None));
    };
    let mut cpus = opened.cpus.clone();
    cpus.dedup();
    let mut streams = Vec::new();
    let groups = topology::groups(&cpus, spread);
    let share = how.backlog() / groups.len().max(1) as u64;
    for (number, group) in groups.into_iter().enumerate() {
        let (own, others) =
            rings.into_iter().partition(|emptied| group.contains(&emptied.account.cpu));
        rings = others;
        let sink = Sink::Part(output.part(number, share)?);
        streams.push(Mutex::new(Stream::new(own, attrs, sink, how.compression, false)?));
    }
    Ok((streams, Some(output)))
}

/// Where the reader of a CPU's ring is to stay, if anywhere.
fn near(cpu: i32, how: &Streaming) -> Option<Vec<i32>> {
    let named = match &how.threads {
        Some(Spread::Masks(masks)) => topology::named(cpu, masks).map(|mask| mask.near.clone()),
        _ => None,
    };
    named.or_else(|| how.affinity.and_then(|affinity| topology::near(cpu, affinity)))
}

/// What is needed to complete a recording.
pub(crate) struct End<'e> {
    pub opened: &'e Opened,
    pub attrs: &'e [EventAttr],
    /// When it began.
    pub began: Instant,
    /// The clock of its times; none where that is the kernel's own, which programs cannot read.
    pub clock: Option<i32>,
    pub rotation: Rotation<'e>,
    /// The file with the header, where no stream goes into it.
    pub whole: Option<Output>,
}

/// A complete recording.
pub(crate) struct Finished {
    pub seen: Seen,
    pub streamed: Streamed,
    pub output: PathBuf,
    pub bytes: u64,
    pub ending: Ending,
}

impl End<'_> {
    /// Writes what is left and what is known only now.
    pub(crate) fn finish(mut self, streams: Vec<Shared>, ended: Ended) -> Result<Finished, Error> {
        let mut streams: Vec<Stream> = streams
            .into_iter()
            .map(|stream| stream.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
            .collect();
        let mut failure = ended.failure;
        for stream in &mut streams {
            if failure.is_none() && !self.opened.overwritten.is_empty() {
                failure = stream.dump(|ring, pause| self.opened.pause_ring(ring, pause)).err();
            }
            if failure.is_none() {
                failure = stream.sink().sync().err();
            }
        }
        let waited = streams
            .iter_mut()
            .filter_map(|stream| stream.sink().backlog().map(Backlog::most_waited))
            .sum();
        let deepest = streams.iter().filter_map(Stream::deepest).max();
        let now_ns = self.clock.and_then(crate::sys::clock_ns);
        let lost = losses::counted(self.opened.all(), self.attrs);
        let mut compressed: Option<(u64, u64)> = None;
        let mut seen = Seen::default();
        let mut losses = Losses::default();
        let mut whole = self.whole.take();
        let mut parts = Vec::new();
        let mut rings: Vec<Emptied> = Vec::new();
        let mut readers = Vec::new();
        let mut by_records = 0;
        for stream in streams {
            if let Some((bytes_in, bytes_out)) = stream.compressed() {
                let sum = compressed.unwrap_or_default();
                compressed = Some((sum.0 + bytes_in, sum.1 + bytes_out));
            }
            readers.push(stream.placement.clone());
            let (own, watch, sink) = stream.into_parts();
            rings.extend(own);
            by_records += watch.lost;
            losses.throttled.0 += watch.throttled.0;
            losses.throttled.1 += watch.throttled.1;
            seen.add(watch.seen);
            match sink {
                Sink::Whole(output) => whole = Some(output),
                Sink::Part(mut part) => {
                    if failure.is_some() {
                        part.cut();
                    }
                    parts.push(part);
                }
            }
        }
        losses.records = by_records.max(lost.values().sum());
        losses.rings = self.rings(&rings, &lost, now_ns);
        drop(rings);
        let features = self.rotation.description.features(&seen, compressed);
        let Some(mut output) = whole else {
            return Err(Error::Empty { reason: "there is no file".to_owned() });
        };
        if let Some(source) = failure {
            return Err(if !seen.is_empty() {
                output.keep(source, &features, &mut parts)
            } else {
                Error::Cut { source: Box::new(source), kept: None, left: None }
            });
        }
        if !seen.is_empty() {
            output.records(&losses::records(&lost, self.attrs, now_ns.unwrap_or(0)))?;
            if self.rotation.how.switch.is_some() {
                output.rename_to(self.rotation.name());
            }
        }
        let path = output.path().to_owned();
        // So that a file that gets lost is missed.
        let file_bytes = parts.iter().map(Part::bytes).collect();
        let features = Features { file_bytes, ..features };
        let bytes = if !seen.is_empty() { output.finish(&features)? } else { 0 };
        let files = self.rotation.files;
        let (full, hotplug) = (ended.full, ended.hotplug);
        let streamed =
            Streamed { losses, compressed, deepest, waited, files, full, hotplug, readers };
        Ok(Finished { seen, streamed, output: path, bytes, ending: ended.ending })
    }

    /// What each ring lost. What its events count beyond its LOST records was lost after its last
    /// record.
    fn rings(
        &self,
        rings: &[Emptied],
        lost: &BTreeMap<u64, u64>,
        now_ns: Option<u64>,
    ) -> Vec<RingLosses> {
        let elapsed = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let of_ring = |number: usize| {
            let leader = self.opened.leaders.get(number).into_iter();
            let followers =
                self.opened.followers.iter().filter(move |follower| follower.ring == number);
            let events = leader.chain(followers.map(|follower| &follower.event));
            events.filter_map(|event| lost.get(&event.id().ok()?)).sum::<u64>()
        };
        let one = |emptied: &Emptied| {
            let account = &emptied.account;
            let counted = of_ring(emptied.number);
            let rest = match (counted > account.lost, account.last, now_ns) {
                (true, Some(last), Some(now)) => now.saturating_sub(last),
                // It is not known when: at most, all the time.
                (true, _, None) => elapsed,
                _ => 0,
            };
            RingLosses {
                cpu: account.cpu,
                bytes: account.bytes,
                lost: account.lost.max(counted),
                paused: Duration::from_nanos((account.paused_ns.saturating_add(rest)).min(elapsed)),
                elapsed: Duration::from_nanos(elapsed),
            }
        };
        rings.iter().map(one).collect()
    }
}
