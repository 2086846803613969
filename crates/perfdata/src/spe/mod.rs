//! AUX data of Arm's Statistical Profiling Extension (SPE): bytes to packets ([`read_packet`]) to
//! records ([`Decoder`]).
//!
//! The processor picks an operation now and then, follows it through the pipeline, and writes down
//! what it saw of it as a *record*: a run of *packets* that a timestamp or an end packet closes.
//! Padding and alignment packets stand anywhere. All numbers are little-endian, whatever the
//! kernel's byte order.
//!
//! The formats are those of the Arm Architecture Reference Manual for A-profile architecture (DDI
//! 0487), chapter "Statistical Profiling Extension Sample Record Specification". This code has
//! never met data of a real processor.

/// Terms of an event that records taken branches with their times: `planish record -e
/// arm_spe_0/TERMS/u`, or perf's.
pub const BRANCH_TERMS: &str = "branch_filter=1,ts_enable=1,min_latency=0";

mod packet;
mod records;

pub use packet::{Packet, PacketFault, SpeAddress, operation, read_packet};
pub use records::{Decoded, Decoder, SpeRecord, TakenBranch};
