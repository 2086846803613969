//! What a discriminator is made of.
//!
//! LLVM packs up to three numbers into one, low bits first: which block of the line (base), how
//! many copies of the instruction one iteration stands for (duplication factor, from unrolling and
//! vectorisation), and which copy it is. Each is 1 bit for zero, else 7 or 14 bits. Source:
//! llvm/IR/DebugInfoMetadata.h, "Encoding of discriminators".

/// The parts of a discriminator of a build without flow-sensitive discriminators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Which block of the line.
    pub base: u32,
    /// How many executions of the source one execution of the instruction stands for; at least 1.
    pub duplication: u32,
    /// Which copy.
    pub copy: u32,
}

/// Splits a discriminator. A value whose low three bits are set belongs to a pseudo probe instead,
/// whose base is the DWARF discriminator that it carries, or else the number of the probe.
pub fn parts(discriminator: u32) -> Parts {
    if discriminator & 7 == 7 {
        return Parts { base: probe_base(discriminator), duplication: 1, copy: 0 };
    }
    let (base, rest) = component(discriminator);
    let (duplication, rest) = component(rest);
    let (copy, _) = component(rest);
    Parts { base, duplication: duplication.max(1), copy }
}

/// The number of the pseudo probe that the discriminator of a call carries, in a program with
/// probes. Source: llvm/IR/PseudoProbe.h.
pub fn probe_index(discriminator: u32) -> u32 {
    let bits = if discriminator & 1 << 28 != 0 { 0x1fff } else { 0xffff };
    discriminator >> 3 & bits
}

fn probe_base(discriminator: u32) -> u32 {
    if discriminator & 1 << 28 != 0 { discriminator >> 16 & 7 } else { discriminator >> 3 & 0xffff }
}

/// The first component, and what follows it.
fn component(bits: u32) -> (u32, u32) {
    if bits & 1 != 0 {
        return (0, bits >> 1);
    }
    let value = bits >> 1;
    if bits & 1 << 6 != 0 {
        (value >> 1 & 0xfe0 | value & 0x1f, bits >> 14)
    } else {
        (value & 0x3f, bits >> 7)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_probe_is_shorter_where_a_base_stands_beside_it() {
        assert_eq!(probe_index(5 << 3 | 7), 5);
        assert_eq!(probe_index(1 << 28 | 3 << 16 | 9 << 3 | 7), 9);
    }

    #[test]
    fn zero_is_base_zero_once() {
        assert_eq!(parts(0), Parts { base: 0, duplication: 1, copy: 0 });
    }

    #[test]
    fn the_documented_example_is_base_1_twice() {
        assert_eq!(parts(514), Parts { base: 1, duplication: 2, copy: 0 });
    }

    #[test]
    fn long_components_take_14_bits() {
        // Base 0x123: low five bits 3, then the marker bit, then the upper bits.
        let encoded = (0x123 & 0x1f | 1 << 5 | (0x123 & 0xfe0) << 1) << 1;
        assert_eq!(parts(encoded).base, 0x123);
    }

    #[test]
    fn every_base_that_fits_comes_back() {
        for base in 1..4096u32 {
            let component = if base > 0x1f {
                (base & 0x1f | 1 << 5 | (base & 0xfe0) << 1) << 1
            } else {
                base << 1
            };
            assert_eq!(parts(component).base, base, "encoded {component:#x}");
        }
    }
}
