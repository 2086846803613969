//! AUX data on its way into the file: what hardware wrote into the AUX area of an event, as
//! AUXTRACE records with the bytes behind them, and what is said about it at the recording's begin.
//! Whose data it is makes no difference here; that stands in the modules of the tracers
//! ([`crate::arm_spe`]).
//!
//! The kernel publishes data by moving the area's head and writes an AUX record into the ring
//! beside it. An area that was full leaves its event disabled: whoever empties it has to enable the
//! event again, see [`Resuming`].

use crate::planned::Planned;
use crate::settings::Clock;
use crate::sink::Sink;
use crate::streaming::Streaming;
use crate::sys::aux::AuxArea;
use crate::sys::perf::Ring;
use crate::{Error, arm_spe};
use perfdata::write::{AuxPiece, TimeConversion, auxtrace_info, time_conversion};
use perfdata::{Endian, EventAttr, attr_flag, aux_flag, sample_type};

/// AUX data of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuxSeen {
    /// Bytes of it.
    pub bytes: u64,
    /// AUXTRACE records.
    pub pieces: u64,
    /// How often the area was full and data was lost.
    pub truncated: u64,
    /// How often the data has gaps.
    pub partial: u64,
    /// How often operations were picked before the one before was written down, and lost.
    pub collided: u64,
}

impl AuxSeen {
    /// Adds what another stream held.
    pub(crate) fn add(&mut self, other: AuxSeen) {
        self.bytes += other.bytes;
        self.pieces += other.pieces;
        self.truncated += other.truncated;
        self.partial += other.partial;
        self.collided += other.collided;
    }

    /// Takes note of the flags of an AUX record.
    pub(crate) fn note(&mut self, flags: u64) {
        let has = |flag| u64::from(flags & flag != 0);
        self.truncated += has(aux_flag::TRUNCATED);
        self.partial += has(aux_flag::PARTIAL);
        self.collided += has(aux_flag::COLLISION);
    }
}

/// Whether an event of these writes AUX data.
pub(crate) fn traced(events: &[Planned]) -> bool {
    events.iter().any(|event| event.trace.is_some())
}

/// What AUX data needs of the other events of its recording: records of switches with the CPU, to
/// tell whose data it is, and the kernel's own clock, which alone the tracers' times can be
/// converted to; unless the user chose another.
pub(crate) fn set_up(events: &mut [Planned], clock_chosen: bool) {
    if !traced(events) {
        return;
    }
    for event in events {
        event.attr.sample_type |= sample_type::CPU;
        if event.is_tracker() {
            // It tells of programs; without the kernel's part any user may have it.
            event.attr.flags |=
                attr_flag::CONTEXT_SWITCH | attr_flag::EXCLUDE_KERNEL | attr_flag::EXCLUDE_HV;
            event.name = "dummy:u".to_owned();
        }
        if !clock_chosen {
            event.attr.flags &= !attr_flag::USE_CLOCKID;
            event.attr.clockid = 0;
        }
    }
}

/// The clock of a recording's times: the one that was chosen, else CLOCK_MONOTONIC; none where it
/// is the kernel's own.
pub(crate) fn clock(events: &[Planned], chosen: Option<Clock>) -> Option<i32> {
    chosen.map(|clock| clock.0).or((!traced(events)).then_some(libc::CLOCK_MONOTONIC))
}

/// What to say of a clock that was chosen, which the tracers' times cannot be converted to.
pub(crate) fn clock_note(events: &[Planned]) -> Option<String> {
    let traced = events.iter().find(|event| event.trace.is_some())?;
    (traced.attr.flags & attr_flag::USE_CLOCKID != 0).then(|| {
        format!(
            "the times in the AUX data of {} cannot be converted to the clock of -k; they are \
             taken from the AUX records, which are coarser. Leave -k out",
            traced.name
        )
    })
}

/// Refuses what AUX data cannot be recorded with, and the other way round.
pub(crate) fn check(events: &[Planned], how: &Streaming) -> Result<(), Error> {
    let Some(first) = events.iter().find(|event| event.trace.is_some()) else {
        return how.aux.map_or(Ok(()), |_| {
            Err(Error::Unfit {
                event: "with -m ,SIZE".to_owned(),
                reason: "no event writes AUX data; leave the second size out".to_owned(),
            })
        });
    };
    let refuse =
        |event: &Planned, reason: String| Err(Error::Unfit { event: event.name.clone(), reason });
    for (given, option) in [(how.overwrite, "--overwrite"), (how.threads.is_some(), "--threads")] {
        if given {
            return refuse(
                first,
                format!("it writes AUX data, which does not go with {option}; leave that out"),
            );
        }
    }
    for (index, event) in events.iter().enumerate().filter(|(_, event)| event.trace.is_some()) {
        let same = |other: &Planned| other.trace.is_some() && other.attr.kind == event.attr.kind;
        if events.iter().take(index).any(same) {
            let reason = "its unit writes AUX data for one event at a time; leave all but one out";
            return refuse(event, reason.to_owned());
        }
        if event.leader != index || events.iter().filter(|other| other.leader == index).count() > 1
        {
            return refuse(
                event,
                "it writes AUX data and fits into no group; take it out of the braces".to_owned(),
            );
        }
    }
    Ok(())
}

/// The records that a recording with AUX data begins with: how times are converted, where the
/// kernel says it and the clock is its own, and who makes the data. Nothing where no event writes
/// AUX data.
pub(crate) fn preamble(events: &[Planned], rings: &[Ring]) -> Result<Vec<u8>, Error> {
    let Some((event, trace)) = events.iter().find_map(|event| Some((event, event.trace?))) else {
        return Ok(Vec::new());
    };
    let own_clock = event.attr.flags & attr_flag::USE_CLOCKID == 0;
    let conversion = rings.first().filter(|_| own_clock).and_then(Ring::time_conversion);
    written(&event.attr, trace.tracer, conversion)
}

fn written(
    attr: &EventAttr,
    tracer: u32,
    conversion: Option<TimeConversion>,
) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    let conversion = conversion.map(|found| time_conversion(&mut out, &found, Endian::NATIVE));
    let info = auxtrace_info(&mut out, tracer, &arm_spe::private_words(attr.kind), Endian::NATIVE);
    conversion.unwrap_or(Ok(())).and(info).map_err(|error| Error::Refused {
        event: "AUX data".to_owned(),
        reason: error.to_string(),
    })?;
    Ok(out)
}

/// Where AUX data comes from.
pub(crate) struct Origin {
    /// Number of the ring.
    pub number: usize,
    pub cpu: i32,
    /// The first thread that is recorded, or −1.
    pub thread: i32,
}

/// Hands on what lies in an area, as one record with its data, and gives the room back. The result
/// are the bytes.
pub(crate) fn take(
    area: &mut AuxArea,
    ring: &Ring,
    of: &Origin,
    sink: &mut Sink,
    seen: &mut AuxSeen,
) -> Result<usize, Error> {
    let (aux_offset, span) = area.filled(ring);
    let bytes = span.len();
    if bytes == 0 {
        return Ok(0);
    }
    let piece = AuxPiece {
        size_bytes: bytes as u64,
        aux_offset,
        reference: seen.pieces,
        index: u32::try_from(of.number).unwrap_or(u32::MAX),
        tid: of.thread,
        cpu: of.cpu,
    };
    sink.aux(&piece, [span.one, span.two])?;
    seen.pieces += 1;
    seen.bytes += bytes as u64;
    area.free(ring, aux_offset.wrapping_add(bytes as u64));
    Ok(bytes)
}

/// Whether the events of a ring are to be enabled again: the kernel disables one whose area was
/// full. It does so a moment after it says that the area was full, which can be long after the area
/// was emptied where the CPU is a virtual one, and then nothing would wake the reader any more. So
/// they are enabled in each round until data comes again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resuming {
    /// Rounds without data since the area was full.
    rounds: Option<u32>,
}

impl Resuming {
    /// After a round in which so many bytes were taken, of an area that was full or not: whether to
    /// enable the events now.
    pub(crate) fn round(&mut self, taken: usize, full: bool) -> bool {
        self.rounds = match (full, taken > 0) {
            (true, _) => Some(0),
            (false, true) => None,
            (false, false) => self.rounds.map(|rounds| rounds.saturating_add(1)),
        };
        taken > 0 || self.rounds.is_some()
    }

    /// How long to wait for the next round at most, where that is not to be as long as usual:
    /// longer each time.
    pub(crate) fn soon_ms(self) -> Option<i32> {
        const FIRST_MS: i32 = 2;
        const MOST_DOUBLED: u32 = 16;
        self.rounds.map(|rounds| FIRST_MS << rounds.min(MOST_DOUBLED))
    }
}

#[cfg(test)]
mod tests;
