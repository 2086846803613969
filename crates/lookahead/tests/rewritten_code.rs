//! Code that the program writes anew during a look-ahead, and modes of the processor that no
//! program may set.

#![cfg(target_arch = "x86_64")]

use lookahead::{Engine, Fetched, Limits, Outcome, Page, Registers, Source, Stop, Text};
use perfdata::RuntimeAddr;

const CODE: u64 = 0x40_0000;

/// One page of code, and zeros everywhere else.
struct Memory<'c>(&'c [u8]);

impl Source for Memory<'_> {
    fn page(&mut self, address: RuntimeAddr, into: &mut Page) -> Fetched {
        into.fill(0);
        if address.0 == CODE {
            into.iter_mut().zip(self.0).for_each(|(to, from)| *to = *from);
        }
        Fetched::Copied
    }
    fn text(&mut self, _: RuntimeAddr) -> Text {
        Text::Passing
    }
    fn has_shadow_stack(&mut self) -> bool {
        false
    }
}

/// Follows code from an offset; how it ended, and the registers then.
fn follow(
    engine: &mut Engine,
    code: &[u8],
    from: u64,
    rax: u64,
    depth: usize,
) -> (Outcome, Registers) {
    let mut registers = Registers {
        instruction_pointer: RuntimeAddr(CODE + from),
        flags: 0x202,
        ..Registers::default()
    };
    registers.general[0] = rax;
    registers.general[4] = 0x7000_0800;
    let limits = Limits { depth, instructions: 1000 };
    let outcome = engine.run(&registers, &[0; 1024], &mut Memory(code), &limits, &mut Vec::new());
    let after = engine.registers(&outcome);
    (outcome, after)
}

#[test]
fn code_that_was_followed_and_then_rewritten_is_followed_as_it_is_now() {
    let code = [
        0xc6, 0x05, 3, 0, 0, 0, 2, // 0: mov byte ptr [rip + 3], 2: the 1 below
        0xeb, 0x00, // 7: jmp to 9
        0xb8, 1, 0, 0, 0, // 9: mov eax, 1
        0xff, 0xc1, // 14: inc ecx
        0xeb, 0xee, // 16: jmp to 0
    ];
    let mut engine = Engine::new();
    for _ in 0..3 {
        let (outcome, after) = follow(&mut engine, &code, 9, 0, 1);
        assert_eq!(
            (outcome.stop, after.general[0]),
            (Stop::Depth, 1),
            "a look-ahead starts from what is there"
        );
        let (outcome, after) = follow(&mut engine, &code, 9, 0, 3);
        assert_eq!((outcome.stop, after.general[0], after.general[1]), (Stop::Depth, 2, 2));
    }
}

#[test]
fn modes_that_no_processor_has_end_the_look_ahead() {
    // push rax; ldmxcsr [rsp]; jmp self
    let code = [0x50, 0x0f, 0xae, 0x14, 0x24, 0xeb, 0xfe];
    let mut engine = Engine::new();
    assert_eq!(follow(&mut engine, &code, 0, 0x1f80, 1).0.stop, Stop::Depth);
    assert_eq!(follow(&mut engine, &code, 0, 0xffff_ffff, 1).0.stop, Stop::Fault);
}

#[test]
fn control_words_are_loaded_and_stored() {
    // push rax; fldcw [rsp]; fwait; fnstcw [rsp]; pop rax; rdsspq rdx; jmp self
    let code = [
        0x50, 0xd9, 0x2c, 0x24, 0x9b, 0xd9, 0x3c, 0x24, 0x58, 0xf3, 0x48, 0x0f, 0x1e, 0xca, 0xeb,
        0xfe,
    ];
    let mut engine = Engine::new();
    for control in [0x037f, 0x0c7f, 0x0f7f] {
        let (outcome, after) = follow(&mut engine, &code, 0, control, 1);
        assert_eq!((outcome.stop, after.general[0] & 0xffff), (Stop::Depth, control));
    }
}
