//! Abbreviation tables, prepared so that an entry nobody wants is skipped in a few steps.

use gimli::{Encoding, Reader as _};
use rustc_hash::FxHashMap;

use super::form::{self, Slice, Value};

/// What an entry is to the resolution of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `DW_TAG_subprogram`.
    Subprogram,
    /// `DW_TAG_inlined_subroutine`.
    Inlined,
    /// A type: its children hold no code, so they may be jumped over.
    Type,
    /// Anything else: only its children matter.
    Other,
}

/// One attribute of an abbreviation.
#[derive(Clone, Copy, Debug)]
struct Spec {
    name: gimli::DwAt,
    form: u16,
    implicit: i64,
}

/// A step of skipping an entry.
#[derive(Clone, Copy, Debug)]
enum Step {
    Bytes(usize),
    Form(u16),
}

/// One abbreviation.
#[derive(Debug)]
pub(super) struct Abbreviation {
    pub(super) kind: Kind,
    pub(super) has_children: bool,
    is_partial_unit: bool,
    /// Whether the entry states addresses, so that it may stand for code.
    pub(super) has_code: bool,
    /// Whether the entry is a function that the compiler inlined somewhere (an abstract instance).
    pub(super) is_inlined: bool,
    /// Whether the children may be passed over by `DW_AT_sibling`.
    pub(super) can_jump: bool,
    specs: Vec<Spec>,
    steps: Vec<Step>,
}

impl Abbreviation {
    fn parse(input: &mut Slice<'_>, encoding: Encoding) -> gimli::Result<Abbreviation> {
        let tag = gimli::DwTag(input.read_uleb128_u16()?);
        let has_children = input.read_u8()? != 0;
        let mut specs = Vec::new();
        let mut steps = Vec::new();
        loop {
            let name = input.read_uleb128_u16()?;
            let form = input.read_uleb128_u16()?;
            if name == 0 && form == 0 {
                break;
            }
            let implicit =
                if form == gimli::DW_FORM_implicit_const.0 { input.read_sleb128()? } else { 0 };
            specs.push(Spec { name: gimli::DwAt(name), form, implicit });
            match (form::fixed_bytes(form, encoding), steps.last_mut()) {
                (Some(0), _) => {}
                (Some(bytes), Some(Step::Bytes(sum))) => *sum += bytes,
                (Some(bytes), _) => steps.push(Step::Bytes(bytes)),
                (None, _) => steps.push(Step::Form(form)),
            }
        }
        let is_partial_unit = tag == gimli::DW_TAG_partial_unit || tag == gimli::DW_TAG_type_unit;
        let has = |name: gimli::DwAt| specs.iter().any(|spec: &Spec| spec.name == name);
        let kind = kind(tag);
        let has_code =
            (has(gimli::DW_AT_low_pc) && has(gimli::DW_AT_high_pc)) || has(gimli::DW_AT_ranges);
        let is_inlined = kind == Kind::Subprogram && has(gimli::DW_AT_inline);
        let without_code = kind == Kind::Type || (kind == Kind::Subprogram && !has_code);
        let can_jump = has_children && without_code && has(gimli::DW_AT_sibling);
        Ok(Abbreviation {
            kind,
            has_children,
            is_partial_unit,
            has_code,
            is_inlined,
            can_jump,
            specs,
            steps,
        })
    }

    /// Passes over the attributes of an entry.
    #[inline]
    pub(super) fn skip(&self, input: &mut Slice<'_>, encoding: Encoding) -> gimli::Result<()> {
        for step in &self.steps {
            match *step {
                Step::Bytes(bytes) => input.skip(bytes)?,
                Step::Form(form) => form::skip(input, form, encoding)?,
            }
        }
        Ok(())
    }

    /// Reads the attributes of an entry, in order.
    #[inline]
    pub(super) fn read<'a>(
        &self,
        input: &mut Slice<'a>,
        encoding: Encoding,
        mut each: impl FnMut(gimli::DwAt, Value<'a>),
    ) -> gimli::Result<()> {
        for spec in &self.specs {
            each(spec.name, form::read(input, spec.form, spec.implicit, encoding)?);
        }
        Ok(())
    }

    /// Whether the entry is the root of a unit without code of its own.
    pub(super) fn is_partial_unit(&self) -> bool {
        self.is_partial_unit
    }
}

fn kind(tag: gimli::DwTag) -> Kind {
    match tag {
        gimli::DW_TAG_subprogram => Kind::Subprogram,
        gimli::DW_TAG_inlined_subroutine => Kind::Inlined,
        gimli::DW_TAG_structure_type
        | gimli::DW_TAG_class_type
        | gimli::DW_TAG_union_type
        | gimli::DW_TAG_enumeration_type
        | gimli::DW_TAG_array_type
        | gimli::DW_TAG_subroutine_type => Kind::Type,
        _ => Kind::Other,
    }
}

/// The abbreviations of one unit. Producers number them from 1 without gaps, so a vector does.
#[derive(Debug, Default)]
pub(super) struct Abbreviations {
    dense: Vec<Abbreviation>,
    sparse: FxHashMap<u64, Abbreviation>,
}

impl Abbreviations {
    /// Parses the table at the start of `input`, up to its end mark.
    ///
    /// A second definition of a number is ignored, as every reader does.
    pub(super) fn parse(input: Slice<'_>, encoding: Encoding) -> gimli::Result<Abbreviations> {
        let mut table = Abbreviations::default();
        let mut input = input;
        while !input.is_empty() {
            let code = input.read_uleb128()?;
            if code == 0 {
                break;
            }
            let abbreviation = Abbreviation::parse(&mut input, encoding)?;
            if code == table.dense.len() as u64 + 1 {
                table.dense.push(abbreviation);
            } else {
                table.sparse.entry(code).or_insert(abbreviation);
            }
        }
        Ok(table)
    }

    /// Parses only as far as the abbreviation `code`, which for a unit's root entry is the first
    /// one.
    ///
    /// `scanned` grows by the bytes looked at, also when that fails.
    pub(super) fn parse_one(
        input: Slice<'_>,
        encoding: Encoding,
        code: u64,
        scanned: &mut usize,
    ) -> gimli::Result<Abbreviation> {
        let total = input.len();
        let mut input = input;
        loop {
            *scanned = total - input.len();
            let found = input.read_uleb128()?;
            if found == 0 {
                return Err(gimli::Error::InvalidAbbreviationCode(code));
            }
            let abbreviation = Abbreviation::parse(&mut input, encoding)?;
            if found == code {
                return Ok(abbreviation);
            }
        }
    }

    /// The abbreviation of a number other than 0.
    #[inline]
    pub(super) fn get(&self, code: u64) -> gimli::Result<&Abbreviation> {
        let dense =
            usize::try_from(code.wrapping_sub(1)).ok().and_then(|index| self.dense.get(index));
        dense.or_else(|| self.sparse.get(&code)).ok_or(gimli::Error::InvalidAbbreviationCode(code))
    }
}
