//! What does a change of how a kernel is built do, apart from the luck of one layout? Variants of a tree are built side by
//! side, each is linked in random orders of its code and data as well, every image boots on the deterministic machine,
//! and `compare` judges the counts over the orders as it judges programs over layouts. Or kernels are built as processes of
//! the host ([`Form::Process`]), and their CPU time is compared.

mod begun;
mod builds;
mod caches;
mod counted;
mod form;
pub mod native;
mod stamp;
mod timed;
mod variant;

pub use builds::{Experiment, Images};
pub use caches::Caches;
pub use counted::{Booting, FIGURES, analysed, design, images, is_of_data, recorded};
pub use form::Form;
pub use timed::{Timing, timed};
pub use variant::KernelVariant;
