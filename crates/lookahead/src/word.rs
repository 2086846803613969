//! Operands of 8, 16, 32 and 64 bits.

/// A number of an operand's width.
pub(crate) trait Word: Copy + PartialEq + PartialOrd {
    const BITS: u32;
    const BYTES: usize;
    fn cut(value: u64) -> Self;
    /// Zero-extended.
    fn wide(self) -> u64;
    /// Sign-extended.
    fn signed(self) -> i64;
    fn plus(self, other: Self) -> (Self, bool);
    fn minus(self, other: Self) -> (Self, bool);
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn read(bytes: &[u8]) -> Option<Self>;
    fn write(self, bytes: &mut [u8]);
}

macro_rules! word {
    ($unsigned:ty, $signed:ty) => {
        impl Word for $unsigned {
            const BITS: u32 = <$unsigned>::BITS;
            const BYTES: usize = size_of::<$unsigned>();
            #[inline(always)]
            fn cut(value: u64) -> Self {
                value as $unsigned
            }
            #[inline(always)]
            fn wide(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn signed(self) -> i64 {
                self as $signed as i64
            }
            #[inline(always)]
            fn plus(self, other: Self) -> (Self, bool) {
                self.overflowing_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> (Self, bool) {
                self.overflowing_sub(other)
            }
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            #[inline(always)]
            fn read(bytes: &[u8]) -> Option<Self> {
                Some(<$unsigned>::from_le_bytes(bytes.first_chunk().copied()?))
            }
            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                if let Some(place) = bytes.first_chunk_mut() {
                    *place = self.to_le_bytes();
                }
            }
        }
    };
}

word!(u8, i8);
word!(u16, i16);
word!(u32, i32);
word!(u64, i64);
