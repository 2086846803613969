//! Is every step of a plan a command that this planish takes?

use super::*;
use build::linux::Wanted;
use build::plan::{notes, optimize};
use build::{Config, Plan, Program, Toolchain};
use kernel::machine::BootMachine;
use kernel::make::Make;
use std::ffi::OsString;
use std::path::Path;

/// Tries every step that calls planish, and returns the commands that were called.
fn called(plan: &Plan) -> BTreeSet<String> {
    let calls = plan.steps.iter().map(build::Step::call);
    let own = calls.filter(|call| call.program == Program::Planish);
    own.map(|call| {
        let words = [OsString::from("planish")].into_iter().chain(call.arguments());
        if let Err(error) = Cli::try_parse_from(words) {
            panic!("{}: {error}", call.command_line());
        }
        let line = call.command_line();
        line.split(' ').skip(1).take_while(|word| !word.starts_with(['-', '.'])).collect()
    })
    .collect()
}

/// Begins what asks for a project with libraries.
const LIBRARIES: &str = "# libraries\n";

#[test]
fn every_step_of_optimize_is_a_command_that_planish_takes() {
    let tool = |name: &str| name.to_owned();
    let tools = Toolchain {
        cc: tool("clang"),
        cxx: tool("clang++"),
        ld: tool("ld.lld"),
        profdata: Some(tool("llvm-profdata")),
        bolt: Some(tool("llvm-bolt")),
        ..Toolchain::default()
    };
    let mut all = BTreeSet::new();
    for (compiler, more) in [
        ("clang", "[record]\nbranches = 'hardware'\nperiod = 20011\n"),
        ("clang", "[record]\nbranches = 'emulated'\nsymbol_list = true\n"),
        ("clang", "[record]\nbranches = 'none'\n"),
        ("clang", "[record]\nbranches = 'software'\nperiod = 500000\nstop_by = 'branches'\n"),
        ("clang", "[record]\nbudget = 50.0\nseconds = 9\nemulate_below = 0.5\n"),
        ("gcc", "[optimize]\nalso = ['pgo']\n"),
        (
            "clang",
            "[optimize]\nsteps = ['autofdo', 'autofdo', 'propeller']\nalso = ['bolt', 'pgo']\n",
        ),
        ("clang", "[optimize]\nsteps = ['autofdo', 'propeller']\nclone = false\n"),
        ("gcc", LIBRARIES),
        ("clang", &format!("{LIBRARIES}[optimize]\nsteps = ['autofdo', 'propeller']\n")),
        ("clang", "[optimize]\nsteps = ['autofdo', 'propeller', 'bolt-rest']\n"),
    ] {
        let text = format!(
            "[build]\ncommand = 'make'\nbinary = 'app'\ncompiler = '{compiler}'\n[workload]\ntrain \
             = '{{bin}} -a'\n[evaluate]\ncommand = '{{bin}} b'\nignore_output = true\n{more}"
        );
        let text = match more.starts_with(LIBRARIES) {
            true => text.replace("'app'", "'bin/app'\nlibraries = ['lib/liba.so.1', 'libb.so']"),
            false => text,
        };
        let config = Config::parse(&text, Path::new("planish.toml")).expect("a configuration");
        assert_eq!(notes(&config, &tools, false), Vec::<String>::new());
        let plan = optimize(&config, &tools, Path::new("/src/app"), "planish.toml");
        all.append(&mut called(&plan.expect("a plan")));
    }
    let expected = [
        "aggregate",
        "buildverify",
        "compare",
        "layout",
        "layoutmerge",
        "layoutverify",
        "profile",
        "profilemerge",
        "record",
        "report",
        "trainrecord",
        "traintime",
        "traintry",
    ];
    assert_eq!(all.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn every_step_of_kernel_optimize_is_a_command_that_planish_takes() {
    let make = Make {
        llvm: Some("-22".to_owned()),
        cc: Some("clang-22".to_owned()),
        jobs: std::num::NonZeroUsize::new(3),
    };
    if make.release().is_err() {
        return eprintln!("skipped: clang-22 is not installed");
    }
    let mut all = BTreeSet::new();
    for (cpus, append) in [(1, None), (2, Some("nokaslr a=b".to_owned()))] {
        let machine = BootMachine { memory_mib: 700, append, timeout_s: 99 };
        let wanted = Wanted {
            tree: Path::new("/src/linux"),
            architecture: kernel::Architecture::default(),
            small: true,
            make: &make,
            rounds: 2,
            lays_out: true,
            align: Some(64),
            machine: &machine,
            period: std::num::NonZeroU64::new(77),
            cpus,
            initrd: None,
        };
        all.append(&mut called(&wanted.plan().expect("a plan")));
    }
    let kernel = ["build", "config", "measure", "record", "workload"];
    let found = |name: &str| all.iter().any(|words| words.starts_with(&format!("kernel{name}")));
    assert!(kernel.into_iter().all(found), "{all:?}");
    assert!(all.contains("layout") && all.contains("profile"), "{all:?}");
}
