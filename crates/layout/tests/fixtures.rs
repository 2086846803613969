//! Do the readers of the fixtures read them: sizes, weights, frequencies?

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use layout::CallKind;
use support::fixtures::{
    GOLDEN, golden_cfg, golden_functions, place, text_cfg, upstream_frequencies,
};

#[test]
fn text_graphs_have_the_functions_and_edges_of_their_files() {
    let sample = text_cfg("propeller_sample.protobuf");
    assert_eq!(sample.functions.len(), 13);
    let main = &sample.functions[9];
    assert_eq!((main.names[0].as_str(), main.blocks.len(), main.edges.len()), ("main", 8, 9));
    assert_eq!(sample.functions[6].names, ["this_is_very_code", "this_is_very_code.alias"]);
    assert_eq!(sample.calls.len(), 3);
    assert_eq!(main.blocks[2].frequency, 3656, "the call is heavier than both branches");

    let many = text_cfg("propeller_simple_multi_function.protobuf");
    let recursion = many.calls.iter().find(|call| call.from == place(3, 0)).unwrap();
    assert_eq!((recursion.to, recursion.kind, recursion.weight), (place(3, 0), CallKind::Call, 10));

    let conditional = text_cfg("propeller_simple_conditional.protobuf");
    let blocks = &conditional.functions[0].blocks;
    assert_eq!(blocks.iter().map(|block| block.frequency).collect::<Vec<_>>(), [250, 100, 150, 0]);
    assert_eq!(blocks.iter().map(|block| block.id.0).collect::<Vec<_>>(), [0, 1, 3, 2]);
    assert_eq!(conditional.functions[0].edges.len(), 3);

    assert_eq!(text_cfg("propeller_nested_loop.protobuf").functions[0].edges.len(), 7);
    assert_eq!(text_cfg("propeller_simple_loop.protobuf").functions[0].edges.len(), 4);
}

#[test]
fn frequencies_of_the_golden_file_follow_from_its_edges_and_calls() {
    let cfg = golden_cfg();
    assert_eq!(cfg.functions[1].size(), 248);
    for (function, expected) in cfg.functions.iter().zip(upstream_frequencies(&cfg)) {
        let stated: Vec<u64> = function.blocks.iter().map(|block| block.frequency).collect();
        assert_eq!(stated, expected, "{}", function.names[0]);
    }
    let golden = golden_functions(GOLDEN);
    assert_eq!(golden[1].clusters, [[0, 3, 4, 6, 7, 1, 2, 5]]);
    assert_eq!(golden[1].inter, (382_435.452941, 465_026.554688));
}
