//! The recorder of `planish top`: its records taken as they come, the samples named and added up.

use crate::command::namespaces;
use crate::command::report::run_time::Maps;
use crate::command::report::symbols::{Finder, Symbols};
use anyhow::Context as _;
use calltrees::{KernelSymbols, Opened, Options, Recorded, Wanted};
use perfdata::Input;
use recent::{Incoming, Unreadable, Window};
use record::live::{self, RecordOptions, Target};
use record::{Ending, Error, Summary, Workload};
use std::collections::HashMap;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What did not come in, of all looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Records that the kernel could not write.
    pub lost: u64,
    /// What found no room here.
    pub dropped: u64,
}

type Shared = Arc<Mutex<(Incoming, Option<Unreadable>)>>;

/// A recorder that runs, and the samples of the last looks.
pub struct Live {
    recorder: Option<JoinHandle<Result<Summary, Error>>>,
    incoming: Shared,
    window: Window,
    naming: Naming,
    pub sum: Sum,
}

impl Live {
    /// Begins to sample; the last `parts` looks are added up.
    pub fn start(
        target: Target,
        command: Option<Workload>,
        mut options: RecordOptions,
        parts: usize,
    ) -> anyhow::Result<Live> {
        let (mut from, to) = std::io::pipe().context("a pipe from the recorder")?;
        options.streaming.pipe = Some(Arc::new(OwnedFd::from(to)));
        let incoming: Shared = Arc::default();
        let shared = Arc::clone(&incoming);
        let recorder = std::thread::Builder::new().name("recorder".to_owned());
        let recorder = recorder
            .spawn(move || live::record(&target, command.as_ref(), Path::new("-"), &options))?;
        // It ends when the recorder's end of the pipe is gone.
        std::thread::Builder::new().name("reader".to_owned()).spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(got @ 1..) = from.read(&mut buffer) {
                let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let (incoming, failure) = &mut *shared;
                // What cannot be read is still taken, or the recorder would wait.
                if failure.is_none() {
                    *failure = incoming.add(buffer.get(..got).unwrap_or_default()).err();
                }
            }
        })?;
        let naming = Naming::default();
        let recorder = Some(recorder);
        let (window, sum) = (Window::new(parts), Sum::default());
        let mut live = Live { recorder, incoming, window, naming, sum };
        // What the kernel refuses is said before the terminal is taken.
        while !live.has_begun() {
            if live.has_ended() {
                live.stop()?;
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(live)
    }

    fn has_begun(&self) -> bool {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner).0.has_begun()
    }

    /// Whether the recorder has ended: the command is over, or a signal came.
    pub fn has_ended(&self) -> bool {
        self.recorder.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Takes the samples since the last look; how many there were.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn look(&mut self) -> anyhow::Result<u64> {
        let (taken, processes) = {
            let mut shared = self.incoming.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(failure) = shared.1 {
                return Err(failure.into());
            }
            (shared.0.take(), shared.0.processes().collect::<Vec<i32>>())
        };
        self.sum.lost += taken.lost;
        let before = self.window.dropped();
        let named = match taken.samples {
            0 => None,
            _ => Some(self.naming.named(&taken.recording, &processes)?),
        };
        self.window.add(named.as_ref());
        self.sum.dropped += taken.dropped + self.window.dropped().saturating_sub(before);
        Ok(taken.samples)
    }

    /// The samples of the last looks.
    pub fn recorded(&self) -> Recorded {
        self.window.recorded()
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.window.clear();
    }

    /// Ends the recorder and its command; what is to be said of how that ended, unless well.
    ///
    /// # Errors
    /// What the recorder failed at; that there was no sample is no failure.
    pub fn stop(&mut self) -> anyhow::Result<Option<String>> {
        /// A command that holds SIGTERM back is told twice, and then ends.
        const PATIENCE: Duration = Duration::from_secs(2);
        let Some(recorder) = self.recorder.take() else { return Ok(None) };
        for _ in 0..3 {
            if recorder.is_finished() {
                break;
            }
            live::end();
            let until = Instant::now() + PATIENCE;
            while !recorder.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        match recorder.join() {
            Ok(Ok(summary)) => Ok(match summary.ending {
                Ending::Code(0) | Ending::Unknown => None,
                Ending::Code(code) => Some(format!("the command ended with code {code}")),
                Ending::Signal(signal) => Some(format!("signal {signal} ended the command")),
            }),
            Ok(Err(Error::Empty { reason })) => Ok(Some(reason)),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => anyhow::bail!("the recorder ended by an error of its own"),
        }
    }
}

/// A file by its path and build ID, as mapped.
type Key = (String, Option<Vec<u8>>);

/// Files that were opened, kept from one look to the next.
#[derive(Default)]
struct Naming {
    images: Mutex<HashMap<Key, Result<Opened, String>>>,
    kernels: Option<Vec<KernelSymbols>>,
}

impl Naming {
    /// The named stacks of a recording.
    fn named(&mut self, recording: &[u8], processes: &[i32]) -> anyhow::Result<Recorded> {
        let input = Input::from_bytes(recording)?;
        let path = Path::new("the last samples");
        let finder = Finder::new(&Symbols::default(), path, &input, true)?;
        let maps = Maps::new(&[], None, path);
        let kernels = self.kernels.get_or_insert_with(|| finder.kernels());
        let images = &self.images;
        let open = |wanted: Wanted<'_>| {
            let key = (wanted.file.path.clone(), wanted.file.build_id.clone());
            let known = images.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
            known.unwrap_or_else(|| {
                let elsewhere = |why: String| {
                    let image = namespaces::elsewhere(wanted.file, processes).ok_or(why)?;
                    Ok(Opened::from(Arc::new(image)))
                };
                let opened = finder.open(wanted).or_else(elsewhere);
                let mut images = images.lock().unwrap_or_else(PoisonError::into_inner);
                /// Programs that come and go for days are forgotten now and then.
                const MOST_IMAGES: usize = 4096;
                if images.len() >= MOST_IMAGES {
                    images.clear();
                }
                images.insert(key, opened.clone());
                opened
            })
        };
        let options = Options {
            map: &|pid| maps.open(pid),
            dump: &|pid, path| maps.dump(pid, path),
            kernels,
            ..Options::new(&open)
        };
        Ok(calltrees::read(path, &input, &options)?)
    }
}
