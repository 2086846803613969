//! The numbers that the probe sections are made of.

use crate::{Error, Image, Section, leb};

/// A position in a section.
pub(super) struct Reader<'b> {
    image: &'b Image,
    section: &'b Section,
    bytes: &'b [u8],
    offset: usize,
}

impl<'b> Reader<'b> {
    pub(super) fn new(image: &'b Image, section: &'b Section, bytes: &'b [u8]) -> Reader<'b> {
        Reader { image, section, bytes, offset: 0 }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.offset >= self.bytes.len()
    }

    /// An error at the current offset.
    pub(super) fn error(&self, reason: String) -> Error {
        Error::Probes {
            path: self.image.path().to_owned(),
            section: self.image.section_name(self.section).to_owned(),
            offset: self.offset as u64,
            reason,
        }
    }

    fn cut_off(&self) -> Error {
        let bytes = self.bytes.len();
        self.error(format!(
            "the section ends at {bytes:#x} in the middle of an entry; it is cut off"
        ))
    }

    pub(super) fn byte(&mut self) -> Result<u8, Error> {
        let byte = self.bytes.get(self.offset).copied().ok_or_else(|| self.cut_off())?;
        self.offset += 1;
        Ok(byte)
    }

    /// Eight bytes in the byte order of the file.
    pub(super) fn u64(&mut self) -> Result<u64, Error> {
        let value = self.image.number(self.bytes, self.offset, 8).ok_or_else(|| self.cut_off())?;
        self.offset += 8;
        Ok(value)
    }

    /// The next bytes as text.
    pub(super) fn text(&mut self, length: u64) -> Result<&'b str, Error> {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        let taken = usize::try_from(length).ok().and_then(|length| rest.get(..length));
        let taken = taken.ok_or_else(|| {
            self.error(format!(
                "expected a name of {length} bytes, found {} to the section's end",
                rest.len()
            ))
        })?;
        let text = std::str::from_utf8(taken)
            .map_err(|_| self.error("expected a name in UTF-8, found other bytes".to_owned()))?;
        self.offset += taken.len();
        Ok(text)
    }

    /// An unsigned LEB128 number of at most 64 bits.
    pub(super) fn uleb(&mut self) -> Result<u64, Error> {
        leb::unsigned(self.bytes, &mut self.offset)
            .map_err(|wrong| self.no_number(wrong, "a ULEB128"))
    }

    /// An unsigned LEB128 number up to `largest`, at most 32 bits; `what` names it in the error.
    pub(super) fn uleb_up_to(&mut self, largest: u32, what: &str) -> Result<u32, Error> {
        let value = self.uleb()?;
        let fits = u32::try_from(value).ok().filter(|value| *value <= largest);
        fits.ok_or_else(|| self.error(format!("expected a {what} up to {largest}, found {value}")))
    }

    /// A signed LEB128 number of at most 64 bits.
    pub(super) fn sleb(&mut self) -> Result<i64, Error> {
        leb::signed(self.bytes, &mut self.offset)
            .map_err(|wrong| self.no_number(wrong, "an SLEB128"))
    }

    fn no_number(&self, wrong: leb::Wrong, expected: &str) -> Error {
        match wrong {
            leb::Wrong::CutOff => self.cut_off(),
            leb::Wrong::TooLong => {
                self.error(format!("expected {expected} number of 64 bits before this offset"))
            }
        }
    }
}
