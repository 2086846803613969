//! The cc profile: which blocks of which functions clang puts into which section, and in what
//! order.
//!
//! Version 1, a specifier at the start of each line, `#` a comment, the first line exactly `v1`:
//!
//! ```text
//! v1
//! m dir/file.cc        the next function is the one of this compilation unit (optional)
//! f name alias…        a function
//! p1 3 4               clone path: copies of 3 and 4 for those who come from 1
//! c0 2 3.1             a cluster: blocks by their numbers, `.n` the n-th clone
//! g0:9,2:9 2:9         executions of blocks and of their edges
//! h0:5f 2:a1           hashes of blocks
//! i2,0 f,0,1           a prefetch in block 2 before call 0, of the code of `f` after call 1 of block 0 (newer than clang 22)
//! t0,1                 such a target
//! ```
//! Version 0 has no first line: `!name/alias M=dir/file.cc`, then `!!0 2 3` a cluster; it knows no
//! clones.
//!
//! The position of a `c` line numbers the section: clang calls the n-th one `name.__part.n`, the
//! one with the entry block `name`, what stands in none `name.cold`, and, where landing pads stand
//! in several sections, all of them `name.eh`. Source: LLVM 22,
//! `BasicBlockSectionsProfileReader.cpp`, and clang-22 itself.

use super::Error;
use crate::{Block, BlockIndex, Cfg, ClonePath, Function, FunctionLayout, Layout, Placed};
use image::blocks::BlockId;
use std::fmt::Write as _;

/// Version of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CcVersion {
    /// `!name`, `!!0 1`: what clang 15 and older read.
    V0,
    /// `f name`, `c0 1`, clone paths: clang 16 and newer.
    #[default]
    V1,
}

/// Comments with what the clusters were computed from; compilers skip them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Comments {
    /// None.
    #[default]
    None,
    /// Section where it changes, Ext-TSP scores, entry count; one `#cfg-prof` line for every block,
    /// as create_llvm_prof writes it.
    PerBlock,
    /// The same with one `#cfg` line for all blocks that ran, as newer tools write it.
    OneLine,
}

/// A block or clone in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CcBlock {
    /// Its number.
    pub id: BlockId,
    /// 0 the block itself, n its n-th clone.
    pub clone: u32,
}

/// What the file says about one function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CcFunction {
    /// The compilation unit that it must be of, if that matters.
    pub module: Option<String>,
    /// Its names.
    pub names: Vec<String>,
    /// Its clone paths.
    pub paths: Vec<Vec<BlockId>>,
    /// Its clusters.
    pub clusters: Vec<Vec<CcBlock>>,
    /// Lines beside clusters and paths, by their letter: `g`, counts; `h`, hashes; `i`,
    /// prefetches; `t`, their targets. They are kept as they stand.
    pub annotations: Vec<(char, String)>,
    /// Comment lines before the function, without `#`.
    pub head: Vec<String>,
    /// Comment lines after its names and after its clusters, without `#`.
    pub notes: (Vec<String>, Vec<String>),
}

/// A cc profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CcProfile {
    /// Version of the text it was read from, or is to be written in.
    pub version: CcVersion,
    /// Functions in file order.
    pub functions: Vec<CcFunction>,
}

impl CcProfile {
    /// The text.
    ///
    /// # Errors
    /// Where the version cannot hold a name or a clone.
    pub fn render(&self) -> Result<String, Error> {
        let mut out = String::new();
        if self.version == CcVersion::V1 {
            out.push_str("v1\n");
        }
        for function in &self.functions {
            comments(&mut out, &function.head);
            match self.version {
                CcVersion::V0 => function.render_v0(&mut out)?,
                CcVersion::V1 => function.render_v1(&mut out)?,
            }
        }
        Ok(out)
    }
}

impl CcFunction {
    /// The name that the file uses first.
    pub fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    fn render_v1(&self, out: &mut String) -> Result<(), Error> {
        if let Some(module) = &self.module {
            refuse(module, "the cc profile", |c| c.is_whitespace())?;
            let _ = writeln!(out, "m {module}");
        }
        for name in &self.names {
            refuse(name, "the cc profile", |c| c.is_whitespace())?;
        }
        let _ = writeln!(out, "f {}", self.names.join(" "));
        comments(out, &self.notes.0);
        for path in &self.paths {
            let _ = writeln!(out, "p{}", joined(path.iter().map(|id| id.0)));
        }
        for cluster in &self.clusters {
            let _ = writeln!(out, "c{}", joined(cluster.iter().map(shown)));
        }
        for (letter, line) in &self.annotations {
            refuse(line, "a line of the cc profile", |c| c == '\n' || c == '\r')?;
            let _ = writeln!(out, "{letter}{line}");
        }
        comments(out, &self.notes.1);
        Ok(())
    }

    fn render_v0(&self, out: &mut String) -> Result<(), Error> {
        if !self.paths.is_empty() || self.clusters.iter().flatten().any(|block| block.clone != 0) {
            return Err(Error::Clones { name: self.name().to_owned() });
        }
        if let Some((letter, _)) = self.annotations.first() {
            return Err(Error::Annotated { name: self.name().to_owned(), letter: *letter });
        }
        for name in &self.names {
            refuse(name, "version 0 of the cc profile", |c| c.is_whitespace() || c == '/')?;
        }
        let _ = write!(out, "!{}", self.names.join("/"));
        match &self.module {
            Some(module) => {
                // It is the rest of the line.
                refuse(module, "version 0 of the cc profile", char::is_control)?;
                let _ = writeln!(out, " M={module}");
            }
            None => out.push('\n'),
        }
        comments(out, &self.notes.0);
        for cluster in &self.clusters {
            let _ = writeln!(out, "!!{}", joined(cluster.iter().map(|block| block.id.0)));
        }
        comments(out, &self.notes.1);
        Ok(())
    }
}

fn refuse(name: &str, format: &'static str, ends: impl Fn(char) -> bool) -> Result<(), Error> {
    match name.chars().find(|&c| ends(c)) {
        Some(found) => Err(Error::Name { name: name.to_owned(), format, found }),
        None => Ok(()),
    }
}

fn comments(out: &mut String, lines: &[String]) {
    for line in lines {
        let _ = writeln!(out, "#{line}");
    }
}

fn joined(parts: impl Iterator<Item = impl ToString>) -> String {
    parts.map(|part| part.to_string()).collect::<Vec<_>>().join(" ")
}

fn shown(block: &CcBlock) -> String {
    if block.clone == 0 {
        block.id.0.to_string()
    } else {
        format!("{}.{}", block.id.0, block.clone)
    }
}

/// The cc profile of a layout, functions in the order of the layout.
///
/// # Errors
/// Where the layout is not of this graph.
pub fn cc_profile(
    cfg: &Cfg,
    layout: &Layout,
    version: CcVersion,
    comments: Comments,
) -> Result<CcProfile, Error> {
    let mut functions: Vec<CcFunction> = Vec::with_capacity(layout.functions.len());
    let mut section = None;
    for placed in &layout.functions {
        let mut function = cc_function(cfg, placed, comments)?;
        let own = &function_of(cfg, placed)?.section;
        if comments != Comments::None && section != Some(own) {
            function.head.push(format!("section {own}"));
            section = Some(own);
        }
        functions.push(function);
    }
    Ok(CcProfile { version, functions })
}

fn cc_function(
    cfg: &Cfg,
    placed: &FunctionLayout,
    comments: Comments,
) -> Result<CcFunction, Error> {
    let function = function_of(cfg, placed)?;
    let id = |block: BlockIndex| Ok(block_of(function, block)?.id);
    let path = |path: &ClonePath| path.0.iter().map(|&block| id(block)).collect();
    let block = |placed: &Placed| Ok(CcBlock { id: id(placed.block)?, clone: placed.clone });
    let cluster = |cluster: &Vec<Placed>| cluster.iter().map(block).collect();
    Ok(CcFunction {
        module: function.module.clone(),
        names: function.names.clone(),
        paths: placed.clones.iter().map(path).collect::<Result<_, Error>>()?,
        clusters: placed.clusters.iter().map(cluster).collect::<Result<_, Error>>()?,
        annotations: Vec::new(),
        head: Vec::new(),
        notes: notes(function, placed, comments),
    })
}

/// The function that a layout is of.
pub(crate) fn function_of<'c>(
    cfg: &'c Cfg,
    placed: &FunctionLayout,
) -> Result<&'c Function, Error> {
    cfg.function(placed.function)
        .ok_or_else(|| Error::Foreign { what: format!("function {}", placed.function.0) })
}

/// A block of a function.
pub(crate) fn block_of(function: &Function, block: BlockIndex) -> Result<&Block, Error> {
    function.blocks.get(block.0 as usize).ok_or_else(|| Error::Foreign {
        what: format!(
            "block {} of {}",
            block.0,
            function.names.first().map_or("a function without name", |n| n)
        ),
    })
}

fn notes(
    function: &Function,
    placed: &FunctionLayout,
    comments: Comments,
) -> (Vec<String>, Vec<String>) {
    if comments == Comments::None {
        return Default::default();
    }
    let before = vec![
        format!(
            "ext-tsp score: [intra: {:.6} -> {:.6}] [inter: {:.6} -> {:.6}]",
            placed.intra.before, placed.intra.after, placed.inter.before, placed.inter.after
        ),
        format!("entry-freq {}", function.entry_frequency()),
    ];
    let nodes = (0..).zip(&function.blocks).map(|(index, block)| {
        // Edges are sorted by where they begin.
        let begin = function.edges.partition_point(|edge| edge.from < BlockIndex(index));
        let leaving = function.edges.get(begin..).unwrap_or_default();
        let mut out: Vec<_> =
            leaving.iter().take_while(|edge| edge.from == BlockIndex(index)).collect();
        // The likeliest successor first.
        out.sort_by_key(|edge| (std::cmp::Reverse(edge.weight), edge.to));
        let target = |to: BlockIndex| {
            function.blocks.get(to.0 as usize).map_or(BlockId(u32::MAX), |block| block.id)
        };
        let edges: Vec<String> =
            out.iter().map(|edge| format!("{}:{}", target(edge.to).0, edge.weight)).collect();
        (block, edges)
    });
    let after = match comments {
        Comments::None => Vec::new(),
        Comments::PerBlock => nodes
            .map(|(block, edges)| {
                let edges: String = edges.iter().map(|edge| format!(" {edge}")).collect();
                format!("cfg-prof {}:{}{edges}", block.id.0, block.frequency)
            })
            .collect(),
        Comments::OneLine => {
            let ran = nodes.filter(|(block, _)| block.frequency != 0);
            let shown = ran.map(|(block, edges)| {
                let edges: String = edges.iter().map(|edge| format!(",{edge}")).collect();
                format!(" {}:{}{edges}", block.id.0, block.frequency)
            });
            vec![format!("cfg{}", shown.collect::<String>())]
        }
    };
    (before, after)
}
