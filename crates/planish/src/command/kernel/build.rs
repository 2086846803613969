//! `planish kernel build`: run make with a profile or a layout, for the objects that it speaks of.

use super::sample_profile::{self, Compared};
use crate::cli::{FINE, Format, Global};
use crate::output;
use crate::progress;
use anyhow::{Context, bail};
use kernel::config::Config;
use kernel::make::{self, Request, Variables};
use kernel::objects::{Chosen, FunctionsOfObjects, functions_of_objects};
use kernel::requirements::{Purpose, Weight, unmet};
use kernel::tree::{AUTOFDO, PROPELLER, Tree};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Build a kernel, with a profile or a layout where one is given.
///
/// Runs make in a build directory that has a .config. With a profile or a layout only the objects
/// are built anew that hold samples or laid out functions, and both are copied into the build under
/// names with a hash of their content, since the kernel's build compiles again when a command
/// changes and not when a profile does. A profile that does not belong to the build is refused.
/// make's output goes to planish/make.log in the build directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel build linux-6.12 --build out                           # out/.config is there: a \
                        kernel to record
  planish kernel build linux-6.12 --build out --profile kernel.afdo --first-round
  planish kernel build linux-6.12 --build out --profile second.afdo --layout kernel
  planish kernel build linux-6.12 --build out --dry-run --profile kernel.afdo      # print the \
                        command of make

Exit codes: 0 fine, 2 wrong usage or input, or make failed.")]
pub struct Args {
    /// The top directory of the Linux sources, prepared
    #[arg(value_name = "TREE")]
    tree: PathBuf,
    /// The directory of the build, with a .config; make's O= [default: TREE]
    #[arg(long, value_name = "DIR")]
    build: Option<PathBuf>,
    /// The sample profile
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Use the profile though another compiler, or another major release, made the kernel that it
    /// was taken from
    #[arg(long, requires = "profile")]
    any_compiler: bool,
    /// The profile was recorded on a kernel built without one: its flow-sensitive discriminators
    /// are not used
    #[arg(long, requires = "profile")]
    first_round: bool,
    /// Split cold parts from functions though no layout is given (PROPELLER_CLANG keeps them whole
    /// for the block map)
    #[arg(long, requires = "profile")]
    split: bool,
    /// The layout: what `planish layout -o PREFIX` wrote
    #[arg(long, value_name = "PREFIX")]
    layout: Option<PathBuf>,
    /// Build every object with the profile and the layout, not only those that they speak of
    #[arg(long)]
    whole: bool,
    #[command(flatten)]
    pub make: MakeArgs,
    /// Print the command of make and run nothing; profile and layout are put where it reads them
    #[arg(long)]
    dry_run: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Targets and further variables of make [default: bzImage vmlinux, and modules where the
    /// configuration has some]
    #[arg(last = true, value_name = "MAKE")]
    targets: Vec<String>,
}

/// How make is called.
#[derive(Clone, Debug, clap::Args)]
pub struct MakeArgs {
    /// make's LLVM=: the release of clang and lld [default: the newest from 19 on that is
    /// installed]
    #[arg(long, value_name = "-N", allow_hyphen_values = true)]
    pub llvm: Option<String>,
    /// make's CC=, where it is more than the clang of --llvm, such as 'ccache clang-22'
    #[arg(long, value_name = "COMMAND")]
    pub cc: Option<String>,
    /// How many jobs make runs [default: one per CPU]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<std::num::NonZeroUsize>,
}

/// The oldest clang that both options work with.
const OLDEST_CLANG: u32 = 19;
/// The newest release whose name is looked for.
const NEWEST_CLANG: u32 = 40;

impl MakeArgs {
    /// The value of LLVM=.
    pub fn release(&self) -> anyhow::Result<String> {
        let path = std::env::var("PATH").unwrap_or_default();
        let there = |name: &str| build::toolchain::locate(name, &path).is_some();
        if let Some(cc) = &self.cc {
            let last = cc.split_whitespace().last().unwrap_or_default();
            if !last.contains("clang") || !cc.split_whitespace().all(there) {
                bail!(
                    "--cc '{cc}': expected a clang that is installed, after a wrapper such as \
                     ccache if there is one"
                );
            }
        }
        if let Some(llvm) = &self.llvm {
            // kbuild takes a number without a dash for `clang` without a release.
            let number =
                llvm.trim_start_matches('-').parse::<u32>().ok().filter(|number| *number > 1);
            let suffix = number.map_or(String::new(), |number| format!("-{number}"));
            if number.is_none() && llvm != "1" {
                bail!(
                    "--llvm '{llvm}': expected a release such as -22, or 1 for clang and ld.lld \
                     without a number"
                );
            }
            if let Some(tool) = ["clang", "ld.lld", "llvm-nm"]
                .iter()
                .find(|tool| !there(&format!("{tool}{suffix}")))
            {
                bail!(
                    "--llvm '{llvm}': no {tool}{suffix} in PATH; install clang, lld and llvm of \
                     that release"
                );
            }
            return Ok(if suffix.is_empty() { "1".to_owned() } else { suffix });
        }
        let newest = (OLDEST_CLANG..=NEWEST_CLANG).rev().find(|release| {
            there(&format!("clang-{release}")) && there(&format!("ld.lld-{release}"))
        });
        match newest {
            Some(release) => Ok(format!("-{release}")),
            None if there("clang") && there("ld.lld") => Ok("1".to_owned()),
            None => bail!(
                "neither clang-{OLDEST_CLANG} and ld.lld-{OLDEST_CLANG} nor newer ones are in \
                 PATH; install clang and lld (Debian: clang-22 lld-22), or name the release with \
                 --llvm=-N"
            ),
        }
    }

    /// The command that make compiles C with; `more` are words after those of [`MakeArgs::words`],
    /// which count first.
    pub fn compiler(&self, more: &[String]) -> anyhow::Result<String> {
        let given = |name: &str| more.iter().rev().find_map(|word| word.strip_prefix(name));
        if let Some(cc) = given("CC=").or(self.cc.as_deref()) {
            return Ok(cc.to_owned());
        }
        let release =
            given("LLVM=").map_or_else(|| self.release(), |release| Ok(release.to_owned()))?;
        Ok(match release.as_str() {
            directory if directory.ends_with('/') => format!("{directory}clang"),
            suffix if suffix.starts_with('-') => format!("clang{suffix}"),
            _ => "clang".to_owned(),
        })
    }

    /// The number of jobs.
    pub fn jobs(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        self.jobs.map_or_else(all, std::num::NonZeroUsize::get)
    }

    /// The words of make before variables of profiles and targets.
    pub fn words(&self, tree: &Path, build: &Path) -> anyhow::Result<Vec<String>> {
        let text = |path: &Path| -> anyhow::Result<String> {
            let full = std::path::absolute(path).with_context(|| path.display().to_string())?;
            Ok(make::word(&full)?)
        };
        let mut words = vec!["-C".to_owned(), text(tree)?];
        if !is_same(tree, build) {
            words.push(format!("O={}", text(build)?));
        }
        words.extend([format!("LLVM={}", self.release()?), "ARCH=x86_64".to_owned()]);
        words.extend(self.cc.as_ref().map(|cc| format!("CC={cc}")));
        words.push(format!("-j{}", self.jobs()));
        Ok(words)
    }
}

fn is_same(tree: &Path, build: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(tree).is_some() && real(tree) == real(build)
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let build = args.build.as_ref().unwrap_or(&args.tree);
    // What make cannot take is said before anything is read.
    let mut words = args.make.words(&args.tree, build)?;
    let config = configuration(&args.tree, build, args.layout.is_some())?;
    let request = Request {
        profile: args.profile.clone(),
        first_round: args.first_round,
        split: args.split,
        layout: args.layout.clone(),
        whole: args.whole,
    };
    let known = knows_lists(&args.tree);
    if !known && (args.first_round || args.split) && !global.quiet {
        eprintln!(
            "planish: warning: {} has the options by itself, not from planish: --first-round and \
             --split do nothing there",
            args.tree.display()
        );
    }
    let request = if known { request } else { Request { whole: true, ..request } };
    let (variables, compared) = variables(build, &request, args, global)?;
    words.extend(variables.words.iter().cloned());
    if args.targets.is_empty() {
        words.extend(["bzImage", "vmlinux"].map(str::to_owned));
        words.extend(config.is_on("MODULES").then(|| "modules".to_owned()));
    } else {
        words.extend(args.targets.iter().cloned());
    }
    let command = std::iter::once("make").chain(words.iter().map(String::as_str));
    let command = command.map(build::step::quoted).collect::<Vec<_>>().join(" ");
    if args.dry_run {
        match args.format {
            Format::Json => output::print_json(
                &json!({"schema": "planish-kernel-build", "version": 1, "command": command}),
            )?,
            Format::Text => output::print(&(command + "\n"))?,
        }
        return Ok(FINE);
    }
    let log = build.join(make::DIRECTORY).join("make.log");
    std::fs::create_dir_all(build.join(make::DIRECTORY))
        .with_context(|| build.display().to_string())?;
    let made = run_make(&words, &command, &log, global)?;
    match args.format {
        Format::Json => {
            output::print_json(&object(&command, &variables, compared.as_ref(), &made, &log))?
        }
        Format::Text if !global.quiet => eprint!("{}", text(&variables, &made, &log)),
        Format::Text => {}
    }
    Ok(FINE)
}

/// Whether the tree has our variables; one with the options by itself builds every object with a
/// profile.
fn knows_lists(tree: &Path) -> bool {
    let makefile =
        beside::given::read_text(&tree.join("scripts/Makefile.autofdo"), crate::input::TEXT_BYTES);
    makefile.is_ok_and(|text| text.contains("CLANG_AUTOFDO_OBJECTS"))
}

/// The configuration of a build, which must be one that profiles work with.
fn configuration(tree: &Path, build: &Path, lays_out: bool) -> anyhow::Result<Config> {
    let known = Tree::open(tree)?;
    if let Some(lacking) = [AUTOFDO, PROPELLER].iter().find(|option| !known.offers(option)) {
        bail!(
            "{0}: has no option {lacking}; run first: planish kernel prepare {0}",
            tree.display()
        );
    }
    let path = build.join(".config");
    if !path.is_file() {
        bail!(
            "{}: there is no such file; configure the build first, for example with make LLVM=-22 \
             O={} defconfig",
            path.display(),
            build.display()
        );
    }
    let config = Config::read(&path)?;
    let purpose = if lays_out { Purpose::Both } else { Purpose::Autofdo };
    let unmet = unmet(&config, purpose).into_iter().filter(|needed| needed.weight == Weight::Must);
    let must: Vec<String> =
        unmet.map(|needed| format!("{}: {}", needed.option, needed.why)).collect();
    if !must.is_empty() {
        bail!(
            "{}: not a configuration for profiles: {}. `planish kernel config {} --check {}` says \
             more",
            path.display(),
            must.join("; "),
            tree.display(),
            path.display()
        );
    }
    Ok(config)
}

fn variables(
    build: &Path,
    request: &Request,
    args: &Args,
    global: &Global,
) -> anyhow::Result<(Variables, Option<Compared>)> {
    if request.profile.is_none() && request.layout.is_none() {
        return Ok((Variables::default(), None));
    }
    let layout = request.layout.as_ref().map(|prefix| {
        let mut name = prefix.as_os_str().to_owned();
        name.push("_cc_profile.txt");
        PathBuf::from(name)
    });
    for file in request.profile.iter().chain(&layout) {
        let twice = file.to_string_lossy().ends_with("_cc_profile.txt_cc_profile.txt");
        let hint = if twice {
            "; --layout takes the begin of the names, without _cc_profile.txt"
        } else {
            ""
        };
        beside::given::open(file).with_context(|| format!("{}{hint}", file.display()))?;
    }
    let functions: FunctionsOfObjects = functions_of_objects(build).context(
        "the objects with samples are looked for in a finished build; build once without a profile",
    )?;
    let Some(path) = &request.profile else {
        return Ok((make::variables(build, request, &functions, &BTreeMap::new())?, None));
    };
    let profile = sample_profile::read(path)?;
    // Before anything is written.
    let cc = args.make.compiler(&args.targets)?;
    let compared =
        sample_profile::compare(path, &profile.provenance, &cc, args.any_compiler, global)?;
    let samples = sample_profile::samples(&profile);
    let variables = make::variables(build, request, &functions, &samples)?;
    Ok((variables, Some(compared)))
}

/// What make did.
struct Made {
    compiled: u64,
    warnings: Vec<String>,
    seconds: f64,
}

/// Lines of make's output that an error shows.
const LAST_LINES: usize = 25;

fn run_make(words: &[String], command: &str, log: &Path, global: &Global) -> anyhow::Result<Made> {
    let began = std::time::Instant::now();
    let mut log_file = beside::fresh(log).with_context(|| log.display().to_string())?;
    writeln!(log_file, "$ {command}").with_context(|| log.display().to_string())?;
    // One stream, so that messages stand where they belong.
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec make \"$@\" 2>&1", "make"]).args(words);
    let mut child =
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot run make")?;
    let ticker = progress::Ticker::new("make", global.quiet);
    let mut made = Made { compiled: 0, warnings: Vec::new(), seconds: 0.0 };
    let mut last: VecDeque<String> = VecDeque::new();
    if let Some(out) = child.stdout.take() {
        for line in BufReader::new(out).split(b'\n') {
            let line = line.context("cannot read what make prints")?;
            let line = String::from_utf8_lossy(&line).into_owned();
            writeln!(log_file, "{line}").with_context(|| log.display().to_string())?;
            let word = line.split_whitespace().next().unwrap_or_default();
            made.compiled += u64::from(word == "CC" || word == "AS");
            if line.contains("warning:") {
                made.warnings.push(line.clone());
            }
            ticker.tell(&line);
            last.push_back(line);
            if last.len() > LAST_LINES {
                last.pop_front();
            }
        }
    }
    let status = child.wait().context("cannot wait for make")?;
    made.seconds = began.elapsed().as_secs_f64();
    drop(ticker);
    if !status.success() {
        let full = last.iter().any(|line| line.contains("No space left on device"));
        let next = if full {
            "the disk is full; make room and run this again"
        } else {
            "the whole output is in the log"
        };
        let tail = last.iter().map(|line| format!("  {line}\n")).collect::<String>();
        let failed = format!("make failed ({status}); {next}: {}\n{tail}", log.display());
        return Err(output::Lines(failed).into());
    }
    Ok(made)
}

fn object(
    command: &str,
    variables: &Variables,
    compared: Option<&Compared>,
    made: &Made,
    log: &Path,
) -> Value {
    let chosen = |chosen: &Option<Chosen>| {
        chosen.as_ref().map(|chosen| {
            json!({
                "objects": chosen.objects.len(),
                "of": chosen.of,
                "samples": chosen.samples,
                "samples_known": chosen.samples_known,
                "samples_held": chosen.samples_held,
            })
        })
    };
    json!({
        "schema": "planish-kernel-build",
        "version": 1,
        "command": command,
        "profiled": chosen(&variables.profiled),
        "laid_out": chosen(&variables.laid_out),
        "compiler": compared.map(Compared::object),
        "compiled": made.compiled,
        "warnings": made.warnings,
        "seconds": made.seconds,
        "log": log.display().to_string(),
    })
}

fn text(variables: &Variables, made: &Made, log: &Path) -> String {
    let mut lines = Vec::new();
    if let Some(chosen) = &variables.profiled {
        lines.push(format!(
            "profile: for {} of {} objects, with {:.2} % of the samples that belong to this \
             build; {:.1} % belong to none of its functions",
            chosen.objects.len(),
            chosen.of,
            100.0 * chosen.samples_held as f64 / chosen.samples_known.max(1) as f64,
            100.0 * (1.0 - chosen.known_share()),
        ));
    }
    if let Some(chosen) = &variables.laid_out {
        lines.push(format!(
            "layout: {} functions in {} of {} objects",
            chosen.samples_held,
            chosen.objects.len(),
            chosen.of
        ));
    }
    lines.push(format!(
        "make: {} files compiled in {:.0} s; {}",
        made.compiled,
        made.seconds,
        log.display()
    ));
    match made.warnings.as_slice() {
        [] => {}
        [first, ..] => lines.push(format!(
            "warning: make printed {} warnings; the first: {first}",
            made.warnings.len()
        )),
    }
    lines.join("\n") + "\n"
}
