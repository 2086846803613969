//! What clang refuses or skips is found before clang sees it: each rule is held against clang-22
//! itself.

use crate::build::{clang, scratch};
use crate::graph::{at, function, placed, sample};
use layout::write::check::{self, Severity};
use layout::{BlockIndex, Cfg, ClonePath, Layout, Placed};

/// Texts about a function `work` of three and more blocks, and whether clang ends with an error.
const TEXTS: &[(&str, bool)] = &[
    ("v1\nf work\nc0 1 2\n", false),
    ("v1\nm x.c\nf other\nc0\nf work\nc0 1\n", false),
    ("v1\n\n# comment\n@ skipped\nf work\np0 1\nc0 1.1 2\n", false),
    ("v1\r\nf work\r\nc0 1\r\n", false),
    ("v0\n!work\n!!0 1\n", false),
    ("v1\nf work\nc0 1 1\n", true),
    ("v1\nf work\nc0 1\nc2 0\n", true),
    ("v1\nf work\nc0\nf work\nc0\n", true),
    ("v1\nx work\nc0\n", true),
    ("v1\n f work\nc0\n", true),
    ("v2\nf work\nc0\n", true),
    ("v\nf work\nc0\n", true),
    ("v1\nf work\nc0 99999999999999999999999\n", true),
    ("v1\nf work\nc0 4294967296\n", true),
    ("v1\nf work\nc0 x\n", true),
    ("v1\nf work\nc0  1\n", true),
    ("v1\nf work\nc\n", true),
    ("v1\nf work\nc0 1.2.3\n", true),
    ("v1\nf work\np1 2 3 2\nc0\n", true),
    ("v1\nm a b\nf work\nc0\n", true),
    ("!work\n!!0 0\n", true),
    ("v1\nf work\nc0\ng0:10,1:5,2:5 1:5\n", false),
    ("v1\nf work\nc0\ng 0.1:1,1:1\n", false),
    ("v1\nf work\nc0\ng\n", false),
    ("v1\nf work\nc0\ngx:1\n", true),
    ("v1\nf work\nc0\ng0\n", true),
    ("v1\nf work\nc0\ng0:1,2\n", true),
    ("v1\nf work\nc0\ng0:1:2\n", true),
    ("v1\nf work\nc0\nh0:ab12 1:ff\n", false),
    ("v1\nf work\nc0\nh0\n", true),
    ("v1\nf work\nc0\nh0:xyz\n", true),
    ("v1\nf work\nc0\nhx:12\n", true),
    ("v1\nf work\nc0\nh\n", true),
    ("v1\nf work\nc0\nt0,1 1,2\n", false),
    ("v1\nf work\nc0\nt0\n", true),
    ("v1\nf work\nc0\ntx,1\n", true),
    ("v1\nf work\nc0\nt0,1,0,1\n", true),
    ("v1\nf work\nc0\nt\n", true),
    ("!work x\n!!0\n", true),
    ("!work M=\n!!0\n", true),
];

#[test]
fn what_clang_ends_on_is_fatal_and_what_it_takes_is_not() {
    let Some(clang) = clang() else { return };
    let dir = scratch();
    let source = dir.path().join("x.c");
    std::fs::write(
        &source,
        "int g; int work(int n) { int s = 0; for (int i = 0; i < n; i++) s += i % 3 ? g : i; return s; }\n",
    )
    .unwrap();
    for &(text, ends) in TEXTS {
        let list = dir.path().join("list.txt");
        std::fs::write(&list, text).unwrap();
        let run = clang
            .command()
            .args(["-O1", "-c", "-o"])
            .arg(dir.path().join("x.o"))
            .arg(format!("-fbasic-block-sections=list={}", list.display()))
            .arg(&source)
            .output()
            .unwrap();
        assert_eq!(
            !run.status.success(),
            ends,
            "{text:?}: {}",
            String::from_utf8_lossy(&run.stderr)
        );
        let fatal: Vec<_> = check::text(text)
            .into_iter()
            .filter(|finding| finding.severity == Severity::Fatal)
            .collect();
        assert_eq!(!fatal.is_empty(), ends, "{text:?}: {fatal:?}");
    }
}

#[test]
fn lines_of_prefetches_are_read_kept_and_said_to_be_newer() {
    let text = "v1\nf work\nc0 1\ni0,1 other,2.1,0\nt1,0\ng0:1,1:1\nh0:a1\n";
    let found = check::text(text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].severity == Severity::Newer && found[0].line == Some(4), "{found:?}");
    let read = layout::write::read_cc::read(text).unwrap();
    let letters: String = read.functions[0].annotations.iter().map(|(letter, _)| letter).collect();
    assert_eq!(letters, "itgh");
    assert_eq!(read.render().unwrap(), text);
    for wrong in [
        "i0,1",
        "i0 f,0,0",
        "i0,1 f,0",
        "i0,1 ,0,0",
        "ix,1 f,0,0",
        "i0,1 f,0,0 g,0,0",
        "i0,1 f,0,x",
    ] {
        let found = check::text(&format!("v1\nf work\nc0\n{wrong}\n"));
        assert!(
            found.iter().any(|finding| finding.severity == Severity::Fatal),
            "{wrong}: {found:?}"
        );
    }
    let Some(clang) = clang() else { return };
    let dir = scratch();
    let (source, list) = (dir.path().join("x.c"), dir.path().join("list.txt"));
    std::fs::write(&source, "int work(int n) { return n; }\n").unwrap();
    std::fs::write(&list, text).unwrap();
    let list = format!("-fbasic-block-sections=list={}", list.display());
    let run = clang
        .command()
        .args(["-O1", "-c", "-o", "/dev/null", &list])
        .arg(&source)
        .output()
        .unwrap();
    assert!(!run.status.success(), "clang 22 takes lines of prefetches");
}

#[test]
fn a_name_that_an_order_cannot_hold_is_left_out_and_the_others_stay() {
    use layout::write::order::symbol_order;
    use layout::write::sections::{SectionOrder, section_order};
    let odd = function("operator \"new\"", &[1], &[]);
    let (line, fine) = (function("two\nlines", &[1], &[]), function("fine", &[1], &[]));
    let cfg = Cfg { functions: vec![odd, line, fine], calls: Vec::new() };
    let functions = (0..3).map(|at| placed(at, &[&[0]], (0.0, 0.0), (0.0, 0.0))).collect();
    let layout = Layout { functions, hot: (0..3).map(|of| at(of, 0)).collect(), cold: Vec::new() };
    for form in [SectionOrder::GnuOrdering, SectionOrder::GnuScript, SectionOrder::Gold] {
        let order = section_order(&cfg, &layout, form).unwrap();
        assert_eq!(order.left_out, ["operator \"new\"", "two\nlines"], "{form:?}");
        assert!(
            order.text.contains(".text.fine") && !order.text.contains("operator"),
            "{}",
            order.text
        );
    }
    let order = symbol_order(&cfg, &layout).unwrap();
    assert_eq!((order.text.as_str(), order.left_out.len()), ("operator \"new\"\nfine\n", 1));
}

#[test]
fn what_clang_skips_without_a_word_is_found() {
    for (text, words) in [
        ("f work\nc0 1\n", "is the first line, `v1`, missing?"),
        ("@ note\nv1\nf work\nc0\n", "is the first line, `v1`, missing?"),
        ("v1\nf work\nc0 1.1\n", "its paths make 0 clones of it"),
        ("v1\nf work\np1\nc0 1\n", "clones nothing"),
        ("v1\nf work\np1 0\nc0 1\n", "the entry block cannot be cloned"),
        ("v1\nf work\nc1 0\n", "does not begin its cluster"),
        ("v1\nc0 1\n", "before the first function"),
        ("v1\nf work\n", "has no clusters"),
        ("", "no line that says anything"),
    ] {
        let found: Vec<String> = check::text(text).iter().map(ToString::to_string).collect();
        assert!(
            found.iter().any(|f| f.contains(words)),
            "{text:?}: expected `{words}`, found {found:?}"
        );
    }
}

fn findings(change: impl FnOnce(&mut Cfg, &mut Layout)) -> String {
    let (mut cfg, mut layout) = sample();
    assert_eq!(check::layout(&cfg, &layout), vec![], "the sample is fine");
    change(&mut cfg, &mut layout);
    check::layout(&cfg, &layout).iter().map(|finding| format!("{finding}\n")).collect()
}

#[test]
fn a_layout_that_clang_would_end_on_is_found_before_it_is_written() {
    let found = findings(|cfg, _| cfg.functions[1].blocks[3].id = cfg.functions[1].blocks[4].id);
    assert!(
        found.contains("function `main`: block number 4 stands twice in the address map"),
        "{found}"
    );
    let found = findings(|cfg, _| cfg.functions[1].names.push("compute_flag".into()));
    assert!(found.contains("`compute_flag` names two functions"), "{found}");
    let found = findings(|_, layout| {
        layout.functions[0].clusters[0].push(Placed { block: BlockIndex(2), clone: 0 })
    });
    assert!(found.contains("block 2 stands in clusters twice"), "{found}");
    let found = findings(|_, layout| {
        layout.functions[0].clusters[0].push(Placed { block: BlockIndex(9), clone: 0 })
    });
    assert!(found.contains("has no block 9"), "{found}");
    let found = findings(|_, layout| layout.functions[0].clusters[0].swap(0, 1));
    assert!(found.contains("its entry block is not the first of its cluster"), "{found}");
}

#[test]
fn clone_paths_that_clang_refuses_are_found() {
    let path = |blocks: &[u32]| ClonePath(blocks.iter().map(|&block| BlockIndex(block)).collect());
    let found = findings(|_, layout| layout.functions[1].clones.push(path(&[7, 0])));
    assert!(found.contains("clones its entry block"), "{found}");
    let found = findings(|_, layout| layout.functions[1].clones.push(path(&[3, 7])));
    assert!(found.contains("goes from block 3 to 7, which nothing did"), "{found}");
    let found = findings(|_, layout| layout.functions[1].clones.push(path(&[3, 4, 6, 4])));
    assert!(found.contains("clones block 4 twice"), "{found}");
    let found = findings(|_, layout| {
        layout.functions[1].clusters[0].push(Placed { block: BlockIndex(4), clone: 1 })
    });
    assert!(found.contains("block 4.1: its paths make 0 clones of it"), "{found}");
    let fine = findings(|_, layout| {
        layout.functions[1].clones.push(path(&[3, 4, 6]));
        layout.functions[1].clusters[0].push(Placed { block: BlockIndex(4), clone: 1 });
    });
    assert_eq!(fine, "");
}

#[test]
fn an_order_that_loses_or_doubles_a_part_is_found() {
    assert!(
        findings(|_, layout| layout.hot.truncate(1))
            .contains("its cluster 0 stands nowhere in the order")
    );
    assert!(
        findings(|_, layout| layout.hot.push(at(0, 0)))
            .contains("cluster 0 of layout 0 stands twice")
    );
    assert!(
        findings(|_, layout| layout.hot.push(at(0, 7)))
            .contains("cluster 7 of layout 0 does not exist")
    );
    assert!(
        findings(|_, layout| layout.cold.clear())
            .contains("has blocks in no cluster, but no place")
    );
    assert!(findings(|_, layout| layout.cold.push(0)).contains("has no cold blocks, but a place"));
    let found = findings(|_, layout| {
        layout.functions.push(placed(9, &[&[0]], (0.0, 0.0), (0.0, 0.0)));
        layout.hot.push(at(2, 0));
    });
    assert!(found.contains("function 9 is not in the graph"), "{found}");
}

#[test]
fn a_name_that_would_end_early_is_refused() {
    let mut odd = function("operator new", &[1], &[]);
    odd.names.push("plain".into());
    let cfg = Cfg { functions: vec![odd], calls: Vec::new() };
    let layout = Layout {
        functions: vec![placed(0, &[&[0]], (0.0, 0.0), (0.0, 0.0))],
        hot: vec![at(0, 0)],
        cold: Vec::new(),
    };
    let error =
        layout::write::cc::cc_profile(&cfg, &layout, Default::default(), Default::default())
            .unwrap()
            .render()
            .unwrap_err()
            .to_string();
    assert!(
        error.contains("`operator new`") && error.contains("leave the function out"),
        "{error}"
    );
    assert!(
        check::layout(&cfg, &layout)
            .iter()
            .any(|finding| finding.what.contains("cannot stand in the file"))
    );
}
