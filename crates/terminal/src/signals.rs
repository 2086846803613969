//! What do signals do to a command: Ctrl-C, and a reader that goes away?

/// Removes half-written files and temporary directories when the user presses Ctrl-C, then ends as the signal would have;
/// nothing of that where `handled` says that the running command ends by itself.
pub fn remove_temporaries_on_interrupt(handled: fn() -> bool) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]) else {
        return;
    };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if handled() {
                continue;
            }
            crate::full_screen::leave();
            beside::remove_unfinished();
            beside::scratch::remove_in_use();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
}

/// `planish … | head` ends quietly, as other tools do.
pub fn restore_broken_pipe() {
    // signal-hook offers the default action only after a handler; SIGPIPE's default is to end the
    // process.
    let _ = signal_hook::flag::register_conditional_default(
        signal_hook::consts::SIGPIPE,
        std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true)),
    );
}
