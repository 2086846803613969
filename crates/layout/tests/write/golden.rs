//! Byte for byte what another tool writes for the same layout.

use crate::graph::sample;
use layout::write::cc::{CcVersion, Comments, cc_profile};
use layout::write::order::ld_profile;
use layout::write::read_cc;

fn golden(name: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/autofdo/propeller_sample_");
    std::fs::read_to_string(format!("{path}{name}.golden.txt")).unwrap()
}

fn written(version: CcVersion, comments: Comments) -> String {
    let (cfg, layout) = sample();
    cc_profile(&cfg, &layout, version, comments).unwrap().render().unwrap()
}

#[test]
fn the_cc_profile_is_what_create_llvm_prof_writes() {
    assert_eq!(written(CcVersion::V1, Comments::None), golden("cc_directives"));
}

#[test]
fn comments_are_those_of_create_llvm_prof() {
    assert_eq!(written(CcVersion::V1, Comments::PerBlock), golden("verbose_cc_directives"));
}

#[test]
fn newer_tools_comment_on_one_line_and_leave_out_what_did_not_run() {
    let text = written(CcVersion::V1, Comments::OneLine);
    assert!(text.contains(
        "\n#cfg 0:499148,2:300635,1:156977 1:163376,3:163376 2:300635,3:294857 3:468687\n"
    ));
    assert!(text.ends_with(" 7:487948,1:487948\n"), "block 8 did not run: {text}");
}

#[test]
fn version_0_names_functions_and_clusters_by_exclamation_marks() {
    let expected = "!compute_flag\n!!0 2 3 1\n!main\n!!0 3 4 6 7 1 2 5\n";
    assert_eq!(written(CcVersion::V0, Comments::None), expected);
}

#[test]
fn the_ld_profile_is_what_create_llvm_prof_writes() {
    let (cfg, layout) = sample();
    assert_eq!(ld_profile(&cfg, &layout).unwrap(), golden("ld_directives"));
}

#[test]
fn golden_files_are_read() {
    let plain = read_cc::read(&golden("cc_directives")).unwrap();
    let verbose = read_cc::read(&golden("verbose_cc_directives")).unwrap();
    assert_eq!(plain, verbose);
    assert_eq!(plain.render().unwrap(), golden("cc_directives"));
    assert_eq!(
        plain.functions.iter().map(|f| f.name()).collect::<Vec<_>>(),
        ["compute_flag", "main"]
    );
}
