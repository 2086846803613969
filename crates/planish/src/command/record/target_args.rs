//! The options of `planish record` that say who is recorded.

use record::live::{self, Target};
use record::settings::Wrong;

/// Who is recorded.
#[derive(Debug, clap::Args)]
pub struct TargetArgs {
    /// Attach to running processes, until they end, the command ends, or you press Ctrl-C
    #[arg(short, long, value_name = "PID", value_delimiter = ',', group = "who",
          value_parser = |text: &str| number_of(text, "process"))]
    pid: Vec<i32>,
    /// Attach to these threads only, not to what they start
    #[arg(short, long, value_name = "TID", value_delimiter = ',', group = "who",
          value_parser = |text: &str| number_of(text, "thread"))]
    tid: Vec<i32>,
    /// Attach to the running processes of a user, by name or number
    #[arg(short, long = "uid", value_name = "USER", group = "who", value_parser = user)]
    uid: Option<u32>,
    /// Cover the whole system, until the command ends or you press Ctrl-C
    #[arg(short, long = "all-cpus", group = "who")]
    all_cpus: bool,
    /// Cover everything that runs on these CPUs: `0-3,8`
    #[arg(short = 'C', long = "cpu", value_name = "CPULIST", conflicts_with_all = ["pid", "tid", "uid"])]
    cpus: Option<String>,
    /// Restrict -a or -C to these control groups: one for all events, or one for each event in order;
    /// an empty name is the whole system
    #[arg(short = 'G', long = "cgroup", value_name = "NAME", value_delimiter = ',')]
    pub cgroups: Vec<String>,
}

fn number_of(text: &str, what: &str) -> Result<i32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| {
        format!("expected the number of a running {what}, or several with commas between them")
    })
}

/// A user by number or name.
fn user(text: &str) -> Result<u32, String> {
    let unknown = || "it is no number, and /etc/passwd has no user of that name".to_owned();
    live::user(text).ok_or_else(unknown)
}

impl TargetArgs {
    /// The same as a value.
    pub fn target(&self) -> Target {
        Target::of(self.all_cpus || self.cpus.is_some(), self.uid, &self.tid, &self.pid)
    }

    /// The CPUs named; none where all are meant.
    pub fn cpus(&self) -> Result<Vec<i32>, Wrong> {
        Ok(self.cpus.as_deref().map(live::cpu_list).transpose()?.unwrap_or_default())
    }
}
