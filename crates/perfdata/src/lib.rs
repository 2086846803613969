//! perf.data bytes to records and back: file, pipe and directory form, compressed, of any size.
//!
//! The cast: [`Input`] opens a recording and reads its head (attributes, features).
//! [`Input::chunks`] walks the data at memory speed and yields buffers of whole, uncompressed
//! records; [`raw_records`] cuts such a buffer into [`RawRecord`]s; [`SampleLayout::fast`] takes
//! from a sample what branch counting needs, [`Record::parse`] takes everything. [`Input::ordered`]
//! delivers the records in time order. [`write`] is the way back.
//!
//! The format is described in the kernel tree, `tools/perf/Documentation/perf.data-file-format.txt`
//! and `include/uapi/linux/perf_event.h`; record layouts cite those two by name.

mod attr;
mod aux_data;
mod branch;
mod bytes;
mod chain_sample;
mod chunks;
mod counter_values;
mod decompress;
mod deferred;
mod error;
mod feature_kinds;
mod features;
mod header;
mod input;
mod kernel_records;
mod kinds;
mod layout;
mod ordered;
mod prelude;
mod raw;
mod record;
mod sample;
pub mod spe;
mod stats;
mod sys;
mod table;
mod user_records;
mod walk;
pub mod write;

pub use attr::{EventAttr, attr_flag, branch_sample, read_format, sample_type};
pub use aux_data::{AuxData, aux_flag, tracer};
pub use branch::{BranchEntry, BranchFlags, BranchIter, BranchStack, Spec};
pub use bytes::{Endian, RuntimeAddr, Words, WordsIter};
pub use chain_sample::ChainSample;
pub use chunks::{Chunk, Chunks};
pub use counter_values::{ReadFormat, ReadValues};
pub use deferred::{Chain, DeferredChains};
pub use error::{Error, RecordError};
pub use feature_kinds::{
    BuildIdEntry, CompressedInfo, EventDescription, ID_BITS, SampleTime, UnknownFeature, feature,
};
pub use features::Features;
pub use header::Wholeness;
pub use input::Input;
pub use kernel_records::{MmapEvent, TaskEvent};
pub use kinds::{kind, misc};
pub use layout::{FastSample, SampleLayout};
pub use ordered::{OrderOptions, Ordered, OrderedRecord};
pub use raw::{CpuMode, RawRecord, RawRecords, SampleId, raw_records};
pub use record::Record;
pub use sample::{Registers, Sample, UserStack};
pub use stats::{AuxSpan, ReadStats};
pub use table::LayoutTable;
pub use user_records::UserRecord;
