//! How do other programs get a recording? As the formats that they read, written as it is read.

mod firefox;
mod pprof;
mod proto;
mod script;

pub use firefox::{Reduced, firefox};
pub use pprof::pprof;
pub use script::script;

use super::demangled;
use calltrees::{Distinct, FunctionId, Known, Recorded, Session, Thread, Timed};
use flate2::{Compression, GzBuilder};
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, BufWriter, IntoInnerError, Write};

/// Which samples count, as far as only names tell.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// Of threads of this name.
    pub comm: Option<String>,
    /// Of one of these control groups, by number.
    pub cgroups: Option<BTreeSet<u64>>,
    /// With one of these functions on their stack.
    pub through: Option<BTreeSet<FunctionId>>,
}

impl Named {
    fn keeps(
        &self,
        thread: &Thread,
        cgroup: u64,
        mut functions: impl Iterator<Item = FunctionId>,
    ) -> bool {
        self.comm.as_ref().is_none_or(|comm| *comm == thread.name)
            && self.cgroups.as_ref().is_none_or(|groups| groups.contains(&cgroup))
            && self.through.as_ref().is_none_or(|through| functions.any(|id| through.contains(&id)))
    }
}

/// What is written for another program.
#[derive(Clone, Copy)]
pub struct Export<'e> {
    /// What was read.
    pub recorded: &'e Recorded,
    /// The recording, to go over it once more.
    pub session: &'e Session<'e>,
    /// Which samples count.
    pub named: &'e Named,
    /// Is told the bytes that were read.
    pub progress: &'e dyn Fn(u64),
}

impl<'e> Export<'e> {
    fn thread(&self, index: u32) -> Option<&'e Thread> {
        self.recorded.threads.get(index as usize)
    }

    /// Whether a distinct stack counts.
    fn keeps(&self, thread: &Thread, stack: &Distinct<'_>) -> bool {
        let places = stack.places.iter();
        let functions = places.flat_map(|place| self.session.functions(*place)).copied();
        self.named.keeps(thread, stack.cgroup, functions)
    }

    /// Whether a sample counts.
    fn keeps_sample(&self, thread: &Thread, sample: &Timed<'_>) -> bool {
        let places = sample.frames.iter().filter_map(|frame| frame.place);
        let functions = places.flat_map(|place| self.session.functions(place)).copied();
        self.named.keeps(thread, sample.cgroup, functions)
    }

    /// A function's name as people read it, on one line; none where it has only an address.
    fn name(&self, function: FunctionId) -> Option<String> {
        let function = self.recorded.names.function(function)?;
        let named = !matches!(function.known, Known::Address);
        named.then(|| short(&demangled(&function.name)))
    }
}

/// A name on one line that no terminal obeys, and of a length that others can bear.
fn short(name: &str) -> String {
    /// Nobody's names are longer, and each frame may hold one.
    const LONGEST: usize = 1 << 12;
    match name.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", crate::visible(name.get(..end).unwrap_or_default())),
        None => crate::visible(name).into_owned(),
    }
}

/// Gives `fill` a sink whose bytes are compressed into `out` by gzip.
///
/// # Errors
/// What `fill` says, or where `out` takes no bytes.
pub fn zipped<R>(
    out: &mut dyn Write,
    fill: impl FnOnce(&mut dyn Write) -> Result<R, Error>,
) -> Result<R, Error> {
    // Without a time, so that the same input gives the same bytes.
    let zipped = GzBuilder::new().write(out, Compression::default());
    // Small writes cost the compressor more than what is in them.
    let mut buffered = BufWriter::with_capacity(1 << 18, zipped);
    let filled = fill(&mut buffered)?;
    buffered.into_inner().map_err(IntoInnerError::into_error)?.finish()?;
    Ok(filled)
}

/// Why nothing was written, or not all.
#[derive(Debug)]
pub enum Error {
    /// The recording cannot be read.
    Recording(calltrees::Error),
    /// It cannot be written.
    Output(io::Error),
    /// Samples have no times.
    NoTimes,
    /// No sample is left.
    Nothing,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Recording(error) => error.fmt(out),
            Error::Output(error) => write!(out, "it cannot be written: {error}"),
            Error::NoTimes => out.write_str(
                "its samples have no times, which this format is about: record with times \
                 (perf record -T), or export to pprof or folded",
            ),
            Error::Nothing => {
                out.write_str("no sample is left to export: the filters leave out all of them")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Recording(error) => error.source(),
            Error::Output(error) => Some(error),
            Error::NoTimes | Error::Nothing => None,
        }
    }
}

impl From<calltrees::Error> for Error {
    fn from(error: calltrees::Error) -> Error {
        Error::Recording(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Output(error)
    }
}
