//! What kernels cost, side by side: counts of each section, sums of the training and of the
//! held-out ones, sizes.

use anyhow::Context;
use code_metrics::machine::SectionMetrics;
use object::{Object, ObjectSection, SectionKind};
use report::{Colour, Style, count};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// All kernels that were measured, the base first. What `planish kernel measure --format json`
/// prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// `planish-kernel-measure`.
    pub schema: String,
    /// Of this form.
    pub version: u32,
    /// The emulator and its version.
    pub emulator: String,
    /// The sections of the workload.
    pub sections: Vec<Section>,
    /// The kernels.
    pub kernels: Vec<Kernel>,
}

/// A section of the workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// The number of its marker.
    pub number: u8,
    /// Its name.
    pub name: String,
    /// Never recorded, only measured.
    pub held_out: bool,
}

/// What one kernel cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Its name here.
    pub name: String,
    /// The boot image.
    pub image: String,
    /// By section.
    pub sections: Vec<SectionMetrics>,
}

/// Sizes of a kernel's parts in memory, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// Which kernel.
    pub name: String,
    /// Code.
    pub text: u64,
    /// Data, read-only or not.
    pub data: u64,
    /// Zeroed memory.
    pub bss: u64,
    /// The file with symbols.
    pub file: u64,
}

/// One figure of several sections.
type Figure = (&'static str, fn(&SectionMetrics) -> u64);

/// The columns. Lines and pages are sums over sections, since each section is a workload of its
/// own.
const FIGURES: [Figure; 7] = [
    ("instructions", |m| m.instructions),
    ("taken branches", |m| m.taken_branches),
    ("L1i misses", |m| m.l1i_misses),
    ("iTLB misses 4K", |m| m.itlb_4k_misses),
    ("iTLB misses 2M", |m| m.itlb_2m_misses),
    ("lines touched", |m| m.code_lines),
    ("4K pages touched", |m| m.code_pages_4k),
];

impl Counts {
    fn is(&self, number: u8, held_out: bool) -> bool {
        self.sections.iter().any(|section| section.number == number && section.held_out == held_out)
    }

    /// The sum of a figure over the training or the held-out sections.
    fn sum(&self, kernel: &Kernel, held_out: bool, figure: Figure) -> u64 {
        let here = kernel.sections.iter().filter(|metrics| self.is(metrics.section, held_out));
        here.map(|metrics| figure.1(metrics)).fold(0, u64::saturating_add)
    }

    /// The last kernel but for the one that `optimize --align` builds for comparison.
    pub fn last(&self) -> Option<&Kernel> {
        self.kernels.iter().rev().find(|kernel| kernel.name != super::plan::ALIGNED)
    }

    /// The same beside the base's, where that is not zero.
    fn ratio(&self, kernel: &Kernel, held_out: bool, figure: Figure) -> Option<f64> {
        let base = self.sum(self.kernels.first()?, held_out, figure);
        (base > 0).then(|| self.sum(kernel, held_out, figure) as f64 / base as f64)
    }
}

/// Whether the last kernel (but for one that is there for comparison) takes more branches or
/// fetches more lines anew than the first, in training or in held-out sections.
pub fn is_worse(counts: &Counts) -> bool {
    let Some(last) = counts.last() else {
        return false;
    };
    let [_, taken, l1i, ..] = FIGURES;
    let ratios = [false, true]
        .into_iter()
        .flat_map(|held| [taken, l1i].map(|f| counts.ratio(last, held, f)));
    ratios.flatten().any(|ratio| ratio > 1.0)
}

/// Reads the sizes of each kernel's file, which `path` names.
pub fn sizes(counts: &Counts, path: impl Fn(&str) -> PathBuf) -> anyhow::Result<Vec<Sizes>> {
    counts.kernels.iter().map(|kernel| size(&kernel.name, &path(&kernel.name))).collect()
}

fn size(name: &str, path: &Path) -> anyhow::Result<Sizes> {
    let bytes = crate::input::read(path)?;
    let file = object::File::parse(&*bytes).with_context(|| path.display().to_string())?;
    let mut sizes =
        Sizes { name: name.to_owned(), text: 0, data: 0, bss: 0, file: bytes.len() as u64 };
    for section in file.sections() {
        let sum = match section.kind() {
            SectionKind::Text => &mut sizes.text,
            SectionKind::UninitializedData => &mut sizes.bss,
            SectionKind::Data | SectionKind::ReadOnlyData | SectionKind::ReadOnlyString => {
                &mut sizes.data
            }
            _ => continue,
        };
        *sum = sum.saturating_add(section.size());
    }
    Ok(sizes)
}

/// A table for a terminal.
pub fn text(counts: &Counts, sizes: &[Sizes], style: Style) -> String {
    let mut text = String::new();
    for (held_out, title) in [(false, "training sections"), (true, "held-out sections")] {
        if !counts.sections.iter().any(|section| section.held_out == held_out) {
            continue;
        }
        let _ = write!(text, "{}\n{:<18}", style.paint(Colour::Strong, title), "");
        for kernel in &counts.kernels {
            let _ = write!(text, " {:>22}", kernel.name);
        }
        text.push('\n');
        for figure in FIGURES {
            let _ = write!(text, "  {:<16}", figure.0);
            for (at, kernel) in counts.kernels.iter().enumerate() {
                let sum = count(counts.sum(kernel, held_out, figure));
                let ratio = counts.ratio(kernel, held_out, figure).filter(|_| at > 0);
                let ratio = ratio.map_or("      ".to_owned(), |ratio| format!(" {ratio:.3}"));
                let _ = write!(text, " {:>22}", format!("{sum}{ratio}"));
            }
            text.push('\n');
        }
    }
    if !sizes.is_empty() {
        let _ = writeln!(text, "{}", style.paint(Colour::Strong, "sizes in bytes"));
        for (what, of) in SIZES {
            let _ = write!(text, "  {what:<16}");
            for kernel in sizes {
                let _ = write!(text, " {:>22}", format!("{}      ", count(of(kernel))));
            }
            text.push('\n');
        }
    }
    text
}

type SizeOf = fn(&Sizes) -> u64;
const SIZES: [(&str, SizeOf); 4] =
    [("text", |s| s.text), ("data", |s| s.data), ("bss", |s| s.bss), ("vmlinux", |s| s.file)];

/// A report, with a table of the sections.
pub fn markdown(title: &str, counts: &Counts, sizes: &[Sizes], seconds: f64) -> String {
    let mut text = format!("# {title}\n\n");
    let names: Vec<&str> = counts.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    let _ = writeln!(
        text,
        "Counts of the kernel's code under {}, exact and the same in every run: caches of 32 KiB, \
         8 ways (L1i), and translation buffers of 64 entries (4 KiB) and 8 (2 MiB) are simulated, \
         and emptied where a section begins. Emulation says nothing about time. `base` is built \
         with the flags for profiles and without a profile; what follows a count is its ratio to \
         `base`. All steps together took {:.0} minutes.\n",
        counts.emulator,
        seconds / 60.0
    );
    for (held_out, title) in [(false, "Training sections"), (true, "Held-out sections")] {
        let _ = write!(
            text,
            "## {title}\n\n| | {} |\n|---|{}\n",
            names.join(" | "),
            "---:|".repeat(names.len())
        );
        for figure in FIGURES {
            let _ = write!(text, "| {} |", figure.0);
            for (at, kernel) in counts.kernels.iter().enumerate() {
                let ratio = counts.ratio(kernel, held_out, figure).filter(|_| at > 0);
                let ratio = ratio.map_or(String::new(), |ratio| format!(" ({ratio:.3})"));
                let _ = write!(text, " {}{ratio} |", count(counts.sum(kernel, held_out, figure)));
            }
            text.push('\n');
        }
        text.push('\n');
    }
    let _ = write!(
        text,
        "## Sizes\n\nIn bytes.\n\n| | {} |\n|---|{}\n",
        names.join(" | "),
        "---:|".repeat(names.len())
    );
    for (what, of) in SIZES {
        let _ = write!(text, "| {what} |");
        for kernel in sizes {
            let _ = write!(text, " {} |", count(of(kernel)));
        }
        text.push('\n');
    }
    let last = counts.last();
    if let (Some(base), Some(last)) = (counts.kernels.first(), last) {
        let _ = write!(text, "\n## Sections\n\n`{}` beside `base`.\n\n| section | |", last.name);
        let shown = [FIGURES[0], FIGURES[1], FIGURES[2], FIGURES[3]];
        let headings: Vec<&str> = shown.iter().map(|figure| figure.0).collect();
        let _ =
            write!(text, " {} |\n|---|---|{}\n", headings.join(" | "), "---:|".repeat(shown.len()));
        for section in &counts.sections {
            let of = |kernel: &Kernel| {
                kernel.sections.iter().find(|m| m.section == section.number).copied()
            };
            let (Some(base), Some(last)) = (of(base), of(last)) else { continue };
            let _ = write!(
                text,
                "| {} | {} |",
                section.name,
                if section.held_out { "held out" } else { "training" }
            );
            for figure in shown {
                let (base, last) = (figure.1(&base), figure.1(&last));
                let _ = match base {
                    0 => write!(text, " {last} of 0 |"),
                    _ => write!(text, " {:.3} |", last as f64 / base as f64),
                };
            }
            text.push('\n');
        }
    }
    text
}

/// The JSON form of `planish kernel optimize`.
pub fn object(counts: &Counts, sizes: &[Sizes], seconds: f64) -> Value {
    let ratios = |held_out: bool| -> Value {
        let of = |kernel: &Kernel| -> Value {
            FIGURES
                .iter()
                .map(|figure| (figure.0.to_owned(), json!(counts.ratio(kernel, held_out, *figure))))
                .collect()
        };
        counts.kernels.iter().map(|kernel| (kernel.name.clone(), of(kernel))).collect()
    };
    json!({
        "schema": "planish-kernel-optimize",
        "version": 1,
        "seconds": seconds,
        "training": ratios(false),
        "held_out": ratios(true),
        "sizes": sizes,
        "counts": counts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts() -> Counts {
        let metrics = code_metrics::machine::SectionMetrics {
            section: 1,
            instructions: 400,
            branches: 100,
            taken_branches: 50,
            conditional_branches: 80,
            conditional_taken: 40,
            l1i_misses: 20,
            l2_misses: 10,
            itlb_4k_misses: 4,
            itlb_2m_misses: 0,
            code_lines: 9,
            code_pages_4k: 3,
            code_pages_2m: 1,
            interruptions: 2,
        };
        let less = code_metrics::machine::SectionMetrics { taken_branches: 40, ..metrics };
        let kernel = |name: &str, metrics| Kernel {
            name: name.to_owned(),
            image: format!("{name}.bzImage"),
            sections: vec![metrics],
        };
        Counts {
            schema: "planish-kernel-measure".to_owned(),
            version: 1,
            emulator: "QEMU".to_owned(),
            sections: vec![Section { number: 1, name: "syscall".to_owned(), held_out: false }],
            kernels: vec![kernel("base", metrics), kernel("new", less)],
        }
    }

    /// The keys of all objects in a value.
    fn keys(value: &Value, found: &mut std::collections::BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.keys().cloned());
                map.values().for_each(|value| keys(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
            _ => {}
        }
    }

    #[test]
    fn the_document_names_every_key_of_the_json_forms() {
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/kernel.md");
        let text = std::fs::read_to_string(document).unwrap();
        let rows: String =
            text.lines().filter(|line| line.starts_with("| `planish-kernel-")).collect();
        let sizes = [Sizes { name: "base".to_owned(), text: 1, data: 2, bss: 3, file: 4 }];
        let object = object(&counts(), &sizes, 1.0);
        let mut found = std::collections::BTreeSet::new();
        keys(&object, &mut found);
        let of_the_table = |key: &String| FIGURES.iter().any(|figure| figure.0 == key.as_str());
        let of_all = ["schema", "version", "base", "new"];
        found.retain(|key| !of_all.contains(&key.as_str()) && !of_the_table(key));
        assert!(found.contains("interruptions") && found.contains("held_out"), "{found:?}");
        let named = |key: &String| {
            rows.contains(&format!("`{key}`")) || rows.contains(&format!("`{key}[]`"))
        };
        let missing: Vec<_> = found.iter().filter(|key| !named(key)).collect();
        assert!(missing.is_empty(), "{document} does not name {missing:?}");
        assert_eq!(object["training"]["new"]["taken branches"], 0.8);
        assert_eq!(object["training"]["new"]["iTLB misses 2M"], Value::Null);
        assert_eq!(object["held_out"]["new"]["taken branches"], Value::Null);
    }

    #[test]
    fn a_kernel_is_worse_when_one_count_that_is_judged_grows() {
        let mut counts = counts();
        assert!(!is_worse(&counts));
        counts.kernels.reverse();
        assert!(is_worse(&counts));
    }
}
