//! The attributes that planish asks for against those that the installed perf asks for, option by
//! option.
//!
//! `perf record -vv` prints each attribute before it asks the kernel, so that events are compared
//! which this machine does not have.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

mod support;

use perfdata::EventAttr;
use record::event::{self, EventSources};
use record::live::{Rate, Sampling, Scope};
use record::plan::{lower_frequencies, plan};
use record::settings::{BranchFilter, CallGraph, Clock};
use std::collections::BTreeMap;
use std::time::Duration;

/// The words of perf's dump that are compared: name, place in bytes, and width in bytes.
const WORDS: [(&str, usize, usize); 10] = [
    ("type", 0, 4),
    ("config", 8, 8),
    ("{ sample_period, sample_freq }", 16, 8),
    ("bp_type", 52, 4),
    ("{ bp_addr, config1 }", 56, 8),
    ("{ bp_len, config2 }", 64, 8),
    ("sample_regs_user", 80, 8),
    ("sample_stack_user", 88, 4),
    ("sample_regs_intr", 96, 8),
    ("sample_max_stack", 108, 2),
];
/// Names of the bits from the lowest, as perf prints them; nothing where two bits make a number,
/// and for what differs on purpose: watermark, use_clockid, build_id.
const FLAGS: [&str; 34] = [
    "disabled",
    "inherit",
    "pinned",
    "exclusive",
    "exclude_user",
    "exclude_kernel",
    "exclude_hv",
    "exclude_idle",
    "mmap",
    "comm",
    "freq",
    "inherit_stat",
    "enable_on_exec",
    "task",
    "",
    "",
    "",
    "mmap_data",
    "sample_id_all",
    "exclude_host",
    "exclude_guest",
    "exclude_callchain_kernel",
    "exclude_callchain_user",
    "mmap2",
    "comm_exec",
    "",
    "context_switch",
    "write_backward",
    "namespaces",
    "ksymbol",
    "bpf_event",
    "aux_output",
    "cgroup",
    "text_poke",
];
const SAMPLE: [&str; 25] = [
    "IP",
    "TID",
    "TIME",
    "ADDR",
    "READ",
    "CALLCHAIN",
    "ID",
    "CPU",
    "PERIOD",
    "STREAM_ID",
    "RAW",
    "BRANCH_STACK",
    "REGS_USER",
    "STACK_USER",
    "WEIGHT",
    "DATA_SRC",
    "IDENTIFIER",
    "TRANSACTION",
    "REGS_INTR",
    "PHYS_ADDR",
    "AUX",
    "CGROUP",
    "DATA_PAGE_SIZE",
    "CODE_PAGE_SIZE",
    "WEIGHT_STRUCT",
];
const BRANCH: [&str; 19] = [
    "USER",
    "KERNEL",
    "HV",
    "ANY",
    "ANY_CALL",
    "ANY_RETURN",
    "IND_CALL",
    "ABORT_TX",
    "IN_TX",
    "NO_TX",
    "COND",
    "CALL_STACK",
    "IND_JUMP",
    "CALL",
    "NO_FLAGS",
    "NO_CYCLES",
    "TYPE_SAVE",
    "HW_INDEX",
    "PRIV_SAVE",
];
const READ: [&str; 5] = ["TOTAL_TIME_ENABLED", "TOTAL_TIME_RUNNING", "ID", "GROUP", "LOST"];

type Fields = BTreeMap<String, String>;

fn names(bits: u64, names: &[&str]) -> String {
    let set = names.iter().enumerate().filter(|(bit, _)| bits & 1 << bit != 0);
    set.map(|(_, name)| *name).collect::<Vec<_>>().join("|")
}

/// A list of bits without those that planish always asks for: the identifier in place of the id,
/// and the period.
fn sample_type(text: &str) -> String {
    let ours = ["ID", "IDENTIFIER", "PERIOD", "TIME"];
    let mut fields: Vec<&str> = text.split('|').filter(|field| !ours.contains(field)).collect();
    fields.sort_unstable();
    fields.join("|")
}

fn ours(attr: &EventAttr) -> Fields {
    let bytes = attr.to_kernel_bytes();
    let number = |at: usize, width: usize| {
        bytes[at..at + width].iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let mut fields: Fields = WORDS
        .iter()
        .map(|(name, at, width)| ((*name).to_owned(), number(*at, *width).to_string()))
        .collect();
    for (bit, name) in FLAGS.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        fields.insert((*name).to_owned(), (attr.flags >> bit & 1).to_string());
    }
    fields.insert("precise_ip".to_owned(), (attr.flags >> 15 & 3).to_string());
    fields.insert("sample_type".to_owned(), sample_type(&names(attr.sample_type, &SAMPLE)));
    fields.insert("read_format".to_owned(), names(attr.read_format, &READ));
    fields.insert("branch_sample_type".to_owned(), names(attr.branch_sample_type, &BRANCH));
    fields.retain(|_, value| value != "0" && !value.is_empty());
    fields
}

/// The attributes that perf asks the kernel for first, without repetitions and without its own
/// helper for BPF.
fn perfs(options: &[&str], count: usize) -> Option<Vec<Fields>> {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("perf.data");
    let words = [&["record", "-vv", "-o", output.to_str().unwrap()], options, &["true"]].concat();
    let (_, _, said) = support::run("perf", &words);
    let mut found = Vec::new();
    for block in said.split("perf_event_attr:\n").skip(1) {
        let mut fields = Fields::new();
        for line in block.lines().take_while(|line| !line.starts_with("---")) {
            let (name, value) = line.trim().split_once("  ").unwrap_or((line.trim(), ""));
            fields.insert(name.trim().to_owned(), value.trim().to_owned());
        }
        for name in [
            "size",
            "use_clockid",
            "clockid",
            "build_id",
            "watermark",
            "{ wakeup_events, wakeup_watermark }",
        ] {
            fields.remove(name);
        }
        if let Some(value) = fields.get_mut("sample_type") {
            *value = sample_type(value);
        }
        for value in fields.values_mut() {
            if let Some(number) =
                value.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok())
            {
                *value = number.to_string();
            }
        }
        found.push(fields);
    }
    found.truncate(count);
    if found.len() < count { support::skipped(&said) } else { Some(found) }
}

fn compare(
    options: &[&str],
    events: &[&str],
    sampling: &Sampling,
    rate: Option<Rate>,
    scope: Scope,
) {
    let texts: Vec<String> = events.iter().map(|text| (*text).to_owned()).collect();
    let wanted = match event::parse(&texts, &EventSources::here()) {
        Ok(wanted) => wanted,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let mut planned = plan(&wanted, sampling, rate, scope);
    lower_frequencies(&mut planned);
    let events: Vec<&str> = events.iter().flat_map(|event| ["-e", event]).collect();
    let Some(theirs) = perfs(&[options, &events].concat(), planned.len()) else { return };
    for (event, theirs) in planned.iter().zip(&theirs) {
        assert_eq!(&ours(&event.attr), theirs, "{options:?} {events:?}: {}", event.name);
    }
}

#[test]
fn each_event_and_modifier_is_asked_for_as_perf_asks() {
    if !support::has("perf") {
        return;
    }
    for text in [
        "cycles",
        "instructions:u",
        "cycles:k",
        "cycles:uk",
        "cycles:ppp",
        "cycles:P",
        "cycles:G",
        "cycles:H",
        "cycles:h",
        "cycles:I",
        "cycles:HG",
        "cycles:Du",
        "branch-misses:e",
        "ref-cycles",
        "cpu-clock",
        "faults:u",
        "bpf-output",
        "dummy",
        "L1-icache-load-misses",
        "LLC-stores:u",
        "dTLB-loads",
        "iTLB-load-misses",
        "branch-load-misses",
        "node-prefetches",
        "r1a8",
        "r1a8:up",
        "msr/event=0/",
        "msr/tsc/",
        "msr/config=0x3,config1=2,config2=5,name=foo/u",
        "cycles/period=7/",
        "cpu-clock/freq=99/",
        "cpu-clock/call-graph=fp,max-stack=5/",
        "cpu-clock/call-graph=dwarf,stack-size=1024/",
        "cpu-clock/inherit=0/",
        "cycles/branch_type=any_call/",
        "sched:sched_switch",
    ] {
        compare(&[], &[text], &Sampling::default(), None, Scope::Command);
    }
    for text in [
        "cpu-clock,page-faults:u,cs/period=3/",
        "{cpu-clock,page-faults}:S",
        "{cpu-clock:k,page-faults}:u",
    ] {
        compare(&[], &[text], &Sampling::default(), None, Scope::Command);
    }
}

#[test]
fn each_option_asks_for_what_perfs_asks_for() {
    if !support::has("perf") {
        return;
    }
    let base = Sampling::default;
    let dwarf = |stack_bytes| Some(CallGraph::Dwarf { stack_bytes });
    let filter = |text: &str| text.parse::<BranchFilter>().ok();
    let cases: Vec<(&[&str], Sampling)> = vec![
        (&["-g"], Sampling { call_graph: Some(CallGraph::FramePointers), ..base() }),
        (&["--call-graph", "dwarf,4096"], Sampling { call_graph: dwarf(4096), ..base() }),
        (
            &["--call-graph", "lbr"],
            Sampling { call_graph: Some(CallGraph::BranchRecords), ..base() },
        ),
        (&["--user-regs=ax,bx"], Sampling { user_registers: "ax,bx".parse().unwrap(), ..base() }),
        (
            &["--call-graph", "dwarf", "--user-regs=ax,bx"],
            Sampling {
                call_graph: dwarf(8192),
                user_registers: "ax,bx".parse().unwrap(),
                ..base()
            },
        ),
        (&["-d"], Sampling { addresses: true, ..base() }),
        (&["-i"], Sampling { no_inherit: true, ..base() }),
        (&["-s"], Sampling { thread_counts: true, ..base() }),
        (&["-k", "boottime"], Sampling { clock: "boottime".parse::<Clock>().ok(), ..base() }),
        (&["--namespaces"], Sampling { namespaces: true, ..base() }),
        (&["--switch-events"], Sampling { switch_events: true, ..base() }),
        (&["-b"], Sampling { branch_filter: Some(BranchFilter::ANY), ..base() }),
        (&["-j", "any_call,u"], Sampling { branch_filter: filter("any_call,u"), ..base() }),
        (
            &["-j", "any,save_type,priv"],
            Sampling { branch_filter: filter("any,save_type,priv"), ..base() },
        ),
        (&["-j", "k"], Sampling { branch_filter: filter("k"), ..base() }),
        (
            &["-j", "cond,ind_jmp,call,no_cycles,no_flags"],
            Sampling { branch_filter: filter("cond,ind_jmp,call,no_cycles,no_flags"), ..base() },
        ),
        (&["-D", "10"], Sampling { delay: Some(Duration::from_millis(10)), ..base() }),
    ];
    for (options, sampling) in cases {
        compare(options, &["cpu-clock"], &sampling, None, Scope::Command);
    }
    compare(
        &["-c", "1000"],
        &["cs", "page-faults"],
        &base(),
        Some(Rate::Period(1000)),
        Scope::Command,
    );
    compare(
        &["-F", "99"],
        &["cpu-clock,cs/period=3/"],
        &base(),
        Some(Rate::Frequency(99)),
        Scope::Command,
    );
    compare(&["-a"], &["cpu-clock"], &base(), None, Scope::Cpus);
    compare(&["-C", "0"], &["cpu-clock,cs"], &base(), None, Scope::Cpus);
    let own = std::process::id().to_string();
    compare(&["-p", &own], &["cpu-clock"], &base(), None, Scope::Attached);
    let alone = Sampling { no_inherit: true, ..base() };
    compare(&["-t", &own], &["cpu-clock"], &alone, None, Scope::Attached);
}
