//! Does a cc profile do what it says? What clang would end on, what it would skip without a word,
//! what is odd.
//!
//! [`text`] looks at a file alone, [`layout`] at a layout before it is written, with the graph at
//! hand: it knows which blocks there are, where exceptions land, and which edges a clone path may
//! follow.

use super::cc::{CcFunction, CcProfile};
use super::read_cc::parse;
use crate::{BlockIndex, Cfg, ClusterRef, Function, FunctionLayout, Layout, Placed};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The compiler ends with an error, or skips the rest of the file without a word.
    Fatal,
    /// A line or block has no effect, and the compiler does not say so.
    Ignored,
    /// clang 22 ends with an error, newer releases heed it.
    Newer,
}

/// Something wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// Line of the file, from 1.
    pub line: Option<u32>,
    /// The function it is about.
    pub function: Option<String>,
    /// What is wrong and what was expected.
    pub what: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if let Some(function) = &self.function {
            write!(f, "function `{function}`: ")?;
        }
        f.write_str(&self.what)
    }
}

/// Whether clang would take the text and heed all of it.
pub fn text(text: &str) -> Vec<Finding> {
    let (profile, mut findings) = parse(text);
    findings.extend(profile_findings(&profile));
    findings
}

fn profile_findings(profile: &CcProfile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for function in &profile.functions {
        let mut find = |severity, what| {
            findings.push(Finding {
                severity,
                line: None,
                function: Some(function.name().to_owned()),
                what,
            });
        };
        for path in &function.paths {
            if path.len() < 2 {
                find(
                    Severity::Ignored,
                    "a clone path of one block clones nothing; expected two or more".to_owned(),
                );
            }
            if path.iter().skip(1).any(|id| id.0 == 0) {
                find(
                    Severity::Ignored,
                    "a path clones block 0; the entry block cannot be cloned".to_owned(),
                );
            }
        }
        for block in function.clusters.iter().flatten() {
            let made = clones_of(function, block.id.0);
            if block.clone > made {
                let what = format!(
                    "block {}.{}: its paths make {made} clones of it",
                    block.id.0, block.clone
                );
                find(Severity::Ignored, what);
            }
        }
        if function.clusters.is_empty() {
            find(
                Severity::Ignored,
                "has no clusters; the function is compiled as without the list".to_owned(),
            );
        }
        let entry =
            function.clusters.iter().position(|c| c.iter().any(|b| b.id.0 == 0 && b.clone == 0));
        if entry
            .and_then(|at| function.clusters.get(at)?.first())
            .is_some_and(|first| first.id.0 != 0)
        {
            let what = "the entry block does not begin its cluster; clang moves it there";
            find(Severity::Ignored, what.to_owned());
        }
    }
    findings
}

fn clones_of(function: &CcFunction, id: u32) -> u32 {
    let made = function.paths.iter().filter(|path| path.iter().skip(1).any(|block| block.0 == id));
    made.count() as u32
}

/// Whether the files of this layout will do what it says. Empty for every layout that should be
/// written.
pub fn layout(cfg: &Cfg, layout: &Layout) -> Vec<Finding> {
    let mut all = Findings::default();
    all.names(cfg, layout);
    for placed in &layout.functions {
        match cfg.function(placed.function) {
            Some(function) => all.function(function, placed),
            None => {
                let what = format!("function {} is not in the graph", placed.function.0);
                all.fatal(None, what);
            }
        }
    }
    all.order(cfg, layout);
    all.found
}

#[derive(Default)]
struct Findings {
    found: Vec<Finding>,
}

fn name(function: &Function) -> &str {
    function.names.first().map_or("", String::as_str)
}

impl Findings {
    fn fatal(&mut self, function: Option<&Function>, what: String) {
        let function = function.map(|function| name(function).to_owned());
        self.found.push(Finding { severity: Severity::Fatal, line: None, function, what });
    }

    fn ignored(&mut self, function: &Function, what: String) {
        let function = Some(name(function).to_owned());
        self.found.push(Finding { severity: Severity::Ignored, line: None, function, what });
    }

    /// A name that two functions share can be given to one of them only.
    fn names(&mut self, cfg: &Cfg, layout: &Layout) {
        let mut seen: FxHashMap<(&str, Option<&str>), usize> = FxHashMap::default();
        for (position, placed) in layout.functions.iter().enumerate() {
            let Some(function) = cfg.function(placed.function) else { continue };
            for alias in &function.names {
                if alias.is_empty() || alias.contains(char::is_whitespace) {
                    self.fatal(
                        Some(function),
                        format!("the name `{alias}` cannot stand in the file"),
                    );
                }
                let earlier = seen.insert((alias, function.module.as_deref()), position);
                if earlier.is_some_and(|earlier| earlier != position) {
                    let what = format!(
                        "`{alias}` names two functions; build with \
                         -funique-internal-linkage-names, or leave both out"
                    );
                    self.fatal(Some(function), what);
                }
            }
        }
    }

    fn function(&mut self, function: &Function, placed: &FunctionLayout) {
        self.blocks(function, placed);
        self.clones(function, placed);
        self.landing_pads(function, placed);
    }

    fn blocks(&mut self, function: &Function, placed: &FunctionLayout) {
        let mut ids = FxHashSet::default();
        for block in &function.blocks {
            if !ids.insert(block.id) {
                self.fatal(
                    Some(function),
                    format!("block number {} stands twice in the address map", block.id.0),
                );
            }
        }
        let mut seen: FxHashSet<Placed> = FxHashSet::default();
        for &block in placed.clusters.iter().flatten() {
            let Some(id) = function.blocks.get(block.block.0 as usize).map(|block| block.id) else {
                self.fatal(Some(function), format!("has no block {}", block.block.0));
                continue;
            };
            if !seen.insert(block) {
                self.fatal(Some(function), format!("block {} stands in clusters twice", id.0));
            }
            let made = placed
                .clones
                .iter()
                .filter(|p| p.0.iter().skip(1).any(|&b| b == block.block))
                .count();
            if block.clone as usize > made {
                self.ignored(
                    function,
                    format!("block {}.{}: its paths make {made} clones of it", id.0, block.clone),
                );
            }
        }
        for cluster in &placed.clusters {
            if cluster.is_empty() {
                self.fatal(Some(function), "has an empty cluster".to_owned());
            }
            if cluster.iter().skip(1).any(|&block| block == Placed::ENTRY) {
                self.fatal(
                    Some(function),
                    "its entry block is not the first of its cluster".to_owned(),
                );
            }
        }
    }

    fn clones(&mut self, function: &Function, placed: &FunctionLayout) {
        for path in &placed.clones {
            let mut cloned = FxHashSet::default();
            for (&from, &to) in path.0.iter().zip(path.0.iter().skip(1)) {
                let id = |index: BlockIndex| {
                    function.blocks.get(index.0 as usize).map(|block| block.id.0)
                };
                let (Some(from_id), Some(to_id)) = (id(from), id(to)) else {
                    self.fatal(
                        Some(function),
                        format!(
                            "a clone path names block {} or {}, which it has not",
                            from.0, to.0
                        ),
                    );
                    continue;
                };
                if !cloned.insert(to) {
                    self.fatal(Some(function), format!("a clone path clones block {to_id} twice"));
                }
                if to == BlockIndex(0) {
                    self.fatal(Some(function), "a clone path clones its entry block".to_owned());
                }
                if !function.edges.iter().any(|edge| edge.from == from && edge.to == to) {
                    let what = format!(
                        "a clone path goes from block {from_id} to {to_id}, which nothing did"
                    );
                    self.ignored(function, what);
                }
                let indirect = |b: &crate::Block| b.flags.has_indirect_branch();
                if function.blocks.get(from.0 as usize).is_some_and(indirect) {
                    let what = format!(
                        "a clone path goes on after block {from_id}, which ends in an indirect \
                         branch"
                    );
                    self.ignored(function, what);
                }
            }
            if path.0.len() < 2 {
                self.ignored(function, "a clone path of one block clones nothing".to_owned());
            }
        }
    }

    /// clang keeps all landing pads of a function in one section, whatever the list says.
    fn landing_pads(&mut self, function: &Function, placed: &FunctionLayout) {
        let mut sections = BTreeSet::new();
        for (index, block) in (0..).zip(&function.blocks) {
            if block.flags.is_landing_pad() {
                let here = Placed { block: BlockIndex(index), clone: 0 };
                sections.insert(placed.clusters.iter().position(|cluster| cluster.contains(&here)));
            }
        }
        if sections.len() > 1 {
            let what = "its landing pads lie in several sections; clang moves all of them to \
                        `.text.eh`, put them into one cluster";
            self.fatal(Some(function), what.to_owned());
        }
    }

    /// Every cluster once, every function with cold blocks once.
    fn order(&mut self, cfg: &Cfg, layout: &Layout) {
        let mut seen = FxHashSet::default();
        for &at in &layout.hot {
            let known = layout
                .functions
                .get(at.layout as usize)
                .is_some_and(|p| (at.cluster as usize) < p.clusters.len());
            if !known || !seen.insert(at) {
                let how = if known { "stands twice in" } else { "does not exist, but stands in" };
                self.fatal(
                    None,
                    format!("cluster {} of layout {} {how} the order", at.cluster, at.layout),
                );
            }
        }
        let cold: FxHashSet<u32> = layout.cold.iter().copied().collect();
        if cold.len() != layout.cold.len() {
            self.fatal(None, "a cold part stands twice in the order".to_owned());
        }
        for (position, placed) in (0u32..).zip(&layout.functions) {
            let Some(function) = cfg.function(placed.function) else { continue };
            for cluster in 0..placed.clusters.len() as u32 {
                if !seen.contains(&ClusterRef { layout: position, cluster }) {
                    self.fatal(
                        Some(function),
                        format!("its cluster {cluster} stands nowhere in the order"),
                    );
                }
            }
            let own: FxHashSet<u32> = placed
                .clusters
                .iter()
                .flatten()
                .filter(|b| b.clone == 0)
                .map(|b| b.block.0)
                .collect();
            let has_cold = (0..function.blocks.len() as u32).any(|block| !own.contains(&block));
            if has_cold != cold.contains(&position) {
                let which = if has_cold {
                    "has blocks in no cluster, but no place"
                } else {
                    "has no cold blocks, but a place"
                };
                self.fatal(Some(function), format!("{which} in the cold order"));
            }
        }
    }
}
