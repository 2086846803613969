//! Stops the threads of natively running, unmodified programs for an instant on their CPU clock, shows a visitor their
//! registers and memory, and lets them go on unharmed.

mod clock;
mod counts;
mod error;
mod handle;
mod leave;
mod place;
mod proc;
mod refusal;
mod stopped;
mod sys;
mod tracer;
mod visit;

pub use counts::{Counts, LeftAlone, Reason, Skip};
pub use error::Error;
pub use stopped::{Registers, Step, Stopped};
pub use tracer::Tracer;
pub use visit::{Ended, Ending, Next, Options, Visitor, Why};
