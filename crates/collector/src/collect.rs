//! The loop: a window is recorded, counted and published; then the collector rests for as long as
//! its budget asks for.
//!
//! Windows do not overlap with counting: the next begins when the last one is counted, so that no
//! window is full of the collector itself. Counting runs in one thread of the lowest priority, in
//! this process, so that all that the collector costs is in one place to be measured.

use crate::budget::{Budget, Next};
use crate::cost::{Meter, Used};
use crate::count::{Counted, count};
use crate::error::Error;
use crate::host::{Asked, Host, Settings};
use crate::pressure::Pressure;
use crate::schedule::Dates;
use crate::shards;
use crate::spool::Spool;
use crate::told::{Summary, Told};
use crate::window::{Note, Stage, Window};
use counts::Counts;
use counts::programs::{Program, Programs};
use fleet::{Collected, Missed, Recording};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A window's recording ends at this part of what the spool may hold, and at these sizes.
const PART: u64 = 8;
const LEAST_WINDOW: u64 = 256 << 10;
const MOST_WINDOW: u64 = 64 << 20;
/// With less room than this on the disk no window begins.
const LEAST_ROOM: u64 = 1 << 20;
/// So many failures in turn are no accident.
const MOST_FAILURES: u32 = 10;
/// So often is looked whether it is time to end.
const TICK: Duration = Duration::from_millis(500);

/// Collects into a spool until the host says that it is over, or it costs too much.
///
/// # Errors
/// Where the spool cannot be used any more, the first window cannot be recorded, or many in turn cannot.
pub fn run(
    spool: Spool,
    settings: &Settings,
    host: &dyn Host,
    tell: &mut dyn FnMut(&Told),
) -> Result<Summary, Error> {
    let mut collector = Collector {
        settings,
        host,
        tell,
        meter: Meter::new(settings.sample_cost),
        budget: Budget::new(settings.budget, settings.every),
        dates: Dates { last_end: spool.state.last_end },
        spool,
        summary: Summary::default(),
        is_full: false,
        is_unpublished: false,
        failures: 0,
    };
    let began = Instant::now();
    collector.recover()?;
    // What it took to begin says nothing of what a window takes.
    collector.rest();
    collector.collect()?;
    collector.spool.save()?;
    collector.summary.elapsed = began.elapsed();
    Ok(collector.summary)
}

struct Collector<'c> {
    settings: &'c Settings,
    host: &'c dyn Host,
    tell: &'c mut dyn FnMut(&Told),
    spool: Spool,
    meter: Meter,
    budget: Budget,
    dates: Dates,
    summary: Summary,
    /// Whether it is known that the spool is full.
    is_full: bool,
    /// Whether there was no room to rename shards.
    is_unpublished: bool,
    /// Windows in turn that could not be recorded or counted.
    failures: u32,
}

impl Collector<'_> {
    /// Takes up the windows of a collector that was killed.
    fn recover(&mut self) -> Result<(), Error> {
        let left = self.spool.left()?;
        let (mut shards, mut lost, any) = (0, 0, !left.is_empty());
        for window in left {
            let (stage, settled) = (window.stage(), window.number <= self.spool.state.settled);
            match stage {
                Stage::Counted => shards += window.publish(&self.spool.dir)?,
                Stage::Recorded(note) if !settled => match self.recovered(&window, note.clone()) {
                    Ok(()) => shards += window.publish(&self.spool.dir)?,
                    Err(error) => {
                        lost += 1;
                        self.give_up(window, &note, &error)?;
                    }
                },
                Stage::Begun(note) if !settled => {
                    lost += 1;
                    let told = note.and_then(|note| note.recording.collected);
                    let told = told.map_or_else(Missed::default, |collected| collected.missed);
                    let own = Missed { killed: 1, ..Missed::default() };
                    self.summary.missed.add(&own);
                    self.spool.give_up(window, &told, &own)?;
                }
                Stage::Recorded(_) | Stage::Begun(_) => window.remove()?,
            }
        }
        self.summary.shards += shards;
        if any {
            (self.tell)(&Told::Recovered { shards, lost });
        }
        Ok(())
    }

    /// Counts a window of a collector that was killed before it could.
    fn recovered(&mut self, window: &Window, mut note: Note) -> Result<(), Error> {
        let Counted { programs, recording, sampling } = count(window, &note, self.host)?;
        note.recording = recording;
        let length = note.recording.end.zip(note.recording.begin).map(|(end, begin)| end - begin);
        if let Some(collected) = &mut note.recording.collected {
            collected.samples = programs.samples;
            collected.length_ms = length.unwrap_or(0).saturating_mul(1000);
        }
        shards::write(window, &note, programs, sampling, self.window_bytes()).map(drop)
    }

    fn collect(&mut self) -> Result<(), Error> {
        while !self.host.is_over() {
            let began = Instant::now();
            let next = if self.has_room() { self.window()? } else { self.rest() };
            if next.leave {
                self.summary.left = true;
                return Ok(());
            }
            let (now, every) = (Instant::now(), began.checked_add(self.settings.every));
            let due = now.checked_add(next.pause).max(every);
            self.sleep_until(due);
        }
        Ok(())
    }

    /// Sleeps, and wakes for the end.
    fn sleep_until(&self, due: Option<Instant>) {
        while !self.host.is_over() {
            let left = due.map_or(TICK, |due| due.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(TICK));
        }
    }

    /// Most bytes of a window's recording, and of its shards.
    fn window_bytes(&self) -> u64 {
        (self.settings.limit / PART).clamp(LEAST_WINDOW, MOST_WINDOW)
    }

    /// Whether the spool may hold another window and the disk has room; else counts one that is not
    /// recorded.
    fn has_room(&mut self) -> bool {
        if self.is_unpublished {
            self.is_unpublished = self.spool.publish_left().is_err();
        }
        let bytes = self.spool.bytes();
        let full = bytes.saturating_add(2 * self.window_bytes()) > self.settings.limit;
        if full != self.is_full {
            let told = if full { Told::Full { bytes } } else { Told::Resumed };
            (self.tell)(&told);
            self.is_full = full;
        }
        if full {
            self.miss(Missed { spool_full: 1, ..Missed::default() });
        } else if self.spool.room() < LEAST_ROOM {
            self.miss(Missed { disk_full: 1, ..Missed::default() });
            (self.tell)(&Told::Missed { why: "the disk of the spool is full".to_owned() });
        } else {
            return true;
        }
        false
    }

    fn miss(&mut self, missed: Missed) {
        self.summary.missed.add(&missed);
        self.spool.miss(&missed);
    }

    /// Pays for a time without a window.
    fn rest(&mut self) -> Next {
        let used = self.meter.read(0);
        self.pay(used, None)
    }

    fn pay(&mut self, used: Used, window: Option<Duration>) -> Next {
        self.summary.cost += used.cost;
        self.budget.pay(used.cost, used.since, window, Pressure::now())
    }

    /// Records, counts and publishes one window.
    fn window(&mut self) -> Result<Next, Error> {
        let note = self.note();
        let window = match self.spool.begin(note.clone()) {
            Ok(window) => window,
            Err(error) if error.is_no_room() => {
                self.miss(Missed { disk_full: 1, ..Missed::default() });
                (self.tell)(&Told::Missed { why: error.to_string() });
                return Ok(self.rest());
            }
            Err(error) => return Err(error),
        };
        // The spool has put the number into it, and what was missed.
        let mut note = match window.stage() {
            Stage::Begun(Some(note)) => note,
            _ => note,
        };
        let output = window.data();
        let room = self.spool.room() / 4;
        let asked = Asked {
            output: &output,
            length: self.settings.window,
            most_bytes: self.window_bytes().min(room),
            slower: self.budget.slower(),
        };
        let began = Instant::now();
        let taken = self.host.record(asked).map_err(Error::from);
        let length = began.elapsed();
        let span = self.dates.end(note.begin, length);
        self.spool.state.last_end = span.end;
        let counted = taken.and_then(|taken| Ok((taken, count(&window, &note, self.host)?)));
        let samples = counted.as_ref().map_or(0, |(taken, _)| taken.samples);
        let used = self.meter.read(samples);
        let next = self.pay(used, Some(used.cost));
        let (programs, recording, sampling) = match counted {
            Ok((_, Counted { programs, recording, sampling })) => (programs, recording, sampling),
            // The last word of a collector that leaves is a shard, even if it is an empty one.
            Err(error) if next.leave && error.is_idle() => {
                (Programs::default(), note.recording, None)
            }
            Err(error) => {
                self.give_up(window, &note, &error)?;
                return self.failed(error, next);
            }
        };
        let (begin, end) = span.seconds();
        note.recording = Recording { begin: Some(begin), end: Some(end), ..recording };
        let mut collected = note.recording.collected.take().unwrap_or_default();
        collected.length_ms = millis(length);
        collected.samples = programs.samples;
        collected.cost_us = u64::try_from(used.cost.as_micros()).unwrap_or(u64::MAX);
        collected.since_ms = millis(used.since);
        collected.left = next.leave;
        note.recording.collected = Some(collected.clone());
        let notes = programs.notes.clone();
        let most = self.window_bytes();
        let shards = match shards::write(&window, &note, or_empty(programs), sampling, most) {
            Ok(shards) => shards,
            Err(error) => {
                self.give_up(window, &note, &error)?;
                return self.failed(error, next);
            }
        };
        let number = window.number;
        match window.publish(&self.spool.dir) {
            // They are whole, and get there when there is room.
            Err(error) if error.is_no_room() => self.is_unpublished = true,
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        self.failures = 0;
        self.summary.windows += 1;
        self.summary.shards += shards;
        if next.leave {
            (self.tell)(&Told::Left { collected });
        } else {
            (self.tell)(&Told::Window { number, shards, collected, notes });
        }
        Ok(next)
    }

    /// What is known of a window that begins now.
    fn note(&self) -> Note {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let begin = self.dates.begin(u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX));
        let collected = Collected {
            budget_ppm: self.settings.budget.map_or(0, |share| (share * 1e6).round() as u64),
            slower: u64::from(self.budget.slower()),
            busy: self.budget.is_busy(),
            ..Collected::default()
        };
        let own = &self.settings.recording;
        let recording = Recording {
            collected: Some(collected),
            begin: Some(begin / 1_000_000_000),
            ..own.clone()
        };
        Note::new(shards::stem(&own.host, begin, &unique()), begin, recording)
    }

    /// Gives a window up, and says why.
    fn give_up(&mut self, window: Window, note: &Note, error: &Error) -> Result<(), Error> {
        let own = match () {
            () if error.is_idle() => Missed { idle: 1, ..Missed::default() },
            () if error.is_no_room() => Missed { disk_full: 1, ..Missed::default() },
            () => Missed { failed: 1, ..Missed::default() },
        };
        let told = note.recording.collected.as_ref();
        let told = told.map_or_else(Missed::default, |collected| collected.missed);
        self.summary.missed.add(&own);
        if !error.is_idle() {
            (self.tell)(&Told::Missed { why: error.to_string() });
        }
        match self.spool.give_up(window, &told, &own) {
            // What cannot be written down now is in memory, and is with the next window.
            Err(error) if error.is_no_room() => Ok(()),
            done => done,
        }
    }

    /// Goes on after a window that gave nothing, unless nothing else is to be expected.
    fn failed(&mut self, error: Error, next: Next) -> Result<Next, Error> {
        if error.is_idle() || error.is_no_room() || self.host.is_over() {
            return Ok(next);
        }
        self.failures += 1;
        let never = self.summary.windows == 0 && self.summary.missed.idle == 0;
        if never || self.failures >= MOST_FAILURES { Err(error) } else { Ok(next) }
    }
}

/// A shard without counts, where there is no program.
fn or_empty(mut programs: Programs) -> Programs {
    if programs.programs.is_empty() {
        let (path, build_id, counts) = (String::new(), String::new(), Counts::default());
        programs.programs.push(Program { path, build_id, counts });
    }
    programs
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What no other moment of any machine has: its boot, the process, and the time since the boot.
fn unique() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (boot, process) = (boot.trim(), std::process::id());
    format!("{boot} {process} {} {}", time.tv_sec, time.tv_nsec)
}
