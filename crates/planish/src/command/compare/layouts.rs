//! Links every variant in random layouts and puts them into the design.

use super::LayoutMode;
use crate::cli::Global;
use anyhow::Context;
use compare::result::Sizes;
use compare::{Design, Layouts};
use indicatif::{ProgressBar, ProgressStyle};
use relink::{Inputs, Layout, MatchPlan, share_at_equal_address};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Section sizes of a program; nothing where it is no ELF file (a script).
pub fn sizes(binary: &Path) -> Option<Sizes> {
    let sizes = relink::sizes(binary).ok()?;
    Some(Sizes { text: sizes.text, data: sizes.data, bss: sizes.bss })
}

/// Adds `count` layouts to every variant of the design. `archives` are the link inputs, in the order of the variants.
pub fn add(
    design: &mut Design,
    archives: &[PathBuf],
    count: u32,
    mode: Option<LayoutMode>,
    folder: &Path,
    global: &Global,
) -> anyhow::Result<()> {
    let unpacked = folder.join("inputs");
    let mut inputs = Vec::new();
    for (variant, archive) in design.variants.iter().zip(archives) {
        let opened = Inputs::open(archive, &unpacked)
            .with_context(|| format!("cannot link {} in other layouts", variant.name))?;
        for remark in &opened.survey().remarks {
            note(global, &format!("{}: {remark}", variant.name));
        }
        if let Some(binary) = variant.binaries.first() {
            belongs(variant, binary, &opened, &folder.join("programs"))?;
        }
        inputs.push(opened);
    }
    let plan = match mode.unwrap_or(LayoutMode::Auto) {
        LayoutMode::Independent => None,
        LayoutMode::Matched => Some(MatchPlan::new(&inputs.iter().collect::<Vec<_>>())?),
        LayoutMode::Auto => match MatchPlan::new(&inputs.iter().collect::<Vec<_>>()) {
            Ok(plan) if plan.has_own_order() => {
                note(
                    global,
                    "a variant's own link orders its functions; only what that leaves free is randomised",
                );
                Some(plan)
            }
            Ok(plan) => Some(plan),
            Err(error) => {
                note(global, &format!("layouts cannot be matched ({error}); they are independent"));
                None
            }
        },
    };
    let mut links = Links { design, inputs: &inputs, folder, global };
    if let Some(plan) = &plan {
        let share = links.all(count, Some(plan))?;
        if share >= relink::SHARE_NEEDED || mode == Some(LayoutMode::Matched) {
            design.layouts = Layouts::Matched;
            return Ok(());
        }
        let share = share * 100.0;
        note(
            global,
            &format!(
                "only {share:.0} % of the code lies at equal places in matched layouts (95 % are needed for luck to \
                 cancel); the layouts are independent instead"
            ),
        );
        for variant in &mut links.design.variants {
            variant.binaries.truncate(1);
            variant.matched_share = None;
        }
    }
    links.all(count, None)?;
    design.layouts = Layouts::Independent;
    Ok(())
}

/// Refuses objects that another program was linked from: of a build before, or of another variant.
fn belongs(
    variant: &compare::Variant,
    binary: &Path,
    inputs: &Inputs,
    programs: &Path,
) -> anyhow::Result<()> {
    let again = relink::relink_in(inputs, &Layout::AsBuilt, programs)?;
    if relink::same_code(binary, &again.path)? {
        return Ok(());
    }
    anyhow::bail!(
        "{}: {} does not link to the code of {}: the archive is of another program or of an earlier build (or another \
         version of the linker than {} made the program); link the program anew with -Wl,--reproduce={}",
        variant.name,
        inputs.archive().display(),
        binary.display(),
        inputs.linker().version(),
        inputs.archive().display()
    );
}

struct Links<'a> {
    design: &'a mut Design,
    inputs: &'a [Inputs],
    folder: &'a Path,
    global: &'a Global,
}

impl Links<'_> {
    /// Links all variants in all layouts; gives the smallest share of code at equal places (1 when independent).
    fn all(&mut self, count: u32, plan: Option<&MatchPlan>) -> anyhow::Result<f64> {
        let bar = bar(u64::from(count) * self.inputs.len() as u64, self.global);
        let programs = self.folder.join("programs");
        let mut least = 1.0f64;
        for number in 1..=count {
            for (index, inputs) in self.inputs.iter().enumerate() {
                let seed = self.design.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(number));
                let layout = match plan {
                    Some(plan) => Layout::Matched { seed, plan, variant: index },
                    None => Layout::Independent { seed: seed ^ ((index as u64 + 1) << 40) },
                };
                let made = relink::relink_in(inputs, &layout, &programs)?;
                if let Some(variant) = self.design.variants.get_mut(index) {
                    variant.freedom = words(&made.freedom);
                    variant.binaries.push(made.path);
                }
                bar.inc(1);
            }
            if plan.is_some() {
                least = least.min(self.match_of(number as usize)?);
            }
        }
        bar.finish_and_clear();
        Ok(least)
    }

    /// Notes the share of code at equal places for layout `number` of every variant; the smallest.
    fn match_of(&mut self, number: usize) -> anyhow::Result<f64> {
        let base = self.design.variants.first().and_then(|v| v.binaries.get(number)).cloned();
        let mut least = 1.0f64;
        let Some(base) = base else { return Ok(least) };
        for variant in self.design.variants.iter_mut().skip(1) {
            let Some(binary) = variant.binaries.get(number) else { continue };
            let share = share_at_equal_address(&base, binary)?.share();
            variant.matched_share = Some(variant.matched_share.map_or(share, |known| known.min(share)));
            least = least.min(share);
        }
        Ok(least)
    }
}

/// What is random, and behind a semicolon what the link keeps and why.
fn words(freedom: &relink::Freedom) -> String {
    let kept =
        if freedom.kept.is_empty() { String::new() } else { format!("; kept: {}", freedom.kept.join(", ")) };
    format!("{}{kept}", freedom.randomised.join(", "))
}

fn note(global: &Global, text: &str) {
    if !global.quiet {
        eprintln!("planish: {text}");
    }
}

fn bar(links: u64, global: &Global) -> ProgressBar {
    if global.quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("layouts {wide_bar} {pos}/{len} links, {eta} left");
    ProgressBar::new(links).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
