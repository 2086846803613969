//! Whether any archive of a link makes its reader panic, or name a file outside of the directory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Component;

fuzz_target!(|bytes: &[u8]| {
    for (path, place) in relink::files_of(bytes).unwrap_or_default() {
        assert!(place.start <= place.end && place.end <= bytes.len());
        assert!(
            path.components().all(|component| matches!(component, Component::Normal(_))),
            "{path:?}"
        );
    }
});
