//! In which random layouts do the variants of a design also run? Links every one of them in
//! matched or independent orders.

use crate::result::Sizes;
use crate::teller::{Teller, Work};
use crate::{AfterLink, Design, Error, Layouts, Variant};
use relink::{Inputs, Layout, MatchPlan, share_at_equal_address};
use std::path::{Path, PathBuf};

/// Which random orders the variants get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayoutMode {
    /// Matched where that works, else independent.
    #[default]
    Auto,
    /// The same orders for all variants: what did not change lies alike in all of them.
    Matched,
    /// Each variant has orders of its own.
    Independent,
}

impl LayoutMode {
    /// The mode that a word stands for, in small letters or capitals.
    pub fn parse(word: &str) -> Option<LayoutMode> {
        match word.to_lowercase().as_str() {
            "auto" => Some(LayoutMode::Auto),
            "matched" => Some(LayoutMode::Matched),
            "independent" => Some(LayoutMode::Independent),
            _ => None,
        }
    }
}

/// Sizes of a program; nothing where it is no ELF file (a script).
pub fn sizes(binary: &Path) -> Option<Sizes> {
    let sizes = relink::sizes(binary).ok()?;
    let file = std::fs::metadata(binary).ok().map(|about| about.len());
    Some(Sizes { text: sizes.text, data: sizes.data, bss: sizes.bss, file })
}

/// Where lld's archive of a program's link is looked for.
pub fn archive_beside(program: &Path) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    name.push(".repro.tar");
    name.into()
}

/// How a program is made once more, with its code elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    /// What its link reads.
    pub archive: PathBuf,
    /// What is done to it after the link.
    pub after: Option<AfterLink>,
}

impl Again {
    /// A program that is as its link leaves it.
    pub fn link(archive: PathBuf) -> Again {
        Again { archive, after: None }
    }
}

/// Links every variant of the design in `count` layouts below `folder`. `again` says how, in the
/// order of the variants; a variant without stays as built.
///
/// # Errors
/// Where an archive is not of its variant's program, or cannot be linked again.
pub fn add(
    design: &mut Design,
    again: &[Option<Again>],
    count: u32,
    mode: LayoutMode,
    folder: &Path,
    teller: &mut dyn Teller,
) -> Result<(), Error> {
    let unpacked = folder.join("inputs");
    let mut inputs = Vec::new();
    for (variant, again) in design.variants.iter().zip(again) {
        let Some(Again { archive, after }) = again else {
            inputs.push(None);
            continue;
        };
        let opened = Inputs::open(archive, &unpacked)
            .map_err(|source| Error::NoRelink { variant: variant.name.clone(), source })?;
        for remark in &opened.survey().remarks {
            teller.note(&format!("{}: {remark}", variant.name));
        }
        // What was done to it afterwards need not give the same code twice.
        if let Some(binary) = variant.binaries.first().filter(|_| after.is_none()) {
            belongs(variant, binary, &opened, &folder.join("programs"))?;
        }
        inputs.push(Some((opened, after.as_ref())));
    }
    let all: Vec<usize> = (0..inputs.len()).filter(|&at| inputs[at].is_some()).collect();
    let mut links = Links { design, inputs: &inputs, folder, teller };
    let matched = match mode {
        LayoutMode::Independent => Vec::new(),
        LayoutMode::Matched => {
            let plan = links.plan(&all)?;
            links.matched(count, &plan, &all)?;
            all.clone()
        }
        LayoutMode::Auto => links.matched_where_possible(count, &all)?,
    };
    for &variant in all.iter().filter(|variant| !matched.contains(variant)) {
        links.independent(count, variant)?;
        if let Some(variant) = links.design.variants.get_mut(variant) {
            variant.own_layouts = !matched.is_empty();
        }
    }
    design.layouts = if matched.is_empty() { Layouts::Independent } else { Layouts::Matched };
    Ok(())
}

/// Refuses objects that another program was linked from: of a build before, or of another variant.
fn belongs(
    variant: &Variant,
    binary: &Path,
    inputs: &Inputs,
    programs: &Path,
) -> Result<(), Error> {
    let again = relink::relink_in(inputs, &Layout::AsBuilt, programs)?;
    if relink::same_code(binary, &again.path)? {
        return Ok(());
    }
    Err(Error::Design(format!(
        "{}: {} does not link to the code of {}: the archive is of another program or of an \
         earlier build (or another version of the linker than {} made the program); link the \
         program anew with -Wl,--reproduce={}",
        variant.name,
        inputs.archive().display(),
        binary.display(),
        inputs.linker().version(),
        inputs.archive().display()
    )))
}

struct Links<'a> {
    design: &'a mut Design,
    /// What each variant is linked from; none for one that stays as built.
    inputs: &'a [Option<(Inputs, Option<&'a AfterLink>)>],
    folder: &'a Path,
    teller: &'a mut dyn Teller,
}

impl Links<'_> {
    /// The orders that these variants share.
    fn plan(&self, members: &[usize]) -> Result<MatchPlan, Error> {
        let inputs: Vec<&Inputs> =
            members.iter().filter_map(|&at| Some(&self.inputs.get(at)?.as_ref()?.0)).collect();
        Ok(MatchPlan::new(&inputs)?)
    }

    /// Links the base and all variants that can share its orders; which these are, the base first,
    /// or none.
    ///
    /// One variant that differs much spoils the orders of all: the plan puts what differs last, and
    /// then nearly everything differs. So where not all can be matched, each is tried with the
    /// base alone.
    fn matched_where_possible(&mut self, count: u32, all: &[usize]) -> Result<Vec<usize>, Error> {
        let mut members = match self.try_all(count, all)? {
            None => return Ok(all.to_vec()),
            // With one variant there is nobody to leave out.
            Some(problem) if all.len() == 2 => {
                self.teller
                    .note(&format!("layouts cannot be matched ({problem}); they are independent"));
                self.clear(all);
                return Ok(Vec::new());
            }
            Some(_) => vec![0],
        };
        self.clear(all);
        let mut left_out = Vec::new();
        for &variant in all.iter().skip(1) {
            match self.try_all(1, &[0, variant])? {
                None => members.push(variant),
                Some(problem) => left_out.push((variant, problem)),
            }
            self.clear(&[0, variant]);
        }
        while members.len() > 1 {
            let Some(problem) = self.try_all(count, &members)? else {
                self.tell(&left_out, "its layouts are its own, those of the others are matched");
                return Ok(members);
            };
            // The last of those that are worst.
            let share = |&v: &usize| {
                self.design.variants.get(v).and_then(|v| v.matched_share).unwrap_or(0.0)
            };
            let worst =
                members.iter().skip(1).copied().min_by(|x, y| share(x).total_cmp(&share(y)));
            self.clear(&members);
            let Some(worst) = worst else { break };
            left_out.push((worst, problem));
            members.retain(|&member| member != worst);
        }
        self.tell(&left_out, "its layouts cannot be matched with the base's; all are independent");
        Ok(Vec::new())
    }

    /// Links these variants in shared orders; why that is no match.
    fn try_all(&mut self, count: u32, members: &[usize]) -> Result<Option<String>, Error> {
        let plan = match self.plan(members) {
            Ok(plan) => plan,
            Err(error) => return Ok(Some(error.to_string())),
        };
        let share = self.matched(count, &plan, members)?;
        if share >= relink::SHARE_NEEDED {
            if plan.has_own_order() && count > 1 {
                self.teller.note(
                    "a variant's own link orders its functions; only what that leaves free is \
                     randomised",
                );
            }
            return Ok(None);
        }
        Ok(Some(format!(
            "only {:.0} % of the code lies at equal places in matched layouts, 95 % are needed \
             for luck to cancel",
            share * 100.0
        )))
    }

    fn tell(&mut self, left_out: &[(usize, String)], what: &str) {
        for (variant, problem) in left_out {
            let name = self.design.variants.get(*variant).map_or("", |v| v.name.as_str());
            self.teller.note(&format!("{name}: {what} ({problem})"));
        }
    }

    fn clear(&mut self, members: &[usize]) {
        for &member in members {
            if let Some(variant) = self.design.variants.get_mut(member) {
                variant.binaries.truncate(1);
                variant.matched_share = None;
            }
        }
    }

    /// Links these variants in all layouts of the plan; gives the smallest share of code at equal
    /// places.
    fn matched(&mut self, count: u32, plan: &MatchPlan, members: &[usize]) -> Result<f64, Error> {
        self.clear(members);
        self.teller.begin(Work::Links, 0, u64::from(count) * members.len() as u64);
        let mut done = 0;
        let mut least = 1.0f64;
        for number in 1..=count {
            let seed = self.seed(number);
            for (variant, &member) in members.iter().enumerate() {
                self.link(member, &Layout::Matched { seed, plan, variant })?;
                done += 1;
                self.teller.at(done);
            }
            least = least.min(self.match_of(number as usize, members)?);
        }
        self.teller.end();
        Ok(least)
    }

    /// Links one variant in orders of its own.
    fn independent(&mut self, count: u32, member: usize) -> Result<(), Error> {
        self.teller.begin(Work::Links, 0, u64::from(count));
        for number in 1..=count {
            let seed = self.seed(number) ^ ((member as u64 + 1) << 40);
            self.link(member, &Layout::Independent { seed })?;
            self.teller.at(u64::from(number));
        }
        self.teller.end();
        Ok(())
    }

    fn seed(&self, number: u32) -> u64 {
        self.design.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(number))
    }

    fn link(&mut self, member: usize, layout: &Layout) -> Result<(), Error> {
        let Some(Some((inputs, after))) = self.inputs.get(member) else { return Ok(()) };
        let made = relink::relink_in(inputs, layout, &self.folder.join("programs"))?;
        let path = after.map_or(Ok(made.path.clone()), |after| after.apply(&made.path))?;
        if let Some(variant) = self.design.variants.get_mut(member) {
            variant.freedom = words(&made.freedom);
            if let Some(after) = after {
                variant.freedom.push_str(&format!("; after the link: {}", after.line()));
            }
            variant.binaries.push(path);
        }
        Ok(())
    }

    /// Notes the share of code at equal places for layout `number` of these variants; the smallest.
    fn match_of(&mut self, number: usize, members: &[usize]) -> Result<f64, Error> {
        let base = self.design.variants.first().and_then(|v| v.binaries.get(number)).cloned();
        let mut least = 1.0f64;
        let Some(base) = base else { return Ok(least) };
        for &member in members.iter().skip(1) {
            let Some(variant) = self.design.variants.get_mut(member) else { continue };
            let Some(binary) = variant.binaries.get(number) else { continue };
            let share = share_at_equal_address(&base, binary)?.share();
            variant.matched_share =
                Some(variant.matched_share.map_or(share, |known| known.min(share)));
            least = least.min(share);
        }
        Ok(least)
    }
}

/// What is random, and behind a semicolon what the link keeps and why.
fn words(freedom: &relink::Freedom) -> String {
    let kept = if freedom.kept.is_empty() {
        String::new()
    } else {
        format!("; kept: {}", freedom.kept.join(", "))
    };
    format!("{}{kept}", freedom.randomised.join(", "))
}
