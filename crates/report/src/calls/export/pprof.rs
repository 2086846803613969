//! A recording as the profile of `pprof`: gzip-compressed `profile.proto`.
//!
//! Every distinct stack of a thread is a sample, with a value for each sample type. The profile has
//! one address space; files of several processes lie in it one after the other, each with the
//! addresses that it has itself, moved by [`SLOT`] times its number. Source:
//! <https://github.com/google/pprof/blob/main/proto/profile.proto>.

use super::proto::Message;
use super::{Error, Export};
use calltrees::{FunctionId, Kind, LibraryId, PlaceId, Weight};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;

/// Room for each file: no image has higher addresses, those of kernels aside, which have none here.
const SLOT: u64 = 1 << 44;
/// Bytes of the smallest page.
const PAGE: u64 = 1 << 12;

/// Fields of messages.
mod field {
    pub const SAMPLE_TYPE: u32 = 1;
    pub const SAMPLE: u32 = 2;
    pub const MAPPING: u32 = 3;
    pub const LOCATION: u32 = 4;
    pub const FUNCTION: u32 = 5;
    pub const STRING: u32 = 6;
    pub const DURATION: u32 = 10;
    pub const PERIOD_TYPE: u32 = 11;
    pub const PERIOD: u32 = 12;
    pub const DEFAULT_TYPE: u32 = 14;
}

/// Writes the samples of an event, and, where `waits` says so, how long each stack waited as sample
/// types of their own.
///
/// # Errors
/// Where nothing is left to write, or it cannot be written.
pub fn pprof(
    export: &Export<'_>,
    event: u32,
    waits: bool,
    out: &mut dyn Write,
) -> Result<(), Error> {
    super::zipped(out, |out| plain(export, event, waits, out))
}

fn plain(export: &Export<'_>, event: u32, waits: bool, out: &mut dyn Write) -> Result<(), Error> {
    let mut profile = Profile { out, strings: Strings::default() };
    let types = types(export, event, waits);
    let stacks = stacks(export, &types);
    if stacks.is_empty() {
        return Err(Error::Nothing);
    }
    profile.strings.number("");
    profile.sample_types(&types)?;
    let mut used = BTreeSet::new();
    for ((thread, places), values) in &stacks {
        used.extend(places.iter().copied().filter(|place| is_code(export, *place)));
        profile.sample(export, *thread, places, values)?;
    }
    profile.locations(export, &used)?;
    let mut end = Message::default();
    end.number(field::DURATION, export.recorded.span_ns);
    profile.put(&end)?;
    let strings = std::mem::take(&mut profile.strings.all);
    for text in &strings {
        let mut message = Message::default();
        message.text(field::STRING, text.as_bytes());
        profile.put(&message)?;
    }
    Ok(())
}

/// Two sample types of an event: how many samples, and what they weigh.
struct Type {
    event: u32,
    count: String,
    weight: String,
    unit: &'static str,
}

fn types(export: &Export<'_>, event: u32, waits: bool) -> Vec<Type> {
    let of = |(index, found): (u32, &calltrees::Event)| {
        let name = super::short(&found.name);
        let is_main = index == event;
        let unit = if found.is_clock { "nanoseconds" } else { "count" };
        let (count, weight) = match (found.off_cpu.is_some(), found.is_clock) {
            (true, _) => (format!("{name}_count"), name),
            (false, true) => ("samples".to_owned(), "cpu".to_owned()),
            (false, false) => ("samples".to_owned(), name),
        };
        (is_main || waits && found.off_cpu.is_some()).then_some(Type {
            event: index,
            count,
            weight,
            unit,
        })
    };
    let mut types: Vec<Type> = (0u32..).zip(&export.recorded.events).filter_map(of).collect();
    // The one that is looked at first stands first.
    types.sort_by_key(|one| one.event != event);
    let has = |one: &Type| export.session.distinct().any(|stack| stack.event == one.event);
    types.retain(|one| one.event == event || has(one));
    types
}

/// Distinct stacks of threads, with what they weigh in each type.
type Stacks<'p> = BTreeMap<(u32, &'p [PlaceId]), Vec<Weight>>;

fn stacks<'p>(export: &Export<'p>, types: &[Type]) -> Stacks<'p> {
    let mut stacks = Stacks::new();
    for stack in export.session.distinct() {
        let Some(column) = types.iter().position(|one| one.event == stack.event) else { continue };
        let Some(thread) = export.thread(stack.thread) else { continue };
        if !export.keeps(thread, &stack) {
            continue;
        }
        let values = stacks.entry((stack.thread, stack.places)).or_default();
        values.resize(types.len(), Weight::default());
        if let Some(sum) = values.get_mut(column) {
            sum.add(stack.weight);
        }
    }
    stacks
}

/// Whether a place is one of code; what stands for missing callers is none, and is a location too.
fn is_code(export: &Export<'_>, place: PlaceId) -> bool {
    !export.session.functions(place).is_empty()
}

#[derive(Default)]
struct Strings {
    all: Vec<String>,
    numbers: HashMap<String, u64>,
}

impl Strings {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.all.len() as u64;
        self.all.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

struct Profile<'o> {
    out: &'o mut dyn Write,
    strings: Strings,
}

impl Profile<'_> {
    fn put(&mut self, message: &Message) -> Result<(), Error> {
        Ok(self.out.write_all(message.bytes())?)
    }

    fn value_type(&mut self, name: &str, unit: &str) -> Message {
        let (name, unit) = (self.strings.number(name), self.strings.number(unit));
        let mut value = Message::default();
        value.number(1, name).number(2, unit);
        value
    }

    fn sample_types(&mut self, types: &[Type]) -> Result<(), Error> {
        let mut message = Message::default();
        for one in types {
            let count = self.value_type(&one.count, "count");
            let weight = self.value_type(&one.weight, one.unit);
            message.message(field::SAMPLE_TYPE, &count).message(field::SAMPLE_TYPE, &weight);
        }
        if let Some(main) = types.first() {
            let period = self.value_type(&main.weight, main.unit);
            message.message(field::PERIOD_TYPE, &period).number(field::PERIOD, 1);
            message.number(field::DEFAULT_TYPE, self.strings.number(&main.weight));
        }
        self.put(&message)
    }

    fn sample(
        &mut self,
        export: &Export<'_>,
        thread: u32,
        places: &[PlaceId],
        values: &[Weight],
    ) -> Result<(), Error> {
        let mut sample = Message::default();
        let known = places.iter().filter(|place| is_code(export, **place));
        sample.packed(1, known.map(|place| place.index() as u64 + 1));
        let values = values.iter().flat_map(|weight| [weight.samples, weight.period]);
        sample.packed(2, values.map(|value| value.min(i64::MAX as u64)));
        if let Some(thread) = export.thread(thread) {
            let key = self.strings.number("thread");
            let name = self.strings.number(&super::short(&thread.name));
            let mut label = Message::default();
            label.number(1, key).number(2, name);
            sample.message(3, &label);
            for (key, number) in [("pid", thread.pid), ("tid", thread.tid)] {
                let mut label = Message::default();
                label.number(1, self.strings.number(key)).number(3, i64::from(number) as u64);
                sample.message(3, &label);
            }
        }
        let mut message = Message::default();
        message.message(field::SAMPLE, &sample);
        self.put(&message)
    }

    /// Locations, their functions and their files.
    fn locations(&mut self, export: &Export<'_>, used: &BTreeSet<PlaceId>) -> Result<(), Error> {
        let mut functions: BTreeSet<FunctionId> = BTreeSet::new();
        let mut libraries: BTreeSet<LibraryId> = BTreeSet::new();
        let mut message = Message::default();
        for place in used {
            let own = export.session.functions(*place);
            functions.extend(own);
            let names = &export.recorded.names;
            // All of a place lie in one file.
            let outermost = own.last().and_then(|id| names.function(*id));
            let library = outermost.map(|function| function.library);
            libraries.extend(library);
            let mut location = Message::default();
            location.number(1, place.index() as u64 + 1);
            if export.session.kind(*place) != Kind::Nobody
                && let Some(library) = library
            {
                location.number(2, u64::from(library.0) + 1);
                let at = export.session.address(*place);
                location.number(3, at.map_or(0, |at| slot(library).saturating_add(at.0)));
            }
            for id in own {
                let mut line = Message::default();
                line.number(1, u64::from(id.0) + 1);
                location.message(4, &line);
            }
            message.message(field::LOCATION, &location);
        }
        self.put(&message)?;
        for id in functions {
            self.function(export, id)?;
        }
        for id in libraries {
            self.mapping(export, id)?;
        }
        Ok(())
    }

    fn function(&mut self, export: &Export<'_>, id: FunctionId) -> Result<(), Error> {
        let Some(found) = export.recorded.names.function(id) else { return Ok(()) };
        let name = export.name(id).unwrap_or_else(|| super::short(&found.name));
        let (name, linkage) =
            (self.strings.number(&name), self.strings.number(&super::short(&found.name)));
        let mut function = Message::default();
        function.number(1, u64::from(id.0) + 1).number(2, name).number(3, linkage);
        let mut message = Message::default();
        message.message(field::FUNCTION, &function);
        self.put(&message)
    }

    fn mapping(&mut self, export: &Export<'_>, id: LibraryId) -> Result<(), Error> {
        let Some(library) = export.recorded.names.libraries().get(id.0 as usize) else {
            return Ok(());
        };
        let begin = slot(id);
        let (start, limit, offset) = match export.session.code(id) {
            Some(code) => {
                let first = code.addresses.start.0;
                let before = first % PAGE;
                let end = code.addresses.end.0.saturating_add(PAGE - 1) / PAGE * PAGE;
                (first - before, end, code.offset.0.saturating_sub(before))
            }
            None => (0, SLOT, 0),
        };
        let file = self.strings.number(&super::short(&library.path));
        let build_id: String =
            library.build_id.iter().flatten().map(|byte| format!("{byte:02x}")).collect();
        let build_id = self.strings.number(&build_id);
        let mut mapping = Message::default();
        mapping
            .number(1, u64::from(id.0) + 1)
            .number(2, begin.saturating_add(start))
            .number(3, begin.saturating_add(limit))
            .number(4, offset)
            .number(5, file)
            .number(6, build_id)
            .number(7, u64::from(library.problem.is_none()));
        let mut message = Message::default();
        message.message(field::MAPPING, &mapping);
        self.put(&message)
    }
}

/// Where the addresses of a file begin.
fn slot(library: LibraryId) -> u64 {
    SLOT.saturating_mul(u64::from(library.0) + 1)
}
