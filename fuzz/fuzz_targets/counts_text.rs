//! Whether any text makes the readers of `perf script` output and of pre-aggregated counts panic or
//! lose count.
#![no_main]

use counts::aggregate::CountOptions;
use counts::preaggregated::{self, DefaultImage};
use counts::resolve::Rules;
use counts::script;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let name = Path::new("fuzzed");
    let options = CountOptions { rules: Rules::Auto, threads: 1, pid: None, paths: true };
    if let Ok(found) = script::aggregate(name, bytes, &[], options) {
        assert!(found.counts.ledger.balances());
    }
    let default = DefaultImage { build_id: None, path: "a.out".into() };
    if let Ok(counts) = preaggregated::read(name, bytes, &default) {
        let _ = counts::text::render(&counts);
    }
});
