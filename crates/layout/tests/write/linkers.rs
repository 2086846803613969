//! Compilers and linkers apply what is written: addresses of the linked programs follow the layout.

use crate::build::{Tool, clang, run, scratch, tool};
use crate::graph::at;
use image::Image;
use image::blocks::{self, FunctionBlocks};
use layout::verify::{Applied, Deviation, Verification, verify};
use layout::write::cc::{CcVersion, Comments, cc_profile};
use layout::write::order::{ld_profile, symbol_order};
use layout::write::sections::{SectionOrder, section_order};
use layout::write::{check, read_cc};
use layout::{
    Block, BlockIndex, Cfg, ClonePath, Edge, Function, FunctionIndex, FunctionLayout, Layout,
    Placed,
};
use std::path::{Path, PathBuf};
use std::process::Command;

const C: &str = r#"
#include <stdio.h>
int sink;
__attribute__((noinline)) static int helper(int x) { if (x % 11 == 0) return x * 3; sink += x; return x - 1; }
__attribute__((noinline)) int work(int x) {
  int r = 0;
  for (int i = 0; i < x; i++) {
    if (i % 3 == 0) r += helper(i); else if (i % 7 == 1) r ^= i * 3; else r -= 2;
    if (r > 1000) { sink++; r -= 5; }
  }
  return r;
}
int main(int argc, char **argv) {
  int s = 0;
  for (int i = 0; i < argc * 300; i++) { s += work(i & 63); if (s & 1) sink += s; }
  printf("%d\n", s + sink);
  return 0;
}
"#;

const CXX: &str = r#"
#include <cstdio>
#include <stdexcept>
static int g;
__attribute__((noinline)) static void thrower(int i) {
  if (i % 5 == 0) throw std::runtime_error("a");
  if (i % 7 == 0) throw 3;
  g += i;
}
struct Guard { int *p; ~Guard() { ++*p; } };
__attribute__((noinline)) int user(int i) {
  int r = 0;
  try { Guard guard{&g}; thrower(i); r = 1; }
  catch (const std::runtime_error &e) { r = 2; } catch (int k) { r = k; }
  try { thrower(i + 1); } catch (...) { r += 9; }
  return r;
}
int main() { int s = 0; for (int i = 0; i < 1000; i++) s += user(i); printf("%d %d\n", s, g); }
"#;

/// A program with what it takes to build it again.
struct Program {
    dir: tempfile::TempDir,
    compiler: Tool,
    source: &'static str,
    flags: &'static [&'static str],
}

const CLANG_FLAGS: &[&str] = &[
    "-O1",
    "-fuse-ld=lld",
    "-fbasic-block-address-map",
    "-funique-internal-linkage-names",
    "-ffunction-sections",
];

impl Program {
    fn new(
        compiler: Tool,
        source: &'static str,
        text: &str,
        flags: &'static [&'static str],
    ) -> Program {
        let dir = scratch();
        std::fs::write(dir.path().join(source), text).unwrap();
        Program { dir, compiler, source, flags }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn build(&self, name: &str, more: &[String]) -> PathBuf {
        let out = self.dir.path().join(name);
        let mut command = self.compiler.command();
        // The same relative name of the source: unique names of static functions are made from it.
        command
            .current_dir(self.dir.path())
            .args(self.flags)
            .args(more)
            .arg("-o")
            .arg(&out)
            .arg(self.source);
        if self.source.ends_with(".cc") {
            command.arg("-lstdc++");
        }
        run(&mut command);
        out
    }
}

/// The functions of an image that its address map and the names given agree on, each block followed
/// by the next one.
fn graph(image: &Image, map: &[FunctionBlocks], wanted: &[&str]) -> Cfg {
    let mut functions = Vec::new();
    for entry in map {
        let names: Vec<String> =
            image.functions().at(entry.address()).map(|f| f.name.to_owned()).collect();
        if !names.iter().any(|name| wanted.iter().any(|wanted| name.starts_with(wanted))) {
            continue;
        }
        let blocks: Vec<Block> = entry
            .blocks()
            .map(|b| Block {
                id: b.id,
                address: b.address,
                size: b.size,
                flags: b.flags,
                frequency: 1,
                hash: None,
            })
            .collect();
        let next = |from: u32| Edge { from: BlockIndex(from), to: BlockIndex(from + 1), weight: 1 };
        let edges = (0..blocks.len() as u32 - 1)
            .filter(|&i| blocks[i as usize].flags.can_fall_through())
            .map(next);
        let edges = edges.collect();
        functions.push(Function { names, section: ".text".into(), module: None, blocks, edges });
    }
    assert_eq!(functions.len(), wanted.len(), "the address map knows all functions");
    Cfg { functions, calls: Vec::new() }
}

/// Functions backwards; of each, every third block is cold, the others in one cluster backwards,
/// those from the middle on in a second one; landing pads all cold.
fn backwards(cfg: &Cfg) -> Layout {
    let mut layout = Layout::default();
    for (index, function) in (0u32..).zip(&cfg.functions) {
        let pads = |block: &u32| function.blocks[*block as usize].flags.is_landing_pad();
        let count = function.blocks.len() as u32;
        let warm: Vec<u32> =
            (1..count).rev().filter(|block| block % 3 != 2 && !pads(block)).collect();
        let own = |block: u32| Placed { block: BlockIndex(block), clone: 0 };
        let mut clusters = vec![vec![own(0)]];
        let (second, first): (Vec<u32>, Vec<u32>) =
            warm.iter().partition(|&&block| block > count / 2);
        clusters[0].extend(first.into_iter().map(own));
        if !second.is_empty() {
            clusters.push(second.into_iter().map(own).collect());
        }
        let placed: usize = clusters.iter().map(Vec::len).sum();
        if placed < count as usize {
            layout.cold.push(index);
        }
        layout.hot.extend((0..clusters.len() as u32).map(|cluster| at(index, cluster)));
        layout.functions.push(FunctionLayout {
            function: FunctionIndex(index),
            clones: Vec::new(),
            clusters,
            intra: Default::default(),
            inter: Default::default(),
        });
    }
    layout.hot.reverse();
    layout.cold.reverse();
    layout
}

fn open(path: &Path) -> (Image, Vec<FunctionBlocks>) {
    let image = Image::open(path).unwrap();
    let map = blocks::read(&image).unwrap();
    (image, map)
}

fn verified(cfg: &Cfg, layout: &Layout, path: &Path, applied: Applied) -> Verification {
    let (image, map) = open(path);
    verify(cfg, layout, &image, &map, applied, 10).unwrap()
}

/// Builds with the layout's files; the program and the file of clusters.
fn rebuild(program: &Program, cfg: &Cfg, layout: &Layout, version: CcVersion) -> PathBuf {
    assert_eq!(check::layout(cfg, layout), vec![]);
    let text = cc_profile(cfg, layout, version, Comments::OneLine).unwrap().render().unwrap();
    assert_eq!(check::text(&text), vec![]);
    read_cc::read(&text).unwrap();
    let cc = program.write("cc.txt", &text);
    let ld = program.write("ld.txt", &ld_profile(cfg, layout).unwrap());
    program.build(
        "new",
        &[
            format!("-fbasic-block-sections=list={}", cc.display()),
            format!("-Wl,--symbol-ordering-file={}", ld.display()),
            "-Wl,--fatal-warnings".to_owned(),
        ],
    )
}

fn applies(program: &Program, wanted: &[&str], version: CcVersion) {
    let old = program.build("old", &[]);
    let (image, map) = open(&old);
    let cfg = graph(&image, &map, wanted);
    let layout = backwards(&cfg);
    assert!(
        layout.hot.len() > wanted.len() && !layout.cold.is_empty(),
        "there are parts and cold blocks"
    );
    let new = rebuild(program, &cfg, &layout, version);
    assert_eq!(
        run(&mut Command::new(&new)),
        run(&mut Command::new(&old)),
        "the program does the same"
    );

    let found = verified(&cfg, &layout, &new, Applied::Sections);
    assert!(found.is_applied(), "{found:?}");
    assert_eq!(
        (found.asked, found.in_order),
        ((layout.hot.len() + layout.cold.len()) as u64, found.asked)
    );
    assert_eq!(found.same_blocks, found.asked, "{found:?}");
    assert!(
        found.hot_span >= found.hot_bytes && found.hot_span < found.hot_bytes + 4096,
        "{found:?}"
    );

    let unchanged = verified(&cfg, &layout, &old, Applied::Sections);
    assert!(!unchanged.is_applied() && unchanged.found == wanted.len() as u64, "{unchanged:?}");
}

#[test]
fn clang_and_lld_apply_the_layout_of_a_c_program() {
    let (Some(clang), Some(_)) = (clang(), tool(&["ld.lld-22", "ld.lld"])) else { return };
    let program = Program::new(clang, "x.c", C, CLANG_FLAGS);
    applies(&program, &["_ZL6helperi", "work", "main"], CcVersion::V1);
    applies(&program, &["_ZL6helperi", "work", "main"], CcVersion::V0);
}

#[test]
fn clang_and_lld_apply_the_layout_of_a_program_with_exceptions() {
    let (Some(clang), Some(_)) = (clang(), tool(&["ld.lld-22", "ld.lld"])) else { return };
    let program = Program::new(clang, "x.cc", CXX, CLANG_FLAGS);
    applies(&program, &["_ZL7throweri", "_Z4useri", "main"], CcVersion::V1);
}

#[test]
fn landing_pads_in_several_sections_are_refused_and_found_in_the_program() {
    let (Some(clang), Some(_)) = (clang(), tool(&["ld.lld-22", "ld.lld"])) else { return };
    let program = Program::new(clang, "x.cc", CXX, CLANG_FLAGS);
    let (image, map) = open(&program.build("old", &[]));
    let cfg = graph(&image, &map, &["_Z4useri"]);
    let mut layout = backwards(&cfg);
    let pads =
        (0..).zip(&cfg.functions[0].blocks).filter(|(_, block)| block.flags.is_landing_pad());
    let pads: Vec<u32> = pads.map(|(index, _)| index).collect();
    assert!(pads.len() > 1);
    layout.functions[0].clusters[0].push(Placed { block: BlockIndex(pads[0]), clone: 0 });
    let found = check::layout(&cfg, &layout);
    assert!(
        found.iter().any(|finding| finding.what.contains("landing pads lie in several sections")),
        "{found:?}"
    );

    let text = cc_profile(&cfg, &layout, CcVersion::V1, Comments::None).unwrap().render().unwrap();
    let cc = program.write("cc.txt", &text);
    let new = program.build("new", &[format!("-fbasic-block-sections=list={}", cc.display())]);
    let found = verified(&cfg, &layout, &new, Applied::Sections);
    assert!(
        found.deviations.iter().any(|(_, deviation)| *deviation == Deviation::LandingPads),
        "{found:?}"
    );
}

#[test]
fn clang_clones_along_a_path() {
    let (Some(clang), Some(_)) = (clang(), tool(&["ld.lld-22", "ld.lld"])) else { return };
    let program = Program::new(clang, "x.c", C, CLANG_FLAGS);
    let old = program.build("old", &[]);
    let (image, map) = open(&old);
    let cfg = graph(&image, &map, &["work"]);
    let mut layout = backwards(&cfg);
    let edge = cfg.functions[0].edges.iter().find(|edge| edge.from != BlockIndex(0)).unwrap();
    layout.functions[0].clones.push(ClonePath(vec![edge.from, edge.to]));
    layout.functions[0].clusters[0].push(Placed { block: edge.to, clone: 1 });
    let new = rebuild(&program, &cfg, &layout, CcVersion::V1);
    assert_eq!(run(&mut Command::new(&new)), run(&mut Command::new(&old)));
    let found = verified(&cfg, &layout, &new, Applied::Sections);
    assert!(found.is_applied(), "{found:?}");
    let without =
        cc_profile(&cfg, &layout, CcVersion::V0, Comments::None).unwrap().render().unwrap_err();
    assert!(without.to_string().contains("write version 1"), "{without}");
}

#[test]
fn linkers_order_functions_by_symbols_and_by_sections() {
    let Some(gcc) = tool(&["gcc"]) else { return };
    let program =
        Program::new(gcc, "x.c", C, &["-O2", "-ffunction-sections", "-fno-reorder-functions"]);
    let old = program.build("old", &[]);
    let image = Image::open(&old).unwrap();
    let one = |name: &str| {
        let mut function = crate::graph::function(name, &[1], &[]);
        function.blocks[0].address =
            image.functions().iter().find(|f| f.name == name).unwrap().address;
        function
    };
    let mut cfg = Cfg { functions: ["main", "work", "helper"].map(one).into(), calls: Vec::new() };
    cfg.functions.sort_by_key(|function| function.blocks[0].address);
    // Against the order that the linker chose, and its reverse: one of them is not what it does by
    // itself.
    for turn in [0, 1, 2] {
        let mut layout = backwards(&cfg);
        layout.hot.rotate_left(turn);
        let symbols = program.write("symbols.txt", &symbol_order(&cfg, &layout).unwrap().text);
        let script = program.write(
            "order.ld",
            &section_order(&cfg, &layout, SectionOrder::GnuScript).unwrap().text,
        );
        let gold = program
            .write("order.txt", &section_order(&cfg, &layout, SectionOrder::Gold).unwrap().text);
        let ordering = program.write(
            "order.sections",
            &section_order(&cfg, &layout, SectionOrder::GnuOrdering).unwrap().text,
        );
        let by_symbols = format!("-Wl,--symbol-ordering-file={}", symbols.display());
        let mut ways = vec![
            ("bfd", &["ld.bfd"][..], format!("-Wl,-T,{}", script.display())),
            ("gold", &["ld.gold"][..], format!("-Wl,--section-ordering-file={}", gold.display())),
            ("lld", &["ld.lld", "ld.lld-22"][..], by_symbols),
        ];
        if gnu_ld_takes_section_orders() {
            ways.push((
                "bfd",
                &["ld.bfd"][..],
                format!("-Wl,--section-ordering-file={}", ordering.display()),
            ));
        }
        for (linker, names, flag) in ways {
            let Some(found) = tool(names) else { continue };
            // gcc looks for a linker of this very name.
            let place = program.dir.path().join(format!("ld.{linker}"));
            let _ = std::fs::remove_file(&place);
            std::os::unix::fs::symlink(found.path(), &place).unwrap();
            let own = format!("-B{}", program.dir.path().display());
            let new = program.build("new", &[own, format!("-fuse-ld={linker}"), flag]);
            assert_eq!(run(&mut Command::new(&new)), run(&mut Command::new(&old)), "{linker}");
            let found = verified(&cfg, &layout, &new, Applied::Functions);
            assert!(found.is_applied(), "{linker}: {found:?}");
        }
    }
}

/// GNU ld 2.43 and newer.
fn gnu_ld_takes_section_orders() -> bool {
    let help = tool(&["ld.bfd"]).map(|ld| run(ld.command().arg("--help"))).unwrap_or_default();
    let takes = help.contains("--section-ordering-file");
    if !takes {
        eprintln!(
            "skipped: ordering sections with GNU ld, which takes --section-ordering-file from 2.43 on"
        );
    }
    takes
}
