//! Ending what runs below a process, as Ctrl-C at a terminal does: a signal to one process reaches
//! that one alone, and a build tool that it ends leaves its compilers running.

use crate::{Process, below, children, list, read, sys};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often somebody who waits looks around.
const LOOK: Duration = Duration::from_millis(20);
/// How long those that are to stand still may take, at most: all, and one of them.
const HOLDING: Duration = Duration::from_secs(1);
const STANDING: Duration = Duration::from_millis(10);
/// What those that end their own get for it once their own were killed.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// Processes that are to end, with all below them.
///
/// Nobody below one that runs this program too is asked as long as that one lives: it has its own
/// below it to end, in the order that it knows. Nor is anybody asked whom one that was asked starts
/// to clean up. What is killed in the end is killed with all below it.
#[derive(Debug)]
pub struct Ending {
    /// A child of this process; all of them where there is none.
    root: Option<i32>,
    /// Who was seen. They stay known when their parent ends and others take them in.
    seen: BTreeMap<i32, Seen>,
}

/// A process that was seen below the root.
#[derive(Debug)]
struct Seen {
    /// What tells of its end, and whom a signal goes to, where the kernel has that (Linux 5.3).
    descriptor: Option<OwnedFd>,
    /// It was asked to end.
    asked: bool,
    /// It is below one that runs this program.
    guarded: bool,
    /// It was started by one that had been asked, or by one that such a one started.
    cleans_up: bool,
}

impl Seen {
    /// Whether others end it, or it was asked, or cleans up.
    fn is_left(&self) -> bool {
        self.asked || self.guarded || self.cleans_up
    }
}

impl Ending {
    /// Of a child of this process that was not waited for yet.
    #[must_use]
    pub fn of(child: u32) -> Ending {
        let root = i32::try_from(child).ok();
        let mut ending = Ending { root, seen: BTreeMap::new() };
        root.into_iter().for_each(|pid| ending.see(pid, None, false));
        ending
    }

    /// Of all children of this process, also those that it starts meanwhile, or had before it ran
    /// this program.
    #[must_use]
    pub fn of_children() -> Ending {
        Ending { root: None, seen: BTreeMap::new() }
    }

    /// Asks them to end (SIGTERM), each once; called again it asks those that began meanwhile.
    ///
    /// They are held first until all stand still and nobody is new, so that none starts another one
    /// whose parent is gone before it is seen.
    pub fn ask(&mut self) {
        let until = Instant::now() + HOLDING;
        let mut held = BTreeSet::new();
        while Instant::now() < until {
            let all = list();
            let new: Vec<i32> = self.unasked(&all, &held);
            for &pid in &new {
                self.hold(pid, &mut held, until);
            }
            let still = |pid: &i32| {
                is_own_program(*pid) || all.get(pid).is_none_or(|one| one.stopped || one.zombie)
            };
            if new.is_empty() && held.iter().all(still) {
                break;
            }
            std::thread::sleep(LOOK / 10);
        }
        held.iter().for_each(|&pid| self.signal(pid, libc::SIGTERM));
        // Children first: one that goes on while its parent is gone would be told so by the kernel.
        held.iter().rev().for_each(|&pid| self.signal(pid, libc::SIGCONT));
        held.iter().for_each(|pid| {
            self.seen.entry(*pid).and_modify(|seen| seen.asked = true);
        });
    }

    /// Holds a process and, once it stands still, those that it started meanwhile, one after the
    /// other: a look at all processes takes longer than starting another one.
    fn hold(&mut self, first: i32, held: &mut BTreeSet<i32>, until: Instant) {
        let mut next = vec![first];
        while let Some(pid) = next.pop().filter(|_| Instant::now() < until) {
            if !held.insert(pid) || is_own_program(pid) {
                continue;
            }
            self.signal(pid, libc::SIGSTOP);
            wait_until_still(pid);
            for child in children(pid) {
                self.see(child, Some(pid), false);
                next.extend(self.seen.get(&child).filter(|seen| !seen.is_left()).map(|_| child));
            }
        }
    }

    /// Whether all have ended.
    #[must_use]
    pub fn is_over(&mut self) -> bool {
        self.living(&list()).is_empty()
    }

    /// Asks until all have ended or the time is over; whether they have.
    pub fn wait(&mut self, most: Duration) -> bool {
        let began = Instant::now();
        loop {
            self.ask();
            if self.is_over() {
                return true;
            }
            if began.elapsed() >= most {
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Kills those that live, with all below them: first those that run another program, so that
    /// those who wait for them can finish what they write, and then all.
    pub fn kill(&mut self) {
        let began = Instant::now();
        loop {
            let living = self.living(&list());
            let late = began.elapsed() >= AFTERWARDS;
            if living.is_empty() || began.elapsed() >= AFTERWARDS * 2 {
                return;
            }
            for pid in living.into_iter().filter(|&pid| late || !is_own_program(pid)) {
                self.signal(pid, libc::SIGKILL);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Whom to ask now: who lives and was not asked, but for those whom others end.
    fn unasked(&mut self, all: &BTreeMap<i32, Process>, held: &BTreeSet<i32>) -> Vec<i32> {
        let living = self.living(all);
        let wanted = |pid: &i32| {
            !held.contains(pid) && self.seen.get(pid).is_some_and(|seen| !seen.is_left())
        };
        living.into_iter().filter(wanted).collect()
    }

    /// Who of them lives. Sees those that are new, and who has nobody above any more that ends them.
    fn living(&mut self, all: &BTreeMap<i32, Process>) -> BTreeSet<i32> {
        // A number whose process has ended may be somebody else's by now.
        self.seen.retain(|pid, seen| match &seen.descriptor {
            Some(descriptor) => !sys::has_ended(descriptor),
            None => all.get(pid).is_some_and(|process| !process.zombie),
        });
        let own = std::process::id() as i32;
        let children = all.values().filter(|process| self.root.is_none() && process.parent == own);
        let known = self.seen.keys().copied().chain(children.map(|process| process.pid));
        let known: BTreeSet<i32> = known.collect();
        let mut living = below(all, &known);
        living.retain(|pid| all.get(pid).is_some_and(|process| !process.zombie));
        // Without /proc, those that are known.
        living.extend(self.seen.keys().copied());
        let mut guarded = BTreeSet::new();
        for &pid in living.iter().filter(|&&pid| is_own_program(pid)) {
            guarded.extend(below(all, &[pid].into()).into_iter().filter(|&p| p != pid));
        }
        // Parents have the lower numbers, but where numbers began anew.
        for &pid in &living {
            self.see(pid, all.get(&pid).map(|process| process.parent), guarded.contains(&pid));
        }
        living
    }

    fn see(&mut self, pid: i32, parent: Option<i32>, guarded: bool) {
        let above = parent.and_then(|parent| self.seen.get(&parent));
        let cleans_up = above.is_some_and(|above| above.asked || above.cleans_up);
        let seen = self.seen.entry(pid).or_insert_with(|| Seen {
            descriptor: sys::descriptor(pid),
            asked: false,
            guarded,
            cleans_up,
        });
        seen.guarded = guarded;
    }

    fn signal(&self, pid: i32, signal: i32) {
        match self.seen.get(&pid).and_then(|seen| seen.descriptor.as_ref()) {
            Some(descriptor) => sys::signal_to(descriptor, signal),
            None => sys::signal(pid, signal),
        }
    }
}

/// Waits until a process that was told to stop has: it may be in the middle of starting another.
fn wait_until_still(pid: i32) {
    let began = Instant::now();
    let runs = |one: Process| !one.stopped && !one.zombie;
    while read(pid).is_some_and(runs) && began.elapsed() < STANDING {
        std::thread::sleep(LOOK / 400);
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
    }

    #[test]
    fn none_of_many_that_start_others_all_the_time_escapes() {
        let folder = std::env::temp_dir().join(format!("ending-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        // Each writes its number and begins the next one, which its end would leave to others.
        let script = "echo $$ >\"$0/$$\" && [ $2 -lt 3000 ] || exit
            sh -c \"$1\" \"$0\" \"$1\" $(($2 + 1)) & exec sleep 20";
        let mut outer = Command::new("sh")
            .args(["-c", script])
            .args([folder.as_os_str(), script.as_ref(), "0".as_ref()])
            .spawn()
            .unwrap();
        while std::fs::read_dir(&folder).unwrap().count() < 5 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let over = Ending::of(outer.id()).wait(Duration::from_secs(20));
        // Without the folder, whoever escaped starts nobody any more.
        let gone = folder.with_extension("gone");
        std::fs::rename(&folder, &gone).unwrap();
        outer.wait().unwrap();
        let pids: Vec<i32> = std::fs::read_dir(&gone)
            .unwrap()
            .map(|one| one.unwrap().file_name().to_str().unwrap().parse().unwrap())
            .collect();
        std::fs::remove_dir_all(&gone).unwrap();
        let escaped: Vec<&i32> = pids.iter().filter(|&&pid| lives(pid)).collect();
        assert!(over && escaped.is_empty(), "{escaped:?} of {} escaped", pids.len());
        assert!(pids.len() < 3000, "they ended by themselves");
    }

    #[test]
    fn who_cleans_up_when_asked_may_start_others_for_it() {
        let cleaned = std::env::temp_dir().join(format!("cleaned-{}", std::process::id()));
        let (mut outer, inner) = family(&format!(
            "trap 'sleep 0.5 && sh -c \"sleep 0.3 && : >{}\"; exit 3' TERM; echo $$; while :; do sleep 0.05; done",
            cleaned.display()
        ));
        let mut ending = Ending::of(outer.id());
        assert!(ending.wait(Duration::from_secs(20)));
        outer.wait().unwrap();
        assert!(!lives(inner));
        assert!(cleaned.exists(), "what it started to clean up was not asked to end");
        std::fs::remove_file(cleaned).unwrap();
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
