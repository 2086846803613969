//! Whether the file descriptors of all events fit into the limit, known before the first is opened.

use crate::Error;
use crate::sys::files::{allowed, in_use};

/// Files, pipes and watched ends that a recording opens beside its events, and a file for each CPU
/// (`--threads`).
const BESIDE: u64 = 16;

/// What events take.
pub(crate) struct Need {
    /// Events that are to be opened, over all threads and CPUs.
    pub opened: usize,
    /// What one counts: events.
    pub events: usize,
    pub threads: usize,
    /// 0 where events are opened for any CPU.
    pub cpus: usize,
    /// What else is opened for each thread if there is room; it is no reason to refuse.
    pub wished: usize,
}

impl Need {
    /// Refuses what would not fit, with the number that would.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let beside = in_use() + BESIDE + self.cpus as u64;
        let allowed = allowed();
        if self.opened as u64 + beside <= allowed {
            return Ok(());
        }
        let needed = self.opened as u64 + self.wished as u64 + beside;
        let instead = if self.threads > 1 {
            "name fewer events, or take the whole system (-a), where threads do not count"
        } else {
            "name fewer events"
        };
        Err(Error::Descriptors { what: self.what(), needed, allowed, instead })
    }

    fn what(&self) -> String {
        let of = |number: usize, what: &str| {
            format!("{number} {what}{}", if number == 1 { "" } else { "s" })
        };
        let mut what = of(self.events, "event");
        if self.threads > 1 || self.cpus == 0 {
            what += &format!(" of {}", of(self.threads, "thread"));
        }
        if self.cpus > 0 {
            what += &format!(" on {}", of(self.cpus, "CPU"));
        }
        what
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_said_in_numbers() {
        let need = |opened, threads, cpus| {
            Need { opened, events: 1, threads, cpus, wished: threads }.check()
        };
        assert!(need(1, 1, 1).is_ok());
        let said = need(1 << 60, 500, 2).unwrap_err().to_string();
        assert!(
            said.starts_with("1 event of 500 threads on 2 CPUs: needs 115292150460684"),
            "{said}"
        );
        assert!(said.contains("`ulimit -n 115292150460684") && said.contains("-a"), "{said}");
        let said = need(1 << 60, 1, 0).unwrap_err().to_string();
        assert!(said.starts_with("1 event of 1 thread: needs"), "{said}");
    }
}
