//! `planish top`: where what runs spends its time, now.

mod live;

use super::record::TargetArgs;
use super::report::BY;
use super::viewing::{self, Answers};
use crate::cli::{FINE, Format, Global};
use crate::command::percent::percent_of_all;
use crate::output;
use calltrees::rows::By;
use calltrees::{FunctionId, Recorded};
use live::{Live, Sum};
use record::live::{Branches, Rate, RecordOptions, Sampling, Target};
use record::settings::{CallGraph, RingPages};
use record::streaming::{Compression, Streaming};
use record::{Stdout, Workload};
use report::calls::{self as tell, Selected};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::time::{Duration, Instant};
use viewer::{Lines, View, Viewer};

/// Show where the system, processes or a command spend their time, while they run.
///
/// planish adds up the samples of the last seconds (--window) and shows them on the terminal, anew
/// every second (--delay), with the keys of `planish report -i`. It writes no file. Without a command
/// or a target such as -p, it shows the whole system, which needs root, CAP_PERFMON, or
/// kernel.perf_event_paranoid at 0 or below. When you quit, the command ends too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish top
  planish top -g -p $(pidof server)
  planish top -e cache-misses -- ./app input.txt
  planish top -a --once --limit 10 --format json")]
pub struct Args {
    #[command(flatten)]
    who: TargetArgs,
    /// What to sample, as in `planish record -e`; repeatable [default: cpu-clock]
    #[arg(short = 'e', long = "event", value_name = "EVENT")]
    events: Vec<String>,
    /// Take this many samples a second
    #[arg(short = 'F', long = "freq", value_name = "HERTZ", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    frequency: u64,
    /// Find callers by frame pointers, for totals, callers, callees and the tree
    #[arg(short = 'g')]
    callers: bool,
    /// Seconds between two updates
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    delay: u64,
    /// Add up the samples of this many seconds, rounded up to a multiple of --delay
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    window: u64,
    /// What the rows are about; line and cgroup need a recording [default: function]
    #[arg(long, value_parser = BY)]
    by: Option<By>,
    /// Print this many snapshots, one after each --delay, instead of showing them on the terminal
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    batch: Option<u64>,
    /// Print one snapshot and end; the same as --batch 1
    #[arg(long, conflicts_with = "batch")]
    once: bool,
    /// With --batch or --once: print at most this many lines of each snapshot; 0: all
    #[arg(long, value_name = "N", default_value_t = 40, allow_negative_numbers = true)]
    limit: usize,
    /// Leave out what makes up less than this percentage of the whole
    #[arg(long, value_name = "PERCENT", value_parser = percent_of_all, default_value = "0.5")]
    percent: f64,
    /// Output format (with --batch or --once); json has one line for each snapshot
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The command and its arguments; put planish's own options before it; you may put `--` between
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    if args.by.is_some_and(of_recordings_only) {
        anyhow::bail!(
            "--by: planish top tells neither lines nor control groups; record with planish record, \
             and ask planish report hot"
        );
    }
    let looks = args.batch.or(args.once.then_some(1));
    if looks.is_none() {
        if args.format == Format::Json {
            anyhow::bail!("--format json prints: say how often with --batch N or --once");
        }
        viewing::check()?;
    }
    super::handle_interrupts();
    let target = match args.who.target() {
        Target::Command if args.command.is_empty() => Target::System,
        target => target,
    };
    let stdout = if looks.is_some() { Stdout::ToStderr } else { Stdout::Silent };
    let command = (!args.command.is_empty())
        .then(|| Workload { stdout, ..Workload::new(args.command.iter()) });
    let title = title(&target, &args.command);
    let live = Live::start(target, command, args.options()?, args.parts())?;
    let mut shown = Shown { live, delay: Duration::from_secs(args.delay), window: args.window };
    let done = match looks {
        Some(looks) => args.print(&mut shown, looks),
        None => args.show(&mut shown, title),
    };
    let by_itself = shown.live.has_ended();
    // What it was asked to record is ended also where it could not be shown.
    let ended = shown.live.stop();
    done?;
    let ending = ended?;
    if !global.quiet {
        if let Some(ending) = ending.filter(|_| by_itself) {
            eprintln!("note: {ending}");
        }
        let sum = shown.live.sum;
        let notes = [(sum.lost, "lost by the kernel"), (sum.dropped, "dropped for want of room")];
        for (count, what) in notes.into_iter().filter(|(count, _)| *count > 0) {
            eprintln!("note: {} {what}", report::counted(count, "record was", "records were"));
        }
    }
    Ok(FINE)
}

/// Whether rows of that kind are not read of what runs.
fn of_recordings_only(by: By) -> bool {
    matches!(by, By::Line | By::Cgroup)
}

fn title(target: &Target, command: &[OsString]) -> String {
    let numbers = |ids: &[i32]| ids.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
    match target {
        Target::Command => {
            let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
            words.join(" ")
        }
        Target::Processes(pids) => format!("process {}", numbers(pids)),
        Target::Threads(tids) => format!("thread {}", numbers(tids)),
        Target::User(user) => format!("user {user}"),
        Target::System => "the system".to_owned(),
    }
}

impl Args {
    /// How the kernel is to sample.
    fn options(&self) -> anyhow::Result<RecordOptions> {
        /// A ring of 1 MiB holds more than a second of the highest rate with callers.
        const RING: RingPages = RingPages(256);
        Ok(RecordOptions {
            branches: Branches::None,
            rate: Some(Rate::Frequency(self.frequency)),
            events: self.events.clone(),
            sampling: Sampling {
                call_graph: self.callers.then_some(CallGraph::FramePointers),
                ..Sampling::default()
            },
            cpus: self.who.cpus()?,
            cgroups: self.who.cgroups.clone(),
            streaming: Streaming {
                ring: Some(RING),
                compression: Compression::Off,
                ..Streaming::default()
            },
        })
    }

    /// Of how many looks samples are added up.
    fn parts(&self) -> usize {
        usize::try_from(self.window.div_ceil(self.delay)).unwrap_or(1).max(1)
    }

    fn show(&self, shown: &mut Shown, title: String) -> anyhow::Result<()> {
        let mut setup = viewing::setup(format!("top: {title}"), Vec::new(), self.percent);
        setup.live = true;
        // What these tell is not read of what runs.
        setup.by.retain(|(_, by)| !of_recordings_only(*by));
        let recorded = shown.live.recorded();
        let mut viewer = Viewer::new(setup, recorded, 0, View::Hot, None);
        viewer.say("waiting for the first samples …");
        let word = self.by.and_then(|by| BY.0.iter().find(|(_, one, _)| *one == by));
        word.into_iter().for_each(|(word, ..)| viewer.begin_by(word));
        viewing::show(&mut viewer, shown)
    }

    /// Prints looks until there are so many, or what is looked at ends.
    fn print(&self, shown: &mut Shown, looks: u64) -> anyhow::Result<()> {
        for look in 0..looks {
            let until = Instant::now() + shown.delay;
            while Instant::now() < until && !shown.live.has_ended() {
                std::thread::sleep(Duration::from_millis(20));
            }
            let over = shown.live.has_ended();
            shown.live.look()?;
            let (recorded, sum) = (shown.live.recorded(), shown.live.sum);
            match self.format {
                Format::Text => {
                    if look > 0 {
                        output::print("\n")?;
                    }
                    output::print(&self.text(&recorded))?;
                }
                Format::Json => {
                    let line = serde_json::to_string(&self.json(&recorded, sum))? + "\n";
                    output::print(&report::json(&line))?;
                }
            }
            if over {
                break;
            }
        }
        Ok(())
    }

    fn selected<'r>(&self, recorded: &'r Recorded) -> Option<Selected<'r>> {
        let event = tell::event_of(recorded, None).ok()?;
        Some(Selected { recorded, event, limit: self.limit, percent: self.percent })
    }

    fn text(&self, recorded: &Recorded) -> String {
        match self.selected(recorded) {
            Some(selected) => tell::hot_text(&selected, self.by.unwrap_or_default()),
            None => format!("no samples in the time shown (at most the last {} s)\n", self.window),
        }
    }

    fn json(&self, recorded: &Recorded, sum: Sum) -> Value {
        let by = self.by.unwrap_or_default();
        let mut object = match self.selected(recorded) {
            Some(selected) => tell::hot_json(&selected, by),
            None => json!({ "samples": 0, "weight": 0, "rows": [] }),
        };
        object["schema"] = json!("planish-top");
        object["version"] = json!(1);
        object["window_s"] = json!(self.window);
        object["lost"] = json!(sum.lost);
        object["dropped"] = json!(sum.dropped);
        object
    }
}

/// What runs, looked at again and again.
struct Shown {
    live: Live,
    delay: Duration,
    /// In seconds.
    window: u64,
}

impl Answers for Shown {
    fn lines(&mut self, _: &Recorded, _: FunctionId, _: u32) -> Result<Lines, String> {
        Err("lines are told of recordings: planish record -p PID, then planish report -i"
            .to_owned())
    }

    fn time(&mut self, _: &str) -> Result<Recorded, String> {
        Err("only recordings have parts of the time".to_owned())
    }

    fn clear(&mut self) {
        self.live.clear();
    }

    fn fresh(&mut self) -> Option<(Recorded, String)> {
        let mut said = match self.live.look() {
            Ok(samples) => {
                format!("{samples} samples since the last look, {} s in all", self.window)
            }
            Err(error) => format!("{error:#}"),
        };
        let sum = self.live.sum;
        if sum.lost > 0 {
            said += &format!("; {} lost", report::count(sum.lost));
        }
        if sum.dropped > 0 {
            said += &format!("; {} dropped for want of room", report::count(sum.dropped));
        }
        if self.live.has_ended() {
            said += "; it has ended, q quits";
        }
        Some((self.live.recorded(), said))
    }

    fn is_over(&self) -> bool {
        self.live.has_ended() && record::live::asked_to_end()
    }

    fn pause(&self) -> Option<Duration> {
        Some(self.delay)
    }
}
