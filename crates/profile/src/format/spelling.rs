//! Whether a format can spell the names of a profile so that a reader gets the same names back.

use super::{Format, NameStorage, WriteOptions};
use crate::{Context, Error, Frame, FunctionProfile, Name, SampleProfile};

/// Refuses a profile with a name that the format cannot spell. Compilers make no such names;
/// corrupt files do.
pub(super) fn check(
    profile: &SampleProfile,
    format: Format,
    options: &WriteOptions,
) -> Result<(), Error> {
    let spells: fn(&str) -> bool = match format {
        Format::Text => text_spells,
        Format::ExtBinary if options.names != NameStorage::Plain => return Ok(()),
        Format::Binary | Format::ExtBinary | Format::Gcov => |name| !name.contains('\0'),
        Format::Pprof => return Ok(()),
    };
    // The sign of a context in brackets makes one, and all names of a context-sensitive profile get
    // brackets in text.
    let text = format == Format::Text;
    let misread = |function: &FunctionProfile| {
        let name = &function.name;
        text && name.as_text().is_some_and(|text| text.contains(" @ "))
            && (profile.context_sensitive || name.is_context())
            && Context::of(name).is_base()
    };
    let wrong = |function| match misread(function) {
        true => function.name.as_text(),
        false => unspellable(function, spells),
    };
    match profile.functions.values().find_map(wrong) {
        None => Ok(()),
        Some(name) => {
            let problem = format!("it cannot spell the name {name:?}; trim that function away");
            Err(Error::Unwritable { format: format.word(), problem })
        }
    }
}

fn unspellable(function: &FunctionProfile, spells: fn(&str) -> bool) -> Option<&str> {
    let targets = function.body.values().flat_map(|sample| sample.targets.keys());
    let vtables = function.vtables.values().flat_map(|types| types.keys());
    // A calling context is spelled frame by frame.
    let own = if function.name.is_context() { None } else { Some(&function.name) };
    let mut names = own.into_iter().chain(targets).chain(vtables).filter_map(Name::as_text);
    if own.is_none() {
        let context = Context::of(&function.name);
        let spelled = |frame: &Frame| frame.function.as_text().is_none_or(spells);
        if !context.frames().iter().all(spelled) {
            return function.name.as_text();
        }
    }
    names
        .find(|name| !spells(name))
        .or_else(|| function.inlined_calls().find_map(|(_, callee)| unspellable(callee, spells)))
}

fn text_spells(name: &str) -> bool {
    let (first, more) = name.split_once(' ').unwrap_or((name, ""));
    let counts_inside = name.split(':').skip(1).any(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        digits > 0 && rest.as_bytes().get(digits) == Some(&b' ')
    });
    let bare_context = name.starts_with('[') && name.ends_with(']') && !name.contains(" @ ");
    !name.is_empty()
        && name.trim() == name
        && !name.starts_with('#')
        && !name.contains(char::is_control)
        && (more.is_empty()
            || first != "vtables" && !first.bytes().all(|byte| byte.is_ascii_digit()))
        && !counts_inside
        && !bare_context
}
