//! How busy is the machine? By what the kernel says of tasks that wait for a CPU, or by its load.

/// How busy a machine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Programs get the CPU time that they want, or nearly.
    #[default]
    Calm,
    /// Programs wait for CPUs half of the time.
    Busy,
    /// Most of it.
    VeryBusy,
}

/// Percent of the last ten seconds in which some task waited for a CPU
/// (`/proc/pressure/cpu`, Documentation/accounting/psi.rst).
const WAITING: (f64, f64) = (50.0, 80.0);
/// Tasks that run or want to, for each CPU, where the kernel does not tell the former.
const RUNNING: (f64, f64) = (1.5, 3.0);

impl Pressure {
    /// Of this machine now.
    pub fn now() -> Pressure {
        let read = |path| std::fs::read_to_string(path).ok();
        let waiting = read("/proc/pressure/cpu").and_then(|text| waiting(&text));
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let running = || running(&read("/proc/loadavg")?, cpus);
        waiting.or_else(running).unwrap_or_default()
    }

    fn of(found: f64, (busy, very): (f64, f64)) -> Pressure {
        match found {
            found if found >= very => Pressure::VeryBusy,
            found if found >= busy => Pressure::Busy,
            _ => Pressure::Calm,
        }
    }
}

/// Of the line `some avg10=1.23 avg60=…`.
fn waiting(text: &str) -> Option<Pressure> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let percent = line.split(' ').find_map(|word| word.strip_prefix("avg10="))?;
    Some(Pressure::of(percent.parse().ok()?, WAITING))
}

/// Of the load of the last minute, which stands first.
fn running(text: &str, cpus: usize) -> Option<Pressure> {
    let load: f64 = text.split(' ').next()?.parse().ok()?;
    Some(Pressure::of(load / cpus as f64, RUNNING))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_how_long_tasks_wait() {
        let text = |percent| {
            format!("some avg10={percent} avg60=0.00 avg300=0.00 total=1\nfull avg10=99.00\n")
        };
        let read =
            ["0.12", "49.99", "50.00", "79.00", "99.50"].map(|percent| waiting(&text(percent)));
        use Pressure::{Busy, Calm, VeryBusy};
        assert_eq!(read, [Calm, Calm, Busy, Busy, VeryBusy].map(Some));
        assert_eq!([waiting(""), waiting("some avg60=1"), waiting("some avg10=x")], [None; 3]);
        assert_eq!(running("5.90 1.00 1.00 2/90 1\n", 2), Some(Busy));
        assert_eq!(running("2.90 1.00 1.00 2/90 1\n", 2), Some(Calm));
        assert_eq!(running("", 2), None);
    }
}
