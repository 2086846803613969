//! In which layout is a program linked? Runs the link of a program again with its sections
//! elsewhere.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::inputs::{Inputs, Work};
use crate::pad::{self, Pad, STEP};
use crate::plan::{MatchPlan, PAD_SYMBOL};
use crate::random::stream;

/// Which parts of a program are shuffled in independent layouts.
const SHUFFLED: [&str; 4] = [".text*", ".rodata*", ".data*", ".bss*"];

/// Padding is this much at most, in bytes: a page.
const PAGE: u64 = 4096;

/// An order of symbols that is given is complete: lld makes none of the calls in the objects beside
/// it. The name of this option is the same in all releases of lld.
const BY_ORDER_ALONE: &str = "--no-call-graph-profile-sort";

/// What is random of the functions in an order of the link's own, in words.
const SHIFTED: &str =
    "start of functions with a place within cache lines, as far as their alignment allows";

/// A layout of a program.
#[derive(Debug, Clone, Copy)]
pub enum Layout<'p> {
    /// As the build has it.
    AsBuilt,
    /// In a random order, which has nothing to do with that of any other variant.
    Independent {
        /// Gives the order.
        seed: u64,
    },
    /// In a random order that all variants share, with what differs between them last.
    Matched {
        /// Gives the order.
        seed: u64,
        /// What the variants share.
        plan: &'p MatchPlan,
        /// Which variant this is: its place, from 0, among the inputs that the plan was made of.
        variant: usize,
    },
}

/// What a layout leaves to chance and what it keeps, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Freedom {
    /// What is random.
    pub randomised: Vec<String>,
    /// What is as the build has it, with the reason.
    pub kept: Vec<String>,
}

impl fmt::Display for Freedom {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.randomised.as_slice() {
            [] => write!(out, "nothing random")?,
            parts => write!(out, "random: {}", parts.join(", "))?,
        }
        if self.kept.is_empty() { Ok(()) } else { write!(out, "; kept: {}", self.kept.join(", ")) }
    }
}

/// A program that was linked again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relinked {
    /// The program.
    pub path: PathBuf,
    /// What was random in it.
    pub freedom: Freedom,
    /// Was it there already? Then nothing was run.
    pub cached: bool,
}

/// A link as it is to be run, complete but for its output.
struct Job {
    root: PathBuf,
    options: Vec<String>,
    order: Option<String>,
    /// Before all inputs, so that its sections come first.
    pads: Vec<Pad>,
    /// Behind all inputs, so that it gives no section another place; the order puts it before
    /// functions.
    shifts: Vec<Pad>,
    unstripped: bool,
    freedom: Freedom,
}

/// Links the program in a layout, to `out`. The same inputs, layout and seed give the same bytes.
///
/// # Errors
///
/// [`Error::Link`] when lld refuses, [`Error::Variant`] when the layout is another program's,
/// [`Error::File`].
pub fn relink(inputs: &Inputs, layout: &Layout<'_>, out: &Path) -> Result<Relinked, Error> {
    let job = job(inputs, layout)?;
    run(inputs, &job, out)?;
    Ok(Relinked { path: out.to_owned(), freedom: job.freedom, cached: false })
}

/// As [`relink`], into a directory, to a name that stands for inputs and layout; what is there
/// already is not linked again.
///
/// # Errors
///
/// Those of [`relink`].
pub fn relink_in(
    inputs: &Inputs,
    layout: &Layout<'_>,
    directory: &Path,
) -> Result<Relinked, Error> {
    let job = job(inputs, layout)?;
    let word = match layout {
        Layout::AsBuilt => "as-built".to_owned(),
        Layout::Independent { seed } => format!("independent-{seed}"),
        Layout::Matched { seed, .. } => format!("matched-{seed}"),
    };
    let digest = job.digest(inputs);
    let name = format!("{}-{word}-{}", inputs.output_name(), digest.get(..16).unwrap_or_default());
    let path = directory.join(name);
    let cached = path.is_file();
    if !cached {
        fs::create_dir_all(directory).map_err(Error::file(directory, "create"))?;
        run(inputs, &job, &path)?;
    }
    Ok(Relinked { path, freedom: job.freedom, cached })
}

impl Job {
    /// Stands for everything that the output depends on.
    fn digest(&self, inputs: &Inputs) -> String {
        let mut hash = Sha256::new();
        hash.update(inputs.identity());
        hash.update(format!(
            "{:?} {:?} {:?} {:?} {}",
            self.options, self.order, self.pads, self.shifts, self.unstripped
        ));
        // The objects with other names are made from the same inputs, but are other files.
        hash.update(if self.root == inputs.root() { "root" } else { "named" });
        hex::encode(hash.finalize())
    }
}

fn padding(random: &mut ::random::Random) -> u64 {
    random.below((PAGE / STEP) as usize) as u64 * STEP
}

/// Sections of their own that come before the program's, so that these start at random places.
fn start_pads(random: &mut ::random::Random) -> Vec<Pad> {
    let mut pad = |section: &'static str, executable, writable| Pad {
        section: section.into(),
        symbol: section.into(),
        bytes: padding(random),
        executable,
        writable,
    };
    vec![
        pad(".planish.rodata", false, false),
        pad(".planish.text", true, false),
        pad(".planish.data", false, true),
    ]
}

fn job(inputs: &Inputs, layout: &Layout<'_>) -> Result<Job, Error> {
    match *layout {
        Layout::AsBuilt => Ok(Job {
            root: inputs.root(),
            options: Vec::new(),
            order: None,
            pads: Vec::new(),
            shifts: Vec::new(),
            unstripped: false,
            freedom: Freedom { randomised: Vec::new(), kept: vec!["everything".to_owned()] },
        }),
        Layout::Independent { seed } => Ok(independent(inputs, seed)),
        Layout::Matched { seed, plan, variant } => matched(inputs, seed, plan, variant),
    }
}

/// What a link keeps of its own accord.
fn kept(inputs: &Inputs) -> Vec<String> {
    let mut kept: Vec<String> = inputs.own_order.kept().into_iter().collect();
    if inputs.response.has_profile_order() {
        kept.push(
            "what options order by a profile (--bp-…, --call-graph-ordering-file)".to_owned(),
        );
    }
    if has_script(inputs) {
        kept.push("what the linker script places".to_owned());
    }
    if keeps_hot_apart(inputs) {
        kept.push("hot, cold and startup code apart (-z keep-text-section-prefix)".to_owned());
    }
    kept
}

fn has_script(inputs: &Inputs) -> bool {
    inputs.response.has(&["script", "default-script"])
}

fn keeps_hot_apart(inputs: &Inputs) -> bool {
    let names = ["keep-text-section-prefix", "nokeep-text-section-prefix"];
    inputs.response.z("keep-text-section-prefix", &names)
}

/// How the names of sections begin in which the functions of a link's own order lie, so that padding
/// can be put before them: hot functions where the link keeps these apart. None without such an
/// order, where a script may put the padding elsewhere, and with options that order by a profile,
/// beside which lld takes no order.
fn section_to_shift(inputs: &Inputs) -> Option<&'static str> {
    let may = inputs.has_own_order() && !has_script(inputs) && !inputs.response.has_profile_order();
    may.then_some(if keeps_hot_apart(inputs) { ".text.hot" } else { ".text" })
}

fn independent(inputs: &Inputs, seed: u64) -> Job {
    let mut random = stream(seed, "independent");
    // lld takes 0 for a seed of the moment and -1 for the reverse order.
    let mut shuffle =
        |glob: &str| format!("--shuffle-sections={glob}={}", 1 + random.below(0x7fff_fffe));
    let mut options = SHUFFLED.map(&mut shuffle).to_vec();
    let mut kept = kept(inputs);
    let order = if inputs.has_own_order() || inputs.response.has_profile_order() {
        "order of the functions without a place"
    } else {
        "order of functions"
    };
    let mut randomised =
        vec![order.to_owned(), "order of constants".to_owned(), "order of variables".to_owned()];
    let (mut order, mut pads, mut shifts) = (None, Vec::new(), Vec::new());
    if inputs.target.is_some() {
        pads = start_pads(&mut random);
        randomised.push("start of code, constants and variables".to_owned());
        if let Some(section) = section_to_shift(inputs) {
            let (text, more) = inputs.own_order.shifted(seed, Some(section));
            (order, shifts) = (Some(text), more);
            options.extend([BY_ORDER_ALONE, "--no-warn-symbol-ordering"].map(str::to_owned));
            randomised.push(SHIFTED.to_owned());
        }
    } else {
        kept.push("start of code and data (not 64-bit ELF)".to_owned());
    }
    let freedom = Freedom { randomised, kept };
    Job { root: inputs.root(), options, order, pads, shifts, unstripped: true, freedom }
}

fn matched(inputs: &Inputs, seed: u64, plan: &MatchPlan, variant: usize) -> Result<Job, Error> {
    let root = plan.root(variant, inputs)?;
    let mut random = stream(seed, "matched");
    let changed = Pad {
        section: ".text.planish".into(),
        symbol: PAD_SYMBOL.into(),
        bytes: padding(&mut random),
        executable: true,
        writable: false,
    };
    let mut pads = vec![changed];
    let mut kept = kept(inputs);
    let mut randomised = vec![
        "order of functions, constants and variables (the same in all variants)".to_owned(),
        format!(
            "start of what differs (after {} bytes of padding)",
            pads.first().map_or(0, |pad| pad.bytes)
        ),
    ];
    if plan.has_own_order() {
        // With an order that must be kept, where it starts is what is left; the same place in all
        // variants.
        pads.extend(start_pads(&mut random));
        randomised.push("start of code, constants and variables".to_owned());
        if let Some(first) = randomised.first_mut().filter(|_| inputs.has_own_order()) {
            *first =
                "order of the functions without a place, of constants and variables".to_owned();
        }
        if section_to_shift(inputs).is_some() {
            randomised.push(SHIFTED.to_owned());
        }
    } else {
        kept.push("start of code and data, at a page".to_owned());
    }
    // Every segment starts at a page: code so that functions lie alike, data so that variables do.
    let options = ["-z", "separate-loadable-segments", BY_ORDER_ALONE, "--no-warn-symbol-ordering"];
    let options = options.map(str::to_owned).to_vec();
    let (order, shifts) = plan.order(variant, seed, section_to_shift(inputs));
    let order = Some(order);
    let freedom = Freedom { randomised, kept };
    Ok(Job { root, options, order, pads, shifts, unstripped: true, freedom })
}

/// Runs a link in a directory of its own and copies the program to its place.
fn run(inputs: &Inputs, job: &Job, out: &Path) -> Result<(), Error> {
    let work = Work::new(&inputs.home)?;
    let mut first = Vec::new();
    let mut last = inputs.options();
    last.extend(job.options.iter().cloned());
    let objects = [("pad.o", &job.pads, &mut first), ("shift.o", &job.shifts, &mut last)];
    for (name, pads, place) in objects {
        if let Some(target) = inputs.target.filter(|_| !pads.is_empty()) {
            work.write(name, &pad::object(target, pads))?;
            place.push(work.seen_from_root(name));
        }
    }
    if let Some(order) = &job.order {
        work.write("order", order.as_bytes())?;
        last.push(format!("--symbol-ordering-file={}", work.seen_from_root("order")));
    }
    last.extend(["-o".to_owned(), work.seen_from_root("out")]);
    let response = inputs.response.clone();
    let response = if job.unstripped { response.unstripped() } else { response };
    let response = if job.order.is_some() { response.without_profile_order() } else { response };
    let response = work.write("response.txt", response.render(&first, &last).as_bytes())?;
    inputs.linker.link(&job.root, &response)?;
    place(&work.path().join("out"), out)
}

/// Copies a program to its place. lld writes through a mapping of the file, which leaves it in memory
/// in single pages wherever these happen to be; a file that is written in one go lies in large ones.
/// The same bytes took up to 7 % longer as lld left them
/// (`measurements/2026-11-30-function-starts.md`), so all programs are written alike.
pub(crate) fn place(from: &Path, to: &Path) -> Result<(), Error> {
    beside::copy(from, to).map_err(Error::file(to, "copy into place"))
}
