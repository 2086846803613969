//! Places of code as frames of a Firefox profile: functions with their library and address where
//! there is a file, else labels; each with the category of its code.

use super::super::{Export, short};
use calltrees::{FunctionId, Kind, Known, LibraryId, PlaceId};
use fxprof_processed_profile::debugid::DebugId;
use fxprof_processed_profile::{
    CategoryColor, CategoryPairHandle, Frame, FrameFlags, FrameInfo, LibraryHandle, LibraryInfo,
    Profile, Symbol, SymbolTable,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The frames of all places.
pub(super) struct Frames<'b, 'e> {
    export: &'b Export<'e>,
    libraries: FxHashMap<LibraryId, LibraryHandle>,
    categories: BTreeMap<Kind, CategoryPairHandle>,
    known: FxHashMap<PlaceId, Vec<FrameInfo>>,
}

impl<'b, 'e> Frames<'b, 'e> {
    pub(super) fn new(export: &'b Export<'e>, profile: &mut Profile) -> Frames<'b, 'e> {
        let mut category =
            |name, colour| CategoryPairHandle::from(profile.add_category(name, colour));
        let other = category("Not recorded", CategoryColor::Gray);
        let categories = BTreeMap::from([
            (Kind::User, category("User", CategoryColor::Yellow)),
            (Kind::Made, category("JIT", CategoryColor::Blue)),
            (Kind::Kernel, category("Kernel", CategoryColor::Orange)),
            (Kind::Elsewhere, category("Elsewhere", CategoryColor::Brown)),
            (Kind::Nobody, other),
        ]);
        let libraries = libraries(export, profile);
        Frames { export, libraries, categories, known: FxHashMap::default() }
    }

    /// The frames of a stack, outermost first.
    pub(super) fn of(&mut self, profile: &mut Profile, places: &[PlaceId]) -> Vec<FrameInfo> {
        let mut all = Vec::with_capacity(places.len());
        for place in places.iter().rev() {
            if !self.known.contains_key(place) {
                let frames = self.frames(profile, *place);
                self.known.insert(*place, frames);
            }
            all.extend(self.known.get(place).into_iter().flatten().cloned());
        }
        all
    }

    /// Those of a place, outermost first.
    fn frames(&self, profile: &mut Profile, place: PlaceId) -> Vec<FrameInfo> {
        let kind = self.export.session.kind(place);
        let functions = self.export.session.functions(place).iter().rev();
        let mut frame = |id: &FunctionId| {
            Some(FrameInfo {
                frame: self.native(*id, place).unwrap_or_else(|| {
                    Frame::Label(profile.intern_string(&label(self.export, *id)))
                }),
                category_pair: *self.categories.get(&kind)?,
                flags: FrameFlags::empty(),
            })
        };
        functions.filter_map(&mut frame).collect()
    }

    /// A function of the symbol table at an address of its library.
    fn native(&self, id: FunctionId, place: PlaceId) -> Option<Frame> {
        let function = self.export.recorded.names.function(id)?;
        if function.known != Known::Symbol {
            return None;
        }
        let library = *self.libraries.get(&function.library)?;
        let at = u32::try_from(self.export.session.address(place)?.0).ok()?;
        Some(Frame::RelativeAddressFromAdjustedReturnAddress(library, at))
    }
}

/// What stands for a frame without an address: the function, and the library where only an address
/// is known.
fn label(export: &Export<'_>, id: FunctionId) -> String {
    let names = &export.recorded.names;
    let function = names.function(id);
    match export.name(id) {
        Some(name) => name,
        None => {
            let name = function.map_or("?", |function| function.name.as_str());
            let library = names.library(id).map_or("", |library| library.short());
            format!("{} ({})", short(name), short(library))
        }
    }
}

/// The libraries whose files are at hand, each with the functions that were met.
fn libraries(export: &Export<'_>, profile: &mut Profile) -> FxHashMap<LibraryId, LibraryHandle> {
    let mut symbols: BTreeMap<LibraryId, BTreeMap<u32, Symbol>> = BTreeMap::new();
    let places = export.session.distinct().flat_map(|stack| stack.places.iter().copied());
    let mut met = vec![false; export.session.place_count()];
    for place in places {
        let Some(slot) = met.get_mut(place.index()).filter(|slot| !**slot) else { continue };
        *slot = true;
        let Some(id) = export.session.functions(place).last().copied() else { continue };
        let Some(function) = export.recorded.names.function(id) else { continue };
        let Some(at) = export.session.address(place) else { continue };
        let own = symbols.entry(function.library).or_default();
        let Some((start, size)) = export.session.function_at(function.library, at) else {
            continue;
        };
        let (Ok(address), Some(name)) = (u32::try_from(start.0), export.name(id)) else { continue };
        let size = u32::try_from(size).ok();
        own.entry(address).or_insert(Symbol { address, size, name });
    }
    let mut handles = FxHashMap::default();
    for (id, symbols) in symbols {
        let Some(library) = export.recorded.names.libraries().get(id.0 as usize) else { continue };
        let table = SymbolTable::new(symbols.into_values().collect());
        let build_id = library.build_id.as_deref().unwrap_or_default();
        // A build ID's first 16 bytes are read as a GUID.
        let guid = build_id.get(..16).and_then(|bytes| DebugId::from_guid_age(bytes, 0).ok());
        let digits: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let (name, path) = (short(library.short()), short(&library.path));
        let info = LibraryInfo {
            name: name.clone(),
            debug_name: name,
            path: path.clone(),
            debug_path: path,
            debug_id: guid.unwrap_or_default(),
            code_id: Some(digits).filter(|digits| !digits.is_empty()),
            arch: None,
            symbol_table: Some(Arc::new(table)),
        };
        handles.insert(id, profile.add_lib(info));
    }
    handles
}
