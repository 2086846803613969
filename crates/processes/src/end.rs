//! Ending what runs below a process, as Ctrl-C at a terminal does: a signal to one process reaches
//! that one alone, and a build tool that it ends leaves its compilers running.

use crate::{Process, down, list, sys};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often somebody who waits looks around.
const LOOK: Duration = Duration::from_millis(20);
/// What those that end their own get for it once their own were killed.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// Processes that are to end, with all below them.
///
/// Nobody below one that runs this program too is asked: it has its own below it to end, in the
/// order that it knows.
#[derive(Debug)]
pub struct Ending {
    /// A child of this process; all of them where there is none.
    root: Option<i32>,
    /// Who was asked, and what tells of its end where the kernel has that (Linux 5.3). It stays
    /// known when its parent ends and others take it in.
    asked: BTreeMap<i32, Option<OwnedFd>>,
}

impl Ending {
    /// Of a child of this process.
    #[must_use]
    pub fn of(child: u32) -> Ending {
        Ending { root: i32::try_from(child).ok(), asked: BTreeMap::new() }
    }

    /// Of all children of this process, also those that it starts meanwhile.
    #[must_use]
    pub fn of_children() -> Ending {
        Ending { root: None, asked: BTreeMap::new() }
    }

    /// Asks them to end (SIGTERM), each once; called again it asks those that began meanwhile.
    ///
    /// They are held first until nobody is new, so that none starts another one, whose parent is
    /// gone before it is seen.
    pub fn ask(&mut self) {
        let mut held = Vec::new();
        loop {
            let all = list();
            let living = self.living(&all, |pid| !is_own_program(pid));
            let new: Vec<i32> =
                living.into_iter().filter(|p| !self.asked.contains_key(p)).collect();
            if new.is_empty() {
                break;
            }
            for &pid in &new {
                self.asked.insert(pid, sys::descriptor(pid));
                if !is_own_program(pid) {
                    sys::signal(pid, libc::SIGSTOP);
                }
            }
            held.extend(new);
        }
        for pid in held {
            sys::signal(pid, libc::SIGTERM);
            sys::signal(pid, libc::SIGCONT);
        }
    }

    /// Asks until all have ended or the time is over; whether they have.
    pub fn wait(&mut self, most: Duration) -> bool {
        let began = Instant::now();
        loop {
            self.ask();
            if self.living(&list(), |pid| !is_own_program(pid)).is_empty() {
                return true;
            }
            if began.elapsed() >= most {
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Kills those that live, with all below them: first those that run another program, so that those
    /// who wait for them can finish what they write, and then all.
    pub fn kill(&self) {
        let living = || self.living(&list(), |_| true);
        let (own, others): (Vec<i32>, Vec<i32>) =
            living().into_iter().partition(|&p| is_own_program(p));
        others.into_iter().for_each(|pid| sys::signal(pid, libc::SIGKILL));
        let began = Instant::now();
        while !own.is_empty() && began.elapsed() < AFTERWARDS && !living().is_empty() {
            std::thread::sleep(LOOK);
        }
        living().into_iter().for_each(|pid| sys::signal(pid, libc::SIGKILL));
    }

    /// Those of them that have not ended, and those below whom `descends` lets.
    fn living(
        &self,
        all: &BTreeMap<i32, Process>,
        descends: impl Fn(i32) -> bool,
    ) -> BTreeSet<i32> {
        // A number whose process has ended may be somebody else's by now.
        let ended = |pid: &i32| self.asked.get(pid).is_some_and(|fd| sys::has_ended(fd.as_ref()));
        let own = std::process::id() as i32;
        let children = all.values().filter(|process| self.root.is_none() && process.parent == own);
        let known = self.root.into_iter().chain(children.map(|process| process.pid));
        let known = known.chain(self.asked.keys().copied());
        let known: BTreeSet<i32> = known.filter(|pid| !ended(pid)).collect();
        let mut found = down(all, &known, descends);
        found.retain(|pid| all.get(pid).is_some_and(|process| !process.zombie));
        found
    }
}

fn is_own_program(pid: i32) -> bool {
    let of = |who: &str| std::fs::read_link(PathBuf::from("/proc").join(who).join("exe")).ok();
    of(&pid.to_string()).is_some_and(|program| Some(program) == of("self"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    /// A shell that starts another one, which says its number and stays.
    fn family(inner: &str) -> (Child, i32) {
        let mut outer = Command::new("sh")
            .args(["-c", "sh -c \"$0\" & wait", inner])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(outer.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (outer, line.trim().parse().unwrap())
    }

    fn lives(pid: i32) -> bool {
        list().get(&pid).is_some_and(|process| !process.zombie)
    }

    #[test]
    fn those_below_a_child_end_with_it() {
        let (mut outer, inner) = family("echo $$; sleep 100; :");
        assert!(lives(inner));
        let mut ending = Ending::of(outer.id());
        assert!(ending.wait(Duration::from_secs(20)));
        assert!(!outer.wait().unwrap().success());
        assert!(!lives(inner));
        assert!(
            ending.asked.len() >= 2,
            "both shells, and the sleeper where it is there: {ending:?}"
        );
    }

    #[test]
    fn who_does_not_end_when_asked_is_killed_though_its_parent_has() {
        let (mut outer, inner) = family("trap '' TERM; echo $$; while :; do sleep 0.1; done");
        let mut ending = Ending::of(outer.id());
        assert!(!ending.wait(Duration::from_millis(300)));
        outer.wait().unwrap();
        assert!(lives(inner), "it holds the signal back");
        ending.kill();
        assert!(ending.wait(Duration::from_secs(20)));
        assert!(!lives(inner));
    }
}
