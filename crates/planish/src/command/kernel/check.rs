//! `planish kernel check`: are the flags where they belong, and nowhere else?

use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output;
use kernel::check::{AreaFound, Checked, check};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Check in a build that the flags for profiles reached vmlinux and its modules, and nothing else.
///
/// Reads the commands that the kernel's build keeps beside its objects, and the markers and the
/// block map of vmlinux. A whole build is not needed: three objects show whether the edits work.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  make LLVM=-22 kernel/sched/core.o arch/x86/entry/vdso/vclock_gettime.o \
                        arch/x86/boot/compressed/string.o
  planish kernel check .
  planish kernel check /build --format json        # make O=/build

Exit codes: 0 fine, 1 flags are missing or where they do not belong, 2 wrong usage or input.")]
pub struct Args {
    /// The directory of the build: the tree, or what O= said
    #[arg(value_name = "BUILD")]
    build: PathBuf,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let found = check(&args.build)?;
    match args.format {
        Format::Json => output::print_json(&object(&found))?,
        Format::Text => output::print(&text(&found, global))?,
    }
    Ok(if found.wrong.is_empty() { FINE } else { NEGATIVE })
}

fn object(found: &Checked) -> Value {
    let area = |area: &AreaFound| {
        json!({
            "area": area.area.name(),
            "objects": area.objects,
            "with_autofdo": area.autofdo,
            "with_propeller": area.propeller,
            "example": area.example.0,
            "example_flags": area.example.1,
            "odd": area.odd,
        })
    };
    let linked = found.linked.as_ref().map(|linked| {
        json!({
            "hot_bytes": linked.hot_bytes,
            "split_bytes": linked.split_bytes,
            "unlikely_bytes": linked.unlikely_bytes,
            "block_map_bytes": linked.block_map_bytes,
        })
    });
    json!({
        "schema": "planish-kernel-check",
        "version": 1,
        "autofdo": found.autofdo,
        "propeller": found.propeller,
        "areas": found.areas.iter().map(area).collect::<Vec<_>>(),
        "vmlinux": linked,
        "wrong": found.wrong,
    })
}

fn text(found: &Checked, global: &Global) -> String {
    let word = |on: bool| if on { "on" } else { "off" };
    let mut lines = vec![
        format!("AUTOFDO_CLANG {}, PROPELLER_CLANG {}", word(found.autofdo), word(found.propeller)),
        "C objects of  all  AutoFDO  Propeller  for example".to_owned(),
    ];
    for area in &found.areas {
        let (object, flags) = &area.example;
        let flags = if flags.is_empty() { "no flags".to_owned() } else { flags.join(" ") };
        lines.push(format!(
            "{:<10} {:>6} {:>8} {:>10}  {object}: {flags}",
            area.area.name(),
            area.objects,
            area.autofdo,
            area.propeller
        ));
        let without = if area.area.is_profiled() { area.odd.as_slice() } else { &[] };
        if !without.is_empty() {
            let shown = if global.verbose { without.len() } else { 8.min(without.len()) };
            let more = without.len() - shown;
            let more = if more > 0 { format!(" and {more} more (-v)") } else { String::new() };
            let shown = without.get(..shown).unwrap_or_default().join(" ");
            lines.push(format!(
                "           not as the configuration says (opted out?): {shown}{more}"
            ));
        }
    }
    if let Some(linked) = &found.linked {
        let bytes =
            |what: Option<u64>| what.map_or("none".to_owned(), |bytes| format!("{bytes} bytes"));
        lines.push(format!(
            "vmlinux: hot text {}, unlikely {}, split {}, block map {}",
            bytes(linked.hot_bytes),
            bytes(linked.unlikely_bytes),
            bytes(linked.split_bytes),
            bytes(linked.block_map_bytes)
        ));
    }
    lines.extend(found.wrong.iter().map(|wrong| format!("wrong: {wrong}")));
    lines.join("\n") + "\n"
}
