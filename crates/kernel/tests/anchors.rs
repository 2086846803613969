//! The anchor engine: none, one and two matches; what is edited comes back byte for byte.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

mod trees;

use kernel::anchor::{Change, Edit, Line, Misfit, Place, State, apply, state};
use kernel::edits::EDITED_FILES;
use proptest::prelude::*;

const BESIDE: &[Edit] = &[Edit {
    construct: "beside b",
    change: Change::Insert { anchor: Line::Is("b = 1"), place: Place::After, text: "new\n" },
}];

#[test]
fn an_anchor_must_be_there_exactly_once() {
    let misfit = |text| apply(text, BESIDE).unwrap_err();
    let expected = "b = 1".to_owned();
    let anchor = |found| ("beside b", Misfit::Anchor { expected: expected.clone(), found });
    assert_eq!(misfit("a\nc\n"), anchor(0));
    assert_eq!(misfit("b = 1\nb\t= 1\n"), anchor(2));
    assert_eq!(misfit("b = 11\nxb = 1\n"), anchor(0));
    assert_eq!(apply("a\n b\t= 1\nc\n", BESIDE).unwrap(), "a\n b\t= 1\nnew\nc\n");
}

#[test]
fn an_insertion_goes_to_its_side_of_the_line() {
    let before = [Edit {
        construct: "before",
        change: Change::Insert { anchor: Line::Starts("b ="), place: Place::Before, text: "new\n" },
    }];
    assert_eq!(apply("a\nb = 1\nc\n", &before).unwrap(), "a\nnew\nb = 1\nc\n");
    // The new lines would be glued to a last line that has no end.
    assert!(matches!(state("a\nb = 1", BESIDE), State::Unfit { .. }));
}

#[test]
fn a_replacement_must_be_whole_lines_and_there_once() {
    let edits = [Edit { construct: "r", change: Change::Replace { old: "\tx;\n", new: "\ty;\n" } }];
    assert_eq!(apply("a\n\tx;\nb\n", &edits).unwrap(), "a\n\ty;\nb\n");
    for (text, found) in [("a\n", 0), ("\tx;\n\tx;\n", 2), ("a\tx;\n", 0)] {
        let misfit = Misfit::Anchor { expected: "x;".to_owned(), found };
        assert_eq!(apply(text, &edits).unwrap_err(), ("r", misfit), "{text:?}");
    }
    assert_eq!(state("a\n\ty;\n", &edits), State::Edited { plain: "a\n\tx;\n".to_owned() });
}

#[test]
fn conditions_change_nothing_and_are_kept() {
    let edits = [
        Edit { construct: "h", change: Change::Holds { anchor: Line::Starts("need") } },
        Edit { construct: "a", change: Change::Absent { text: "bad", reason: "because" } },
    ];
    assert_eq!(apply("needed\n", &edits).unwrap(), "needed\n");
    assert_eq!(apply("other\n", &edits).unwrap_err().0, "h");
    let present = Misfit::Present { text: "bad", reason: "because" };
    assert_eq!(apply("needed\nbad\n", &edits).unwrap_err(), ("a", present));
}

#[test]
fn a_text_with_some_of_its_edits_is_half_edited() {
    let edits =
        [BESIDE[0], Edit { construct: "r", change: Change::Replace { old: "x\n", new: "y\n" } }];
    let whole = apply("b = 1\nx\n", &edits).unwrap();
    assert_eq!(whole, "b = 1\nnew\ny\n");
    let half = |text: &str| match state(text, &edits) {
        State::Half { there, missing } => (there, missing),
        other => panic!("{text:?} is {other:?}"),
    };
    assert_eq!(half("b = 1\nnew\nx\n"), (vec!["beside b"], vec!["r"]));
    // All there, but the insertion has been moved away from its anchor.
    assert_eq!(half("new\nb = 1\ny\n"), (vec!["beside b", "r"], vec![]));
    // Edited twice.
    assert_eq!(half("b = 1\nnew\nnew\ny\n"), (vec!["r"], vec!["beside b"]));
}

#[test]
fn the_order_of_text_keeps_every_line_of_the_tree() {
    let file = EDITED_FILES.iter().find(|file| file.path.ends_with("vmlinux.lds.h")).unwrap();
    for minor in [1, 6, 12] {
        let text = trees::files(minor).into_iter().find(|(path, _)| *path == file.path).unwrap().1;
        let edited = apply(&text, file.edits).unwrap();
        let (ordered, own) = edited.split_once("#else").unwrap();
        assert!(own.contains(
            text.split_once("#define TEXT_TEXT").unwrap().1.split_once("\n\n").unwrap().0
        ));
        let ordered = ordered.split_once("#define TEXT_TEXT").unwrap().1;
        let place = |pattern: &str| {
            ordered.find(pattern).unwrap_or_else(|| panic!("no {pattern} in {ordered}"))
        };
        let order = [
            "ALIGN_FUNCTION",
            ".text.asan.*",
            ".text.unknown.*",
            "__split_text_start",
            "__split_text_end",
            "__unlikely_text_start",
            ".text.unlikely.*",
            "ALIGN(PAGE_SIZE)",
            "__hot_text_start",
            ".text.hot.*",
            "__hot_text_end",
            "*(.text .text.[0-9a-zA-Z_]* .text.fixup)",
            "NOINSTR_TEXT",
            ".ref.text",
        ];
        let places: Vec<usize> = order.iter().map(|pattern| place(pattern)).collect();
        assert!(places.is_sorted(), "{ordered}");
        assert_eq!(ordered.contains("MEM_KEEP"), minor != 12);
        // A macro ends where a line does not go on.
        let lines: Vec<&str> = ordered.trim_end().lines().collect();
        let (last, others) = lines.split_last().unwrap();
        assert!(
            !last.ends_with('\\') && others.iter().all(|line| line.ends_with('\\')),
            "{ordered}"
        );
    }
}

#[test]
fn an_order_of_text_with_lines_that_are_missing_or_double_does_not_fit() {
    let file = EDITED_FILES.iter().find(|file| file.path.ends_with("vmlinux.lds.h")).unwrap();
    let text = trees::files(12).into_iter().find(|(path, _)| *path == file.path).unwrap().1;
    let misfit = |text: &str| apply(text, file.edits).unwrap_err().1;
    let anchor = |expected: &str, found| Misfit::Anchor { expected: expected.to_owned(), found };
    assert_eq!(
        misfit(&text.replace("#define TEXT_TEXT", "#define OTHER")),
        anchor("#define TEXT_TEXT", 0)
    );
    assert_eq!(misfit(&text.repeat(2)), anchor("#define TEXT_TEXT", 2));
    assert_eq!(
        misfit(&text.replace("*(.text.hot .text.hot.*)", "*(.text.warm)")),
        anchor(".text.hot", 0)
    );
    assert_eq!(
        misfit(&text.replace("*(.ref.text)", "*(.text.unlikely.x)")),
        anchor(".text.unlikely", 2)
    );
}

/// Lines of which some are anchors and some are what the edits write.
fn texts() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("b = 1\n"),
        Just("new\n"),
        Just("x\n"),
        Just("y\n"),
        Just("\n"),
        Just("z"),
        Just("\tb  = 1\n"),
    ];
    proptest::collection::vec(line, 0..8).prop_map(|lines| lines.concat())
}

proptest! {
    #[test]
    fn what_is_edited_comes_back_and_is_not_edited_again(text in texts()) {
        let edits = [
            BESIDE[0],
            Edit { construct: "r", change: Change::Replace { old: "x\n", new: "y\n" } },
        ];
        if let State::Plain { edited } = state(&text, &edits) {
            // Where the text holds nothing of ours, an edit is seen as such and leads back to it.
            prop_assert_eq!(state(&edited, &edits), State::Edited { plain: text });
        } else if let State::Edited { plain } = state(&text, &edits) {
            prop_assert_eq!(apply(&plain, &edits), Ok(text));
        }
    }

    #[test]
    fn every_real_edit_survives_other_lines_around_it(
        above in "(# [a-z ]{0,12}\n){0,3}",
        below in "(# [a-z ]{0,12}\n){0,3}",
        minor in prop_oneof![Just(1_u32), Just(6), Just(12)],
    ) {
        for (path, text) in trees::files(minor) {
            let Some(file) = EDITED_FILES.iter().find(|file| file.path == path) else { continue };
            let text = [above.as_str(), &text, &below].concat();
            match state(&text, file.edits) {
                State::Plain { edited } if edited == text => {}
                State::Plain { edited } => prop_assert_eq!(state(&edited, file.edits), State::Edited { plain: text }),
                other => prop_assert!(false, "{}: {:?}", path, other),
            }
        }
    }
}
