//! Holding a look-ahead against what the thread really does, step by step.

use super::look::registers;
use lookahead::Registers;
use perfdata::RuntimeAddr;
use stops::{Step, Stopped};

/// Rounds of one repeated string instruction, at most.
const MOST_ROUNDS: u64 = 1 << 20;

/// What stepping showed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Checked {
    /// The same instructions, and the same registers at the end.
    Same,
    /// A signal, a system call, the thread's end or a very long string instruction came in between;
    /// the same up to there.
    Cut,
    /// Another way.
    Different {
        /// Which instruction was expected, and which one came.
        what: String,
    },
}

/// Steps the thread along the addresses that were foreseen. The result also counts the steps.
pub(crate) fn step_along(
    thread: &mut Stopped<'_>,
    foreseen: &[u64],
    end: Option<&Registers>,
) -> (Checked, u64) {
    let mut steps = 0;
    let Ok(start) = thread.registers() else { return (Checked::Cut, 0) };
    let mut at = start.rip;
    for (number, expected) in foreseen.iter().enumerate() {
        if at != *expected {
            let before =
                number.checked_sub(1).and_then(|last| foreseen.get(last)).copied().unwrap_or(at);
            let what = format!(
                "after {before:#x}, instruction {number} of the look-ahead, the thread went to \
                 {at:#x} and not to {expected:#x}"
            );
            return (Checked::Different { what }, steps);
        }
        let stays = foreseen.get(number + 1) == Some(expected);
        let last = number + 1 == foreseen.len();
        let mut rounds = 0;
        if pushes_flags(thread, at) {
            return (Checked::Cut, steps);
        }
        loop {
            if thread.step().ok() != Some(Step::Done) {
                return (Checked::Cut, steps);
            }
            steps += 1;
            rounds += 1;
            let Ok(now) = thread.registers() else { return (Checked::Cut, steps) };
            at = now.rip;
            // A repeated string instruction stays where it is until its last round.
            if at != *expected || stays {
                break;
            }
            if rounds > MOST_ROUNDS {
                return (Checked::Cut, steps);
            }
        }
        if last && let Some(end) = end {
            return (compare(thread, end), steps);
        }
    }
    (Checked::Same, steps)
}

/// Whether the instruction would store the flag by which the thread is stepped.
fn pushes_flags(thread: &Stopped<'_>, at: u64) -> bool {
    let mut code = [0u8; 2];
    matches!(thread.read(RuntimeAddr(at), &mut code), Ok(1..))
        && (code[0] == 0x9c || code == [0x66, 0x9c])
}

fn compare(thread: &Stopped<'_>, end: &Registers) -> Checked {
    let Ok(now) = thread.registers() else { return Checked::Cut };
    let now = registers(&now);
    if now.instruction_pointer != end.instruction_pointer {
        let what = format!(
            "at its end the thread was at {:#x} and not at {:#x}",
            now.instruction_pointer.0, end.instruction_pointer.0
        );
        return Checked::Different { what };
    }
    match now.general.iter().zip(&end.general).position(|(found, foreseen)| found != foreseen) {
        None => Checked::Same,
        Some(number) => {
            let what = format!(
                "before {:#x} general register {number} was {:#x} and not {:#x}",
                now.instruction_pointer.0,
                now.general.get(number).copied().unwrap_or_default(),
                end.general.get(number).copied().unwrap_or_default()
            );
            Checked::Different { what }
        }
    }
}
