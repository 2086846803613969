//! The first pass over a recording: everything that is not a sample.

use crate::listed::ListedId;
use crate::spe::AuxSideband;
use address_spaces::Change;
use address_spaces::Clock;
use perfdata::{Input, Record, raw_records};

/// What the first pass brings home.
#[derive(Default)]
pub(crate) struct Sideband {
    pub changes: Vec<(u64, Change)>,
    pub build_ids: Vec<ListedId>,
    pub samples: u64,
    pub lost_records: u64,
    /// Samples that the recorder says were lost.
    pub lost_samples: u64,
    pub unknown: u64,
    pub truncated_bytes: u64,
    /// Bytes of records, uncompressed, before each stream: where its positions begin.
    pub bases: Vec<u64>,
    pub aux: AuxSideband,
}

/// Reads all records but samples, the streams of a directory in parallel.
pub(crate) fn read_sideband(
    input: &Input,
    threads: usize,
    clock: Clock,
) -> Result<Sideband, perfdata::Error> {
    let read = |stream| read_stream(input, stream, clock);
    let parts = jobs::try_run(input.stream_count(), threads, read)?;
    let mut all = Sideband::default();
    let mut base = 0u64;
    // In the order of the streams, as if they had been read one after the other.
    for (mut part, bytes) in parts {
        let shift = if clock == Clock::Position { base } else { 0 };
        part.changes.iter_mut().for_each(|(time, _)| *time = time.saturating_add(shift));
        all.changes.append(&mut part.changes);
        all.build_ids.append(&mut part.build_ids);
        all.aux.append(part.aux, shift);
        all.samples += part.samples;
        all.lost_records = all.lost_records.saturating_add(part.lost_records);
        all.lost_samples = all.lost_samples.saturating_add(part.lost_samples);
        all.unknown += part.unknown;
        all.truncated_bytes = all.truncated_bytes.saturating_add(part.truncated_bytes);
        all.bases.push(base);
        base += bytes;
    }
    Ok(all)
}

/// The sideband of one stream, with positions counted from its begin, and its bytes of records.
fn read_stream(
    input: &Input,
    stream: usize,
    clock: Clock,
) -> Result<(Sideband, u64), perfdata::Error> {
    let mut out = Sideband::default();
    let mut chunks = input.stream_chunks(stream)?;
    let mut position = 0u64;
    while let Some(chunk) = chunks.next() {
        let chunk = chunk?;
        for raw in raw_records(&chunk.bytes, chunk.offset, input.endian()) {
            if raw.kind == perfdata::kind::SAMPLE {
                out.samples += 1;
                continue;
            }
            let Ok((record, id)) = Record::parse(&raw, input.layouts()) else {
                out.unknown += 1;
                continue;
            };
            let time = match clock {
                Clock::Time => id.time.unwrap_or(0),
                Clock::Position => position + raw.offset.wrapping_sub(chunk.offset),
            };
            note_record(&mut out, time, &record);
            // The header's 8 bytes, the body, and then the payload, where there is one.
            let payload = raw.offset.saturating_add(8 + raw.body.len() as u64);
            out.aux.note(time, &record, &id, (chunk.stream, payload));
        }
        position += chunk.bytes.len() as u64;
        chunks.recycle(chunk.bytes);
    }
    out.truncated_bytes = chunks.stats().truncated_bytes;
    Ok((out, position))
}

fn note_record(out: &mut Sideband, time: u64, record: &Record<'_>) {
    out.changes.extend(Change::of(record).map(|change| (time, change)));
    match record {
        // The kernel's own notes count all records, and its recorder's count the samples among
        // them: the same losses.
        Record::Lost { lost, .. } => out.lost_records = out.lost_records.saturating_add(*lost),
        Record::LostSamples { lost } => out.lost_samples = out.lost_samples.saturating_add(*lost),
        Record::User(perfdata::UserRecord::BuildId(b)) => {
            out.build_ids.push(ListedId::from(b));
        }
        Record::Unknown { .. } => out.unknown += 1,
        _ => {}
    }
}
