//! How tracing begins: with a child that waits for it, or with what runs already.

use crate::options::StopOptions;
use crate::thread::State;
use crate::tracer::Tracer;
use crate::{Error, proc, refusal, sys};

impl Tracer {
    /// Takes a forked child that waits before its exec; the caller lets it go afterwards. Its stops
    /// begin with the program that it becomes.
    ///
    /// # Errors
    ///
    /// The child cannot be traced ([`Error`] says why).
    pub fn seize_child(pid: i32, options: &StopOptions) -> Result<Tracer, Error> {
        let mut tracer = Tracer::new(options);
        sys::seize(pid, tracer.follow(true)).map_err(|source| refusal::explain(pid, source))?;
        tracer.insert(pid, pid, State::Unclocked { listening: false });
        tracer.child = Some(pid);
        Ok(tracer)
    }

    /// Takes running processes with all their threads. A number that is a thread's but no process's
    /// stands for that thread alone. Nothing is stopped by this.
    ///
    /// # Errors
    ///
    /// One of them cannot be traced ([`Error`] says why); the others are let go.
    pub fn attach(tids_or_pids: &[i32], options: &StopOptions) -> Result<Tracer, Error> {
        let mut tracer = Tracer::new(options);
        for &tid in tids_or_pids {
            let status = proc::status(tid).map_err(|_| Error::Gone { pid: tid })?;
            if proc::runs_32_bit(status.tgid) {
                return Err(Error::ThirtyTwoBit { pid: tid });
            }
            if status.tgid != tid {
                tracer.take(status.tgid, tid)?;
                continue;
            }
            // A thread that is not traced yet may make another while we look; one that is traced
            // brings its own.
            loop {
                let before = tracer.threads.len();
                for thread in proc::threads(tid).map_err(|_| Error::Gone { pid: tid })? {
                    tracer.take(tid, thread)?;
                }
                if tracer.threads.len() == before {
                    break;
                }
            }
            if !tracer.processes.contains_key(&tid) {
                return Err(Error::Gone { pid: tid });
            }
        }
        if tracer.threads.is_empty() { Err(Error::Nothing) } else { Ok(tracer) }
    }

    /// Takes one running thread; one that has ended is passed over.
    pub(crate) fn take(&mut self, pid: i32, tid: i32) -> Result<(), Error> {
        if self.threads.contains_key(&tid) {
            return Ok(());
        }
        match sys::seize(tid, self.follow(true)) {
            Ok(()) => {
                self.insert(tid, pid, State::Unclocked { listening: false });
                self.start_clock(tid, true);
                Ok(())
            }
            Err(error) => match proc::status(tid) {
                // Its maker was traced already, so it is ours and reports soon.
                Ok(status)
                    if status.tracer == self.own_tid && self.processes.contains_key(&pid) =>
                {
                    self.insert(tid, pid, State::Starting);
                    Ok(())
                }
                Ok(status) if !matches!(status.state, b'Z' | b'X') => {
                    Err(refusal::explain(pid, error))
                }
                _ => Ok(()),
            },
        }
    }
}
