//! One HTML file with everything in it: no network, no fonts, no images from elsewhere, a script of
//! a few lines.

mod calibration;
mod cell;
mod distribution;
mod forest;
mod matrix;
mod page;
mod scale;
mod sequence;
mod strip;
mod svg;
mod tables;
mod variance;

pub(crate) use cell::measured;
pub(crate) use page::STYLE;
pub use page::html;
