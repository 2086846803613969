//! Where does what a recorded program prints go, when nobody asked to see it? Into a file of
//! bounded size.

use crate::Error;
use crate::bounded_log::BoundedLog;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long what the program left running may go on printing into the log.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// A log that is being written.
pub struct ProgramLog {
    writer: Arc<OwnedFd>,
    done: Receiver<std::io::Result<()>>,
    path: PathBuf,
}

impl ProgramLog {
    /// Creates the file and takes what is written to [`ProgramLog::writer`].
    ///
    /// # Errors
    /// Where it cannot be created.
    pub fn create(path: &Path) -> Result<ProgramLog, Error> {
        let log = BoundedLog::create(path).map_err(failed(path))?;
        let (reader, writer): (PipeReader, PipeWriter) = std::io::pipe().map_err(failed(path))?;
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
    ///
    /// # Errors
    /// Where the file did not take what came.
    pub fn finish(self) -> Result<(), Error> {
        let ProgramLog { writer, done, path } = self;
        drop(writer);
        match done.recv_timeout(AFTERWARDS) {
            Ok(ended) => ended.map_err(failed(&path)),
            Err(_) => Ok(()),
        }
    }
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Read { path, source }
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
