//! Whether any object, or library of objects, makes the reader of a link's inputs panic, or comes out
//! with other sections when local symbols get new names.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok([before, after]) = relink::sections_renamed(bytes) {
        assert_eq!(before, after);
    }
});
