//! The processes below this one: their ends are taken in one place, and none is left over.

use crate::Error;
use crate::error::system;
use crate::sys::{self, Reaped};
use crate::used::Used;
use processes::Process;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How often somebody who waits looks around.
const LOOK: Duration = Duration::from_millis(250);
/// What was asked to end may take so long.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// Takes the ends of all children and adopted orphans.
#[derive(Debug, Default)]
pub(crate) struct Family {
    /// Whose ends are of interest.
    watched: BTreeSet<i32>,
    /// Those of them that have ended: exit code, what they used.
    ended: BTreeMap<i32, (i32, Used)>,
}

impl Family {
    /// Orphans of all further processes come to this one.
    pub(crate) fn begin() -> Result<Family, Error> {
        processes::adopt_orphans().map_err(system("become the parent of orphans"))?;
        Ok(Family::default())
    }

    /// The end of this process is of interest.
    pub(crate) fn watch(&mut self, pid: i32) {
        self.watched.insert(pid);
    }

    /// Takes all ends there are.
    fn reap(&mut self) {
        while let Some(Reaped { pid, code, used }) = sys::reap() {
            if self.watched.contains(&pid) {
                self.ended.insert(pid, (code, used));
            }
        }
    }

    /// How a watched process ended, if it has.
    pub(crate) fn ended(&mut self, pid: i32) -> Option<(i32, Used)> {
        self.reap();
        self.ended.get(&pid).cloned()
    }

    /// Waits for the end of a watched process; `None` where `enough` says yes before. It is asked
    /// every quarter of a second.
    pub(crate) fn wait(
        &mut self,
        pid: i32,
        enough: &mut dyn FnMut(&mut Family) -> bool,
    ) -> Option<(i32, Used)> {
        let process = processes::descriptor(pid);
        loop {
            if let Some(ended) = self.ended(pid) {
                return Some(ended);
            }
            if enough(self) {
                return None;
            }
            processes::sleep_until_end(process.as_ref(), LOOK);
        }
    }

    /// Asks a watched process to end, and kills it where it does not.
    pub(crate) fn end(&mut self, pid: i32) -> Option<(i32, Used)> {
        processes::signal(pid, libc::SIGTERM);
        self.wait(pid, &mut until(GRACE)).or_else(|| {
            processes::signal(pid, libc::SIGKILL);
            self.wait(pid, &mut until(GRACE))
        })
    }

    /// The processes below this one that live.
    pub(crate) fn living(&mut self) -> BTreeMap<i32, Process> {
        self.reap();
        let own = std::process::id() as i32;
        let all = processes::list();
        let mut below = processes::below(&all, &[own].into());
        below.remove(&own);
        all.into_iter().filter(|(pid, process)| below.contains(pid) && !process.zombie).collect()
    }

    /// Kills what is left.
    pub(crate) fn kill_rest(&mut self) {
        let mut enough = until(GRACE);
        loop {
            let living = self.living();
            if living.is_empty() || enough(self) {
                break;
            }
            living.keys().for_each(|&pid| processes::signal(pid, libc::SIGKILL));
            std::thread::sleep(Duration::from_millis(5));
        }
        self.reap();
    }
}

/// Says yes when the time is over.
pub(crate) fn until(most: Duration) -> impl FnMut(&mut Family) -> bool {
    let began = Instant::now();
    move |_| began.elapsed() >= most
}
