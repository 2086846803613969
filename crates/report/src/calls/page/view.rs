//! Which samples does a page show? Views, each of an event of one or several recordings, over one list
//! of functions.

use crate::calls::demangled;
use crate::calls::diff::{self, Unit};
use calltrees::rows::{of_event, sampled_events};
use calltrees::{Function, FunctionId, Known, Recorded, Weight};
use std::borrow::Cow;
use std::collections::HashMap;

/// Views of a page at most; more events than a recording has in practice.
const MOST_VIEWS: usize = 12;

/// Samples that are shown together.
#[derive(Debug)]
pub(super) struct View<'r> {
    /// What it is called.
    pub(super) name: String,
    /// `cpu`, `events`, `old`, `new`, or the reason why threads were off their CPU.
    pub(super) kind: String,
    /// Whether weights are nanoseconds.
    pub(super) clock: bool,
    /// Whether its samples are waits.
    pub(super) waits: bool,
    /// Where its samples come from.
    pub(super) parts: Vec<Part<'r>>,
}

/// The samples of one event of one recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'r> {
    /// The number of the recording in the [`Space`].
    pub(super) recording: usize,
    /// The event.
    pub(super) unit: Unit<'r>,
    /// A frame put in front of the innermost one: the state that the thread was in.
    pub(super) state: Option<FunctionId>,
}

/// A stack of a view.
pub(super) struct Seen<'r> {
    pub(super) functions: Cow<'r, [FunctionId]>,
    pub(super) block: u32,
    pub(super) weight: Weight,
}

/// A function of a page.
#[derive(Debug)]
pub(super) struct Shown<'r> {
    name: Cow<'r, str>,
    /// Whether the name is as a linker knows it.
    is_linkage: bool,
    pub(super) library: &'r str,
    pub(super) is_inlined: bool,
    /// Whether it is a state of threads and no function.
    pub(super) is_state: bool,
}

impl Shown<'_> {
    /// As people read it.
    pub(super) fn name(&self) -> Cow<'_, str> {
        if self.is_linkage { demangled(&self.name).into() } else { (*self.name).into() }
    }
}

/// The functions of all recordings of a page.
#[derive(Debug, Default)]
pub(super) struct Space<'r> {
    pub(super) functions: Vec<Shown<'r>>,
    /// The numbers of each recording's functions; none: as they are.
    numbers: Vec<Option<Vec<FunctionId>>>,
}

impl<'r> Space<'r> {
    /// The functions of one recording.
    pub(super) fn of(recorded: &'r Recorded) -> Space<'r> {
        let all = recorded.names.functions();
        let shown = |function: &'r Function| Shown {
            name: Cow::Borrowed(&function.name),
            is_linkage: true,
            library: library(recorded, function),
            is_inlined: function.known == Known::Inlined,
            is_state: false,
        };
        Space { functions: all.iter().map(shown).collect(), numbers: vec![None] }
    }

    /// The functions of several recordings, those that are one row of a difference as one; and which
    /// function each row is.
    pub(super) fn of_rows(
        recordings: &[&'r Recorded],
    ) -> (Space<'r>, HashMap<diff::Key, FunctionId>) {
        let mut space = Space::default();
        let mut known: HashMap<diff::Key, FunctionId> = HashMap::new();
        for recorded in recordings {
            let rows = diff::rows_of_functions(recorded);
            let number = |(function, key): (&'r Function, diff::Key)| {
                let next = FunctionId(space.functions.len() as u32);
                *known.entry(key).or_insert_with_key(|key| {
                    space.functions.push(Shown {
                        name: Cow::Owned(diff::shown(key)),
                        is_linkage: false,
                        library: library(recorded, function),
                        is_inlined: function.known == Known::Inlined,
                        is_state: false,
                    });
                    next
                })
            };
            let numbers = recorded.names.functions().iter().zip(rows).map(number).collect();
            space.numbers.push(Some(numbers));
        }
        (space, known)
    }

    /// A frame that stands for a state of threads.
    fn state(&mut self, name: &'r str) -> FunctionId {
        self.functions.push(Shown {
            name: Cow::Borrowed(name),
            is_linkage: false,
            library: "",
            is_inlined: false,
            is_state: true,
        });
        FunctionId(self.functions.len() as u32 - 1)
    }

    /// The stacks of a view.
    pub(super) fn stacks<'s>(&'s self, view: &'s View<'r>) -> impl Iterator<Item = Seen<'s>> {
        view.parts.iter().flat_map(|part| {
            let numbers = self.numbers.get(part.recording).and_then(Option::as_ref);
            of_event(part.unit.recorded, part.unit.event).map(move |stack| {
                let functions = match (numbers, part.state) {
                    (None, None) => Cow::Borrowed(&*stack.functions),
                    _ => {
                        let of = |id: &FunctionId| match numbers {
                            Some(numbers) => numbers.get(id.0 as usize).copied().unwrap_or(*id),
                            None => *id,
                        };
                        part.state.into_iter().chain(stack.functions.iter().map(of)).collect()
                    }
                };
                Seen { functions, block: stack.block, weight: stack.weight }
            })
        })
    }
}

fn library<'r>(recorded: &'r Recorded, function: &Function) -> &'r str {
    let library = recorded.names.libraries().get(function.library.0 as usize);
    library.map_or("", |library| library.path.as_str())
}

/// The views of a recording: that of the event asked for first; of several that are times of threads
/// also one that holds them together, each stack with the state in front.
pub(super) fn views<'r>(
    recorded: &'r Recorded,
    first: u32,
    space: &mut Space<'r>,
) -> Vec<View<'r>> {
    let mut events = sampled_events(recorded);
    events.retain(|event| *event != first);
    events.insert(0, first);
    events.truncate(MOST_VIEWS - 1);
    let part = |event: u32| Part { recording: 0, unit: Unit { recorded, event }, state: None };
    let view = |&event: &u32| {
        let about = recorded.events.get(event as usize)?;
        let kind = match (about.off_cpu, about.is_clock) {
            (Some(_), _) => about.name.clone(),
            (None, true) => "cpu".to_owned(),
            (None, false) => "events".to_owned(),
        };
        Some(View {
            name: about.name.clone(),
            kind,
            clock: about.is_clock,
            waits: about.off_cpu.is_some(),
            parts: vec![part(event)],
        })
    };
    let mut views: Vec<View<'r>> = events.iter().filter_map(view).collect();
    // One clock: two would count the same time twice.
    let clock = views.iter().position(|view| view.kind == "cpu");
    let timed = |(at, view): &(usize, &View<'_>)| view.waits || Some(*at) == clock;
    let mut parts = Vec::new();
    for (_, view) in views.iter().enumerate().filter(timed) {
        let Some(own) = view.parts.first() else { continue };
        let about = recorded.events.get(own.unit.event as usize);
        let name = if view.waits { about.map_or("", |about| &about.name) } else { "running" };
        parts.push(Part { state: Some(space.state(name)), ..*own });
    }
    if parts.len() > 1 {
        let name = if clock.is_some() { "running and waiting" } else { "all waits" };
        views.push(View {
            name: name.to_owned(),
            kind: "all".to_owned(),
            clock: true,
            waits: false,
            parts,
        });
    }
    views
}
