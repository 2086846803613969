//! The recording that is looked at, and which part of it: one event's samples, of some threads,
//! through some functions.

use annotate::Annotated;
use calltrees::rows::{By, Subject, holds, named, of_event, sampled_events, whole};
use calltrees::{Event, FunctionId, Names, Recorded, Stack, Weight};
use report::calls::demangled;
use report::calls::lines::SourceText;
use std::cell::RefCell;
use std::rc::Rc;

/// What a table can be about, and the word for it.
pub type ByName = (&'static str, By);

/// What holds as long as the viewer runs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What is looked at, for the first line: a file, a command.
    pub title: String,
    /// All that tables can be about, the usual one first.
    pub by: Vec<ByName>,
    /// Whether colours are wanted; what they say is also said without.
    pub colour: bool,
    /// Whether the terminal shows ASCII only.
    pub ascii: bool,
    /// Whether samples still come in ([`Viewer::update`](crate::Viewer::update)).
    pub live: bool,
    /// What weighs less of the whole is left out at first, in per cent.
    pub percent: f64,
    /// What is to be said beside the numbers: where the recording is from.
    pub notes: Vec<String>,
}

/// The lines of a function.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// Its instructions and lines.
    pub annotated: Annotated,
    /// Its source files, by the positions of [`Annotated::files`].
    pub sources: Vec<SourceText>,
    /// What was sampled in it.
    pub own: Weight,
    /// What the reader should know beside the numbers.
    pub notes: Vec<String>,
}

/// A part that the samples are narrowed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Narrow {
    pub by: By,
    pub subject: Subject,
    /// In words.
    pub told: String,
}

/// Names as their programmers wrote them, each read once.
#[derive(Debug, Default)]
struct Read(RefCell<Vec<Option<Rc<str>>>>);

impl Read {
    fn of(&self, names: &Names, id: FunctionId) -> Rc<str> {
        let mut known = self.0.borrow_mut();
        let at = id.0 as usize;
        if known.len() <= at {
            known.resize(names.functions().len().max(at + 1), None);
        }
        let Some(slot) = known.get_mut(at) else { return Rc::from("") };
        let read = || names.function(id).map(|one| Rc::from(demangled(&one.name).as_str()));
        Rc::clone(slot.get_or_insert_with(|| read().unwrap_or_else(|| Rc::from(""))))
    }
}

/// The recording and the part of it that is looked at.
#[derive(Debug)]
pub(crate) struct Data {
    all: Rc<Recorded>,
    part: Rc<Recorded>,
    read: Read,
    pub event: u32,
    pub narrowed: Vec<Narrow>,
}

impl Data {
    pub(crate) fn new(recorded: Recorded, event: u32) -> Data {
        let all = Rc::new(recorded);
        Data { part: Rc::clone(&all), all, read: Read::default(), event, narrowed: Vec::new() }
    }

    /// Goes on with other samples of the same program.
    pub(crate) fn replace(&mut self, recorded: Recorded) {
        let same = recorded.names.functions().starts_with(self.all.names.functions());
        if !same {
            self.read = Read::default();
        }
        let name = self.event().name;
        let event = recorded.events.iter().position(|event| event.name == name);
        let usual = || sampled_events(&recorded).first().copied().unwrap_or(0);
        self.event = event.filter(|_| !name.is_empty()).map_or_else(usual, |event| event as u32);
        self.all = Rc::new(recorded);
        self.narrow_again();
    }

    /// What is looked at.
    pub(crate) fn recorded(&self) -> &Recorded {
        &self.part
    }

    fn narrow_again(&mut self) {
        if self.narrowed.is_empty() {
            self.part = Rc::clone(&self.all);
            return;
        }
        let mut part = Recorded::clone(&self.all);
        let (all, narrowed) = (&self.all, &self.narrowed);
        part.retain(|_, stack, _| {
            narrowed.iter().all(|one| holds(all, stack, one.by, &one.subject))
        });
        self.part = Rc::new(part);
    }

    /// Looks at one part only. Says whether that is another one than before.
    pub(crate) fn narrow(&mut self, by: By, subject: Subject) -> bool {
        let (name, more) = self.label(&subject);
        let what = match &subject {
            Subject::Function(_) => "through ",
            Subject::Library(_) => "in ",
            _ => "only ",
        };
        let told = format!("{what}{name} {more}").trim_end().to_owned();
        let next = Narrow { by, subject, told };
        if self.narrowed.contains(&next) {
            return false;
        }
        self.narrowed.push(next);
        self.narrow_again();
        true
    }

    /// Takes the last narrowing back; false where there was none.
    pub(crate) fn widen(&mut self) -> bool {
        let was = self.narrowed.pop().is_some();
        if was {
            self.narrow_again();
        }
        was
    }

    /// The event that is looked at.
    pub(crate) fn event(&self) -> Event {
        self.all.events.get(self.event as usize).cloned().unwrap_or_default()
    }

    /// Goes to the next event that has samples, or the one before.
    pub(crate) fn next_event(&mut self, back: bool) -> bool {
        let events = sampled_events(&self.all);
        let at = events.iter().position(|event| *event == self.event).unwrap_or(0);
        let step = if back { events.len().saturating_sub(1) } else { 1 };
        let next = events.get((at + step).checked_rem(events.len()).unwrap_or(0));
        let next = next.copied().unwrap_or(self.event);
        std::mem::replace(&mut self.event, next) != next
    }

    /// The stacks of the event.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = &Stack> {
        of_event(&self.part, self.event)
    }

    /// What they weigh.
    pub(crate) fn whole(&self) -> Weight {
        whole(&self.part, self.event)
    }

    /// The part of a whole, in per cent.
    pub(crate) fn share(weight: Weight, whole: Weight) -> f64 {
        if whole.period == 0 { 0.0 } else { 100.0 * weight.period as f64 / whole.period as f64 }
    }

    /// A weight in the event's unit.
    pub(crate) fn amount(weight: Weight, event: &Event) -> String {
        if event.is_clock {
            report::duration_ns(weight.period as f64)
        } else {
            report::count(weight.period)
        }
    }

    /// A function's name as in its source.
    pub(crate) fn function(&self, id: FunctionId) -> Rc<str> {
        self.read.of(&self.part.names, id)
    }

    /// Where a function lies, in brackets.
    pub(crate) fn library(&self, id: FunctionId) -> String {
        let library = self.part.names.library(id).map(|library| library.short());
        match library.unwrap_or_default() {
            "" | "[none]" => String::new(),
            short if short.starts_with('[') => short.to_owned(),
            short => format!("[{short}]"),
        }
    }

    /// A subject's name, and what stands behind it.
    pub(crate) fn label(&self, subject: &Subject) -> (String, String) {
        match subject {
            Subject::Function(id) => (self.function(*id).to_string(), self.library(*id)),
            _ => {
                let (name, more) = named(&self.part, subject);
                match subject {
                    Subject::Library(_) => (more, String::new()),
                    _ if name.is_empty() => (more, String::new()),
                    _ => (name, more),
                }
            }
        }
    }

    /// One line about the samples of the event.
    pub(crate) fn headline(&self) -> String {
        let (event, whole) = (self.event(), self.whole());
        let (one, more) =
            if event.off_cpu.is_some() { ("wait", "waits") } else { ("sample", "samples") };
        let unit = if event.is_clock { "" } else { " events" };
        let within = match self.part.span_ns {
            0 => String::new(),
            span => format!(" within {}", report::duration_ns(span as f64)),
        };
        let (samples, amount) =
            (report::counted(whole.samples, one, more), Data::amount(whole, &event));
        format!("{}: {samples}, {amount}{unit}{within}", event.name)
    }

    /// The share of the samples whose stack holds a function with such a name, in per cent.
    pub(crate) fn share_through(&self, is_it: impl Fn(FunctionId) -> bool) -> f64 {
        let count = self.part.names.functions().len() as u32;
        let found: Vec<bool> = (0..count).map(|id| is_it(FunctionId(id))).collect();
        let is_found = |id: &FunctionId| found.get(id.0 as usize) == Some(&true);
        let mut sum = Weight::default();
        let through = self.stacks().filter(|stack| stack.functions.iter().any(is_found));
        through.for_each(|stack| sum.add(stack.weight));
        Data::share(sum, self.whole())
    }
}
