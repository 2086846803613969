//! The status flags, kept as the values they come from: writing them costs a few stores, reading
//! one a comparison.
//!
//! Source: Intel SDM volume 1, §3.4.3.

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

/// Half the number of the conditions that ask for the parity, which is not among the flags of
/// [`HOLDS`].
const PARITY: u8 = 5;

/// For each even condition a bit for each state of CF, ZF, SF and OF, the lowest first: whether it
/// holds (Intel SDM volume 1, appendix B).
const HOLDS: [u16; 8] = {
    let mut table = [0; 8];
    let mut state = 0;
    while state < 16 {
        let (carry, zero, sign, overflow) =
            (state & 1 != 0, state & 2 != 0, state & 4 != 0, state & 8 != 0);
        let less = sign != overflow;
        let held = [overflow, carry, zero, carry || zero, sign, false, less, zero || less];
        let mut condition = 0;
        while condition < 8 {
            table[condition] |= (held[condition] as u16) << state;
            condition += 1;
        }
        state += 1;
    }
    table
};

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
    /// AF is its bit 4: the two operands and the result, each bit added without carry.
    pub adjust: u8,
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
            adjust: (image & bit::AF) as u8,
            down: image & bit::DF != 0,
            rest: image & !(bit::STATUS | bit::DF),
        }
    }

    pub(crate) fn image(&self) -> u64 {
        let on = |set: bool, bit: u64| if set { bit } else { 0 };
        self.rest
            | on(self.carry, bit::CF)
            | on(self.parity_even(), bit::PF)
            | u64::from(self.adjust) & bit::AF
            | on(self.zero == 0, bit::ZF)
            | on(self.sign < 0, bit::SF)
            | on(self.down, bit::DF)
            | on(self.overflow, bit::OF)
    }

    fn parity_even(&self) -> bool {
        self.parity.count_ones().is_multiple_of(2)
    }

    /// A condition by its number in the encoding of `jcc`, of which the lowest four bits count: odd
    /// ones are the negation of the even one before. Looked up, since a jump by its number
    /// could rarely be foreseen.
    #[inline(always)]
    pub(crate) fn holds(&self, condition: u8) -> bool {
        let condition = condition & 15;
        let found = if condition >> 1 == PARITY {
            self.parity_even()
        } else {
            let state = usize::from(self.carry)
                | usize::from(self.zero == 0) << 1
                | usize::from(self.sign < 0) << 2
                | usize::from(self.overflow) << 3;
            HOLDS[usize::from(condition >> 1)] >> state & 1 != 0
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
