//! When was a recording's first sample taken?

use perfdata::{Input, raw_records};

/// The time of the earliest sample, in ns of the recording's clock; none where samples have no
/// times. Reads the whole recording, since its samples need not be in order.
///
/// # Errors
/// Where the recording cannot be read.
pub fn first_time(input: &Input, threads: usize) -> Result<Option<u64>, perfdata::Error> {
    let of = |stream| first_of(input, stream);
    let firsts = jobs::try_run(input.stream_count(), threads, of)?;
    Ok(firsts.into_iter().flatten().min())
}

fn first_of(input: &Input, stream: usize) -> Result<Option<u64>, perfdata::Error> {
    let mut first: Option<u64> = None;
    let mut chunks = input.stream_chunks(stream)?;
    while let Some(chunk) = chunks.next() {
        let chunk = chunk?;
        let times = raw_records(&chunk.bytes, chunk.offset, input.endian())
            .filter(|raw| raw.kind == perfdata::kind::SAMPLE)
            .filter_map(|raw| {
                let layout = input.layouts().for_sample(raw.body).ok()?;
                layout.chain(&raw).ok()?.time
            });
        first = times.chain(first).min();
        chunks.recycle(chunk.bytes);
    }
    Ok(first)
}
