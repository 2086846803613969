//! What `planish layout` made, found applied, or shows, as plain values; and how they are told.
//!
//! [`LayoutSummary`], [`VerifyResult`] and [`LayoutView`] are what `--format json` prints; the
//! terminal and the page are functions of them alone.

mod page;
mod summarise;
mod text;
mod view;

pub use page::{page, picture};
pub use text::{function, heat, summary, verification};
pub use view::{check_json, check_text};

use serde::{Deserialize, Serialize};

/// Version of the JSON forms, which stand in `docs/reference/layout.md`.
const VERSION: u32 = 1;

/// What came in, what was used, and what was not, by reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Book {
    /// Counts that came in.
    pub entered: u64,
    /// Of them used.
    pub used: u64,
    /// The others: reason in words, count.
    pub unused: Vec<(String, u64)>,
}

/// An order of the program, measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Worth {
    /// Ext-TSP score of jumps within functions.
    pub score_within: f64,
    /// Ext-TSP score of calls.
    pub score_calls: f64,
    /// Executions of jumps within functions that are taken branches.
    pub taken: u64,
    /// Executions of jumps within functions that are none.
    pub fall_throughs: u64,
    /// Pages of 4 KiB that are executed, and the fewest that hold 90 % of the executions.
    pub pages_4k: (u64, u64),
    /// The same for pages of 2 MiB.
    pub pages_2m: (u64, u64),
}

/// The jumps within functions that a layout turns over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Turned {
    /// How many were taken branches and fall through now, and their executions.
    pub to_fall_through: (u64, u64),
    /// How many fell through and are taken now, and their executions.
    pub to_taken: (u64, u64),
    /// The most executed of those that fall through now.
    pub lines: Vec<TurnedLine>,
    /// The functions that executed most.
    #[serde(default)]
    pub functions: Vec<TurnedFunction>,
}

/// Where a function stands before and after a layout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnedFunction {
    /// Its linkage name.
    pub name: String,
    /// The share of its code in all executed bytes, 0 to 1.
    pub share: f64,
    /// Executions of its jumps that were taken branches as recorded, and as laid out; none where it
    /// has clones.
    pub taken: Option<(u64, u64)>,
}

/// A source line whose branch falls through now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnedLine {
    /// The function, by its linkage name.
    pub function: String,
    /// The file, where it is known.
    pub file: Option<String>,
    /// The line; 0 without.
    pub line: u32,
    /// How often the jump was executed.
    pub executions: u64,
}

/// What `planish layout` made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayoutSummary {
    /// `planish-layout`.
    pub schema: String,
    /// Version of this form.
    pub version: u32,
    /// The binary.
    pub binary: String,
    /// Its build ID.
    pub build_id: Option<String>,
    /// What the counts were, in words.
    pub observed: String,
    /// Functions of the binary that could be laid out.
    pub mapped_functions: u64,
    /// Functions laid out.
    pub functions: u64,
    /// Clusters of them.
    pub clusters: u64,
    /// Blocks in clusters, their bytes.
    pub hot_blocks: (u64, u64),
    /// Blocks of these functions in no cluster, their bytes.
    pub cold_blocks: (u64, u64),
    /// Clones made.
    pub clones: u64,
    /// As recorded.
    pub before: Worth,
    /// As laid out.
    pub after: Worth,
    /// The jumps that it turns over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turned: Option<Turned>,
    /// Branches, ranges and samples: name, book.
    pub books: Vec<(String, Book)>,
    /// Functions left out: reason in words, how many.
    pub left_out: Vec<(String, u64)>,
    /// Whether the samples are enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<crate::Evidence>,
    /// What must be known.
    pub warnings: Vec<String>,
    /// Files written: for what, path.
    pub files: Vec<(String, String)>,
}

/// What `planish layout merge` made of several layouts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MergedLayouts {
    /// `planish-layout-merge`.
    pub schema: String,
    /// Version of this form.
    pub version: u32,
    /// Functions laid out.
    pub functions: u64,
    /// Functions of several layouts: name, the layout that was kept, the one that was left out.
    pub shared: Vec<(String, String, String)>,
}

impl MergedLayouts {
    /// As a value of this version.
    pub fn of(functions: u64, shared: Vec<(String, String, String)>) -> MergedLayouts {
        let schema = "planish-layout-merge".to_owned();
        MergedLayouts { schema, version: VERSION, functions, shared }
    }
}

/// Whether a layout is in a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifyResult {
    /// `planish-layout-verify`.
    pub schema: String,
    /// Version of this form.
    pub version: u32,
    /// The program that was linked anew.
    pub binary: String,
    /// Whether nothing deviates of what was looked for, and something was.
    pub applied: bool,
    /// Sections or functions asked for.
    pub asked: u64,
    /// Of them found.
    pub found: u64,
    /// Of those in the order asked for.
    pub in_order: u64,
    /// Sections whose blocks were compared, and those with the blocks asked for.
    pub blocks: (u64, u64),
    /// Functions that were not looked for, since others share their names; executions of their
    /// blocks; executions of the blocks of all functions of the layout.
    #[serde(default)]
    pub not_checked: (u64, u64, u64),
    /// Bytes of the hot sections, and from the start of the first to the end of the last.
    pub hot_bytes: (u64, u64),
    /// How much deviates.
    pub deviations: u64,
    /// The first of it: symbol, what is wrong.
    pub first: Vec<(String, String)>,
}

/// Pages of the text, run by run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeatView {
    /// Name of the order.
    pub name: String,
    /// Size of a page.
    pub page_bytes: u64,
    /// Pages: address, executions, executed bytes, `hot`, `warm` or `cold`.
    pub pages: Vec<PageView>,
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PageView {
    /// Its first address.
    pub address: u64,
    /// Executions of blocks on it, cut at 2^64 - 1.
    pub executions: u64,
    /// Bytes of those blocks.
    pub executed_bytes: u64,
    /// `hot`, `warm` or `cold`.
    pub heat: String,
}

impl HeatView {
    /// How many pages are of a class.
    pub fn count(&self, heat: &str) -> usize {
        self.pages.iter().filter(|page| page.heat == heat).count()
    }
}

/// A block of a function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockView {
    /// Its number, with the clone behind a dot.
    pub id: String,
    /// Address in the recorded image.
    pub address: u64,
    /// Bytes.
    pub size: u32,
    /// Executions; `None` for clones.
    pub frequency: Option<u64>,
    /// Its successors: number, executions, likeliest first.
    pub successors: Vec<(u32, u64)>,
    /// What else is known: `entry`, `landing pad`, `returns`, `indirect branch`.
    pub marks: Vec<String>,
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionView {
    /// Its names.
    pub names: Vec<String>,
    /// The source file of its unit, where that tells it from others of its name.
    #[serde(default)]
    pub module: Option<String>,
    /// Address in the recorded image.
    pub address: u64,
    /// Why it is not laid out; nothing below then.
    pub left_out: Option<String>,
    /// Its score before and after.
    pub score: (f64, f64),
    /// Clone paths by block numbers.
    pub paths: Vec<Vec<u32>>,
    /// Clusters, each with its symbol and its place among all sections.
    pub clusters: Vec<(String, u64, Vec<BlockView>)>,
    /// Blocks in no cluster.
    pub cold: Vec<BlockView>,
}

/// What `planish layout show` shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayoutView {
    /// `planish-layout-show`.
    pub schema: String,
    /// Version of this form.
    pub version: u32,
    /// The binary.
    pub binary: String,
    /// The text as recorded and as laid out.
    pub heat: Vec<HeatView>,
    /// Functions asked for.
    pub functions: Vec<FunctionView>,
}
