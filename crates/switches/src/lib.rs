//! Context switches of a recording to waits: how long each thread and each stack waited, and why.
//!
//! A thread that goes off its CPU either waits for something (synchronisation: a lock, input, time)
//! or could have run on (preemption). The kernel says which, in the record of the switch. Where the
//! recording also samples the event `context-switches`, the sample just before the switch tells the
//! stack that waits.
//!
//! [`Pairing`] joins switch-outs, samples and switch-ins of each thread and keeps books of what has
//! no partner; [`analyse`] drives it over a whole recording, names the frames, and sums up.

mod analysis;
mod error;
mod frames;

mod pairing;

pub use analysis::{Analysis, Chains, StackRow, ThreadRow, Times, Waits, analyse};
pub use calltrees::KernelSymbols;
pub use error::Error;
pub use pairing::{Ended, Ledger, Pairing, Reason, StackId, Wait};
