//! Writing perf.data.
