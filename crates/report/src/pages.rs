//! How is text on superpages told: what can lie there, what was brought there, what lies there, and
//! what a machine can do? The objects are what `--format json` prints.

use crate::{bytes, visible};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;
use superpages::{Aligned, Arch, Assessment, Backing, Kind, Probe, User, Verification, Warmed};

/// A path as text shows it, on one line whatever it holds.
fn shown(path: &Path) -> String {
    visible(&path.display().to_string()).into_owned()
}

/// How the others of a list are told, where there are any.
fn and_more(others: usize) -> String {
    if others == 0 { String::new() } else { format!(" and {others} more") }
}

/// Bytes as people read them.
fn size(number: u64) -> String {
    bytes(number as f64)
}

/// What of the text of files can lie on superpages.
#[derive(Debug, Serialize)]
pub struct Checked {
    /// Bytes of text.
    pub text_bytes: u64,
    /// Bytes of it that can.
    pub eligible_bytes: u64,
    /// The same in per cent.
    pub eligible_pct: f64,
    /// The same after `align`, files that it refuses counted as they are.
    pub aligned_pct: f64,
    /// The files.
    pub files: Vec<Assessment>,
    /// Files that could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<usize>,
    /// ELF files that are no program or library of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_elf: Option<usize>,
}

impl Checked {
    /// The files, summed up.
    pub fn of(
        files: Vec<Assessment>,
        unreadable: Option<usize>,
        other_elf: Option<usize>,
    ) -> Checked {
        let sum = |of: fn(&Assessment) -> u64| files.iter().map(of).sum::<u64>();
        let (text_bytes, eligible_bytes) = (sum(|f| f.text_bytes), sum(|f| f.eligible_bytes));
        let after =
            |f: &Assessment| f.aligned_pct.unwrap_or(f.eligible_pct) / 100.0 * f.text_bytes as f64;
        let aligned = files.iter().map(after).sum::<f64>() as u64;
        Checked {
            text_bytes,
            eligible_bytes,
            eligible_pct: superpages::percent(eligible_bytes, text_bytes),
            aligned_pct: superpages::percent(aligned, text_bytes),
            files,
            unreadable,
            other_elf,
        }
    }

    /// One line a file, the largest loss first.
    pub fn table(&self) -> String {
        let mut files: Vec<&Assessment> = self.files.iter().collect();
        files.sort_by_key(|file| std::cmp::Reverse(file.text_bytes - file.eligible_bytes));
        let mut text =
            format!("{:>10} {:>8} {:>8} {:>8}  file\n", "text", "now %", "aligned", "filled");
        for file in files {
            let (aligned, filled) = (optional(file.aligned_pct), optional(file.filled_pct));
            let (now, path) = (file.eligible_pct, shown(&file.path));
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{:>10} {now:>8.1} {aligned:>8} {filled:>8}  {path}",
                size(file.text_bytes)
            );
        }
        let _ = writeln!(
            text,
            "\n{} files with {} of text: {:.1} % can lie on superpages as they are, {:.1} % after \
         planish pages align",
            self.files.len(),
            size(self.text_bytes),
            self.eligible_pct,
            self.aligned_pct
        );
        let (unreadable, other) = (self.unreadable.unwrap_or(0), self.other_elf.unwrap_or(0));
        let _ = writeln!(
            text,
            "not looked at: {unreadable} that cannot be read, {other} ELF files that are no program \
         or library of this kind"
        );
        text
    }

    /// All of each file: its segments, what is lost and how to get it.
    pub fn details(&self, verbose: bool) -> String {
        self.files.iter().map(|file| details(file, verbose)).collect()
    }
}

fn details(file: &Assessment, verbose: bool) -> String {
    let mut text = String::new();
    let kind = match file.kind {
        Kind::Fixed => "program at fixed addresses",
        Kind::Pie => "position-independent program",
        Kind::Library => "shared library",
    };
    let _ = writeln!(text, "{}: {kind}", shown(&file.path));
    let (all, can) = (size(file.text_bytes), size(file.eligible_bytes));
    let _ =
        writeln!(text, "  {can} of {all} text ({:.1} %) can lie on superpages", file.eligible_pct);
    for segment in &file.segments {
        let (address, bytes) = (segment.address, size(segment.bytes));
        let _ = writeln!(text, "  segment at {address:#x}, offset {:#x}, {bytes}:", segment.offset);
        for one in &segment.sizes {
            let how = if one.size.contiguous { ", contiguous entries" } else { "" };
            let pages = format!(
                "{} pages on {} base pages{how}",
                size(one.size.bytes),
                size(one.size.base_page)
            );
            let _ = writeln!(text, "    {pages}: {} can", size(one.share.eligible_bytes));
            for (reason, &bytes) in &one.share.losses {
                let cure =
                    reason.cure(one.size).map_or_else(String::new, |cure| format!("; {cure}"));
                let _ =
                    writeln!(text, "      {:>10} cannot: {}{cure}", size(bytes), reason.words());
            }
        }
    }
    match (&file.refused, file.aligned_pct) {
        (None, Some(aligned))
            if aligned > file.eligible_pct || file.filled_pct > file.aligned_pct =>
        {
            let filled = file.filled_pct.filter(|&filled| filled > aligned);
            let filled = filled.map_or_else(String::new, |pct| format!(", {pct:.1} % with --fill"));
            let _ = writeln!(text, "  after planish pages align: {aligned:.1} %{filled}");
        }
        (Some(refused), _) if file.eligible_pct < 90.0 => {
            let _ = writeln!(text, "  planish pages align does not help: {}", visible(refused));
        }
        _ => {}
    }
    if file.eligible_pct < 90.0 || verbose {
        let _ = writeln!(text, "  linked anew:");
        let bases: &[u64] = if matches!(file.arch, Arch::Aarch64 | Arch::Arm) {
            &[0x1000, 0x4000]
        } else {
            &[0x1000]
        };
        for &base in bases {
            // What lies on less than a superpage needs one of its own.
            let helps = |advice: &superpages::Advice| {
                file.text_bytes >= superpages::SUPERPAGE || advice.flags.contains("separate-")
            };
            for advice in superpages::link_flags(file.arch, base).into_iter().filter(helps) {
                let on = if bases.len() > 1 {
                    format!(" ({} base pages)", size(base))
                } else {
                    String::new()
                };
                let _ = writeln!(
                    text,
                    "    {}{on}: {}\n      {}",
                    advice.linker, advice.flags, advice.effect
                );
            }
        }
    }
    text
}

fn optional(pct: Option<f64>) -> String {
    pct.map_or_else(|| "-".to_owned(), |pct| format!("{pct:.1}"))
}

/// What became of files whose text was brought to superpages.
#[derive(Debug, Serialize)]
pub struct WarmedAll {
    /// Whether all that can lie on superpages does.
    pub whole: bool,
    /// Bytes that can.
    pub eligible_bytes: u64,
    /// Bytes that did before.
    pub before_bytes: u64,
    /// Bytes that do now.
    pub after_bytes: u64,
    /// The files.
    pub files: Vec<Warmed>,
}

impl WarmedAll {
    /// The files, summed up.
    pub fn of(files: Vec<Warmed>) -> WarmedAll {
        let sum = |of: fn(&Warmed) -> u64| files.iter().map(of).sum();
        WarmedAll {
            whole: files.iter().all(Warmed::is_whole),
            eligible_bytes: sum(|f| f.eligible_bytes),
            before_bytes: sum(|f| f.before_bytes),
            after_bytes: sum(|f| f.after_bytes),
            files,
        }
    }
}

/// What became of a file, and what to do when it is not whole.
pub fn warmed(file: &Warmed) -> String {
    let (after, eligible) = (size(file.after_bytes), size(file.eligible_bytes));
    let of_text = superpages::percent(file.after_bytes, file.text_bytes);
    let path = shown(&file.path);
    let mut text = format!(
        "{path}: {after} of {eligible} eligible text on superpages (before: {}); {of_text:.1} % \
         of all its text\n",
        size(file.before_bytes)
    );
    if !file.is_whole() {
        let advice = match file.busy.first() {
            Some(first) => format!(
                "  it is in use by {} ({}){}, so its pages cannot be dropped. Write it anew, \
                 planish pages align {path} -o {path}, and start them again\n",
                first.name,
                first.pid,
                and_more(file.busy.len() - 1)
            ),
            None => "  planish pages probe says whether this kernel and file system can; what was \
                     just written must reach the disk first (sync -f), and short memory can be \
                     the cause too (echo 1 > /proc/sys/vm/compact_memory)\n"
                .to_owned(),
        };
        text.push_str(&advice);
    }
    text
}

/// A map of every 2 MiB of a process's text, and the sums. Small libraries can have no superpage;
/// they count in the sums.
pub fn verification(found: &Verification, verbose: bool) -> String {
    let mut text = String::new();
    for mapping in &found.mappings {
        if mapping.text_bytes < superpages::SUPERPAGE && mapping.superpage_bytes == 0 && !verbose {
            continue;
        }
        let name = if mapping.name.is_empty() { "anonymous memory" } else { &mapping.name };
        let (huge, here) = (size(mapping.superpage_bytes), size(mapping.resident_bytes));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{name}: {huge} on superpages of {here} mapped in of {}",
            size(mapping.text_bytes)
        );
        for row in mapping.map.chunks(64) {
            let _ = writeln!(text, "  {}", row.iter().map(|cell| cell.sign()).collect::<String>());
        }
        if let Some(scanned) =
            mapping.scanned_superpage_bytes.filter(|&scanned| scanned != mapping.superpage_bytes)
        {
            let _ = writeln!(
                text,
                "  PAGEMAP_SCAN says {} on superpages; the process changed meanwhile",
                size(scanned)
            );
        }
    }
    let _ = writeln!(
        text,
        "all text: {} on superpages, {:.1} % of {} mapped in, {:.1} % of {}",
        size(found.superpage_bytes),
        found.of_resident_pct,
        size(found.resident_bytes),
        found.of_text_pct,
        size(found.text_bytes)
    );
    let _ = writeln!(
        text,
        "# superpage  . small pages  _ not touched  - too little of it is text to be a superpage"
    );
    text
}

/// Which mechanisms work here.
#[derive(Debug, Serialize)]
pub struct Probed {
    /// What was tried.
    #[serde(flatten)]
    pub probe: Probe,
    /// Whether superpages are backed by superpages of the machine below.
    pub backing: Option<Backing>,
    /// Why that was not measured.
    pub no_backing: Option<String>,
}

impl Probed {
    /// What works in a folder, a line each.
    pub fn text(&self, folder: &Path) -> String {
        let mut text = format!("{} ({}):\n", shown(folder), self.probe.file_system);
        for one in &self.probe.tried {
            let word = if one.works { "works" } else { "no" };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {word:5}  {:46}  {}", one.mechanism, one.found);
        }
        let _ = match self.probe.file_backed {
            true => writeln!(
                text,
                "file-backed text gets superpages here: planish pages align and warm work"
            ),
            false => {
                writeln!(
                    text,
                    "file-backed text gets no superpages here; try a folder on another file system"
                )
            }
        };
        match (&self.backing, &self.no_backing) {
            (Some(backing), _) => {
                let mut sorted = backing.superpages_ns.clone();
                sorted.sort_by(f64::total_cmp);
                let at = |share: usize| {
                    sorted.get((sorted.len() * share / 100).min(sorted.len().saturating_sub(1)))
                };
                let [low, middle, high] =
                    [10, 50, 90].map(|share| at(share).copied().unwrap_or(0.0));
                let _ = writeln!(
                    text,
                    "host backing: a step through 448 pages of a superpage takes {middle:.2} ns \
                 ({low:.2} to {high:.2}); {:.2} ns where the TLB holds all, {:.2} ns through \
                 small pages",
                    backing.few_pages_ns, backing.small_pages_ns
                );
                let tried = backing.superpages_ns.len();
                let _ = match backing.found {
                    Some(found) => writeln!(
                        text,
                        "  of {tried} superpages {} are backed by superpages of the machine below, {} \
                     are not, {} undecided",
                        found.whole, found.splintered, found.undecided
                    ),
                    None => writeln!(
                        text,
                        "  undecided: the two differ too little, or not the same before and after, to \
                     tell how they are backed"
                    ),
                };
            }
            (None, why) => {
                let _ = writeln!(
                    text,
                    "host backing: not measured: {}",
                    why.as_deref().unwrap_or_default()
                );
            }
        }
        text
    }
}

/// What became of a file that was aligned.
pub fn aligned(done: &Aligned) -> String {
    let before = superpages::percent(done.eligible_before, done.text_bytes);
    let filled = match done.filled_bytes {
        0 => String::new(),
        bytes => format!(", {} of filler taken in", size(bytes)),
    };
    format!(
        "{}: {:.1} % of {} text can lie on superpages (before: {before:.1} %), file {:+} \
         bytes{filled}\n",
        shown(&done.path),
        done.eligible_pct,
        size(done.text_bytes),
        done.growth_bytes
    )
}

/// Who runs from the file that was there before.
pub fn in_use(users: &[User]) -> Option<String> {
    let first = users.first()?;
    Some(format!(
        "in use by {} ({}){}, which keep the old file until they start again",
        first.name,
        first.pid,
        and_more(users.len() - 1)
    ))
}
