//! Of which rows is a stack? By function, library, thread, process, call path or wait.
//!
//! Functions are matched by their lasting names, so that a clone is a row with its function. One
//! that is inlined on one side and called on the other is a row of its own on both; what is inlined
//! everywhere belongs to the function that holds it, as in `hot`.

use super::names::lasting;
use super::table::{BETWEEN, IN, Key, Unit};
use calltrees::rows::{By, sampled_events};
use calltrees::{Cgroup, Function, Known, LibraryId, Recorded, Stack, Thread};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher as _};

/// What rows are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// As in `hot`.
    Of(By),
    /// Call paths.
    Stack,
    /// Kinds of waits and the call paths that waited, beside the time on the CPU.
    Wait,
}

/// What is the same for all recordings.
pub(super) struct Plan {
    rows: Rows,
    total: bool,
    apart: Apart,
    /// Paths that are rows.
    chosen: FxHashSet<u64>,
    /// Paths that weigh too little to be rows.
    pub left_out: usize,
}

impl Plan {
    /// `inlined`: every inlined function stands for itself. A path with less than `percent` in each
    /// recording is no row.
    pub(super) fn new(
        units: &[Unit<'_>],
        rows: Rows,
        total: bool,
        inlined: bool,
        percent: f64,
    ) -> Plan {
        // A line is one wherever it was inlined.
        let apart = Apart::of(units, inlined || rows == Rows::Of(By::Line));
        let mut plan = Plan { rows, total, apart, chosen: FxHashSet::default(), left_out: 0 };
        if matches!(rows, Rows::Stack | Rows::Wait) {
            plan.choose(units, percent);
        }
        plan
    }

    /// Paths are many, and few weigh something.
    fn choose(&mut self, units: &[Unit<'_>], percent: f64) {
        let mut all: FxHashSet<u64> = FxHashSet::default();
        let mut chosen = FxHashSet::default();
        for unit in units {
            let subjects = Subjects::new(*unit, self);
            let mut sums: FxHashMap<u64, f64> = FxHashMap::default();
            let mut whole = 0.0;
            for stack in unit.recorded.stacks.iter().filter(|stack| subjects.counts(stack)) {
                let weight = stack.weight.period as f64;
                whole += weight;
                *sums.entry(subjects.path(stack)).or_default() += weight;
            }
            // A row is tested if the means of both sides add up to the share asked for: then it has
            // half of it in one recording.
            let enough = |weight: f64| 200.0 * weight >= percent * whole;
            chosen.extend(sums.iter().filter(|(_, w)| enough(**w)).map(|(path, _)| *path));
            all.extend(sums.into_keys());
        }
        self.left_out = all.len() - chosen.len();
        self.chosen = chosen;
    }
}

/// The functions that are inlined somewhere and called elsewhere.
struct Apart {
    /// Whether all inlined functions are rows.
    all: bool,
    names: FxHashSet<String>,
}

impl Apart {
    fn of(units: &[Unit<'_>], all: bool) -> Apart {
        let mut names = FxHashSet::default();
        let mut unclear = FxHashSet::default();
        for unit in units {
            let known = &unit.recorded.names;
            let own = known.functions().iter().filter(|f| f.known == Known::Symbol);
            for function in own {
                let name = lasting(&function.name).to_owned();
                // Without debug information nobody knows where it is inlined as well.
                match known.has_inlining(function.library) {
                    true => names.insert(name),
                    false => unclear.insert(name),
                };
            }
        }
        names.retain(|name| !unclear.contains(name));
        Apart { all, names }
    }

    fn keeps(&self, function: &Function) -> bool {
        function.known != Known::Inlined || self.all || self.names.contains(lasting(&function.name))
    }
}

/// The rows of the stacks of a recording.
pub(super) struct Subjects<'s> {
    recorded: &'s Recorded,
    plan: &'s Plan,
    /// The events that count, by index.
    events: Vec<bool>,
    /// The row of each function, library, thread or process, and its name in this recording.
    named: Vec<(Key, String)>,
    /// Whether a function is a frame.
    kept: Vec<bool>,
}

impl<'s> Subjects<'s> {
    pub(super) fn new(unit: Unit<'s>, plan: &'s Plan) -> Subjects<'s> {
        let recorded = unit.recorded;
        let clock = clock(recorded);
        let counts = |(index, event): (u32, &calltrees::Event)| match plan.rows {
            Rows::Wait => event.off_cpu.is_some() || Some(index) == clock,
            _ => index == unit.event,
        };
        let events = (0u32..).zip(&recorded.events).map(counts).collect();
        let by = if let Rows::Of(by) = plan.rows { by } else { By::Function };
        let kept = recorded.names.functions().iter().map(|f| plan.apart.keeps(f)).collect();
        Subjects { recorded, plan, events, named: names(recorded, by), kept }
    }

    /// Whether a stack is one of the whole.
    pub(super) fn counts(&self, stack: &Stack) -> bool {
        self.events.get(stack.event as usize).is_some_and(|counts| *counts)
    }

    /// The frames of a stack, by index of the function, innermost first.
    fn functions<'f>(&'f self, stack: &'f Stack) -> impl Iterator<Item = usize> + 'f {
        let all = stack.functions.iter().map(|id| id.0 as usize);
        all.filter(|index| self.kept.get(*index).is_some_and(|kept| *kept))
    }

    /// Stands for a path, and the kind of a wait.
    fn path(&self, stack: &Stack) -> u64 {
        let mut hasher = FxHasher::default();
        self.kind(stack).hash(&mut hasher);
        for index in self.functions(stack) {
            self.named.get(index).map(|(key, _)| key).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// What a thread did meanwhile; nothing to say where rows are not about waits.
    fn kind(&self, stack: &Stack) -> &'s str {
        let event = self.recorded.events.get(stack.event as usize);
        match self.plan.rows {
            Rows::Wait => {
                event.map_or(
                    "",
                    |event| if event.off_cpu.is_some() { event.name.as_str() } else { ON_CPU },
                )
            }
            _ => "",
        }
    }

    /// Tells `each` the rows of a stack, each with its name in this recording.
    pub(super) fn rows(&self, stack: &Stack, mut each: impl FnMut(&Key, &str)) {
        let most = if self.plan.total { usize::MAX } else { 1 };
        let mut told = |indices: &mut dyn Iterator<Item = usize>| {
            for (key, name) in indices.filter_map(|index| self.named.get(index)) {
                each(key, name);
            }
        };
        match self.plan.rows {
            Rows::Of(By::Thread | By::Process) => {
                told(&mut std::iter::once(stack.thread as usize));
            }
            Rows::Of(By::Cgroup) => {
                // What has no group stands behind them all.
                let behind = self.recorded.cgroups.len();
                told(&mut std::iter::once(stack.cgroup.map_or(behind, |index| index as usize)));
            }
            Rows::Of(_) => told(&mut self.functions(stack).take(most)),
            Rows::Stack => self.whole_path(stack, &mut each),
            Rows::Wait => {
                let kind = self.kind(stack);
                each(&(kind.to_owned(), String::new()), "");
                if kind != ON_CPU {
                    self.whole_path(stack, &mut each);
                }
            }
        }
    }

    fn whole_path(&self, stack: &Stack, each: &mut impl FnMut(&Key, &str)) {
        if !self.plan.chosen.contains(&self.path(stack)) {
            return;
        }
        let mut path = self.kind(stack).to_owned();
        for (name, library) in self.functions(stack).filter_map(|i| Some(&self.named.get(i)?.0)) {
            path.push(BETWEEN);
            path.extend(name.chars().filter(|c| !matches!(*c, BETWEEN | IN)));
            if name.is_empty() {
                path.push(IN);
                path.push_str(library);
            }
        }
        each(&(path, String::new()), "");
    }
}

/// The row of the time on the CPU, beside the waits.
const ON_CPU: &str = "on CPU";

/// The clock that tells when threads ran: the one with most samples.
pub(super) fn clock(recorded: &Recorded) -> Option<u32> {
    let is_clock = |index: &u32| {
        let event = recorded.events.get(*index as usize);
        event.is_some_and(|event| event.is_clock && event.off_cpu.is_none())
    };
    sampled_events(recorded).into_iter().find(is_clock)
}

/// The row of each function or thread, and the name it has in this recording.
pub(super) fn names(recorded: &Recorded, by: By) -> Vec<(Key, String)> {
    let alone = |name: &str| ((name.to_owned(), String::new()), name.to_owned());
    let functions = recorded.names.functions().iter();
    let library = |id: LibraryId| {
        let library = recorded.names.libraries().get(id.0 as usize);
        library.map_or("[unknown]", calltrees::Library::short)
    };
    let function = |function: &Function| match function.known {
        // Addresses differ from build to build; what has no name is one row of its library.
        Known::Address => ((String::new(), library(function.library).to_owned()), String::new()),
        _ => ((lasting(&function.name).to_owned(), String::new()), function.name.clone()),
    };
    let thread = |pid: i32, name: &str| {
        let main = recorded.threads.iter().find(|thread| (thread.pid, thread.tid) == (pid, pid));
        main.map_or(name, |main| &main.name).to_owned()
    };
    let names = &recorded.names;
    let line = |one: &Function| match one.line {
        Some(line) => alone(&format!("{}:{}", names.source(line), line.number)),
        None => function(one),
    };
    let cgroup = |group: &Cgroup| alone(group.path.as_deref().unwrap_or_default());
    match by {
        By::Function => functions.map(function).collect(),
        By::Line => functions.map(line).collect(),
        By::Cgroup => recorded.cgroups.iter().map(cgroup).chain([alone("")]).collect(),
        By::Library => functions.map(|function| alone(library(function.library))).collect(),
        By::Thread => recorded.threads.iter().map(|thread| alone(&thread.name)).collect(),
        By::Process => {
            let mut mains: BTreeMap<i32, String> = BTreeMap::new();
            let name = |own: &Thread| {
                let main = mains.entry(own.pid).or_insert_with(|| thread(own.pid, &own.name));
                alone(main)
            };
            recorded.threads.iter().map(name).collect()
        }
    }
}
