//! The order of functions for GNU ld and gold, as names of the sections that `-ffunction-sections`
//! gives them.
//!
//! These linkers order sections, not symbols. A compiler puts `name` into `.text.name`, and, by
//! what it knows of it, into `.text.hot.name`, `.text.startup.name` or `.text.unlikely.name`; the
//! same link may hold any of them.
//! * GNU ld 2.43 and newer, `--section-ordering-file`: statements as in a linker script, output
//!   sections that exist.
//! * Any GNU ld, `-T`: a script with `INSERT`, which the linker adds to its own; the functions get
//!   an output section of their own before `.text`.
//! * gold, `--section-ordering-file`: one section name (a glob) a line.
//!
//! Source: binutils, `ld/ld.texi` ("--section-ordering-file", "INSERT"), `gold/options.h`.

use super::Error;
use super::order::{self, Order};
use crate::{Cfg, Layout};
use std::fmt::Write as _;

/// Which linker reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionOrder {
    /// GNU ld from 2.43 on, `--section-ordering-file`.
    GnuOrdering,
    /// Any GNU ld, `-T`.
    GnuScript,
    /// gold, `--section-ordering-file`.
    Gold,
}

/// The output section of [`SectionOrder::GnuScript`].
pub const ORDERED_SECTION: &str = ".text.ordered";

/// The sections of the functions of a layout, in its order. Names that cannot stand in the file are
/// left out.
///
/// # Errors
/// Where the layout is not of this graph.
pub fn section_order(cfg: &Cfg, layout: &Layout, form: SectionOrder) -> Result<Order, Error> {
    let mut out = String::new();
    let functions = order::functions(cfg, layout)?;
    let mut sections = Vec::new();
    let mut left_out = Vec::new();
    for name in functions.iter().flat_map(|function| &function.names) {
        let bad = |c: char| c.is_whitespace() || c.is_control() || "\"*?[]\\".contains(c);
        if name.chars().any(bad) {
            left_out.push(name.clone());
            continue;
        }
        // A split-off cold part that ran all the same lies in the section of its function.
        match name.strip_suffix(".cold") {
            Some(whole) => sections.push(vec![format!(".text.unlikely.{whole}")]),
            None => sections.push(
                ["hot.", "", "startup."]
                    .iter()
                    .map(|prefix| format!(".text.{prefix}{name}"))
                    .collect(),
            ),
        }
    }
    let indent = match form {
        SectionOrder::GnuOrdering => {
            out.push_str(".text :\n{\n");
            "  "
        }
        SectionOrder::GnuScript => {
            let _ = writeln!(out, "SECTIONS\n{{\n  {ORDERED_SECTION} :\n  {{");
            "    "
        }
        SectionOrder::Gold => "",
    };
    for names in sections {
        if form == SectionOrder::Gold {
            for name in names {
                let _ = writeln!(out, "{name}");
            }
        } else {
            let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
            let _ = writeln!(out, "{indent}*({})", names.join(" "));
        }
    }
    match form {
        SectionOrder::GnuOrdering => out.push_str("}\n"),
        SectionOrder::GnuScript => out.push_str("  }\n}\nINSERT BEFORE .text;\n"),
        SectionOrder::Gold => {}
    }
    Ok(Order { text: out, left_out })
}

/// A name as a linker script takes it; quoted where it holds what scripts read otherwise.
fn quoted(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "._$".contains(c));
    if plain { name.to_owned() } else { format!("\"{name}\"") }
}
