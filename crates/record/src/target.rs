//! Whom to record, and which threads and processes that are now.

use crate::Error;
use crate::options::Scope;
use crate::processes::{process_of, processes, processes_of, threads};
use std::collections::BTreeSet;

/// What to record.
#[derive(Clone, Debug)]
pub enum Target {
    /// The command, its threads and its children.
    Command,
    /// Running processes, all their threads, and what they start; while the command runs, if there
    /// is one.
    Processes(Vec<i32>),
    /// Running threads, and not what they start; while the command runs, if there is one.
    Threads(Vec<i32>),
    /// The running processes of a user, by number, and what they start; while the command runs, if
    /// there is one.
    User(u32),
    /// Everything, on the CPUs of the options; while the command runs, if there is one.
    System,
}

/// The number of a user, who is named by it or by the name in /etc/passwd.
pub fn user(text: &str) -> Option<u32> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(text)).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

impl Target {
    /// What is meant by what was given: the system, a user, threads, processes, else the command.
    pub fn of(system: bool, user: Option<u32>, tids: &[i32], pids: &[i32]) -> Target {
        match (system, user) {
            (true, _) => Target::System,
            (false, Some(user)) => Target::User(user),
            _ if !tids.is_empty() => Target::Threads(tids.to_vec()),
            _ if !pids.is_empty() => Target::Processes(pids.to_vec()),
            _ => Target::Command,
        }
    }

    pub(crate) fn scope(&self) -> Scope {
        match self {
            Target::Command => Scope::Command,
            Target::Processes(_) | Target::Threads(_) | Target::User(_) => Scope::Attached,
            Target::System => Scope::Cpus,
        }
    }

    /// The running threads that it names; none where it names none.
    pub(crate) fn tids(&self) -> Vec<i32> {
        match self {
            Target::Processes(pids) => pids.iter().copied().flat_map(threads).collect(),
            Target::Threads(tids) => {
                tids.iter().copied().filter(|tid| process_of(*tid).is_some()).collect()
            }
            Target::User(user) => processes_of(*user).into_iter().flat_map(threads).collect(),
            Target::Command | Target::System => Vec::new(),
        }
    }

    /// The processes that may be recorded and exist already.
    pub(crate) fn processes(&self) -> Vec<i32> {
        match self {
            Target::Command => Vec::new(),
            Target::Processes(pids) => pids.clone(),
            Target::Threads(tids) => {
                let pids: BTreeSet<i32> = tids.iter().copied().filter_map(process_of).collect();
                pids.into_iter().collect()
            }
            Target::User(user) => processes_of(*user),
            Target::System => processes(),
        }
    }

    /// The first that it names of the processes or threads that do not exist.
    pub(crate) fn gone(&self) -> Option<Error> {
        let gone = self.named().iter().copied().find(|id| process_of(*id).is_none())?;
        Some(match self {
            Target::Threads(_) => Error::NoThread { tid: gone },
            _ => Error::NoProcess { pid: gone },
        })
    }

    fn named(&self) -> &[i32] {
        match self {
            Target::Processes(ids) | Target::Threads(ids) => ids,
            Target::Command | Target::User(_) | Target::System => &[],
        }
    }

    /// Refuses a process of another user, which no setting of perf's makes recordable.
    pub(crate) fn foreign(&self) -> Option<Error> {
        use std::os::unix::fs::MetadataExt;
        let own = crate::sys::effective_user();
        let refused = |event: String, owner: u32| Error::Refused {
            event,
            reason: format!(
                "it belongs to user {owner}, and you are user {own}; run as that user, as root, or \
             with CAP_PERFMON and CAP_SYS_PTRACE"
            ),
        };
        let foreign = |owner: u32| own != 0 && owner != own;
        if let Target::User(user) = self {
            let first = processes_of(*user).into_iter().find(|_| foreign(*user))?;
            return Some(refused(format!("process {first}"), *user));
        }
        let kind = if matches!(self, Target::Threads(_)) { "thread" } else { "process" };
        self.named().iter().find_map(|id| {
            let owner = std::fs::metadata(format!("/proc/{id}")).ok()?.uid();
            foreign(owner).then(|| refused(format!("{kind} {id}"), owner))
        })
    }
}
