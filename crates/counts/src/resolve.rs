//! From counts of runtime addresses to counts of image addresses, with the books kept.
//!
//! Everything that was hot is over by now: the input here are distinct traces and addresses with
//! their sums.

use crate::binding::{Binding, Bindings, ImageId};
use crate::by_name::ByName;
use crate::ledger::{Ledger, Reason};
use crate::model::{Branch, Counts, FallThrough, ImageCounts, Path, SampleCount};
use crate::straight_line::{self, Unrecorded};
use crate::traces::{Trace, TraceCount};
use address_spaces::{FileId, KERNEL_PID, Mapping, SpaceRef, Timeline};
use first_half::HalfSums;
use image::{Image, ImageAddr};
use paths::PathKey;
use perfdata::RuntimeAddr;
use ranges::check_ranges;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

mod first_half;
mod paths;
mod ranges;
mod single_branches;

/// How doubled and impossible entries are told from real ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// Ranges must be straight-line code; a doubled entry whose range is not is dropped with its
    /// branch; wrong-path entries are dropped.
    #[default]
    Auto,
    /// As llvm-profgen: ranges must be straight-line code, every entry counts as a branch.
    Profgen,
    /// As create_llvm_prof: both ends in the image, ranges of at most 1 MiB, a newest pair of equal
    /// entries that jumps far is skipped.
    Autofdo,
    /// Nothing is told apart; only backward ranges fall away.
    None,
}

/// Sums of one image while they grow.
#[derive(Default)]
struct ImageSums {
    path: String,
    /// Sections that the rules leave out: llvm-profgen does not disassemble the procedure linkage
    /// table.
    left_out: Vec<std::ops::Range<ImageAddr>>,
    samples: FxHashMap<ImageAddr, u64>,
    branches: FxHashMap<(Option<ImageAddr>, Option<ImageAddr>), (u64, u64)>,
    /// By (first, last): count, and how much of it came from an entry equal to the next.
    ranges: FxHashMap<(ImageAddr, ImageAddr), (u64, u64)>,
    paths: FxHashMap<PathKey, u64>,
    first_half: HalfSums,
}

/// Collects sums of all images.
pub struct Sums<'t> {
    timeline: &'t Timeline,
    bindings: &'t Bindings<'t>,
    rules: Rules,
    images: FxHashMap<ImageId, (Arc<Image>, ImageSums)>,
    /// Samples in files that are not counted.
    elsewhere: FxHashMap<FileId, u64>,
    /// Samples and branches in files that only their names tell.
    by_name: FxHashMap<FileId, (u64, u64)>,
    /// Some of the processes that were not asked for.
    other_processes: BTreeSet<i32>,
    /// The books so far; ranges are checked and booked in [`Sums::finish`].
    pub ledger: Ledger,
}

/// An address in an image.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    image: ImageId,
    address: ImageAddr,
    /// The file, where nothing but its name says that the image is it.
    by_name: Option<FileId>,
}

impl<'t> Sums<'t> {
    /// Empty sums.
    pub fn new(timeline: &'t Timeline, bindings: &'t Bindings<'t>, rules: Rules) -> Self {
        Sums {
            timeline,
            bindings,
            rules,
            images: FxHashMap::default(),
            elsewhere: FxHashMap::default(),
            by_name: FxHashMap::default(),
            other_processes: BTreeSet::new(),
            ledger: Ledger::default(),
        }
    }

    /// Adds the sampled addresses of one address space (`from` of each trace), with those of the
    /// first half.
    pub fn add_halved_samples(
        &mut self,
        spaces: Spaces<'_>,
        samples: impl Iterator<Item = (TraceCount, u64)>,
    ) {
        for (TraceCount { trace, count, .. }, first_half) in samples {
            let address = trace.from;
            match self.place(spaces, address) {
                Ok(place) => {
                    self.ledger.samples.use_up(count);
                    self.rests_on_name(place, |sums| &mut sums.0, count);
                    if let Some((_, sums)) = self.images.get_mut(&place.image) {
                        *sums.samples.entry(place.address).or_default() += count;
                        if first_half > 0 {
                            *sums.first_half.samples.entry(place.address).or_default() +=
                                first_half;
                        }
                    }
                }
                Err(reason) => {
                    self.ledger.samples.write_off(reason, count);
                    if let Some(mapping) = spaces.find(address) {
                        *self.elsewhere.entry(mapping.file).or_default() += count;
                    }
                }
            }
        }
    }

    /// Samples in files that are not counted, most first.
    pub fn elsewhere(&self) -> Vec<(FileId, u64)> {
        let mut list: Vec<_> = self.elsewhere.iter().map(|(&f, &n)| (f, n)).collect();
        list.sort_unstable_by_key(|&(f, n)| (std::cmp::Reverse(n), f));
        list
    }

    /// Remembers a process that was not asked for, for messages; not more than a few.
    pub fn note_other_process(&mut self, pid: i32) {
        const ENOUGH: usize = 16;
        if self.other_processes.len() < ENOUGH {
            self.other_processes.insert(pid);
        }
    }

    /// Some of the processes that were not asked for.
    pub fn other_processes(&self) -> &BTreeSet<i32> {
        &self.other_processes
    }

    /// Adds the traces of one address space.
    pub fn add_traces(&mut self, spaces: Spaces<'_>, traces: impl Iterator<Item = TraceCount>) {
        self.add_halved_traces(spaces, traces.map(|counted| (counted, 0)));
    }

    /// The same, each with how many of it are of the first half of the samples.
    pub fn add_halved_traces(
        &mut self,
        spaces: Spaces<'_>,
        traces: impl Iterator<Item = (TraceCount, u64)>,
    ) {
        for (t, first_half) in traces {
            let from = self.place(spaces, t.trace.from);
            let to = self.place(spaces, t.trace.to);
            let next = (t.trace.next_from != Trace::NONE)
                .then(|| (self.place(spaces, t.trace.next_from), t.trace.next_from));
            if first_half > 0 {
                self.add_half(from, to, next.map(|(place, _)| place), first_half);
            }
            if self.rules == Rules::Autofdo {
                self.add_autofdo(from, to, next.map(|(n, _)| n), &t);
                continue;
            }
            self.add_branch(from, to, t.count, t.mispredicted);
            if let Some((last, raw_last)) = next {
                self.add_range(to, last, t.count, raw_last == t.trace.from);
            }
        }
    }

    fn add_branch(
        &mut self,
        from: Result<Place, Reason>,
        to: Result<Place, Reason>,
        count: u64,
        mispredicted: u64,
    ) {
        if let Some(place) = [from, to].into_iter().flatten().find(|place| place.by_name.is_some())
        {
            self.rests_on_name(place, |sums| &mut sums.1, count);
        }
        match (from, to) {
            (Err(reason), Err(_)) => return self.ledger.branches.write_off(reason, count),
            (Ok(f), Ok(t)) if f.image == t.image => {
                self.branch(f.image, Some(f.address), Some(t.address), count, mispredicted);
            }
            (f, t) => {
                if let Ok(f) = f {
                    self.branch(f.image, Some(f.address), None, count, mispredicted);
                }
                if let Ok(t) = t {
                    self.branch(t.image, None, Some(t.address), count, mispredicted);
                }
            }
        }
        self.ledger.branches.use_up(count);
    }

    /// Books what was counted in a file that only its name tells.
    fn rests_on_name(
        &mut self,
        place: Place,
        book: impl Fn(&mut (u64, u64)) -> &mut u64,
        count: u64,
    ) {
        if let Some(file) = place.by_name {
            let sum = book(self.by_name.entry(file).or_default());
            *sum = sum.saturating_add(count);
        }
    }

    /// What was counted in files that only their names tell, most first.
    pub(crate) fn by_name(&self) -> Vec<ByName> {
        let found = self.by_name.iter().filter_map(|(&file, &(samples, branches))| {
            let Binding::Image(bound) = self.bindings.get(file) else { return None };
            let path = self.timeline.files().get(file.0 as usize)?.path.clone();
            Some(ByName {
                path,
                image: Arc::clone(&bound.image),
                lacking: bound.by_name?,
                samples,
                branches,
            })
        });
        let mut list: Vec<ByName> = found.collect();
        list.sort_by(|a, b| {
            (b.branches, b.samples, &a.path).cmp(&(a.branches, a.samples, &b.path))
        });
        list
    }

    fn branch(
        &mut self,
        image: ImageId,
        from: Option<ImageAddr>,
        to: Option<ImageAddr>,
        count: u64,
        mispredicted: u64,
    ) {
        if let Some((_, sums)) = self.images.get_mut(&image) {
            let sum = sums.branches.entry((from, to)).or_default();
            sum.0 += count;
            sum.1 += mispredicted;
        }
    }

    fn add_range(
        &mut self,
        first: Result<Place, Reason>,
        last: Result<Place, Reason>,
        count: u64,
        doubled: bool,
    ) {
        let (first, last) = match range_ends(first, last) {
            Ok(ends) => ends,
            Err(reason) => return self.ledger.fall_throughs.write_off(reason, count),
        };
        if let Some((_, sums)) = self.images.get_mut(&first.image) {
            let sum = sums.ranges.entry((first.address, last.address)).or_default();
            sum.0 += count;
            sum.1 += if doubled { count } else { 0 };
        }
    }

    /// create_llvm_prof's rule: a range that is dropped takes its branch along, and a target
    /// outside drops both.
    fn add_autofdo(
        &mut self,
        from: Result<Place, Reason>,
        to: Result<Place, Reason>,
        next: Option<Result<Place, Reason>>,
        t: &TraceCount,
    ) {
        let same_image = matches!((&from, &to), (Ok(f), Ok(t)) if f.image == t.image);
        let reason = from.err().or(to.err()).unwrap_or(Reason::CrossesImages);
        if let Some(next) = next {
            let fault = autofdo_fault(to, next);
            if let Some(fault) = fault {
                self.ledger.fall_throughs.write_off(fault, t.count);
                return self.ledger.branches.write_off(fault, t.count);
            }
            self.add_range(to, next, t.count, false);
        }
        if same_image {
            self.add_branch(from, to, t.count, t.mispredicted);
        } else {
            self.ledger.branches.write_off(reason, t.count);
        }
    }

    fn place(&mut self, spaces: Spaces<'_>, address: RuntimeAddr) -> Result<Place, Reason> {
        let mapping = spaces.find(address).ok_or(Reason::Unmapped)?;
        let bound = match self.bindings.get(mapping.file) {
            Binding::Image(bound) => bound,
            Binding::NoFile => return Err(Reason::NoFile),
            Binding::Other => return Err(Reason::OtherImage),
            Binding::Unavailable(_) => return Err(Reason::ImageUnavailable),
            Binding::BuildIdMismatch(..) => return Err(Reason::BuildIdMismatch),
        };
        let file = self.timeline.files().get(mapping.file.0 as usize).ok_or(Reason::Unmapped)?;
        let address = bound.address(&mapping, address).ok_or(Reason::NotExecutable)?;
        let image = &bound.image;
        let rules = self.rules;
        let (_, sums) = self.images.entry(bound.id).or_insert_with(|| {
            let left_out = if rules == Rules::Profgen { linkage_tables(image) } else { Vec::new() };
            (
                Arc::clone(image),
                ImageSums { path: file.path.clone(), left_out, ..ImageSums::default() },
            )
        });
        if sums.left_out.iter().any(|range| range.contains(&address)) {
            return Err(Reason::NotExecutable);
        }
        Ok(Place { image: bound.id, address, by_name: bound.by_name.map(|_| mapping.file) })
    }

    /// Adds the sums of another collector over the same timeline and bindings.
    pub fn merge(&mut self, other: Sums<'t>) {
        self.ledger.add(&other.ledger);
        self.other_processes.extend(&other.other_processes);
        other.elsewhere.into_iter().for_each(|(k, n)| *self.elsewhere.entry(k).or_default() += n);
        for (file, (samples, branches)) in other.by_name {
            let own = self.by_name.entry(file).or_default();
            *own = (own.0.saturating_add(samples), own.1.saturating_add(branches));
        }
        for (id, (image, sums)) in other.images {
            let (_, own) = self.images.entry(id).or_insert_with(|| (image, ImageSums::default()));
            if own.path.is_empty() || (!sums.path.is_empty() && sums.path < own.path) {
                own.path = sums.path;
            }
            sums.samples.into_iter().for_each(|(k, n)| *own.samples.entry(k).or_default() += n);
            for (k, (n, m)) in sums.branches {
                let sum = own.branches.entry(k).or_default();
                *sum = (sum.0 + n, sum.1 + m);
            }
            for (k, (n, d)) in sums.ranges {
                let sum = own.ranges.entry(k).or_default();
                *sum = (sum.0 + n, sum.1 + d);
            }
            sums.paths.into_iter().for_each(|(k, n)| *own.paths.entry(k).or_default() += n);
            own.first_half.add(sums.first_half);
        }
    }

    /// Checks the ranges against the code, books them, and hands out sorted counts.
    pub fn finish(self, unrecorded: Unrecorded) -> Counts {
        let Sums { rules, images, mut ledger, .. } = self;
        let mut done: Vec<ImageCounts> = Vec::new();
        for (image, mut sums) in images.into_values() {
            let checked = check_ranges(&image, &mut sums, rules, unrecorded, &mut ledger);
            let paths = paths::check(&mut sums, rules, &checked.refused, &mut ledger);
            done.push(sorted(&image, sums, checked.kept, paths));
        }
        done.retain(|i| !i.is_empty());
        done.sort_by(|a, b| (&a.build_id, &a.path).cmp(&(&b.build_id, &b.path)));
        Counts { images: done, ledger }
    }
}

/// The ends of a range that lies in one image.
fn range_ends(
    first: Result<Place, Reason>,
    last: Result<Place, Reason>,
) -> Result<(Place, Place), Reason> {
    match (first, last) {
        (Ok(f), Ok(l)) if f.image == l.image => Ok((f, l)),
        (Err(reason), Err(_)) => Err(reason),
        _ => Err(Reason::CrossesImages),
    }
}

/// Why create_llvm_prof drops a range.
fn autofdo_fault(first: Result<Place, Reason>, last: Result<Place, Reason>) -> Option<Reason> {
    match (first, last) {
        (Err(reason), _) => Some(reason),
        (Ok(first), Ok(last)) if first.image == last.image => {
            match last.address.0.checked_sub(first.address.0) {
                None => Some(Reason::Backwards),
                Some(length) if length > straight_line::LONGEST_BYTES => Some(Reason::TooLong),
                Some(_) => None,
            }
        }
        _ => Some(Reason::CrossesImages),
    }
}

/// The address spaces a sample can lie in.
#[derive(Clone, Copy, Debug)]
pub struct Spaces<'t> {
    /// The process's own.
    pub user: SpaceRef<'t>,
    /// The kernel's.
    pub kernel: SpaceRef<'t>,
}

impl<'t> Spaces<'t> {
    /// Those of `pid` at `time`.
    pub fn at(timeline: &'t Timeline, pid: i32, time: u64) -> Self {
        Spaces { user: timeline.space(pid, time), kernel: timeline.space(KERNEL_PID, time) }
    }

    /// The mapping that covers `address`.
    pub fn find(&self, address: RuntimeAddr) -> Option<Mapping> {
        self.user.find(address).or_else(|| self.kernel.find(address))
    }

    /// Whether `time` has the same address spaces.
    pub fn holds_at(&self, time: u64) -> bool {
        time >= self.user.since.max(self.kernel.since)
            && time < self.user.until.min(self.kernel.until)
    }
}

/// Where the procedure linkage tables lie.
pub(crate) fn linkage_tables(image: &Image) -> Vec<std::ops::Range<ImageAddr>> {
    let tables = image.sections().iter().filter(|s| image.section_name(s).starts_with(".plt"));
    tables.map(|s| s.address..ImageAddr(s.address.0.saturating_add(s.size))).collect()
}

fn sorted(
    image: &Image,
    sums: ImageSums,
    fall_throughs: Vec<FallThrough>,
    paths: Vec<Path>,
) -> ImageCounts {
    let mut samples: Vec<_> =
        sums.samples.into_iter().map(|(address, count)| SampleCount { address, count }).collect();
    samples.sort_unstable();
    let mut branches: Vec<_> = sums
        .branches
        .into_iter()
        .map(|((from, to), (count, mispredicted))| Branch { from, to, count, mispredicted })
        .collect();
    branches.sort_unstable();
    let build_id = image.build_id().copied();
    let first_half = sums.first_half.of(&samples, &branches, &fall_throughs);
    let path = sums.path;
    let architecture = String::new();
    ImageCounts {
        build_id,
        path,
        architecture,
        samples,
        branches,
        fall_throughs,
        paths,
        first_half,
    }
}
