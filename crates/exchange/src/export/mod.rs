//! Counts to the profiles that other tools read.
//!
//! Addresses stay those of the images: each mapping says that it is everything, which is how pprof
//! states that nothing has to be taken off ([`crate::Form::Image`]).

mod bolt;
mod otlp;
mod pprof;

pub use bolt::bolt;
pub use otlp::otlp;
pub use pprof::pprof;

use crate::Error;
use counts::{Counts, ImageCounts};
use image::{BuildId, Image};
use std::sync::Arc;

/// What is known of the recordings of the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// When the first began, in seconds since 1970.
    pub begin: Option<u64>,
    /// When the last ended.
    pub end: Option<u64>,
    /// Nanoseconds for each sample, where a clock sampled in all of them.
    pub clock_ns: Option<u64>,
    /// The machine, where there is one.
    pub host: String,
}

/// Programs that name the functions of their counts.
pub type Programs<'p> = &'p dyn Fn(&ImageCounts) -> Option<Arc<Image>>;

const NS: u64 = 1_000_000_000;

impl About {
    /// The time and duration in nanoseconds; 0 where nothing is known.
    fn window(&self) -> (u64, u64) {
        let begin = self.begin.or(self.end).unwrap_or(0);
        let seconds = self.end.unwrap_or(begin).saturating_sub(begin);
        (begin.saturating_mul(NS), seconds.saturating_mul(NS))
    }
}

/// The images with samples.
fn sampled(counts: &Counts) -> Result<Vec<&ImageCounts>, Error> {
    let images: Vec<&ImageCounts> =
        counts.images.iter().filter(|image| !image.samples.is_empty()).collect();
    if images.is_empty() {
        let problem = "the counts have no samples, which is all that this format has a place for; \
                       --to bolt writes their branches"
            .to_owned();
        return Err(Error::Nothing { problem });
    }
    Ok(images)
}

fn hex(id: Option<&BuildId>) -> String {
    id.map(ToString::to_string).unwrap_or_default()
}

/// A number as the formats have it, which is signed.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A table of strings, each there once.
#[derive(Debug)]
struct Table {
    all: Vec<String>,
    numbers: std::collections::HashMap<String, usize>,
}

impl Table {
    /// The first string is the empty one, as both formats want it.
    fn new() -> Table {
        let mut table = Table { all: Vec::new(), numbers: std::collections::HashMap::new() };
        table.number("");
        table
    }

    fn number(&mut self, text: &str) -> usize {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.all.len();
        self.all.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}
