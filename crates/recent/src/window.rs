//! The last parts of a recording, added up.
//!
//! Input: named stacks of one part after another, each with numbers of its own for functions and
//! threads. Output: the sums of the last parts, with numbers that stay the same from one output to
//! the next. Memory: [`MOST_STACKS`] and [`MOST_FUNCTIONS`]; beyond, the oldest parts go first,
//! counted.

use calltrees::{
    Event, Function, FunctionId, Ledger, Library, LibraryId, Names, Recorded, Stack, Thread, Weight,
};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Distinct stacks of all parts.
const MOST_STACKS: usize = 400_000;
/// Functions that were met; beyond, all is begun anew.
const MOST_FUNCTIONS: usize = 400_000;

/// Samples of a part, by the window's numbers.
#[derive(Debug, Default)]
struct Part {
    stacks: Vec<Stack>,
    span_ns: u64,
    ledger: Ledger,
    remarks: Vec<String>,
}

/// The last parts.
#[derive(Debug)]
pub struct Window {
    most: usize,
    parts: VecDeque<Part>,
    events: Vec<Event>,
    functions: Vec<Function>,
    function_numbers: FxHashMap<Function, FunctionId>,
    libraries: Vec<Library>,
    library_numbers: FxHashMap<(String, Option<Vec<u8>>), LibraryId>,
    threads: Vec<Thread>,
    thread_numbers: FxHashMap<Thread, u32>,
    /// Stacks of parts that had to go early.
    dropped: u64,
}

impl Window {
    /// At most so many parts.
    pub fn new(most: usize) -> Window {
        Window {
            most: most.max(1),
            parts: VecDeque::new(),
            events: Vec::new(),
            functions: Vec::new(),
            function_numbers: FxHashMap::default(),
            libraries: Vec::new(),
            library_numbers: FxHashMap::default(),
            threads: Vec::new(),
            thread_numbers: FxHashMap::default(),
            dropped: 0,
        }
    }

    /// Forgets all parts.
    pub fn clear(&mut self) {
        *self = Window { dropped: self.dropped, ..Window::new(self.most) };
    }

    /// Distinct stacks of parts that went before their time, for want of room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether no part has a sample.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.stacks.is_empty())
    }

    /// Adds a part; none: nothing was sampled. The oldest one goes.
    pub fn add(&mut self, recorded: Option<&Recorded>) {
        if self.functions.len() > MOST_FUNCTIONS {
            self.dropped += self.stacks() as u64;
            self.clear();
        }
        let part = recorded.map(|recorded| self.numbered(recorded)).unwrap_or_default();
        self.parts.push_back(part);
        while self.parts.len() > self.most {
            self.parts.pop_front();
        }
        while self.parts.len() > 1 && self.stacks() > MOST_STACKS {
            let gone = self.parts.pop_front().unwrap_or_default();
            self.dropped += gone.stacks.len() as u64;
        }
    }

    fn stacks(&self) -> usize {
        self.parts.iter().map(|part| part.stacks.len()).sum()
    }

    /// A part with the window's numbers.
    fn numbered(&mut self, recorded: &Recorded) -> Part {
        let events: Vec<u32> = recorded.events.iter().map(|event| self.event(event)).collect();
        let names = &recorded.names;
        let libraries: Vec<LibraryId> =
            names.libraries().iter().map(|library| self.library(library)).collect();
        let functions: Vec<FunctionId> = names
            .functions()
            .iter()
            .map(|function| {
                let library = libraries.get(function.library.0 as usize).copied();
                self.function(Function {
                    library: library.unwrap_or(LibraryId(0)),
                    line: None,
                    ..function.clone()
                })
            })
            .collect();
        let threads: Vec<u32> = recorded.threads.iter().map(|thread| self.thread(thread)).collect();
        let stack = |stack: &Stack| {
            let own = stack.functions.iter().map(|id| functions.get(id.0 as usize).copied());
            Some(Stack {
                event: *events.get(stack.event as usize)?,
                thread: *threads.get(stack.thread as usize)?,
                cgroup: None,
                functions: own.collect::<Option<_>>()?,
                ..stack.clone()
            })
        };
        Part {
            stacks: recorded.stacks.iter().filter_map(stack).collect(),
            span_ns: recorded.span_ns,
            ledger: recorded.ledger,
            remarks: recorded.remarks.clone(),
        }
    }

    fn event(&mut self, event: &Event) -> u32 {
        let known = self.events.iter().position(|known| known == event);
        let number = known.unwrap_or_else(|| {
            self.events.push(event.clone());
            self.events.len() - 1
        });
        number as u32
    }

    fn library(&mut self, library: &Library) -> LibraryId {
        let next = LibraryId(self.libraries.len() as u32);
        let key = (library.path.clone(), library.build_id.clone());
        let id = *self.library_numbers.entry(key).or_insert(next);
        match self.libraries.get_mut(id.0 as usize) {
            // What is known of it now holds.
            Some(known) => known.problem.clone_from(&library.problem),
            None => self.libraries.push(library.clone()),
        }
        id
    }

    fn function(&mut self, function: Function) -> FunctionId {
        let next = FunctionId(self.functions.len() as u32);
        *self.function_numbers.entry(function).or_insert_with_key(|function| {
            self.functions.push(function.clone());
            next
        })
    }

    fn thread(&mut self, thread: &Thread) -> u32 {
        let next = self.threads.len() as u32;
        *self.thread_numbers.entry(thread.clone()).or_insert_with_key(|thread| {
            self.threads.push(thread.clone());
            next
        })
    }

    /// The sums of all parts.
    pub fn recorded(&self) -> Recorded {
        let mut sums: FxHashMap<Key<'_>, Weight> = FxHashMap::default();
        let mut ledger = Ledger::default();
        let (mut span_ns, mut remarks) = (0u64, Vec::new());
        for part in &self.parts {
            span_ns = span_ns.saturating_add(part.span_ns);
            add(&mut ledger, &part.ledger);
            remarks.extend(part.remarks.iter().cloned());
            for stack in &part.stacks {
                let key = (stack.event, stack.thread, &*stack.functions, stack.at);
                sums.entry(key).or_default().add(stack.weight);
            }
        }
        remarks.sort();
        remarks.dedup();
        let stack = |((event, thread, functions, at), weight): (Key<'_>, Weight)| Stack {
            event,
            thread,
            block: 0,
            cgroup: None,
            functions: functions.into(),
            at,
            weight,
        };
        let mut sums: Vec<(Key<'_>, Weight)> = sums.into_iter().collect();
        // The order of a hash table is no order.
        sums.sort_unstable_by_key(|(key, _)| *key);
        Recorded {
            events: self.events.clone(),
            threads: self.threads.clone(),
            cgroups: Vec::new(),
            names: Names::of(self.functions.clone(), self.libraries.clone()),
            stacks: sums.into_iter().map(stack).collect(),
            span_ns,
            switching: None,
            ledger,
            remarks,
        }
    }
}

/// Event, thread, functions, sampled address.
type Key<'s> = (u32, u32, &'s [FunctionId], Option<image::ImageAddr>);

fn add(sum: &mut Ledger, other: &Ledger) {
    sum.samples += other.samples;
    sum.used += other.used;
    sum.filtered += other.filtered;
    sum.malformed += other.malformed;
    sum.without_address += other.without_address;
    sum.refused += other.refused;
    sum.without_chain += other.without_chain;
    sum.cut += other.cut;
    sum.deferred += other.deferred;
    sum.deferred_missing += other.deferred_missing;
    sum.frames.unwound += other.frames.unwound;
    sum.frames.missing += other.frames.missing;
    sum.frames.cut += other.frames.cut;
    sum.unknown_records += other.unknown_records;
}
