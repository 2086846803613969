//! How attribute values are encoded (DWARF 2 to 5, GNU extensions), and how to skip them fast.

use gimli::{Encoding, EndianSlice, Format, Reader as _, RunTimeEndian};

/// A borrowed run of debug section bytes.
pub(super) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// A decoded attribute value; only the kinds that address and name resolution needs are told apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// An address of the image.
    Address(u64),
    /// Index into the unit's part of `.debug_addr`.
    AddressIndex(u64),
    /// Any constant; signed ones are sign-extended.
    Number(u64),
    /// An offset into another debug section, by attribute.
    Offset(u64),
    /// An entry of the same unit, by distance from the unit's start.
    UnitRef(u64),
    /// An entry of the same file, by offset in the section.
    SectionRef(u64),
    /// An entry of the supplementary file.
    SupplementRef(u64),
    /// A string in the entry itself.
    Inline(&'a [u8]),
    /// Offset into `.debug_str`.
    Str(u64),
    /// Offset into `.debug_line_str`.
    LineStr(u64),
    /// Offset into `.debug_str` of the supplementary file.
    SupplementStr(u64),
    /// Index into the unit's part of `.debug_str_offsets`.
    StrIndex(u64),
    /// Index into the unit's part of `.debug_rnglists`.
    RangeIndex(u64),
    /// Anything else: flags, blocks, expressions, type signatures.
    Other,
}

impl Value<'_> {
    /// The value as a number that an attribute without sign may have, 0 where it is none.
    pub(super) fn number(self) -> u64 {
        match self {
            Value::Number(number) | Value::Offset(number) => number,
            _ => 0,
        }
    }

    /// The value as an offset into another section; DWARF 2 and 3 write these as plain constants.
    pub(super) fn offset(self) -> Option<u64> {
        match self {
            Value::Number(offset) | Value::Offset(offset) => Some(offset),
            _ => None,
        }
    }
}

/// How many bytes a value of the form has, where that does not depend on the value.
pub(super) fn fixed_bytes(form: u16, encoding: Encoding) -> Option<usize> {
    use gimli::constants as dw;
    let word = usize::from(encoding.format.word_size());
    Some(match gimli::DwForm(form) {
        dw::DW_FORM_flag_present | dw::DW_FORM_implicit_const => 0,
        dw::DW_FORM_data1
        | dw::DW_FORM_ref1
        | dw::DW_FORM_flag
        | dw::DW_FORM_strx1
        | dw::DW_FORM_addrx1 => 1,
        dw::DW_FORM_data2 | dw::DW_FORM_ref2 | dw::DW_FORM_strx2 | dw::DW_FORM_addrx2 => 2,
        dw::DW_FORM_strx3 | dw::DW_FORM_addrx3 => 3,
        dw::DW_FORM_data4
        | dw::DW_FORM_ref4
        | dw::DW_FORM_ref_sup4
        | dw::DW_FORM_strx4
        | dw::DW_FORM_addrx4 => 4,
        dw::DW_FORM_data8 | dw::DW_FORM_ref8 | dw::DW_FORM_ref_sig8 | dw::DW_FORM_ref_sup8 => 8,
        dw::DW_FORM_data16 => 16,
        dw::DW_FORM_addr => usize::from(encoding.address_size),
        dw::DW_FORM_ref_addr if encoding.version == 2 => usize::from(encoding.address_size),
        dw::DW_FORM_ref_addr
        | dw::DW_FORM_sec_offset
        | dw::DW_FORM_strp
        | dw::DW_FORM_line_strp
        | dw::DW_FORM_strp_sup
        | dw::DW_FORM_GNU_strp_alt
        | dw::DW_FORM_GNU_ref_alt => word,
        _ => return None,
    })
}

/// Skips a value of a form that [`fixed_bytes`] does not know.
pub(super) fn skip(input: &mut Slice<'_>, form: u16, encoding: Encoding) -> gimli::Result<()> {
    read(input, form, 0, encoding).map(|_| ())
}

/// Reads a value.
pub(super) fn read<'a>(
    input: &mut Slice<'a>,
    form: u16,
    implicit: i64,
    encoding: Encoding,
) -> gimli::Result<Value<'a>> {
    use gimli::constants as dw;
    let format = encoding.format;
    Ok(match gimli::DwForm(form) {
        dw::DW_FORM_addr => Value::Address(input.read_address(encoding.address_size)?),
        dw::DW_FORM_data1 => Value::Number(input.read_u8()?.into()),
        dw::DW_FORM_data2 => Value::Number(input.read_u16()?.into()),
        dw::DW_FORM_data4 => Value::Number(input.read_u32()?.into()),
        dw::DW_FORM_data8 => Value::Number(input.read_u64()?),
        dw::DW_FORM_udata => Value::Number(input.read_uleb128()?),
        dw::DW_FORM_sdata => Value::Number(input.read_sleb128()? as u64),
        dw::DW_FORM_implicit_const => Value::Number(implicit as u64),
        dw::DW_FORM_sec_offset => Value::Offset(word(input, format)?),
        dw::DW_FORM_ref1 => Value::UnitRef(input.read_u8()?.into()),
        dw::DW_FORM_ref2 => Value::UnitRef(input.read_u16()?.into()),
        dw::DW_FORM_ref4 => Value::UnitRef(input.read_u32()?.into()),
        dw::DW_FORM_ref8 => Value::UnitRef(input.read_u64()?),
        dw::DW_FORM_ref_udata => Value::UnitRef(input.read_uleb128()?),
        dw::DW_FORM_ref_addr if encoding.version == 2 => {
            Value::SectionRef(input.read_address(encoding.address_size)?)
        }
        dw::DW_FORM_ref_addr => Value::SectionRef(word(input, format)?),
        dw::DW_FORM_GNU_ref_alt => Value::SupplementRef(word(input, format)?),
        dw::DW_FORM_ref_sup4 => Value::SupplementRef(input.read_u32()?.into()),
        dw::DW_FORM_ref_sup8 => Value::SupplementRef(input.read_u64()?),
        dw::DW_FORM_string => Value::Inline(input.read_null_terminated_slice()?.slice()),
        dw::DW_FORM_strp => Value::Str(word(input, format)?),
        dw::DW_FORM_line_strp => Value::LineStr(word(input, format)?),
        dw::DW_FORM_strp_sup | dw::DW_FORM_GNU_strp_alt => {
            Value::SupplementStr(word(input, format)?)
        }
        dw::DW_FORM_strx | dw::DW_FORM_GNU_str_index => Value::StrIndex(input.read_uleb128()?),
        dw::DW_FORM_strx1 => Value::StrIndex(input.read_u8()?.into()),
        dw::DW_FORM_strx2 => Value::StrIndex(input.read_u16()?.into()),
        dw::DW_FORM_strx3 => Value::StrIndex(three_bytes(input)?),
        dw::DW_FORM_strx4 => Value::StrIndex(input.read_u32()?.into()),
        dw::DW_FORM_addrx | dw::DW_FORM_GNU_addr_index => {
            Value::AddressIndex(input.read_uleb128()?)
        }
        dw::DW_FORM_addrx1 => Value::AddressIndex(input.read_u8()?.into()),
        dw::DW_FORM_addrx2 => Value::AddressIndex(input.read_u16()?.into()),
        dw::DW_FORM_addrx3 => Value::AddressIndex(three_bytes(input)?),
        dw::DW_FORM_addrx4 => Value::AddressIndex(input.read_u32()?.into()),
        dw::DW_FORM_rnglistx => Value::RangeIndex(input.read_uleb128()?),
        form => return skip_other(input, form, encoding),
    })
}

/// Forms whose values nobody here looks at.
fn skip_other<'a>(
    input: &mut Slice<'a>,
    form: gimli::DwForm,
    encoding: Encoding,
) -> gimli::Result<Value<'a>> {
    use gimli::constants as dw;
    let bytes = match form {
        dw::DW_FORM_flag_present => 0,
        dw::DW_FORM_flag => 1,
        dw::DW_FORM_ref_sig8 => 8,
        dw::DW_FORM_data16 => 16,
        dw::DW_FORM_block1 => input.read_u8()?.into(),
        dw::DW_FORM_block2 => input.read_u16()?.into(),
        dw::DW_FORM_block4 => input.read_u32()?.into(),
        dw::DW_FORM_block | dw::DW_FORM_exprloc => input.read_uleb128()?,
        dw::DW_FORM_loclistx => {
            input.read_uleb128()?;
            0
        }
        dw::DW_FORM_indirect => {
            // An indirect form names its real form in the entry. Naming itself again would never
            // end.
            let form = input.read_uleb128_u16()?;
            if form == dw::DW_FORM_indirect.0 || form == dw::DW_FORM_implicit_const.0 {
                return Err(gimli::Error::UnknownForm(gimli::DwForm(form)));
            }
            return read(input, form, 0, encoding);
        }
        unknown => return Err(gimli::Error::UnknownForm(unknown)),
    };
    input.skip(usize::try_from(bytes).unwrap_or(usize::MAX))?;
    Ok(Value::Other)
}

fn word(input: &mut Slice<'_>, format: Format) -> gimli::Result<u64> {
    match format {
        Format::Dwarf32 => input.read_u32().map(u64::from),
        Format::Dwarf64 => input.read_u64(),
    }
}

fn three_bytes(input: &mut Slice<'_>) -> gimli::Result<u64> {
    input.read_uint(3)
}
