//! What do signals do to a command: Ctrl-C, and a reader that goes away?

use signal_hook::consts::SIGPIPE;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// How long those that this process started may take to end when it is ended.
const GRACE: Duration = Duration::from_secs(5);

/// How often it is looked whether they have, or another signal came.
const LOOK: Duration = Duration::from_millis(100);

/// Signals that come together come within this time.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Set when the process is being ended by a signal.
static ENDING: AtomicBool = AtomicBool::new(false);

/// The signals that ask a process to end; not that of a terminal that is gone, where whoever started the
/// process had it ignore that (nohup); no handler is then to be installed for it.
pub fn heeded() -> Vec<i32> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    // man 5 proc_pid_status: a bit for each signal, the lowest for number 1.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let hangs_up = ignored & (1 << (SIGHUP - 1)) == 0;
    [SIGINT, SIGTERM].into_iter().chain(hangs_up.then_some(SIGHUP)).collect()
}

/// When a signal ends the process (Ctrl-C, or one to it alone), ends what it started, removes
/// half-written files and temporary directories, then ends as the signal would have; nothing of that
/// where `handled` says that the running command ends by itself.
pub fn end_whole_on_interrupt(handled: fn() -> bool) {
    let Ok(mut signals) = signal_hook::iterator::Signals::new(heeded()) else {
        return;
    };
    std::thread::spawn(move || {
        while let Some(signal) = signals.forever().next() {
            if handled() {
                continue;
            }
            ENDING.store(true, Ordering::Relaxed);
            crate::full_screen::leave();
            let (began, mut children) = (Instant::now(), processes::Ending::of_children());
            // Another signal is a wish not to wait; one at once comes with the first, from a
            // terminal and from whoever started this process.
            while !children.wait(LOOK) && began.elapsed() < GRACE {
                let again = signals.pending().next().is_some();
                if again && began.elapsed() > AT_ONCE {
                    break;
                }
            }
            children.kill();
            beside::remove_unfinished();
            beside::scratch::remove_in_use();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
}

/// Where a signal is ending the process, waits for that end, so that nothing is said of children that
/// ended by it.
pub fn wait_where_ending() {
    while ENDING.load(Ordering::Relaxed) {
        std::thread::sleep(GRACE);
    }
}

/// Whether a write to what nobody reads ends the process at once.
static ENDS: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| Arc::new(AtomicBool::new(true)));

/// `planish … | head` ends quietly, as other tools do.
pub fn restore_broken_pipe() {
    // signal-hook offers the default action only after a handler; SIGPIPE's default is to end the
    // process.
    let _ = signal_hook::flag::register_conditional_default(SIGPIPE, Arc::clone(&ENDS));
}

/// A server that goes away is no reason to end: from here on a write to a connection that is gone
/// fails, and only a standard stream without a reader still ends the process.
pub fn survive_lost_connections() {
    ENDS.store(false, Ordering::Relaxed);
}

/// Ends the process as a write to a standard stream without a reader would have.
pub(crate) fn end_without_reader() {
    if !ENDS.load(Ordering::Relaxed) {
        let _ = signal_hook::low_level::emulate_default_handler(SIGPIPE);
    }
}
