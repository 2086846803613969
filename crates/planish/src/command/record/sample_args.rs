//! The options of `planish record` that say what samples and the records beside them hold.

use super::perf_args::Asked;
use record::live::Sampling;
use record::settings::{BranchFilter, CallGraph, Clock};
use std::time::Duration;

/// What is recorded of each sample, and of what happens between samples.
#[derive(Debug, clap::Args)]
pub struct SampleArgs {
    /// Record call chains by frame pointers, unless --call-graph says otherwise
    #[arg(short = 'g')]
    frame_pointers: bool,
    /// Record call chains: `fp` follows frame pointers (under emulation: each call and return),
    /// `dwarf[,SIZE]` copies the top of the stack (8192 bytes unless you give SIZE) for reports to
    /// unwind, `lbr` takes the CPU's branch records
    #[arg(long, value_name = "HOW")]
    call_graph: Option<CallGraph>,
    /// Record user registers with each sample: `ax,bx,ip`; `?` lists them
    #[arg(long, value_name = "REGISTERS")]
    pub user_regs: Option<Asked>,
    /// Record all taken branches by the CPU; the same as --branch-filter any
    #[arg(short = 'b', long = "branch-any", conflicts_with = "branch_filter")]
    branch_any: bool,
    /// Record branches of these kinds by the CPU: any, any_call, any_ret, ind_call, cond, call …
    /// and u, k, hv
    #[arg(short = 'j', long, value_name = "KINDS")]
    branch_filter: Option<BranchFilter>,
    /// Record data addresses
    #[arg(short = 'd', long)]
    data: bool,
    /// Do not record children of the program or process
    #[arg(short = 'i', long)]
    no_inherit: bool,
    /// Record the counts of each thread, at its end
    #[arg(short = 's', long)]
    stat: bool,
    /// Clock for the times: realtime, monotonic, monotonic_raw, boottime, tai [default: monotonic]
    #[arg(short = 'k', long, value_name = "CLOCK")]
    clockid: Option<Clock>,
    /// Begin sampling this many milliseconds after the program starts; -1: when --control says
    /// `enable`
    #[arg(short = 'D', long, value_name = "MS", allow_negative_numbers = true, value_parser = delay)]
    delay: Option<i64>,
    /// Record the namespaces that processes run in
    #[arg(long)]
    namespaces: bool,
    /// Record context switches, for `planish report waits`, and if the kernel allows it who woke whom
    /// (event sched:sched_waking) and, with -g or --call-graph, the stack at each switch (event cs)
    #[arg(long)]
    switch_events: bool,
}

/// The delay that ends with a command.
const WAIT: i64 = -1;

/// Milliseconds, or -1.
fn delay(text: &str) -> Result<i64, String> {
    let number = text.parse().ok().filter(|number| (WAIT..=u32::MAX.into()).contains(number));
    number.ok_or_else(|| format!("expected milliseconds, 0 to {}, or -1 with --control", u32::MAX))
}

impl SampleArgs {
    /// Those given.
    pub fn given(&self) -> [(bool, &'static str); 12] {
        [
            (self.frame_pointers, "-g"),
            (self.call_graph.is_some(), "--call-graph"),
            (self.user_regs.is_some(), "--user-regs"),
            (self.branch_any, "-b"),
            (self.branch_filter.is_some(), "-j"),
            (self.data, "-d"),
            (self.no_inherit, "-i"),
            (self.stat, "-s"),
            (self.clockid.is_some(), "-k"),
            (self.delay.is_some(), "-D"),
            (self.namespaces, "--namespaces"),
            (self.switch_events, "--switch-events"),
        ]
    }

    /// The same as values.
    pub fn sampling(&self) -> Sampling {
        let late = self.delay.and_then(|delay| u64::try_from(delay).ok());
        Sampling {
            call_graph: self.call_graph.or(self.frame_pointers.then_some(CallGraph::FramePointers)),
            user_registers: Asked::registers(self.user_regs),
            branch_filter: self.branch_filter.or(self.branch_any.then_some(BranchFilter::ANY)),
            addresses: self.data,
            no_inherit: self.no_inherit,
            thread_counts: self.stat,
            clock: self.clockid,
            delay: late.filter(|delay| *delay > 0).map(Duration::from_millis),
            wait: self.delay == Some(WAIT),
            namespaces: self.namespaces,
            switch_events: self.switch_events,
            ..Sampling::default()
        }
    }
}
