//! The options of `planish record` that say who is recorded.

use record::live::{Target, cpu_list};
use record::settings::Wrong;

/// Who is recorded.
#[derive(Debug, clap::Args)]
pub struct TargetArgs {
    /// Record running processes, until they end, the command ends, or Ctrl-C
    #[arg(short, long, value_name = "PID", value_delimiter = ',', group = "who", value_parser = process)]
    pid: Vec<i32>,
    /// Record these threads alone, without what they start
    #[arg(short, long, value_name = "TID", value_delimiter = ',', group = "who", value_parser = thread)]
    tid: Vec<i32>,
    /// Record the running processes of a user, by name or number
    #[arg(short, long = "uid", value_name = "USER", group = "who", value_parser = user)]
    uid: Option<u32>,
    /// Record the whole system, until the command ends, or Ctrl-C
    #[arg(short, long = "all-cpus", group = "who")]
    all_cpus: bool,
    /// Record everything on these CPUs: `0-3,8`
    #[arg(short = 'C', long = "cpu", value_name = "CPULIST", conflicts_with_all = ["pid", "tid", "uid"])]
    cpus: Option<String>,
    /// Record these control groups alone (with -a or -C): one for all events, or one for each
    /// event in their order; an empty name is the whole system
    #[arg(short = 'G', long = "cgroup", value_name = "NAME", value_delimiter = ',')]
    pub cgroups: Vec<String>,
}

fn number_of(text: &str, what: &str) -> Result<i32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| {
        format!("expected the number of a running {what}, or several with commas between them")
    })
}

/// A process by number.
fn process(text: &str) -> Result<i32, String> {
    number_of(text, "process")
}

/// A thread by number.
fn thread(text: &str) -> Result<i32, String> {
    number_of(text, "thread")
}

/// A user by number or by the name in /etc/passwd.
fn user(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let number = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(text)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    number.ok_or_else(|| "it is no number, and /etc/passwd has no user of that name".to_owned())
}

impl TargetArgs {
    /// The same as a value.
    pub fn target(&self) -> Target {
        if self.all_cpus || self.cpus.is_some() {
            Target::System
        } else if let Some(user) = self.uid {
            Target::User(user)
        } else if !self.tid.is_empty() {
            Target::Threads(self.tid.clone())
        } else if self.pid.is_empty() {
            Target::Command
        } else {
            Target::Processes(self.pid.clone())
        }
    }

    /// The CPUs named; none where all are meant.
    pub fn cpus(&self) -> Result<Vec<i32>, Wrong> {
        Ok(self.cpus.as_deref().map(cpu_list).transpose()?.unwrap_or_default())
    }
}
