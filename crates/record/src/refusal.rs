//! What the kernel's refusals of events mean, and what would help.

use crate::options::{Sampling, Scope};
use crate::settings::CallGraph;
use crate::{Error, arm_spe};
use std::io;
use std::path::Path;

/// What a refusal means that has nothing to do with the event.
pub(crate) fn general_reason(error: &io::Error) -> Option<&'static str> {
    Some(match error.raw_os_error()? {
        libc::ENOSYS => "this kernel is built without perf events (CONFIG_PERF_EVENTS)",
        libc::EMFILE => "too many events for the limit of open files; raise it with `ulimit -n`",
        libc::ENFILE => {
            "all programs together have too many open files; raise it with `sysctl fs.file-max`"
        }
        libc::EBUSY => "another recording holds the counters; end it first",
        _ => return None,
    })
}

/// Why an event that is no leader may be refused.
pub(crate) const NO_FIT: &str = "it does not fit into its group: events of different PMUs, or \
                                 more of them than counters; take it out of the braces, or let \
                                 the group break up with the modifier W";

pub(crate) fn paranoid() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    text.trim().to_owned()
}

/// The refusal of an event whose callers were to be found by the CPU's branch records, where there
/// are none.
pub(crate) fn no_lbr(event: &str, sampling: &Sampling, error: &io::Error) -> Option<Error> {
    let lacks = [libc::ENOENT, libc::EOPNOTSUPP, libc::ENODEV, libc::ENXIO, libc::EINVAL];
    let lbr = sampling.call_graph == Some(CallGraph::BranchRecords);
    (lbr && error.raw_os_error().is_some_and(|code| lacks.contains(&code))).then(|| {
        Error::Refused {
            event: format!("{event} with --call-graph lbr"),
            reason: "lbr needs a hardware event (cycles) on an Intel CPU whose branch records \
                     (LBR) the kernel can use, and this machine refuses it; --call-graph fp and \
                     --call-graph dwarf work on any"
                .to_owned(),
        }
    })
}

/// Says what a refusal means and what would help.
pub(crate) fn refused(event: &str, branch_stack: bool, error: &io::Error, scope: Scope) -> Error {
    let reason = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => format!(
            "the kernel does not allow it (kernel.perf_event_paranoid is {}); run as root, with \
             CAP_PERFMON, or after `sysctl kernel.perf_event_paranoid=1` (-1 to record the whole \
             system)",
            paranoid()
        ),
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENXIO) if branch_stack => {
            format!(
                "this CPU or virtual machine has no branch stacks for it{}; `--branches=emulated` \
                 gives branch stacks on any machine, `--branches=none` gives clock samples",
                spe_beside(Path::new(arm_spe::EVENT_SOURCES))
            )
        }
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENXIO) => {
            "this CPU or virtual machine has no counter for it; the clocks (-e cpu-clock, -e \
             task-clock) work on any machine, and `planish doctor` tells what this one has"
                .into()
        }
        Some(libc::EINVAL) if scope != Scope::Cpus => format!(
            "the kernel refuses the settings ({error}); an event that counts per CPU only needs \
             -a, and not every event samples: try another -c or -F"
        ),
        Some(libc::EINVAL) => {
            format!(
                "the kernel refuses the settings ({error}): not every event samples; try another \
                 -c or -F"
            )
        }
        _ => general_reason(error).map_or_else(|| error.to_string(), str::to_owned),
    };
    Error::Refused { event: event.to_owned(), reason }
}

/// What a refusal of an SPE event means.
pub(crate) fn refused_spe(event: &str, error: &std::io::Error) -> Option<Error> {
    let reason = match error.raw_os_error()? {
        libc::EACCES | libc::EPERM => format!(
            "the kernel does not allow it (kernel.perf_event_paranoid is {}); of the kernel's \
             part (without /u), of physical addresses (pa_enable) and of physical time \
             (pct_enable) it needs root or CAP_PERFMON",
            paranoid()
        ),
        libc::EOPNOTSUPP | libc::EINVAL => format!(
            "the driver refuses the terms ({error}): a filter that this CPU does not have, or \
             options that SPE does not know"
        ),
        libc::ENOENT | libc::ENODEV | libc::ENXIO => {
            format!(
                "the unit does not count there ({error}); its `cpumask` says on which CPUs it does"
            )
        }
        _ => return None,
    };
    Some(Error::Refused { event: event.to_owned(), reason })
}

/// What to say of SPE where there are no branch stacks of the CPU: that there is SPE, that it is
/// missing where there could be one, or nothing.
fn spe_beside(event_sources: &Path) -> String {
    match arm_spe::units(event_sources).first() {
        Some(unit) => {
            format!(
                ", and none of Arm SPE with what was asked for ({unit} alone takes -c, -p, -a and \
                 -C)"
            )
        }
        None if cfg!(target_arch = "aarch64") => {
            format!(", and no Arm SPE ({}/arm_spe_0 is missing)", event_sources.display())
        }
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_setting_that_would_help() {
        let said = |code, stack| {
            refused("cpu-clock", stack, &io::Error::from_raw_os_error(code), Scope::Command)
                .to_string()
        };
        assert!(said(libc::EACCES, false).contains("perf_event_paranoid"));
        assert!(said(libc::EOPNOTSUPP, true).contains("--branches=emulated"));
        assert!(said(libc::ENOENT, false).contains("-e cpu-clock"));
        assert!(said(libc::EINVAL, false).contains("-a"));
    }

    #[test]
    fn a_missing_lbr_is_named_as_the_cause() {
        let lbr = Sampling { call_graph: Some(CallGraph::BranchRecords), ..Sampling::default() };
        let error = |code| io::Error::from_raw_os_error(code);
        let said = no_lbr("cycles", &lbr, &error(libc::EOPNOTSUPP)).unwrap().to_string();
        assert!(
            said.starts_with("cannot record cycles with --call-graph lbr: lbr needs"),
            "{said}"
        );
        assert!(no_lbr("cycles", &lbr, &error(libc::EACCES)).is_none());
        assert!(no_lbr("cycles", &Sampling::default(), &error(libc::EOPNOTSUPP)).is_none());
    }
}
