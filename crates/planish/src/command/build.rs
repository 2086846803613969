//! `planish build`: builds the program of planish.toml, with or without a profile, or checks a
//! build that used one.

use super::INTERRUPTED;
use crate::cli::{FINE, Format, Global};
use crate::output;
use anyhow::{Context, bail};
use build::config::Branches;
use build::optimization::Alternative;
use build::plan::{self, Files};
use build::target::{Knowledge, LayoutFiles, Target, build_step};
use build::toolchain::Toolchain;
use build::verified::Verified;
use build::{Config, Plan, Rust};
use image::Image;
use programs::Surroundings;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Build a program as planish.toml says, with or without a profile.
///
/// With --verify nothing is built: it is checked that BINARY could use the profile (build IDs and
/// code differ from the baseline's, and the profile's functions are there).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration
    #[arg(value_name = "planish.toml", default_value = "planish.toml")]
    pub config: PathBuf,
    /// Use this profile
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Relink in the layout that `planish layout --prefix PREFIX` wrote; objects of the last rebuild
    /// that it says nothing about are reused [profile by default: that of the last rebuild]
    #[arg(long, value_name = "PREFIX", conflicts_with = "verify")]
    pub layout: Option<PathBuf>,
    /// Where to put the program [default: .planish/NAME.base, with a profile .planish/NAME.opt,
    /// with a layout .planish/NAME.layout]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the step, run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Check a build instead
    #[arg(long, requires_all = ["binary", "baseline", "profile"])]
    pub verify: bool,
    /// The rebuilt program (with --verify)
    #[arg(long, value_name = "FILE", requires = "verify")]
    pub binary: Option<PathBuf>,
    /// The program the profile was recorded on (with --verify)
    #[arg(long, value_name = "FILE", requires = "verify")]
    pub baseline: Option<PathBuf>,
    /// How to print what --verify finds
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Runs the command.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    if let (true, Some(binary), Some(baseline), Some(profile)) =
        (args.verify, &args.binary, &args.baseline, &args.profile)
    {
        return check(binary, baseline, profile, args.format, global);
    }
    let project = Project::open(&args.config, Asking::of(args.dry_run))?;
    let files = Files::of(&project.config);
    let given = args.profile.as_ref().map(|p| absolute(p)).transpose()?;
    if let Some(path) = &args.profile {
        // The compiler reads it, once for each file.
        crate::input::regular(path)?;
    }
    let layout = args.layout.as_ref().map(|p| layout_files(p)).transpose()?;
    let profile = given.or_else(|| layout.as_ref().map(|_| plan::last_profile(&project.config)));
    let (name, default) = match (&layout, &profile) {
        (Some(_), _) => ("relink", files.program("layout")),
        (None, Some(_)) => ("rebuild", files.opt),
        (None, None) => ("build", files.base),
    };
    let kept = args.output.as_ref().map(|p| absolute(p)).transpose()?.unwrap_or(default);
    // A baseline is built to be recorded, which would be for nothing.
    project.rust.check(&project.tools)?;
    let knowledge = profile.as_deref().map_or(Knowledge::None, Knowledge::Profile);
    let reuses = layout.is_some() || profile.is_some() && project.config.optimize.lays_out();
    let target =
        Target { reuses, layout: layout.as_ref(), ..Target::plain(name, knowledge, &kept) };
    let mut step = build_step(&project.config, &project.tools, &project.directory, target)?;
    step.not_inputs.push(project.file.clone().into());
    let plan = Plan { steps: vec![step] };
    if args.dry_run {
        print!("{}", plan.describe(|_| String::new()));
        return Ok(FINE);
    }
    if !super::optimize::execute(&plan, &project, false, global)? {
        return Ok(INTERRUPTED);
    }
    if !global.quiet {
        eprintln!("wrote {}", project.directory.join(&kept).display());
    }
    Ok(FINE)
}

/// The files of a layout, which must be there.
fn layout_files(prefix: &Path) -> anyhow::Result<LayoutFiles> {
    let files = LayoutFiles::of(&absolute(prefix)?);
    for file in [&files.cc_profile, &files.ld_profile] {
        if !file.is_file() {
            bail!(
                "{}: there is no such file; `planish layout --prefix {}` writes it",
                file.display(),
                prefix.display()
            );
        }
    }
    Ok(files)
}

/// The path without `..` and links in its directories, so that it is the same from wherever it is
/// named.
fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    let full = std::path::absolute(path).with_context(|| path.display().to_string())?;
    let (Some(directory), Some(name)) = (full.parent(), full.file_name()) else { return Ok(full) };
    let directory = directory.canonicalize().with_context(|| directory.display().to_string())?;
    Ok(directory.join(name))
}

/// A planish.toml with its surroundings.
pub struct Project {
    /// What it says.
    pub config: Config,
    /// Its absolute directory.
    pub directory: PathBuf,
    /// Its name there.
    pub file: String,
    /// The compilers it asks for.
    pub tools: Toolchain,
    /// What its build command says of rustc.
    pub rust: Rust,
}

impl Project {
    /// Opens a configuration; a directory stands for the planish.toml in it.
    pub fn open(path: &Path, asking: Asking) -> anyhow::Result<Project> {
        let path = if path.is_dir() { path.join("planish.toml") } else { path.to_owned() };
        let mut config = Config::read(&path)?;
        // Without it, how long the training takes decides when it runs.
        if config.record.branches == Branches::Auto && cpu_records_branches() {
            config.record.branches = Branches::Hardware;
        }
        let mut tools = Toolchain::find(&config.build, &std::env::var("PATH").unwrap_or_default())?;
        let full = absolute(&path)?;
        let (Some(directory), Some(file)) = (full.parent(), full.file_name()) else {
            bail!("{}: not a file", path.display());
        };
        let probes = Probes::new(asking, directory);
        probes.tell();
        if config.optimize.also.contains(&Alternative::Pgo) {
            tools.no_counters = missing_counters(&probes, &tools.cc);
        }
        config.check_paths(directory, &path)?;
        let rust = Rust::of(&config.build, directory);
        // A compiler that the project names is not the one that answers here.
        tools.rust_takes_z = rust.takes_z || rust_takes_z(&probes);
        if let Err(error) = compare::Metric::parse(&config.evaluate.metric) {
            bail!("{}: [evaluate] {error}", path.display());
        }
        Ok(Project {
            config,
            directory: directory.to_owned(),
            file: file.to_string_lossy().into_owned(),
            tools,
            rust,
        })
    }
}

/// Whether the kernel offers the CPU's branch stacks: it says their depth (Intel LBR, AMD LBRv2,
/// Arm BRBE).
fn cpu_records_branches() -> bool {
    ["cpu", "cpu_core", "armv8_pmuv3_0"].iter().any(|pmu| {
        let path = format!("/sys/bus/event_source/devices/{pmu}/caps/branches");
        std::fs::read_to_string(path)
            .is_ok_and(|depth| depth.trim().parse::<u32>().is_ok_and(|n| n > 0))
    })
}

/// What a project is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// To be looked at: nothing that it names or holds is run.
    Reading,
    /// To be built: its own commands run anyway, and its toolchain is the one that counts.
    Running,
}

impl Asking {
    /// By `--dry-run`.
    pub fn of(dry_run: bool) -> Asking {
        if dry_run { Asking::Reading } else { Asking::Running }
    }
}

/// Asks the compilers of a project.
struct Probes<'a> {
    asking: Asking,
    directory: &'a Path,
    around: Surroundings,
}

impl<'a> Probes<'a> {
    fn new(asking: Asking, directory: &'a Path) -> Probes<'a> {
        let around = match asking {
            Asking::Reading => Surroundings::around(directory),
            Asking::Running => Surroundings::running(),
        };
        Probes { asking, directory, around }
    }

    /// Says what a run may find that was not looked at.
    fn tell(&self) {
        if self.asking == Asking::Running {
            return;
        }
        let names = ["rust-toolchain.toml", "rust-toolchain"];
        let mut files = self.directory.ancestors().flat_map(|at| names.map(|name| at.join(name)));
        if let Some(file) = files.find(|file| file.symlink_metadata().is_ok()) {
            eprintln!(
                "planish: note: {}: not obeyed here, since it can name a program; a run asks the \
                 rustc that it names",
                file.display()
            );
        }
        let left_out: Vec<String> =
            self.around.left_out().iter().map(ToString::to_string).collect();
        if !left_out.is_empty() {
            eprintln!("planish: note: PATH: nothing is asked in {}", left_out.join(", "));
        }
    }

    /// What a compiler answers; none where it is not there, or where only the project's own word
    /// stands for it.
    fn output(&self, program: &str, arguments: &[&str]) -> Option<std::process::Output> {
        let mut command = match self.asking {
            Asking::Reading => self.around.ask(&self.around.find(program)?),
            Asking::Running => {
                let mut command = std::process::Command::new(program);
                command.current_dir(self.directory).stdin(std::process::Stdio::null());
                command
            }
        };
        command.args(arguments).output().ok()
    }
}

/// Sample profiles are handed to rustc with `-Z`, which nightly builds take, and others with
/// RUSTC_BOOTSTRAP=1.
fn rust_takes_z(probes: &Probes<'_>) -> bool {
    probes.output("rustc", &["-Zhelp"]).is_some_and(|said| said.status.success())
}

/// The library that clang would link an instrumented program with, where it is not there. Debian
/// packs it apart.
fn missing_counters(probes: &Probes<'_>, cc: &str) -> Option<PathBuf> {
    let said =
        probes.output(cc, &["-fprofile-generate", "-###", "-x", "c", "/dev/null", "-o", "-"])?;
    let said = String::from_utf8_lossy(&said.stderr);
    let libraries = said.split_whitespace().map(|word| PathBuf::from(word.trim_matches('"')));
    let is_library = |path: &PathBuf| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with("libclang_rt.profile"))
    };
    libraries.filter(is_library).find(|path| !path.is_file())
}

fn check(
    binary: &Path,
    baseline: &Path,
    profile: &Path,
    format: Format,
    global: &Global,
) -> anyhow::Result<u8> {
    let (base, opt) = (Image::open(baseline)?, Image::open(binary)?);
    let bytes = crate::input::read(profile)?;
    let found = Verified::of(&base, &opt, (profile, &bytes), global.threads())?;
    let mut out = output::text();
    match format {
        Format::Json => output::print_json(&found)?,
        Format::Text => {
            let m = &found.matched;
            let pct = report::pct(m.share());
            writeln!(
                out,
                "{} of {} functions (inlined ones too), {pct} of the samples match names that the \
                 compiler knows; {}",
                m.functions_matched,
                m.functions,
                found.evidence.words()
            )?;
        }
    }
    if found.base_build_id.is_none() && !global.quiet {
        eprintln!(
            "warning: the baseline has no build ID; link with -Wl,--build-id (PLANISH_LDFLAGS \
             holds it)"
        );
    }
    if let (Some(stale), false) = (found.evidence.stale(), global.quiet) {
        eprintln!("warning: {stale}");
    }
    if let (Some(cause), false) = (&found.matched.cause, global.quiet) {
        let missing = report::pct(1.0 - found.matched.share());
        eprintln!(
            "warning: {missing} of the profile's samples have names that the rebuild's compiler \
             does not know. Likely cause: {cause}"
        );
    }
    Ok(FINE)
}
