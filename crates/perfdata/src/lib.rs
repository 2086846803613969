//! perf.data bytes to records and back: file, pipe and directory form, compressed, of any size.
