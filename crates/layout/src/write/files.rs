//! Which files a layout becomes, by who reads them.

use super::cc::{CcVersion, Comments, cc_profile};
use super::check::{self, Severity};
use super::order::Order;
use super::sections::{SectionOrder, section_order};
use super::{bolt, order};
use crate::{Error, Plan};
use std::path::{Path, PathBuf};

/// Kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Clusters of blocks for clang and the order of their sections for lld: `_cc_profile.txt`,
    /// `_ld_profile.txt`.
    Propeller,
    /// Order of functions for lld (`--symbol-ordering-file`).
    SymbolOrder,
    /// Order of functions for GNU ld 2.43 and newer (`--section-ordering-file`).
    SectionOrder,
    /// The same for any GNU ld (`-T`).
    LinkerScript,
    /// The same for gold (`--section-ordering-file`).
    GoldOrder,
    /// Branch profile for llvm-bolt (`-data`).
    Fdata,
    /// Counts for perf2bolt (`-pa -p`).
    Preaggregated,
    /// Branch profile and names of the functions without an address map, for llvm-bolt on the
    /// program with the layout (`-data`, `-funcs-file-no-regex`): `_rest.fdata`,
    /// `_rest_functions.txt`.
    Rest,
}

impl FileKind {
    /// Those of [`FileKind::Propeller`]: cc profile, ld profile.
    pub const PROPELLER_SUFFIXES: [&'static str; 2] = ["_cc_profile.txt", "_ld_profile.txt"];

    /// What the names of the files of this kind have after the prefix.
    pub fn suffixes(self) -> &'static [&'static str] {
        match self {
            FileKind::Propeller => &FileKind::PROPELLER_SUFFIXES,
            FileKind::SymbolOrder => &["_symbol_order.txt"],
            FileKind::SectionOrder => &["_section_order.txt"],
            FileKind::LinkerScript => &["_order.ld"],
            FileKind::GoldOrder => &["_gold_order.txt"],
            FileKind::Fdata => &[".fdata"],
            FileKind::Preaggregated => &["_preaggregated.txt"],
            FileKind::Rest => &["_rest.fdata", "_rest_functions.txt"],
        }
    }
}

/// How files are written.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileOptions {
    /// Version of the cc profile.
    pub cc_version: CcVersion,
    /// Scores and edges as comments in it.
    pub verbose_comments: bool,
}

/// A file to write.
#[derive(Debug, Clone)]
pub struct LayoutFile {
    /// What it is, in words.
    pub what: &'static str,
    /// What its name has after the prefix.
    pub suffix: &'static str,
    /// What it holds.
    pub text: String,
    /// What must be known about it.
    pub warnings: Vec<String>,
}

impl LayoutFile {
    /// Its path.
    pub fn path(&self, prefix: &Path) -> PathBuf {
        with_suffix(prefix, self.suffix)
    }
}

/// The path of a file by the start and the end of its name.
pub fn with_suffix(prefix: &Path, suffix: &str) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The files of one kind.
///
/// # Errors
/// Where the format cannot hold the layout, or a compiler would not take it.
pub fn files(plan: &Plan, kind: FileKind, options: FileOptions) -> Result<Vec<LayoutFile>, Error> {
    let (cfg, layout) = (&plan.cfg, &plan.layout);
    let file = |what, suffix, text| LayoutFile { what, suffix, text, warnings: Vec::new() };
    let ordered = |what, suffix, order: Order| LayoutFile {
        warnings: left_out(what, &order.left_out),
        ..file(what, suffix, order.text)
    };
    let sections = |form| section_order(cfg, layout, form);
    Ok(match kind {
        FileKind::Propeller => propeller(plan, options)?,
        FileKind::SymbolOrder => {
            vec![ordered("symbol order", "_symbol_order.txt", order::symbol_order(cfg, layout)?)]
        }
        FileKind::SectionOrder => {
            vec![ordered(
                "section order",
                "_section_order.txt",
                sections(SectionOrder::GnuOrdering)?,
            )]
        }
        FileKind::LinkerScript => {
            vec![ordered("linker script", "_order.ld", sections(SectionOrder::GnuScript)?)]
        }
        FileKind::GoldOrder => {
            vec![ordered("section order of gold", "_gold_order.txt", sections(SectionOrder::Gold)?)]
        }
        FileKind::Fdata => {
            let (text, report) = bolt::fdata(&plan.image, plan.counts()?)?;
            let mut fdata = file("branch profile of BOLT", ".fdata", text);
            if report.ranges_unused > 0 {
                fdata.warnings.push(format!(
                    "fdata: {} of {} ranges lie in no function or cross one; {} branches with an \
                     end outside and {} returns are not written",
                    report.ranges_unused, report.ranges, report.outside, report.returns
                ));
            }
            vec![fdata]
        }
        FileKind::Preaggregated => {
            let text = bolt::preaggregated(&plan.image, plan.counts()?);
            vec![file("pre-aggregated counts", "_preaggregated.txt", text)]
        }
        FileKind::Rest => rest(plan)?,
    })
}

/// What BOLT needs for the functions that the layout cannot reach.
fn rest(plan: &Plan) -> Result<Vec<LayoutFile>, Error> {
    let mapped = image::blocks::read(&plan.image)?.iter().map(|entry| entry.address()).collect();
    let rest = bolt::rest(&plan.image, plan.counts()?, &mapped)?;
    if rest.functions.is_empty() {
        return Err(Error::NothingUnmapped { image: plan.image.path().to_owned() });
    }
    let file = |what, suffix, text| LayoutFile { what, suffix, text, warnings: Vec::new() };
    Ok(vec![
        file("branch profile of the rest", "_rest.fdata", rest.fdata),
        file("functions without an address map", "_rest_functions.txt", rest.functions),
    ])
}

/// Says which names a file cannot hold.
fn left_out(what: &str, names: &[String]) -> Vec<String> {
    let Some(first) = names.first() else { return Vec::new() };
    let more = match names.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    vec![format!("{what}: the name {first:?}{more} cannot stand in it and is left out")]
}

fn propeller(plan: &Plan, options: FileOptions) -> Result<Vec<LayoutFile>, Error> {
    let (cfg, layout) = (&plan.cfg, &plan.layout);
    let findings = check::layout(cfg, layout);
    if let Some(fatal) = findings.iter().find(|finding| finding.severity == Severity::Fatal) {
        let (image, finding) = (plan.image.path().to_owned(), fatal.to_string());
        return Err(Error::Refused { image, finding });
    }
    let comments = match (options.verbose_comments, options.cc_version) {
        (false, _) => Comments::None,
        (true, CcVersion::V0) => Comments::PerBlock,
        (true, CcVersion::V1) => Comments::OneLine,
    };
    let cc = cc_profile(cfg, layout, options.cc_version, comments)?;
    let cc = cc.render().map_err(|source| {
        let image = plan.image.path().to_owned();
        Error::CcProfile { image, source }
    })?;
    let ld = order::ld_profile(cfg, layout)?;
    let cc = LayoutFile {
        what: "cc profile",
        suffix: "_cc_profile.txt",
        text: cc,
        warnings: findings.iter().take(5).map(ToString::to_string).collect(),
    };
    Ok(vec![
        cc,
        LayoutFile {
            what: "ld profile",
            suffix: "_ld_profile.txt",
            text: ld,
            warnings: Vec::new(),
        },
    ])
}
