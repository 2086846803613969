//! A server from its start to its end: when it is ready, and what it used while it was driven.

use crate::error::{ended, system};
use crate::family::{Family, GRACE, until};
use crate::said::Said;
use crate::scene::Scene;
use crate::used::Used;
use crate::{Error, Ready, Server};
use processes::Process;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it is looked whether a server is ready.
const READY_LOOK: Duration = Duration::from_millis(20);

/// A server that was started.
#[derive(Debug)]
pub(crate) struct Running {
    pid: i32,
    /// Its command, for messages.
    name: String,
    said: Said,
    /// The server's processes when it was ready.
    roots: BTreeSet<i32>,
    stop: Option<String>,
}

impl Running {
    /// Starts a server and waits until it is ready.
    pub(crate) fn start(
        server: &Server,
        scene: &Scene,
        family: &mut Family,
        stop: &AtomicBool,
    ) -> Result<Running, Error> {
        let ready = scene.ready(&server.ready);
        let words: Vec<String> = server.start.iter().map(|word| scene.filled(word)).collect();
        let name = words.join(" ");
        if ready.is_there(&scene.directory) {
            return Err(Error::AlreadyThere { server: name, what: ready.early() });
        }
        let before: BTreeSet<i32> = family.living().into_keys().collect();
        let (reader, writer) = std::io::pipe().map_err(system("make a pipe for the server"))?;
        let mut command = scene.command(&server.start)?;
        command.stderr(writer.try_clone().map_err(system("share a pipe with the server"))?);
        command.stdout(writer);
        let child =
            command.spawn().map_err(|source| Error::Start { command: name.clone(), source })?;
        // Its copies of the pipe's end go, so that reading ends with the server.
        drop(command);
        let pid = child.id() as i32;
        family.watch(pid);
        let pattern = match &ready {
            Ready::Line(pattern) => Some(pattern.clone()),
            _ => None,
        };
        let said = Said::hear(reader, pattern);
        let stop_line = server.stop.clone();
        let mut running = Running { pid, name, said, roots: [pid].into(), stop: stop_line };
        let waited = running.wait_until(&ready, server.within, scene, family, stop);
        // What it has started belongs to it, also what has gone to the background.
        running.roots.extend(family.living().into_keys().filter(|pid| !before.contains(pid)));
        running.roots.iter().for_each(|&pid| family.watch(pid));
        match waited {
            Ok(()) => Ok(running),
            Err(error) => {
                running.end(family);
                Err(error)
            }
        }
    }

    fn wait_until(
        &self,
        ready: &Ready,
        within: Duration,
        scene: &Scene,
        family: &mut Family,
        stop: &AtomicBool,
    ) -> Result<(), Error> {
        let began = Instant::now();
        loop {
            // Asked for before it is looked whether it lives: a server may go to the background.
            if ready.is_there(&scene.directory) || self.said.seen() {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            if let Some((code, _)) = family.ended(self.pid).filter(|(code, _)| *code != 0) {
                return Err(self.ended_with(code, &format!("before it was ready ({ready})")));
            }
            if began.elapsed() >= within {
                return Err(Error::NotReady {
                    server: self.name.clone(),
                    seconds: within.as_secs(),
                    what: ready.to_string(),
                    said: self.said.last(),
                });
            }
            std::thread::sleep(READY_LOOK);
        }
    }

    fn ended_with(&self, code: i32, when: &str) -> Error {
        // What it said last may still be on its way.
        std::thread::sleep(Duration::from_millis(100));
        Error::ServerEnded {
            server: self.name.clone(),
            ended: ended(code),
            when: when.to_owned(),
            said: self.said.last(),
        }
    }

    /// Whether all its processes have ended.
    pub(crate) fn is_gone(&self, family: &mut Family) -> bool {
        self.living(family).is_empty()
    }

    /// Whether it ended badly.
    pub(crate) fn failure_seen(&self, family: &mut Family) -> bool {
        family.ended(self.pid).is_some_and(|(code, _)| code != 0)
    }

    /// The error that it ended badly while it was driven, if it did.
    pub(crate) fn failure(&self, family: &mut Family) -> Option<Error> {
        let (code, _) = family.ended(self.pid).filter(|(code, _)| *code != 0)?;
        Some(self.ended_with(code, "while it was driven"))
    }

    /// Its last lines, begun with a line end.
    pub(crate) fn last_lines(&self) -> String {
        format!("the server was {}{}", self.name, self.said.last())
    }

    /// Its processes that live.
    fn living(&self, family: &mut Family) -> BTreeMap<i32, Process> {
        let all = family.living();
        let own = processes::below(&all, &self.roots);
        all.into_iter().filter(|(pid, _)| own.contains(pid)).collect()
    }

    /// What its processes have used until now. Times of processes that ended are in those of who
    /// waited for them; a parent that ignores the ends of its children loses theirs.
    pub(crate) fn used(&self, family: &mut Family) -> Used {
        let living = self.living(family);
        let gone = self.roots.iter().filter_map(|&pid| Some(family.ended(pid)?.1));
        let gone: Vec<Used> = gone.collect();
        living.values().map(Used::until_now).chain(gone).fold(Used::default(), |sum, one| Used {
            user_ns: sum.user_ns + one.user_ns,
            system_ns: sum.system_ns + one.system_ns,
            max_rss_bytes: sum.max_rss_bytes.max(one.max_rss_bytes),
            minor_faults: sum.minor_faults + one.minor_faults,
            major_faults: sum.major_faults + one.major_faults,
            ..Used::default()
        })
    }

    /// Ends it by its `stop` line.
    pub(crate) fn stop(&self, scene: &Scene, family: &mut Family) -> Result<(), Error> {
        let Some(line) = &self.stop else {
            self.end(family);
            return Ok(());
        };
        let stopped = scene.run_line("stop", line, family, None);
        if stopped.is_ok() {
            self.wait_gone(family);
        }
        self.end(family);
        stopped
    }

    /// Asks it to end, and kills what does not.
    fn end(&self, family: &mut Family) {
        let living = self.living(family);
        // The first process ends its own; where it has gone, those in the background are asked.
        let first: Vec<i32> = match living.contains_key(&self.pid) {
            true => vec![self.pid],
            false => living.keys().copied().filter(|pid| self.roots.contains(pid)).collect(),
        };
        first.into_iter().for_each(|pid| processes::signal(pid, libc::SIGTERM));
        self.wait_gone(family);
        self.living(family).into_keys().for_each(|pid| processes::signal(pid, libc::SIGKILL));
        self.wait_gone(family);
    }

    fn wait_gone(&self, family: &mut Family) {
        let mut enough = until(GRACE);
        while !self.is_gone(family) && !enough(family) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
