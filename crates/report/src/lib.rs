//! Plain result values to terminal, Markdown and JSON.
//!
//! The values are those of the crates that make them, such as
//! [`Measurement`](::compare::result::Measurement), or of this one, such as [`Optimization`] and
//! [`layout::LayoutSummary`]: what `--format json` prints and what the report files hold. The same
//! value is rendered for a terminal or as Markdown, in a module of the name of its command or
//! crate. Rendering is a function of the value alone: no clock, no environment, no terminal is
//! asked; the caller says whether colours are wanted.

pub mod calls;
pub mod collector;
pub mod compare;
pub mod counts;
pub mod doctor;
mod escape;
mod evidence;
pub mod exchange;
pub mod fleet;
pub mod fleet_status;
mod form;
pub mod kernel;
pub mod layout;
pub mod livepatch;
mod numbers;
mod optimization;
mod page;
pub mod pages;
mod policy;
pub mod profile;
pub mod record;
pub mod stat;
mod style;
mod told;
pub mod training;

pub use compare::Screen;
pub use escape::{json, visible, visible_lines};
pub use evidence::Evidence;
pub use form::Form;
pub use numbers::{bytes, count, counted, duration_ns, pct, value};
pub use optimization::{
    Advised, Branches, Build, ImageFound, LaidOut, Matched, Objects, Optimization, Profile,
    Program, Recording, ReportMachine, Stage, Take, Variant,
};
pub use style::{Colour, Style};
pub use told::Told;
