//! The status flags, kept as the values they come from: writing them costs a few stores, reading one a comparison.

/// Bits of RFLAGS.
pub(crate) mod bit {
    pub(crate) const CF: u64 = 1;
    pub(crate) const PF: u64 = 1 << 2;
    pub(crate) const AF: u64 = 1 << 4;
    pub(crate) const ZF: u64 = 1 << 6;
    pub(crate) const SF: u64 = 1 << 7;
    pub(crate) const DF: u64 = 1 << 10;
    pub(crate) const OF: u64 = 1 << 11;
    /// The flags that arithmetic changes.
    pub(crate) const STATUS: u64 = CF | PF | AF | ZF | SF | OF;
}

/// The flags of the thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    /// ZF is set when this is 0.
    pub zero: u64,
    /// SF is its top bit.
    pub sign: i64,
    /// PF is set when the number of ones is even.
    pub parity: u8,
    pub carry: bool,
    pub overflow: bool,
    pub adjust: bool,
    /// String instructions go down.
    pub down: bool,
    /// All other bits.
    pub rest: u64,
}

impl Flags {
    pub(crate) fn from_image(image: u64) -> Flags {
        Flags {
            zero: u64::from(image & bit::ZF == 0),
            sign: if image & bit::SF == 0 { 0 } else { -1 },
            parity: u8::from(image & bit::PF == 0),
            carry: image & bit::CF != 0,
            overflow: image & bit::OF != 0,
            adjust: image & bit::AF != 0,
            down: image & bit::DF != 0,
            rest: image & !(bit::STATUS | bit::DF),
        }
    }

    pub(crate) fn image(&self) -> u64 {
        let on = |set: bool, bit: u64| if set { bit } else { 0 };
        self.rest
            | on(self.carry, bit::CF)
            | on(self.parity_even(), bit::PF)
            | on(self.adjust, bit::AF)
            | on(self.zero == 0, bit::ZF)
            | on(self.sign < 0, bit::SF)
            | on(self.down, bit::DF)
            | on(self.overflow, bit::OF)
    }

    fn parity_even(&self) -> bool {
        self.parity.count_ones().is_multiple_of(2)
    }

    /// A condition by its number in the encoding of `jcc`: odd ones are the negation of the even one before.
    #[inline(always)]
    pub(crate) fn holds(&self, condition: u8) -> bool {
        let found = match condition >> 1 {
            0 => self.overflow,
            1 => self.carry,
            2 => self.zero == 0,
            3 => self.carry || self.zero == 0,
            4 => self.sign < 0,
            5 => self.parity_even(),
            6 => (self.sign < 0) != self.overflow,
            _ => self.zero == 0 || (self.sign < 0) != self.overflow,
        };
        found != (condition & 1 != 0)
    }

    /// Sets zero, sign and parity after a result.
    #[inline(always)]
    pub(crate) fn result<W: crate::word::Word>(&mut self, value: W) {
        self.zero = value.wide();
        self.sign = value.signed();
        self.parity = value.wide() as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_comes_back() {
        for low in 0..=0xfffu64 {
            let image = low & (bit::STATUS | bit::DF) | 0x202;
            assert_eq!(Flags::from_image(image).image(), image);
        }
    }

    #[test]
    fn conditions_and_their_negations() {
        let flags = Flags::from_image(bit::ZF | bit::CF | bit::OF);
        let held: Vec<u8> = (0..16).filter(|condition| flags.holds(*condition)).collect();
        assert_eq!(held, [0, 2, 4, 6, 9, 11, 12, 14]);
    }
}
