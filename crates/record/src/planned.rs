//! An event to open: what the kernel is asked for, and on which CPUs, threads and groups.

use crate::attr::{self, Trace};
use crate::cgroups::Cgroup;
use crate::{Error, cpus};
use perfdata::{EventAttr, attr_flag as flag, sample_type};
use std::sync::Arc;

/// The config of the software event that never counts.
pub(crate) const DUMMY: u64 = 9;

/// An event to open.
#[derive(Clone, Debug)]
pub struct Planned {
    /// What the kernel is asked for; name and ids are not set.
    pub attr: EventAttr,
    /// As perf calls it.
    pub name: String,
    /// Index of the leader of its group; its own when it has none.
    pub leader: usize,
    /// To be tried with less precision when the kernel refuses.
    pub precise_max: bool,
    /// To be opened alone when the kernel refuses the group.
    pub weak: bool,
    /// Opened before existing processes are described, and counting from then on.
    pub immediate: bool,
    /// System and name, of a tracepoint.
    pub tracepoint: Option<(String, String)>,
    /// Where it counts, when not everywhere.
    pub cpus: Option<String>,
    /// What it needs where it writes AUX data.
    pub(crate) trace: Option<Trace>,
    /// The control group that it counts, when not everything.
    pub(crate) cgroup: Option<Arc<Cgroup>>,
}

impl Planned {
    /// An event in no group, of everything everywhere.
    pub(crate) fn alone(attr: EventAttr, name: &str, index: usize) -> Planned {
        Planned {
            attr,
            name: name.to_owned(),
            leader: index,
            precise_max: false,
            weak: false,
            immediate: false,
            tracepoint: None,
            cpus: None,
            trace: None,
            cgroup: None,
        }
    }

    /// Whether it only tells what happens to processes, and never samples.
    pub fn is_tracker(&self) -> bool {
        is_tracker(&self.attr)
    }

    /// Whether it takes samples with branch stacks.
    pub(crate) fn has_stack(&self) -> bool {
        self.attr.sample_type & sample_type::BRANCH_STACK != 0
    }

    /// Whether it counts on a CPU: one PMU may count for several.
    pub(crate) fn counts_on(&self, cpu: i32) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpus::parse(cpus).contains(&cpu))
    }

    /// The CPUs of those that it is opened on. It is an error when there are none.
    pub(crate) fn cpus_among(&self, chosen: &[i32]) -> Result<Vec<i32>, Error> {
        let all = if chosen.is_empty() { cpus::online() } else { chosen.to_vec() };
        let found: Vec<i32> = all.into_iter().filter(|cpu| self.counts_on(*cpu)).collect();
        if found.is_empty() {
            let reason = format!(
                "it counts on CPU {} only; add that to -C",
                self.cpus.as_deref().unwrap_or("0")
            );
            return Err(Error::Refused { event: self.name.clone(), reason });
        }
        Ok(found)
    }
}

/// Whether an event is the one that never counts.
pub(crate) fn is_tracker(attr: &EventAttr) -> bool {
    (attr.kind, attr.config) == (attr::TYPE_SOFTWARE, DUMMY)
}

/// Leaves the kernel's part of an event out, and names it as perf does then.
pub(crate) fn without_kernel(attr: &mut EventAttr, name: &mut String) {
    attr.flags |= flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV;
    if !name.contains([':', '/']) {
        name.push(':');
    }
    name.push('u');
}
