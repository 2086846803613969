//! How is an event of the kernel opened, read and mapped? One `perf_event_open` for all who count,
//! sample or need a clock (`man 2 perf_event_open`).

mod sys;

pub use sys::{Event, Mapping};
