//! Where does what a recorded program prints go, when nobody asked to see it? Into a file of
//! bounded size.

use anyhow::Context;
use build::bounded_log::BoundedLog;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long what the program left running may go on printing into the log.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// A log that is being written.
pub struct ProgramLog {
    writer: Arc<OwnedFd>,
    done: Receiver<std::io::Result<()>>,
    path: std::path::PathBuf,
}

impl ProgramLog {
    /// Creates the file and takes what is written to [`ProgramLog::writer`].
    pub fn create(path: &Path) -> anyhow::Result<ProgramLog> {
        let shown = || path.display().to_string();
        let log = BoundedLog::create(path).with_context(shown)?;
        let (reader, writer): (PipeReader, PipeWriter) = std::io::pipe().with_context(shown)?;
        let (tell, done) = channel();
        std::thread::spawn(move || {
            // Nobody waits any more where the recorder has gone on.
            let _ = tell.send(copy(reader, log));
        });
        Ok(ProgramLog { writer: Arc::new(writer.into()), done, path: path.to_owned() })
    }

    /// What the program writes to.
    pub fn writer(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.writer)
    }

    /// Ends the log, once the program has ended and nobody else holds its writer.
    pub fn finish(self) -> anyhow::Result<()> {
        let ProgramLog { writer, done, path } = self;
        drop(writer);
        match done.recv_timeout(AFTERWARDS) {
            Ok(ended) => ended.with_context(|| path.display().to_string()),
            Err(_) => Ok(()),
        }
    }
}

/// Reads to the end even where the file takes no more, lest the program end for a full disk that is
/// not its own.
fn copy(mut from: PipeReader, mut log: BoundedLog) -> std::io::Result<()> {
    let mut block = vec![0; 1 << 16];
    let mut failed = Ok(());
    loop {
        match from.read(&mut block) {
            Ok(0) => break,
            Ok(got) if failed.is_ok() => {
                failed = log.write_all(block.get(..got).unwrap_or_default())
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    failed.and_then(|()| log.finish())
}
