//! How are the counts of kernels told? Side by side, with ratios to the first one, on a terminal and
//! as a report.

use crate::{Colour, Style, count};
use kernel::cost::{Counts, FIGURES, Kernel, Sizes};
use std::fmt::Write;

/// Tables for a terminal; without sizes where there are none.
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
