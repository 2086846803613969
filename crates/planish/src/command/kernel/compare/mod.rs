//! `planish kernel compare`: what a change of flags, options or compilers does to a kernel, over random orders of its code.

mod measuring;
mod native;

use super::arch::{Arch, chosen};
use super::build::MakeArgs;
use super::machine::MachineArgs;
use crate::cli::{BAD_INPUT, Choice, FINE, Global};
use crate::command::INTERRUPTED;
use crate::command::compare::{Output, Told, concluded};
use crate::input;
use crate::output;
use crate::progress::Ticker;
use anyhow::bail;
use build::KernelTable;
use compare::{AnalysisOptions, gate};
use kernel::experiment::{Caches, Experiment, Form, Images, KernelVariant};
use kernel::machine::Initrd;
use measuring::Measuring;
use std::path::PathBuf;

/// Most random orders of a variant.
const MOST_ORDERS: i64 = 1000;
/// Orders of a variant where nothing is said.
const ORDERS: u32 = 8;

/// The counts that decide.
const METRIC: Choice<&str> = Choice(&[
    ("l1i-misses", "l1i-misses", "Lines of code that the first-level cache lacked"),
    ("taken-branches", "taken-branches", "Branches that were taken"),
    ("instructions", "instructions", "Instructions"),
    (
        "itlb-4k-misses",
        "itlb-4k-misses",
        "Pages of 4 KiB of code that the translation buffer lacked",
    ),
    ("itlb-2m-misses", "itlb-2m-misses", "Pages of 2 MiB of code that it lacked"),
    (
        "l1d-misses",
        "l1d-misses",
        "Lines of data that the first-level cache lacked; such boots take 1.6 times as long",
    ),
    (
        "dtlb-4k-misses",
        "dtlb-4k-misses",
        "Pages of 4 KiB of data that the translation buffer lacked, likewise",
    ),
]);

/// Build variants of a kernel, link each in random orders, and say what the change does, apart from layout luck.
///
/// Each variant is built in a directory of its own below --output-dir. Then vmlinux is linked again in --orders random
/// orders of its code and data, with everything that follows a link; no object is compiled for that. Every image boots
/// once on the deterministic machine, which counts: instructions, taken branches, misses of simulated caches. These are
/// no times. A difference counts if it is there on average over the orders; one that only the images as built have is
/// layout luck.
///
/// Functions are ordered one by one in trees that `planish kernel prepare` prepared (or Linux 6.13 and newer) and that
/// clang compiles; otherwise the code of object files is. gcc's objects are linked by lld too.
///
/// With --native, CPU times are measured, without KVM: each kernel is a process of this machine (the architecture um) that
/// runs a workload in its own threads, over sockets, pipes, files and memory, in --rounds rounds, in random order. It has one
/// CPU, and no system call entry, page faults, mitigations or devices: questions about those are refused.
///
/// What is there from an earlier call is not repeated: neither builds nor orders nor boots. With --format json it prints
/// what `planish compare` prints (planish-compare).
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel compare linux-6.12 --output-dir out --variant base \\
      --variant 'align32: KCFLAGS=-falign-functions=32'
  planish kernel compare linux-6.12 --output-dir out --orders 20 \\
      --metric taken-branches --html kernels.html \\
      --variant 'O2: CC=gcc' --variant 'O3: CC=gcc KCFLAGS=-O3'
  planish kernel compare linux-6.12 --output-dir out \\
      --variant base --variant 'smp: CONFIG_NR_CPUS=2'
  planish kernel compare linux-6.12 --output-dir out --project planish.toml
  planish kernel compare linux-6.12 --output-dir out --native \\
      --variant 'O3: KCFLAGS=-O3' --raw runs.jsonl

Exit codes: 0 fine, 1 a variant has more of what is counted (or a gate of
--fail-if is hit), 2 wrong usage or input, or a variant that does not build or
boot, 3 a compiler or an emulator is missing, 4 undecided whether one has more,
130 interrupted.")]
pub struct Args {
    /// The top directory of the Linux sources; nothing is built in it, and it must be clean [default: what
    /// planish.toml names]
    #[arg(value_name = "TREE")]
    tree: Option<PathBuf>,
    /// Take from this file what is not said here: [kernel] and [kernel.variants] [default without TREE: planish.toml]
    #[arg(long, value_name = "planish.toml")]
    project: Option<PathBuf>,
    /// Where to put everything that is made; a build of a small configuration takes 700 MB, an order 3 MB
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// A variant: its name, and after a colon options of the configuration (CONFIG_NAME=value) and
    /// variables of make (KCFLAGS=…, CC=gcc); the first is the base. Repeatable
    #[arg(long, value_name = "NAME[: WORDS]")]
    variant: Vec<String>,
    /// Random orders of each variant [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=MOST_ORDERS))]
    orders: Option<u32>,
    /// What decides; the other counts are shown beside it [default: l1i-misses]
    #[arg(long, value_parser = METRIC)]
    metric: Option<&'static str>,
    /// A simulated machine that everything is counted on: its name, and shapes of its caches (l1i, l2 and l1d as
    /// SIZE:WAYS, itlb4k, itlb2m and dtlb4k as ENTRIES:WAYS). Repeatable: each is a machine of the result
    #[arg(long, value_name = "NAME: PART=SHAPE …", conflicts_with = "native")]
    caches: Vec<Caches>,
    /// Measure CPU times of kernels that are processes, in place of counts under emulation
    #[arg(long, conflicts_with_all = ["metric", "initrd"])]
    native: bool,
    /// With --native: rounds, in each of which every image runs once, for a second or two [default: 5 with orders,
    /// 30 without]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: Option<u32>,
    /// With --native: sections of the workload, by name, or train, held or all, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", requires = "native")]
    sections: Option<String>,
    /// Build the variants in their orders, one is enough, and stop: what is measured later finds them there
    #[arg(long, conflicts_with_all = ["raw", "resume"])]
    build_only: bool,
    /// With --native: go on with the runs that the file of --raw holds
    #[arg(long, requires = "native", requires = "raw")]
    resume: bool,
    /// Differences within plus or minus this many per cent count as none [default: 1]
    #[arg(long, value_name = "PCT")]
    margin: Option<f64>,
    /// Build and measure all variants again with all functions aligned to these many bytes: does the difference
    /// vanish? Repeatable, for one machine alone
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096),
        conflicts_with_all = ["caches", "build_only", "resume"])]
    probe_align: Vec<u32>,
    /// The configuration that all variants begin with, in place of a small one. It must boot with a serial
    /// console and an initrd
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The processor that the kernels are for [default: what --config says, else x86-64]
    #[arg(long, value_enum, conflicts_with = "native")]
    arch: Option<Arch>,
    /// Boot this initrd in place of planish's workload; its init must keep to docs/reference/kernel.md
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,
    #[command(flatten)]
    make: MakeArgs,
    #[command(flatten)]
    machine: MachineArgs,
    /// Keep the counts as JSON lines, which `planish compare show` reads
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl Args {
    /// With what planish.toml says of the rest.
    fn with_project(&self) -> anyhow::Result<Args> {
        let mut args = self.clone();
        let file = match (&self.project, &self.tree) {
            (Some(file), _) => file.clone(),
            (None, None) => PathBuf::from("planish.toml"),
            (None, Some(_)) => return Ok(args),
        };
        let table = KernelTable::read(&file)?;
        let file = file.display();
        if args.variant.is_empty() {
            args.variant = table.lines();
        }
        if let Some(orders) = table.orders.filter(|orders| i64::from(*orders) > MOST_ORDERS) {
            bail!("{file}: [kernel] orders = {orders}: {MOST_ORDERS} are the most");
        }
        if let (None, Some(metric)) = (args.metric, &table.metric) {
            let known = METRIC.0.iter().find(|(name, ..)| name == metric);
            let Some((_, value, _)) = known else {
                let names: Vec<&str> = METRIC.0.iter().map(|(name, ..)| *name).collect();
                bail!("{file}: [kernel] metric = {metric:?}: take one of {}", names.join(", "));
            };
            args.metric = Some(value);
        }
        args.native |= table.native;
        args.rounds = args.rounds.or(table.rounds);
        args.tree = args.tree.or(table.tree);
        args.output_dir = args.output_dir.or(table.output_dir);
        args.orders = args.orders.or(table.orders);
        args.margin = args.margin.or(table.margin);
        args.config = args.config.or(table.config);
        args.initrd = args.initrd.or(table.initrd);
        Ok(args)
    }
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let args = &args.with_project()?;
    let missing = |what: &str, key: &str| {
        anyhow::anyhow!(
            "say {what}, or name it in planish.toml ({key} in [kernel]; --project FILE)"
        )
    };
    let tree = args.tree.as_ref().ok_or_else(|| missing("which TREE is built", "tree"))?;
    let output_dir = args.output_dir.as_ref();
    let output_dir = output_dir.ok_or_else(|| missing("--output-dir DIR", "output_dir"))?;
    if args.variant.is_empty() {
        bail!("nothing is compared; give a --variant, or [kernel.variants] in planish.toml");
    }
    if let Some(margin) = args.margin.filter(|margin| !(*margin > 0.0 && *margin < 100.0)) {
        bail!("--margin {margin}: give a percentage between 0 and 100");
    }
    let gates = gate::parse(&args.output.fail_if)?;
    let variants = variants(&args.variant, args.build_only)?;
    let read = args.config.iter().chain(&args.initrd).map(PathBuf::as_path);
    output::refuse_inputs(args.raw.iter().map(PathBuf::as_path), read)?;
    let begin = args.config.as_ref().map(|path| input::read_to_string(path)).transpose()?;
    let orders = args.orders.unwrap_or(ORDERS);
    let architecture = chosen(args.arch, args.config.as_deref().zip(begin.as_deref()))?;
    let form = if args.native { Form::Process } else { Form::Image(architecture) };
    if let Some(why) = variants.iter().find_map(|variant| form.refused(variant)) {
        bail!("{why}");
    }
    if args.native && (args.metric.is_some() || args.initrd.is_some()) {
        bail!(
            "metric and initrd have no meaning for --native, which measures CPU times with a workload of its own"
        );
    }
    if let (false, Some(rounds)) = (args.native, args.rounds) {
        bail!("--rounds {rounds}: counts are the same in each round; times have rounds (--native)");
    }
    for (at, caches) in args.caches.iter().enumerate() {
        if args.caches.iter().take(at).any(|other| other.name == caches.name) {
            bail!("--caches {}: two machines have this name", caches.name);
        }
    }
    // Told before an hour of building; kernels that are processes have the workload in them.
    let initrd = match form {
        Form::Process => None,
        Form::Image(architecture) => Some(Initrd::of(args.initrd.as_deref(), architecture)?),
    };
    let aligned = |&bytes: &u32| {
        let all: Result<Vec<_>, _> =
            variants.iter().map(|variant| variant.aligned(bytes)).collect();
        all.map(|all| (bytes, all))
    };
    let aligned = args.probe_align.iter().map(aligned).collect::<Result<Vec<_>, _>>()?;
    let experiment = Experiment::open(tree, output_dir, begin, args.make.make(), orders, form)?;
    let mut failed = Vec::new();
    if args.build_only {
        built(&experiment, variants, &mut failed, global)?;
        return Ok(if failed.is_empty() { FINE } else { BAD_INPUT });
    }
    let measuring = Measuring {
        args,
        experiment: &experiment,
        initrd: initrd.as_ref(),
        architecture,
        kept: &output_dir.join("counts"),
        margin: args.margin.map(|per_cent| per_cent / 100.0),
        options: AnalysisOptions {
            correction: args.output.correct,
            among: args.output.among.unwrap_or(0) as usize,
            ..AnalysisOptions::default()
        },
        global,
    };
    let Some(mut measured) = measuring.all(variants, "", args.raw.as_deref(), &mut failed)? else {
        return Ok(INTERRUPTED);
    };
    for aligned in aligned {
        if !measuring.probe(aligned, &mut measured, &mut failed) {
            return Ok(INTERRUPTED);
        }
    }
    let told = Told { analysis: measured.analysis, raw: measured.raw };
    let code = concluded(told, &args.output, &gates, global)?;
    // The others were compared and told, but a kernel that fails is no fine end.
    Ok(if failed.is_empty() || code == INTERRUPTED { code } else { BAD_INPUT })
}

/// The variants, the base first: one without words, which is put before others where there is none.
fn variants(given: &[String], build_only: bool) -> anyhow::Result<Vec<KernelVariant>> {
    let mut variants: Vec<KernelVariant> = Vec::new();
    for text in given {
        let (name, words) = text.split_once(':').unwrap_or((text, ""));
        let words = match words.trim() {
            "" => Ok(Vec::new()),
            words => build::split_words(words),
        };
        let words = words.map_err(|why| anyhow::anyhow!("--variant '{text}': {why}"))?;
        let variant = KernelVariant::of(name.trim(), &words)?;
        if variants.iter().any(|other| other.name == variant.name) {
            bail!("--variant {}: two variants have this name", variant.name);
        }
        variants.push(variant);
    }
    if variants.len() == 1 && !build_only {
        if variants.first().is_some_and(|one| one.name == "base") {
            bail!("there is nothing to compare with the base; give another --variant");
        }
        variants.insert(0, KernelVariant::of("base", &[])?);
    }
    Ok(variants)
}

/// Builds the variants; those that cannot be built are told of, unless it is the base.
fn built(
    experiment: &Experiment,
    variants: Vec<KernelVariant>,
    failed: &mut Vec<String>,
    global: &Global,
) -> anyhow::Result<Vec<(KernelVariant, Images)>> {
    let mut built = Vec::new();
    for (number, variant) in variants.into_iter().enumerate() {
        let began = std::time::Instant::now();
        let ticker = Ticker::new(&variant.name, global.quiet);
        let made = experiment.build(&variant, &mut |order, line| match order {
            0 => ticker.tell(line),
            order => ticker.tell(&format!("order {order}: {line}")),
        });
        drop(ticker);
        match made {
            Ok(images) => {
                if !global.quiet {
                    eprintln!(
                        "{}: {} compiled, {} images, {:.0} s",
                        variant.name,
                        images.compiled,
                        images.images.len(),
                        began.elapsed().as_secs_f64()
                    );
                }
                built.push((variant, images));
            }
            Err(error) if number > 0 => stopped(&variant.name, &error.into(), failed),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(built)
}

fn stopped(name: &str, error: &anyhow::Error, failed: &mut Vec<String>) {
    eprintln!("planish: {name} is left out: {error:#}");
    failed.push(name.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_of_the_library_can_decide() {
        let named: Vec<&str> = METRIC.0.iter().map(|(name, ..)| *name).collect();
        let known: Vec<&str> = kernel::experiment::FIGURES.iter().map(|(name, _)| *name).collect();
        assert_eq!(named, known);
        assert!(METRIC.0.iter().all(|(name, value, _)| name == value));
    }
}
