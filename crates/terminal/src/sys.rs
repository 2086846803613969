//! Which standard streams were closed when the program was started? The standard library opens
//! `/dev/null` in their place before `main`, and what is written there is lost without a word.

use std::sync::atomic::{AtomicBool, Ordering};

static OUTPUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);
static ERROR_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether standard output was closed at the start.
pub fn output_was_closed() -> bool {
    OUTPUT_WAS_CLOSED.load(Ordering::Relaxed)
}

/// Whether standard error was closed at the start.
pub fn error_was_closed() -> bool {
    ERROR_WAS_CLOSED.load(Ordering::Relaxed)
}

extern "C" fn look() {
    // SAFETY: asks for flags of a descriptor, which may be closed; neither memory nor state of
    // anybody is touched.
    let closed = |descriptor| unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1;
    OUTPUT_WAS_CLOSED.store(closed(libc::STDOUT_FILENO), Ordering::Relaxed);
    ERROR_WAS_CLOSED.store(closed(libc::STDERR_FILENO), Ordering::Relaxed);
}

// SAFETY: the C library calls the functions of this section once, before `main` and before the
// standard library starts; `look` needs nothing of it.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;
