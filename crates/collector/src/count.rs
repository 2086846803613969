//! A window's recording to the counts of each program, with what the recording says of itself.

use crate::error::Error;
use crate::host::Host;
use crate::window::{Note, Window};
use address_spaces::MappedFile;
use counts::aggregate::CountOptions;
use counts::programs::{Programs, by_program};
use counts::resolve::Rules;
use fleet::Recording;
use fleet::origin::{self, Sampling};
use perfdata::Input;

/// What a window came to.
pub(crate) struct Counted {
    pub programs: Programs,
    pub recording: Recording,
    /// How it was sampled, as far as it says.
    pub sampling: Option<Sampling>,
}

/// Counts a window's recording, on one thread of the lowest priority.
pub(crate) fn count(window: &Window, note: &Note, host: &dyn Host) -> Result<Counted, Error> {
    let path = window.data();
    let work = || {
        // Where it is not allowed, it is counted at the usual one.
        let _ = rustix::process::setpriority_process(None, 19);
        let input = Input::open(&path)?;
        let options = CountOptions { rules: Rules::Auto, threads: 1, pid: None, paths: false };
        let elsewhere = |file: &MappedFile| host.elsewhere(file);
        let programs = by_program(&path, &input, options, &elsewhere)?;
        let found = origin::described(&input, String::new());
        let sampling = Sampling::of(&input)?;
        let recording = described(note.recording.clone(), found);
        Ok(Counted { programs, recording, sampling })
    };
    std::thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|_| Err(Error::Panicked { path: path.clone() }))
}

/// What the collector knows of a recording, and what the recording says of itself.
fn described(known: Recording, found: Recording) -> Recording {
    let or = |known: String, found: String| if known.is_empty() { found } else { known };
    Recording {
        host: or(known.host, found.host),
        cpus: found.cpus,
        cpu_model: found.cpu_model,
        architecture: found.architecture,
        begin: known.begin.or(found.begin),
        end: known.end.or(found.end).max(known.begin),
        source: found.source,
        depth: found.depth,
        period: found.period,
        planish: found.planish,
        ..known
    }
}
