//! The chunks of a recording, read stream by stream and handed to worker threads.

use crossbeam_channel::{Receiver, Sender};
use perfdata::{Chunk, Input, ReadStats};

/// What a worker gets its chunks from.
#[derive(Clone)]
pub(crate) struct Handed {
    receive: Receiver<(usize, u64, Chunk)>,
    give_back: Sender<Vec<u8>>,
}

impl Handed {
    /// Calls `work` with the worker's share of the chunks: number of the stream, position of the
    /// chunk in the stream's records, the chunk.
    pub(crate) fn each(self, mut work: impl FnMut(usize, u64, &Chunk)) {
        for (stream, position, chunk) in self.receive {
            work(stream, position, &chunk);
            // The readers may have stopped already; then nobody needs the buffer.
            let _ = self.give_back.send(chunk.bytes);
        }
    }
}

/// Reads all streams and lets `threads` workers go through their chunks, in no order. Gives what the
/// workers bring home, and how the reading of each stream went. `progress` is told the bytes read.
///
/// # Errors
/// Where the recording cannot be read.
pub(crate) fn to_workers<T: Send>(
    input: &Input,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
    work: impl Fn(Handed) -> T + Sync,
) -> Result<(Vec<T>, Vec<ReadStats>), perfdata::Error> {
    let threads = threads.max(1);
    let (send, receive) = crossbeam_channel::bounded(threads * 2);
    let (give_back, used) = crossbeam_channel::unbounded();
    // Workers end when the readers' end of the channel is gone, and readers when the workers' is.
    let read_all = move || {
        let read = |stream| read_stream(input, stream, &send, &used, progress);
        jobs::try_run(input.stream_count(), threads, read)
    };
    let (found, ends) = jobs::beside(vec![Handed { receive, give_back }; threads], work, read_all);
    Ok((found, ends?))
}

fn read_stream(
    input: &Input,
    stream: usize,
    send: &Sender<(usize, u64, Chunk)>,
    used: &Receiver<Vec<u8>>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<ReadStats, perfdata::Error> {
    let mut position = 0u64;
    let mut chunks = input.stream_chunks(stream)?;
    while let Some(chunk) = chunks.next() {
        let chunk = chunk?;
        let bytes = chunk.bytes.len() as u64;
        if send.send((stream, position, chunk)).is_err() {
            break;
        }
        position += bytes;
        progress(bytes);
        // One for one: a reader that took all would keep them from the others.
        used.try_recv().into_iter().for_each(|buffer| chunks.recycle(buffer));
    }
    Ok(chunks.stats().clone())
}
