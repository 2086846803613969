//! Which instructions may run on the processor on behalf of the look-ahead: those that reach
//! nothing but the operands they name, on a processor that has them.

use crate::vectors::Widest;
use iced_x86::{Code, CpuidFeature, EncodingKind, FlowControl, Instruction, Mnemonic};
use std::arch::is_x86_feature_detected as has;

/// Whether an instruction may have a stub.
pub(crate) fn natively(instruction: &Instruction) -> bool {
    let plain = instruction.flow_control() == FlowControl::Next
        && !instruction.is_privileged()
        && !instruction.is_stack_instruction()
        && !instruction.is_save_restore_instruction()
        && !instruction.is_string_instruction()
        && !instruction.is_vsib()
        && !instruction.is_invalid();
    plain
        && !reaches_further(instruction)
        && instruction.cpuid_features().iter().all(|of| here(*of, instruction))
}

/// What has effects beyond registers and the memory operand, or a value that is never the same
/// twice.
fn reaches_further(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        instruction.mnemonic(),
        M::Maskmovq
            | M::Maskmovdqu
            | M::Vmaskmovdqu
            | M::Ldmxcsr
            | M::Stmxcsr
            | M::Vldmxcsr
            | M::Vstmxcsr
            | M::Fldcw
            | M::Fldenv
            | M::Fnstenv
            | M::Fstenv
            | M::Fnsave
            | M::Fsave
            | M::Frstor
            | M::Fxsave
            | M::Fxsave64
            | M::Fxrstor
            | M::Fxrstor64
            | M::Vzeroupper
            | M::Vzeroall
            | M::Wait
    )
}

/// Integer instructions of the first processors that are worth a stub; all others of theirs have a
/// model or stay out.
fn basic(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Rcl
            | M::Rcr
            | M::Shld
            | M::Shrd
            | M::Lahf
            | M::Sahf
            | M::Cmpxchg8b
            | M::Cmpxchg16b
            | M::Lsl
            | M::Movnti
            | M::Bswap
            | M::Xchg
            | M::Adc
            | M::Sbb
    )
}

/// Whether this processor has what an instruction belongs to.
fn here(feature: CpuidFeature, instruction: &Instruction) -> bool {
    use CpuidFeature as F;
    match feature {
        F::INTEL8086 | F::INTEL186 | F::INTEL286 | F::INTEL386 | F::INTEL486 | F::X64 | F::CX8 => {
            basic(instruction.mnemonic()) || instruction.cpuid_features().contains(&F::FPU)
        }
        F::FPU | F::FPU287 | F::FPU387 | F::CMOV | F::MMX | F::SSE | F::SSE2 => true,
        F::CMPXCHG16B => has!("cmpxchg16b"),
        F::SSE3 => has!("sse3"),
        F::SSSE3 => has!("ssse3"),
        F::SSE4_1 => has!("sse4.1"),
        F::SSE4_2 => has!("sse4.2"),
        F::SSE4A => has!("sse4a"),
        F::POPCNT => has!("popcnt"),
        F::LZCNT => has!("lzcnt"),
        F::BMI1 => has!("bmi1"),
        F::BMI2 => has!("bmi2"),
        F::ADX => has!("adx"),
        F::MOVBE => has!("movbe"),
        F::AES => has!("aes"),
        F::PCLMULQDQ => has!("pclmulqdq"),
        F::SHA => has!("sha"),
        F::AVX => has!("avx"),
        F::AVX2 => has!("avx2"),
        F::FMA => has!("fma"),
        F::F16C => has!("f16c"),
        F::GFNI => has!("gfni"),
        F::VAES => has!("vaes"),
        F::VPCLMULQDQ => has!("vpclmulqdq"),
        F::AVX512F => Widest::here() == Widest::Avx512,
        F::AVX512VL => has!("avx512vl"),
        F::AVX512BW => has!("avx512bw"),
        F::AVX512DQ => has!("avx512dq"),
        F::AVX512CD => has!("avx512cd"),
        F::AVX512_VBMI => has!("avx512vbmi"),
        F::AVX512_VBMI2 => has!("avx512vbmi2"),
        F::AVX512_IFMA => has!("avx512ifma"),
        F::AVX512_VNNI => has!("avx512vnni"),
        F::AVX512_BITALG => has!("avx512bitalg"),
        F::AVX512_VPOPCNTDQ => has!("avx512vpopcntdq"),
        F::AVX512_BF16 => has!("avx512bf16"),
        F::RDPID => rdpid(),
        _ => false,
    }
}

fn rdpid() -> bool {
    let [_, _, features, _] = crate::sys::cpuid(7, 0);
    features & 1 << 22 != 0
}

/// Whether the processor would refuse an operand that does not lie at a multiple of its size.
pub(crate) fn wants_alignment(instruction: &Instruction, size: usize) -> bool {
    use Mnemonic as M;
    if size < 16 {
        return false;
    }
    let name = instruction.mnemonic();
    if instruction.code().encoding() == EncodingKind::Legacy {
        let free = matches!(
            name,
            M::Movups
                | M::Movupd
                | M::Movdqu
                | M::Lddqu
                | M::Pcmpistri
                | M::Pcmpistrm
                | M::Pcmpestri
                | M::Pcmpestrm
        );
        return !free || instruction.code() == Code::Cmpxchg16b_m128;
    }
    matches!(
        name,
        M::Vmovaps
            | M::Vmovapd
            | M::Vmovdqa
            | M::Vmovdqa32
            | M::Vmovdqa64
            | M::Vmovntps
            | M::Vmovntpd
            | M::Vmovntdq
            | M::Vmovntdqa
    )
}
