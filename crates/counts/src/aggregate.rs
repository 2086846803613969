//! From a perf.data to counts, in two passes over its bytes.
//!
//! The first pass reads only what is not a sample: mappings, forks, execs, losses. With the whole
//! timeline known, the second pass needs no order: worker threads take chunks as they come and
//! count traces per address space version. Memory is the chunks in flight and the tables of
//! distinct traces, whatever the size of the recording.

use crate::binding::{ANOTHER_BUILD, Binding, Bindings, Elsewhere, HIDDEN};
use crate::by_name;
use crate::error::Error;
use crate::ledger::{Ledger, Reason, SpeLedger};
use crate::listed;
use crate::model::{Counts, ImageCounts, base_name};
use crate::namesakes::{Namesake, namesakes};
use crate::programs::SumsOf;
use crate::sideband::read_sideband;
use crate::spe;
use crate::straight_line::Unrecorded;
use crate::workers::{Shared, count_samples};
use address_spaces::Clock;
use address_spaces::Timeline;
use image::Image;
use perfdata::Input;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::options::CountOptions;

/// What aggregation found, beside the counts.
#[derive(Clone, Debug)]
pub struct Aggregated {
    /// The counts.
    pub counts: Counts,
    /// Samples read.
    pub samples: u64,
    /// Remarks for the reader: files that did not match, in words.
    pub notes: Vec<String>,
    /// Samples in files that were not counted, most first.
    pub elsewhere: Vec<(String, u64)>,
    /// What each recording gave; counts that were made before do not tell.
    pub parts: Vec<Part>,
    /// Files of the names of the images asked for that processes mapped, these images among them.
    pub namesakes: Vec<Namesake>,
}

/// What one recording gave to counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The recording.
    pub path: PathBuf,
    /// Samples read.
    pub samples: u64,
    /// Those of them that were counted.
    pub used: u64,
}

/// Counts that were made before.
impl From<Counts> for Aggregated {
    fn from(counts: Counts) -> Aggregated {
        let samples = counts.ledger.samples.entered;
        let (notes, elsewhere, parts, namesakes) = Default::default();
        Aggregated { counts, samples, notes, elsewhere, parts, namesakes }
    }
}

impl Aggregated {
    /// The same with the counts of one image alone.
    pub fn only(&self, image: &Image) -> Aggregated {
        let own = self.counts.find(image.build_id(), &image.path().to_string_lossy());
        let images = own.cloned().into_iter().collect();
        Aggregated {
            counts: Counts { images, ledger: self.counts.ledger.clone() },
            samples: self.samples,
            notes: self.notes.clone(),
            elsewhere: self.elsewhere.clone(),
            parts: self.parts.clone(),
            namesakes: self.namesakes.clone(),
        }
    }

    /// Several inputs, added up; notes of all of them, each once.
    ///
    /// # Errors
    /// Where a sum leaves the range of 64 bits.
    pub fn sum(inputs: impl IntoIterator<Item = Aggregated>) -> Result<Aggregated, Error> {
        let mut all = Aggregated::from(Counts::default());
        let mut parts = Vec::new();
        for one in inputs {
            all.samples += one.samples;
            for note in one.notes {
                if !all.notes.contains(&note) {
                    all.notes.push(note);
                }
            }
            all.elsewhere.extend(one.elsewhere);
            all.parts.extend(one.parts);
            all.namesakes.extend(one.namesakes);
            parts.push(one.counts);
        }
        all.counts = crate::merge(parts)?;
        Ok(all)
    }

    /// The counts of `image` among those found in `input`.
    ///
    /// # Errors
    /// Where there are none, with what there is instead.
    pub fn of(&self, image: &Image, input: &Path) -> Result<&ImageCounts, Error> {
        let path = image.path().to_string_lossy();
        self.counts.find(image.build_id(), &path).ok_or_else(|| {
            let id = |id: Option<&image::BuildId>, none: &str| {
                id.map_or_else(|| none.to_owned(), ToString::to_string)
            };
            let others = self.counts.images.iter().take(3);
            let others: Vec<String> = others
                .map(|other| format!("{} ({})", other.path, id(other.build_id.as_ref(), "-")))
                .collect();
            Error::OtherImage {
                path: input.to_owned(),
                image: path.into_owned(),
                build_id: id(image.build_id(), "none"),
                others: if others.is_empty() { "nothing".into() } else { others.join(", ") },
            }
        })
    }
}

/// Reads `input` (named `path` in messages) and counts what lies in `images`, or, where none are
/// named, in the files that the recording names. `progress` is told the bytes of the second pass as
/// they are read.
///
/// # Errors
/// Where the recording cannot be read, holds no sample, or nothing in it belongs to `images`.
pub fn aggregate(
    path: &Path,
    input: &Input,
    images: &[Arc<Image>],
    options: CountOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Aggregated, Error> {
    let what = What { images, options, apart: false, elsewhere: None };
    counted(path, input, what, progress, |sums, whole| {
        let mut sums = sums.together();
        whole.losses(&mut sums.ledger);
        let spe = sums.ledger.spe.clone();
        let name = |id: address_spaces::FileId| {
            whole.timeline.files().get(id.0 as usize).map(|f| f.path.clone())
        };
        let elsewhere: Vec<_> =
            sums.elsewhere().into_iter().filter_map(|(f, n)| Some((name(f)?, n))).collect();
        let mut notes = notes(whole.bindings);
        let others = in_a_row(sums.other_processes().iter());
        let by_name = sums.by_name();
        let counts = sums.finish(whole.unrecorded);
        if counts.images.is_empty() {
            return Err(Error::NothingMatches {
                path: path.to_owned(),
                samples: whole.samples,
                images: names_of(images),
                cause: cause(
                    &counts.ledger,
                    &notes,
                    &elsewhere,
                    images,
                    options.pid.map(|pid| (pid, others)),
                ) + &damage(&counts.ledger),
            });
        }
        notes.extend(by_name::notes(&by_name, &counts.ledger));
        notes.extend(several_events(input));
        notes.extend(not_whole(path, input));
        notes.extend(spe::notes(path, &spe));
        notes.extend(whole.other_tracers);
        let used = counts.ledger.samples.used;
        let parts = vec![Part { path: path.to_owned(), samples: whole.samples, used }];
        let (samples, namesakes) = (whole.samples, whole.namesakes);
        Ok(Aggregated { counts, samples, notes, elsewhere, parts, namesakes })
    })
}

/// What is known of a recording as a whole once its samples are counted.
pub(crate) struct Whole<'w> {
    pub timeline: &'w Timeline,
    pub bindings: &'w Bindings<'w>,
    /// Transfers that it leaves out.
    pub unrecorded: Unrecorded,
    /// Samples in it.
    pub samples: u64,
    pub namesakes: Vec<Namesake>,
    /// What it holds that nobody here reads, in words.
    pub other_tracers: Option<String>,
    /// What was lost of it: the fields of a ledger that are of no sample.
    lost: Ledger,
}

impl Whole<'_> {
    /// Enters what was lost.
    pub(crate) fn losses(&self, ledger: &mut Ledger) {
        ledger.lost = self.lost.lost;
        ledger.unknown_records = self.lost.unknown_records;
        ledger.truncated_bytes = self.lost.truncated_bytes;
        ledger.missing_sections = self.lost.missing_sections;
        ledger.surplus_bytes = self.lost.surplus_bytes;
    }

    /// Files that did not match, in words.
    pub(crate) fn notes(&self) -> Vec<String> {
        notes(self.bindings)
    }
}

/// What is counted, and how.
pub(crate) struct What<'w> {
    /// Only in these, where there are any.
    pub images: &'w [Arc<Image>],
    pub options: CountOptions,
    /// Each program for itself.
    pub apart: bool,
    /// Where else files may be.
    pub elsewhere: Option<Elsewhere<'w>>,
}

/// Reads a recording and counts its samples; `finish` makes of the sums what is asked for.
pub(crate) fn counted<T>(
    path: &Path,
    input: &Input,
    what: What<'_>,
    progress: &(dyn Fn(u64) + Sync),
    finish: impl FnOnce(SumsOf<'_>, Whole<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let What { images, options, apart, elsewhere } = what;
    let fault = |source| Error::Recording { path: path.to_owned(), source };
    let clock = Clock::of(input);
    let sideband = read_sideband(input, options.threads, clock).map_err(fault)?;
    let traced = sideband.aux.tracers.contains(&perfdata::tracer::ARM_SPE)
        && !sideband.aux.buffers.is_empty();
    if sideband.samples == 0 && !traced {
        let whole = input.wholeness();
        if whole.present_data_bytes < whole.promised_data_bytes {
            return Err(Error::CutShort {
                path: path.to_owned(),
                promised_bytes: whole.promised_data_bytes,
                present_bytes: whole.present_data_bytes,
            });
        }
        let path = path.to_owned();
        return Err(match sideband.aux.others() {
            Some(tracer) => Error::OtherTracer { path, bytes: sideband.aux.bytes(), tracer },
            None => match whole.losses().into_iter().next() {
                Some(loss) => Error::Lost { path, loss },
                None => Error::NoSamples { path },
            },
        });
    }
    let other_tracers = sideband.aux.note_others(path);
    let namesakes = namesakes(&sideband.changes, images);
    let timeline = Timeline::build(sideband.changes);
    let bindings = Bindings::new(timeline.files(), images, listed::of(input, &sideband.build_ids))
        .with_elsewhere(elsewhere);
    let shared = Shared {
        input,
        timeline: &timeline,
        bindings: &bindings,
        options,
        clock,
        bases: &sideband.bases,
        apart,
    };
    let mut sums = count_samples(&shared, progress).map_err(fault)?;
    let mut spe = SpeLedger::default();
    if traced {
        let owners = spe::Owners::new(sideband.aux, clock);
        let mut traced = spe::count_records(&shared, &owners, progress).map_err(fault)?;
        spe = traced.rest().ledger.spe.clone();
        sums.merge(traced);
    }
    let samples = sideband.samples.saturating_add(spe.records);
    if samples == 0 {
        let SpeLedger { bytes, incomplete, damaged, .. } = spe;
        return Err(Error::NoTrace { path: path.to_owned(), bytes, incomplete, damaged });
    }
    let whole = input.wholeness();
    let lost = Ledger {
        lost: sideband.lost_records.max(sideband.lost_samples),
        unknown_records: sideband.unknown,
        truncated_bytes: sideband.truncated_bytes,
        missing_sections: whole.missing_features.len() as u64,
        surplus_bytes: whole.surplus_bytes,
        ..Ledger::default()
    };
    let whole = Whole {
        timeline: &timeline,
        bindings: &bindings,
        unrecorded: unrecorded(input),
        samples,
        namesakes,
        other_tracers,
        lost,
    };
    finish(sums, whole)
}

/// What the recording's header promises and its file does not hold, or the other way round.
fn not_whole(path: &Path, input: &Input) -> Vec<String> {
    let whole = input.wholeness();
    let (missing, path) = (&whole.missing_features, path.display());
    let mut notes = Vec::new();
    notes.extend(whole.losses().into_iter().map(|loss| format!("{path}: {loss}")));
    if !missing.is_empty() {
        let (what, effect) = if missing.contains(&perfdata::feature::BUILD_ID) {
            (
                " (build IDs among them)",
                "; files whose build ID no mapping record tells are matched by name only",
            )
        } else {
            ("", "")
        };
        notes.push(format!(
            "{path}: {} of {} feature sections are missing or cut{what}: the recording is not \
             whole{effect}",
            missing.len(),
            whole.announced_features
        ));
    }
    if whole.surplus_bytes > 0 {
        notes.push(format!(
            "{path}: {} bytes behind the end of the recording were not read; give recordings one \
             by one, not joined",
            whole.surplus_bytes
        ));
    }
    notes
}

/// Samples of a clock and of, say, page faults are different things; their sum is what the
/// recording asked for.
fn several_events(input: &Input) -> Option<String> {
    /// `PERF_TYPE_SOFTWARE` and `PERF_COUNT_SW_DUMMY`, which perf adds for the sake of its mapping
    /// records.
    const DUMMY: (u32, u64) = (1, 9);
    let sampling = input.attrs().iter().filter(|a| (a.kind, a.config) != DUMMY);
    let named = |a: &perfdata::EventAttr| {
        a.name.clone().unwrap_or_else(|| format!("{}:{}", a.kind, a.config))
    };
    let events: std::collections::BTreeSet<String> = sampling.map(named).collect();
    let list: Vec<_> = events.into_iter().collect();
    (list.len() > 1)
        .then(|| format!("samples of {} events are added up: {}", list.len(), list.join(", ")))
}

/// Transfers that the recording's branch filter leaves out; without a filter (`any`) nothing is.
fn unrecorded(input: &Input) -> Unrecorded {
    use perfdata::branch_sample as b;
    let mut out = Unrecorded::default();
    for attr in
        input.attrs().iter().filter(|a| a.sample_type & perfdata::sample_type::BRANCH_STACK != 0)
    {
        let filter = attr.branch_sample_type;
        if filter & b::ANY != 0 {
            continue;
        }
        out.calls |= filter & (b::ANY_CALL | b::CALL) == 0;
        out.returns |= filter & b::ANY_RETURN == 0;
        out.jumps = true;
    }
    out
}

fn notes(bindings: &Bindings<'_>) -> Vec<String> {
    let mut notes: BTreeMap<String, ()> = BTreeMap::new();
    for (file, binding) in bindings.bound() {
        let note = match binding {
            Binding::BuildIdMismatch(recorded, own) => format!(
                "{}: {ANOTHER_BUILD} {recorded}, the file at hand has {own}; give the recorded \
                 build with --binary",
                file.path
            ),
            Binding::Unavailable(why) => format!("{}: not counted: {why}", file.path),
            _ => continue,
        };
        notes.insert(note, ());
    }
    notes.into_keys().collect()
}

pub(crate) fn in_a_row(items: impl Iterator<Item = impl std::fmt::Display>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

pub(crate) fn names_of(images: &[Arc<Image>]) -> String {
    let names: Vec<String> = images.iter().map(|i| i.path().display().to_string()).collect();
    if names.is_empty() { "any file at hand".into() } else { names.join(", ") }
}

/// What of the recording could not be read, which may be where the samples looked for lie.
fn damage(ledger: &Ledger) -> String {
    match (ledger.truncated_bytes, ledger.unknown_records) {
        (0, 0) => String::new(),
        (0, records) => {
            format!(" (besides, {records} records of it are damaged or of unknown kinds)")
        }
        (bytes, _) => {
            format!(" (besides, the recording is cut short by {bytes} bytes)")
        }
    }
}

fn cause(
    ledger: &Ledger,
    notes: &[String],
    elsewhere: &[(String, u64)],
    images: &[Arc<Image>],
    pid: Option<(i32, String)>,
) -> String {
    let samples = ledger.samples.entered;
    let without = |reason| ledger.samples.unused.get(&reason).copied().unwrap_or(0);
    if let Some((pid, others)) = pid.filter(|_| without(Reason::OtherProcess) == samples) {
        return format!("none of them is of process {pid}; they are of {others}");
    }
    let another_build =
        notes.iter().find(|note| note.contains(ANOTHER_BUILD) || note.contains(HIDDEN));
    let named = |path: &str| {
        images.iter().any(|i| base_name(&i.path().to_string_lossy()) == base_name(path))
    };
    let namesake = elsewhere.iter().find(|(path, _)| named(path));
    if let (None, Some((path, count))) = (another_build, namesake) {
        return format!(
            "{count} lie in {path}, of the same name, but at addresses that the file has no code \
             for: it is another build, and no build ID says so; give the file that was recorded"
        );
    }
    match (another_build, elsewhere.first(), notes.first()) {
        (Some(note), ..) | (None, None, Some(note)) => note.clone(),
        (None, Some(_), _) => format!(
            "was it started at all? The samples lie in {}; in a planish.toml commands name the \
             program by {{bin}} or $PLANISH_BIN; else give the one that you mean with --binary, as \
             it was recorded",
            in_a_row(elsewhere.iter().take(4).map(|(path, count)| {
                let share = 100.0 * *count as f64 / samples.max(1) as f64;
                format!("{path} ({count}, {share:.1} %)")
            }))
        ),
        (None, None, None) => format!(
            "{} samples lie where the recording shows no mapping; record from the start of the \
             program, or with MMAP events",
            without(Reason::Unmapped)
        ),
    }
}
