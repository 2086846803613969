//! Going on in another file: the one so far is completed under a name with the time, and the next
//! begins with what is known of the processes.

use crate::features::Description;
use crate::file::Reserved;
use crate::sink::Sink;
use crate::stream::Stream;
use crate::streaming::{Streaming, Switch};
use crate::sys::readers::timestamp;
use crate::target::Target;
use crate::{Error, processes, synthesize};
use perfdata::EventAttr;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

/// The files of a recording that is in several.
pub(crate) struct Rotation<'r> {
    pub attrs: &'r [EventAttr],
    /// Records that every file begins with.
    pub preamble: &'r [u8],
    /// The name that was asked for.
    pub output: PathBuf,
    pub how: &'r Streaming,
    /// What each file says of the recording.
    pub description: &'r Description<'r>,
    /// Complete files, oldest first.
    pub files: Vec<PathBuf>,
    /// When the current file was begun.
    pub since: Instant,
    /// Bytes of records in the files before it.
    pub bytes_before: u64,
}

impl Rotation<'_> {
    /// When the next file is to begin, where that depends on time.
    pub(crate) fn next(&self) -> Option<Instant> {
        match self.how.switch {
            Some(Switch::Time(time)) => Some(self.since + time),
            _ => None,
        }
    }

    /// A name with the time, as perf makes it, that is not yet taken.
    pub(crate) fn name(&self) -> PathBuf {
        let with = |end: &str| {
            let mut name = self.output.clone().into_os_string();
            name.push(format!(".{end}"));
            PathBuf::from(name)
        };
        let time = timestamp();
        let names = std::iter::once(with(&time))
            .chain((1..).map(|number| with(&format!("{time}-{number}"))));
        let mut free = names.filter(|name| std::fs::symlink_metadata(name).is_err());
        free.next().unwrap_or_else(|| with(&time))
    }

    /// Completes the file of a stream whose rings were just emptied, and begins another.
    pub(crate) fn rotate(&mut self, stream: &mut Stream, target: &Target) -> Result<(), Error> {
        let mut next = Reserved::with(&self.output, false, self.how.force)?
            .with_backlog(self.how.backlog())
            .begin(self.attrs)?;
        next.records(self.preamble)?;
        let mut processes: BTreeSet<i32> = stream.watch.processes.clone();
        processes.extend(match target {
            Target::System => processes::processes(),
            _ => target.tids().into_iter().filter_map(processes::process_of).collect(),
        });
        synthesize::describe(processes, self.attrs, &mut next)?;
        next.finish_round()?;
        next.flush()?;
        let features = self.description.features(&stream.watch.seen, stream.compressed());
        if let Sink::Whole(mut done) = stream.redirect(Sink::Whole(next)) {
            let name = self.name();
            done.rename_to(name.clone());
            done.finish(&features)?;
            self.files.push(name);
        }
        self.since = Instant::now();
        Ok(())
    }
}
