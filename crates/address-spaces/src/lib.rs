//! What each process and the kernel had mapped where: which file lies at a runtime address.
//!
//! [`Change::of`] takes from a record what it says about mappings. Whoever reads a recording in the
//! order of time applies the changes to [`AddressSpaces`] and asks what holds now; whoever reads it in any
//! order builds a [`Timeline`] first and asks what held at the time of a record.
//!
//! A mapping replaces what it overlaps (the kernel reports no unmapping). The kernel's own mappings
//! ([`KERNEL_PID`]) form one more address space, valid in every process.

mod change;
mod clock;
mod kernel_map;
mod spaces;
mod timeline;

pub use change::{Change, KERNEL_PID, MappedFile, SharedFiles, Side};
pub use clock::Clock;
pub use kernel_map::{KernelPart, is_vmlinux, module_name};
pub use spaces::{AddressSpace, AddressSpaces, FileId, Mapping};
pub use timeline::{SpaceRef, Timeline};
