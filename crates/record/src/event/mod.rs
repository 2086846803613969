//! Events by perf's syntax: from the text of `-e` to what the kernel is asked for.
//!
//! [`syntax::parse`] makes a tree of the text, [`resolve`] looks its names up on a [`EventSources`], and
//! [`Event::attr`] gives the kernel's structure, to which a recorder or a counter adds what it
//! wants to know.
//!
//! ```
//! use record::event::{EventSources, resolve, syntax};
//! let events = resolve(&syntax::parse("{cycles,L1-icache-load-misses}:u").unwrap(), &EventSources::here()).unwrap();
//! assert_eq!((events[1].attr.kind, events[1].attr.config, events[1].leader), (3, 0x10001, 0));
//! ```

mod cache;
mod error;
pub(crate) mod machine;
mod modifiers;
mod names;
mod resolve;
pub mod syntax;
mod terms;

pub use error::Error;
pub use machine::EventSources;
pub use names::all as all_names;
pub use resolve::{Event, parse, parse_for_counts, resolve};
pub use terms::Settings;

#[cfg(test)]
mod tests;
