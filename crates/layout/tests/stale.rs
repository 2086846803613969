//! Does a graph of an older build survive a change of the program?

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use image::Image;
use layout::{BuildOptions, Cfg, Error, MatchedBy, StaleReport, carry_over};
use support::programs::{SHAPES, compiled};
use support::recorded::walked;

fn carried(old: &Cfg, old_image: &Image, image: &Image) -> (Cfg, StaleReport) {
    let maps = image::blocks::read(image).unwrap();
    carry_over(old, old_image, image, maps, &BuildOptions::default()).unwrap()
}

/// The source after some work on it: `finds` has a new way out, `chooses` another constant, and a
/// function is gone.
fn changed() -> String {
    let changes = [
        (
            "if (!text[at]) return -1;",
            "if (!text[at]) return -1; if (at > 4096) { printf(\"far\\n\"); return 0; }",
        ),
        ("case 1: sink = a; return a / 3;", "case 1: sink = a; return a / 11;"),
        ("int recurses(int n)", "int recurs(int n)"),
        (": recurses(n - 1) + recurses(n - 2)", ": recurs(n - 1) + recurs(n - 2)"),
        ("recurses(i)", "recurs(i)"),
    ];
    changes.iter().fold(SHAPES.to_owned(), |source, (from, to)| {
        assert!(source.contains(from), "{from}");
        source.replace(from, to)
    })
}

#[test]
fn counts_survive_in_what_did_not_change_and_mostly_in_what_did() {
    let directory = tempfile::tempdir().unwrap();
    for (name, options) in [("plain", &[][..]), ("hashed", &["-mllvm", "-emit-bb-hash"][..])] {
        let new_name = format!("{name}.new");
        let Some(old_image) = compiled(directory.path(), name, SHAPES, options) else { return };
        let Some(image) = compiled(directory.path(), &new_name, &changed(), options) else {
            return;
        };
        let names = ["loops", "chooses", "recurses", "finds", "ends_with_a_call"];
        let old = walked(&old_image, &names, 10_000, 5);
        let (cfg, report) = carried(&old, &old_image, &image);
        assert_eq!(
            (report.functions_exact.count, report.functions_lost.count),
            (4, 1),
            "{report:#?}"
        );
        assert_eq!(report.functions_lost.weight, 10_000);
        assert_eq!(report.functions_with_hashes != 0, name == "hashed");
        assert!(report.matched_pct() > 75.0, "{report:#?}");
        let find = |cfg: &Cfg, name: &str| {
            cfg.functions.iter().find(|function| function.names[0] == name).cloned()
        };
        assert_eq!(find(&cfg, "recurses"), None);
        for name in ["loops", "ends_with_a_call"] {
            let (before, after) = (find(&old, name).unwrap(), find(&cfg, name).unwrap());
            let weights = |function: &layout::Function| {
                let edges = function.edges.iter().map(|edge| (edge.from, edge.to, edge.weight));
                edges.collect::<Vec<_>>()
            };
            assert_eq!(weights(&before).len(), weights(&after).len(), "{name}");
            let total = |function: &layout::Function| {
                function.edges.iter().map(|edge| edge.weight).sum::<u64>()
            };
            assert!(
                total(&before).abs_diff(total(&after)) <= 2,
                "{name}: the last walk did not end"
            );
        }
        // The hot loop of `finds` is still its hottest part.
        let (before, after) = (find(&old, "finds").unwrap(), find(&cfg, "finds").unwrap());
        let hottest = |function: &layout::Function| {
            function.blocks.iter().map(|block| block.frequency).max().unwrap()
        };
        assert!(hottest(&after) * 2 > hottest(&before), "{before:#?} {after:#?}");
    }
}

#[test]
fn the_same_build_keeps_every_block() {
    let directory = tempfile::tempdir().unwrap();
    let Some(image) = compiled(directory.path(), "same", SHAPES, &[]) else { return };
    let old = walked(&image, &["loops", "finds", "chooses"], 10_000, 9);
    let (cfg, report) = carried(&old, &image, &image);
    assert_eq!(report.functions_unchanged, 3);
    assert_eq!((report.blocks_lost.count, report.edges_lost.count), (0, 0), "{report:#?}");
    assert_eq!(report.blocks[&MatchedBy::Entry].count, 3);
    assert!((report.matched_pct() - 100.0).abs() < 1e-9);
    for (before, after) in old.functions.iter().zip(&cfg.functions) {
        assert_eq!(before.names, after.names);
        for (old, new) in before.blocks.iter().zip(&after.blocks) {
            assert!(
                old.frequency.abs_diff(new.frequency) <= 1,
                "{:?}: {old:?} {new:?}",
                before.names
            );
        }
    }
}

#[test]
fn a_program_without_the_functions_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let Some(old_image) = compiled(directory.path(), "old", SHAPES, &[]) else { return };
    let Some(image) = compiled(directory.path(), "other", "int main(void) { return 0; }", &[])
    else {
        return;
    };
    let old = walked(&old_image, &["loops"], 100, 9);
    let maps = image::blocks::read(&image).unwrap();
    let error = carry_over(&old, &old_image, &image, maps, &BuildOptions::default()).unwrap_err();
    assert!(matches!(error, Error::NothingHot { entered: 100, .. }), "{error}");
}
