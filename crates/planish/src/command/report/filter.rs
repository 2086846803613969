//! Which samples of a recording count: of one thread, of a part of the time, through a function.

use anyhow::{Context as _, bail};
use calltrees::{Index, Recorded, first_time};
use perfdata::{ChainSample, Input};
use report::calls::export::Named;
use report::calls::{Direction, Shape};
use std::ops::Range;
use std::path::Path;

/// Options that leave samples out.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FilterArgs {
    /// Count only samples of this process
    #[arg(long)]
    pub pid: Option<i32>,
    /// Count only samples of this thread
    #[arg(long)]
    pub tid: Option<i32>,
    /// Count only samples of threads with this name
    #[arg(long, value_name = "NAME")]
    pub comm: Option<String>,
    /// Count only samples of this control group and of the groups below it; NAME is a path such as
    /// system.slice/cron.service
    #[arg(long, value_name = "NAME")]
    pub cgroup: Option<String>,
    /// Count only samples with this function on their stack: its linkage name, or its name as in
    /// the source, with or without arguments
    #[arg(long, value_name = "FUNCTION")]
    pub through: Option<String>,
    /// Count only samples of this part of the recording, in seconds since its first sample: 2.5-4,
    /// 2.5- or -4
    #[arg(long, value_name = "FROM-TO", value_parser = seconds, allow_hyphen_values = true)]
    pub time: Option<Seconds>,
}

/// A part of a recording, in ns since its first sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds {
    from: u64,
    to: u64,
}

impl Seconds {
    /// Both halves of so many ns.
    pub fn halves(ns: u64) -> (Seconds, Seconds) {
        let middle = (ns / 2).max(1);
        (Seconds { from: 0, to: middle }, Seconds { from: middle, to: u64::MAX })
    }
}

/// Reads a part of the time, FROM-TO.
///
/// # Errors
/// What it should be.
pub fn seconds(text: &str) -> Result<Seconds, String> {
    /// Nothing is recorded for longer, and the product fits.
    const MOST: f64 = 1e9;
    let expected = || format!("expected FROM-TO in seconds, such as 2.5-4, 2.5- or -4, not {text}");
    let (from, to) = text.split_once('-').ok_or_else(expected)?;
    let ns = |part: &str, missing: u64| -> Result<u64, String> {
        if part.is_empty() {
            return Ok(missing);
        }
        let plain = part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let number = part.parse::<f64>().ok().filter(|number| plain && *number <= MOST);
        Ok(number.ok_or_else(expected)?.mul_add(1e9, 0.5) as u64)
    };
    let part = Seconds { from: ns(from, 0)?, to: ns(to, u64::MAX)? };
    if part.from >= part.to {
        return Err(format!("{text} does not end after its begin"));
    }
    Ok(part)
}

impl FilterArgs {
    /// The times that count, of the recording's clock; none if all do.
    ///
    /// # Errors
    /// Where the samples of `input` (named `path`) have no times.
    pub fn window(
        &self,
        path: &Path,
        input: &Input,
        index: Option<&Index>,
        threads: usize,
    ) -> anyhow::Result<Option<Range<u64>>> {
        let Some(part) = self.time else { return Ok(None) };
        let first = match index {
            Some(index) => index.times().map(|times| times.start),
            None => first_time(input, threads).with_context(|| path.display().to_string())?,
        };
        let Some(first) = first else {
            bail!("{}: --time: its samples have no times (perf record -T)", path.display());
        };
        Ok(Some(first.saturating_add(part.from)..first.saturating_add(part.to)))
    }

    /// Whether a sample counts, as far as it can be told before its stack has names.
    pub fn keeps(&self, sample: &ChainSample<'_>, window: Option<&Range<u64>>) -> bool {
        self.pid.is_none_or(|pid| pid == sample.pid)
            && self.tid.is_none_or(|tid| tid == sample.tid)
            && window.is_none_or(|window| sample.time.is_some_and(|time| window.contains(&time)))
    }

    /// Leaves out what only names tell.
    ///
    /// # Errors
    /// Where nothing has a name that is asked for.
    pub fn narrow(&self, recorded: &mut Recorded) -> Result<(), String> {
        let named = self.named(recorded)?;
        narrow_to(&named, recorded);
        Ok(())
    }

    /// Which samples count, as far as only names tell.
    ///
    /// # Errors
    /// Where nothing has a name that is asked for.
    pub fn named(&self, recorded: &Recorded) -> Result<Named, String> {
        if let Some(comm) = &self.comm
            && !recorded.threads.iter().any(|thread| thread.name == *comm)
        {
            return Err(no_thread(recorded, comm));
        }
        let through = match &self.through {
            Some(name) => {
                let shape = Shape::of_function(recorded, Direction::Callees, name)?;
                Some(shape.of.into_iter().collect())
            }
            None => None,
        };
        let cgroups = match &self.cgroup {
            Some(name) => {
                let within = groups(recorded, name)?;
                let all = recorded.cgroups.iter().zip(within);
                Some(all.filter(|(_, within)| *within).map(|(group, _)| group.id).collect())
            }
            None => None,
        };
        Ok(Named { comm: self.comm.clone(), cgroups, through })
    }
}

/// Leaves out what is not of these names.
pub fn narrow_to(named: &Named, recorded: &mut Recorded) {
    if let Some(comm) = &named.comm {
        recorded.retain(|thread, _, _| thread.name == *comm);
    }
    if let Some(within) = &named.cgroups {
        let cgroups = recorded.cgroups.clone();
        let is_in = |index: u32| {
            cgroups.get(index as usize).is_some_and(|group| within.contains(&group.id))
        };
        recorded.retain(|_, stack, _| stack.cgroup.is_some_and(is_in));
    }
    if let Some(through) = &named.through {
        recorded.retain(|_, stack, _| stack.functions.iter().any(|id| through.contains(id)));
    }
}

/// What to do where samples do not tell their control groups.
pub const NO_CGROUPS: &str = "its samples do not tell their control groups: record with `perf \
                              record --all-cgroups`, or one group with `planish record -a -G NAME`";

/// Which control groups are the named one, or below it.
fn groups(recorded: &Recorded, name: &str) -> Result<Vec<bool>, String> {
    if recorded.cgroups.is_empty() {
        return Err(format!("--cgroup: {NO_CGROUPS}"));
    }
    let wanted = name.trim_matches('/');
    let within = |path: &str| {
        let rest = path.trim_start_matches('/').strip_prefix(wanted);
        wanted.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let groups = recorded.cgroups.iter();
    let found: Vec<bool> = groups.map(|group| group.path.as_deref().is_some_and(within)).collect();
    if found.contains(&true) {
        return Ok(found);
    }
    let mut paths: Vec<&str> =
        recorded.cgroups.iter().filter_map(|group| group.path.as_deref()).collect();
    paths.sort_unstable();
    paths.truncate(10);
    let paths: Vec<_> = paths.into_iter().map(report::visible).collect();
    let name = report::visible(name);
    Err(format!("no sample was taken in a control group {name}; there is {}", paths.join(", ")))
}

fn no_thread(recorded: &Recorded, comm: &str) -> String {
    let mut names: Vec<&str> = recorded.threads.iter().map(|thread| &*thread.name).collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(10);
    let names: Vec<_> = names.into_iter().map(report::visible).collect();
    let comm = report::visible(comm);
    format!("no sampled thread is called {comm}; there is {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_time_are_seconds() {
        let part = |from, to| Ok(Seconds { from, to });
        assert_eq!(seconds("2.5-4"), part(2_500_000_000, 4_000_000_000));
        assert_eq!(seconds("2.5-"), part(2_500_000_000, u64::MAX));
        assert_eq!(seconds("-4"), part(0, 4_000_000_000));
        assert_eq!(seconds("-"), part(0, u64::MAX));
        for wrong in ["", "2", "4-2", "2-2", "a-b", "1e3-2e3", "nan-", "inf-", "-1-2", "1-9e99"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert!(seconds("1-99999999999999999").is_err());
    }
}
