//! How are results about kernels told on a terminal, and as a report?

pub mod build;
pub mod check;
pub mod counts;
pub mod prepare;
pub mod record;
pub mod time;
pub mod together;
