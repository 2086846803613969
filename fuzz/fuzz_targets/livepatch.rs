//! Whether any text makes the readers of compilers' dumps and of patches crash or hang.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    for line in text.lines() {
        let _ = livepatch::ipa_clones::line(line);
        if let Some((base, _)) = livepatch::symbols::origin(line) {
            assert!(base.len() < line.len(), "peeling ends");
        }
    }
    for pair in livepatch::icf::unified(&text) {
        assert!(text.contains(pair.kept) && text.contains(pair.dropped));
    }
    let _ = livepatch::remarks::inlined(&text);
    for hunk in livepatch::hunks(&text).unwrap_or_default() {
        assert!(hunk.removed.is_sorted());
        let _ = hunk.misfit("fuzzed", &text);
    }
    let _ = livepatch::flags::states(&text);
});
