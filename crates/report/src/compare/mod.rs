//! How is the result of a comparison told: on a terminal, in a pull request, as a page with
//! pictures?
//!
//! All three are functions of the [`Measurement`](::compare::result::Measurement) and, for the
//! pictures, of the runs behind it ([`Evidence`](::compare::result::Evidence)). Names come from
//! users: each form has one function that makes them harmless (`escape`), and the page's builder
//! (`markup`) takes nothing but literals without it.

mod bisect;
mod calibration;
mod find;
pub(crate) mod html;
mod markdown;
pub(crate) mod markup;
mod screen;
mod terminal;
mod words;

pub use bisect::bisect;
pub use calibration::calibration;
pub use find::metric_words;
pub use html::html;
pub use markdown::markdown;
pub use screen::Screen;
pub use terminal::terminal;
pub use words::{change, colour, headline, quantity, ratio_words, word};
