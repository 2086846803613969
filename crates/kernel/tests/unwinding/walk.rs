//! Does unwinding with ORC data lead from a stopped CPU to where the kernel was entered?
//!
//! Each step follows the entry of the address, as `arch/x86/kernel/unwind_orc.c` does. What makes
//! the chain believable does not come from these data: every address that a call returns to stands
//! behind a call, and the last frame ends where a task's stack ends, there with registers of user
//! mode or at an entry that says that nothing is above it.

use super::orc::{Base, Kernel, Kind, Register};
use super::stub::{Registers, Stub};
use iced_x86::{Decoder, DecoderOptions, FlowControl};

/// Chains of the workload have fewer frames by far.
const DEEPEST: usize = 200;
/// `THREAD_SIZE` of x86-64 without KASAN; stacks are aligned to it.
const STACK_BYTES: u64 = 16 << 10;
/// `struct pt_regs`, and the places of registers in it.
const SAVED_BYTES: u64 = 21 * 8;
const SAVED_R13: u64 = 2 * 8;
const SAVED_BP: u64 = 4 * 8;
const SAVED_R10: u64 = 7 * 8;
const SAVED_DX: u64 = 12 * 8;
const SAVED_DI: u64 = 14 * 8;
const SAVED_IP: u64 = 16 * 8;
const SAVED_CS: u64 = 17 * 8;
const SAVED_SP: u64 = 19 * 8;

/// Where a chain ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// At registers of user mode.
    User,
    /// At code that nothing called.
    Stack,
}

/// One frame: where it is in the code, and the stack pointer of its caller after it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub address: u64,
    pub caller_stack: u64,
}

/// A chain that came to its end, innermost frame first.
#[derive(Clone, Debug)]
pub struct Chain {
    pub frames: Vec<Frame>,
    pub end: End,
    /// Frames that were interrupted, by an exception or an interrupt within the kernel.
    pub interrupted: usize,
}

/// Which registers other than stack and base pointer are known.
#[derive(Clone, Copy)]
enum Known {
    Live,
    Saved(u64),
    No,
}

struct Walker<'m> {
    kernel: &'m Kernel,
    stub: &'m mut Stub,
    live: Registers,
    address: u64,
    stack: u64,
    base_pointer: u64,
    known: Known,
    signal: bool,
}

/// Unwinds from the registers; the error says at which frame it cannot go on.
pub fn unwind(kernel: &Kernel, stub: &mut Stub, live: Registers) -> Result<Chain, String> {
    let mut walker = Walker {
        kernel,
        stub,
        live,
        address: live.instruction(),
        stack: live.stack(),
        base_pointer: live.base_pointer(),
        known: Known::Live,
        signal: true,
    };
    let mut chain = Chain { frames: Vec::new(), end: End::Stack, interrupted: 0 };
    while chain.frames.len() < DEEPEST {
        let at = walker.address;
        match walker.next(&mut chain) {
            Ok(None) => {}
            Ok(Some(end)) => {
                chain.end = end;
                return Ok(chain);
            }
            Err(reason) => {
                let frames: Vec<String> =
                    chain.frames.iter().map(|frame| kernel.shown(frame.address)).collect();
                return Err(format!(
                    "{reason} at {}; until there: {}",
                    kernel.shown(at),
                    frames.join(" < ")
                ));
            }
        }
    }
    Err(format!("more than {DEEPEST} frames"))
}

impl Walker<'_> {
    fn next(&mut self, chain: &mut Chain) -> Result<Option<End>, String> {
        // Of a call's own instruction: the one behind it may belong to something else.
        let looked_up = if self.signal { self.address } else { self.address - 1 };
        let entry = self.kernel.entry(looked_up).ok_or("no unwind data")?;
        match entry.kind {
            Kind::Undefined => return Err("unwind data say undefined".to_owned()),
            Kind::Unknown(number) => return Err(format!("unknown type {number}")),
            Kind::EndOfStack => {
                chain.frames.push(Frame { address: self.address, caller_stack: self.stack });
                return Ok(Some(End::Stack));
            }
            _ => {}
        }
        let before = self.stack;
        let (base, offset) = entry.stack;
        let offset = i64::from(offset);
        let stack = match base {
            Base::Register(Register::Sp) => self.stack.wrapping_add_signed(offset),
            Base::Register(Register::Bp) => self.base_pointer.wrapping_add_signed(offset),
            Base::Register(register) => self.register(register)?,
            Base::AtStackPointer => self.word(self.stack)?.wrapping_add_signed(offset),
            Base::AtBasePointer => self.word(self.base_pointer.wrapping_add_signed(offset))?,
            other => return Err(format!("the stack is based on {other:?}")),
        };
        chain.frames.push(Frame { address: self.address, caller_stack: stack });
        self.signal = entry.signal;
        let mut user = false;
        match entry.kind {
            Kind::Call => {
                self.address = self.word(stack - 8)?;
                self.stack = stack;
                self.known = Known::No;
                // A task that is switched to for the first time returns to its beginning; no call
                // stands before that.
                let callee =
                    self.kernel.function(self.address).filter(|it| it.start == self.address);
                if callee.is_some_and(|function| {
                    ["ret_from_fork_asm", "ret_from_fork"].contains(&function.name.as_str())
                }) {
                    chain
                        .frames
                        .push(Frame { address: self.address + 1, caller_stack: self.stack });
                    return Ok(Some(End::Stack));
                }
                self.follows_call()?;
            }
            Kind::Registers | Kind::InterruptRegisters => {
                let saved = if entry.kind == Kind::Registers {
                    stack
                } else {
                    stack.wrapping_sub(SAVED_IP)
                };
                self.address = self.word(saved + SAVED_IP)?;
                self.stack = self.word(saved + SAVED_SP)?;
                if entry.kind == Kind::Registers {
                    self.known = Known::Saved(saved);
                }
                user = self.word(saved + SAVED_CS)? & 3 == 3;
                if user && !is_top(saved + SAVED_BYTES) {
                    return Err(format!(
                        "registers of user mode at {saved:#x}, not where a stack ends"
                    ));
                }
                chain.interrupted += usize::from(!user);
            }
            _ => {}
        }
        if user {
            return Ok(Some(End::User));
        }
        let (base, offset) = entry.base_pointer;
        let offset = i64::from(offset);
        match base {
            Base::Undefined => {
                if let Known::Saved(saved) = self.known {
                    self.base_pointer = self.word(saved + SAVED_BP)?;
                }
            }
            Base::PreviousStack => {
                self.base_pointer = self.word(stack.wrapping_add_signed(offset))?
            }
            Base::Register(Register::Bp) => {
                self.base_pointer = self.word(self.base_pointer.wrapping_add_signed(offset))?;
            }
            other => return Err(format!("the base pointer is based on {other:?}")),
        }
        // Within one stack callers lie above.
        if self.stack / STACK_BYTES == before / STACK_BYTES && self.stack <= before {
            return Err("the stack goes in the wrong direction".to_owned());
        }
        if !self.kernel.is_text(self.address) {
            return Err(format!("{:#x}, which is no text, is the caller", self.address));
        }
        Ok(None)
    }

    /// The caller's address stands behind a call in the text, as the kernel has patched it.
    fn follows_call(&mut self) -> Result<(), String> {
        let longest = 7;
        let start = self.address.saturating_sub(longest);
        // The kernel rewrites some calls when it boots, and frees the text that it boots with: what
        // is in memory counts, or, where that is no call, what vmlinux has in text that is
        // freed.
        let (now, built) = (self.stub.text(start, longest), self.kernel.freed_text(start, 7));
        if now.is_none() && built.is_none() {
            return Err(format!("{:#x}, which is not mapped, is the caller", self.address));
        }
        let is_call = [now, built].into_iter().flatten().any(|text| ends_in_a_call(&text));
        if is_call {
            Ok(())
        } else {
            Err(format!("no call before {}", self.kernel.shown(self.address)))
        }
    }

    fn register(&mut self, register: Register) -> Result<u64, String> {
        let (live, saved) = match register {
            Register::Dx => (3, SAVED_DX),
            Register::Di => (5, SAVED_DI),
            Register::R10 => (10, SAVED_R10),
            Register::R13 => (13, SAVED_R13),
            Register::Bp | Register::Sp => return Err("a pointer as a general register".to_owned()),
        };
        match self.known {
            Known::Live => Ok(self.live.0[live]),
            Known::Saved(at) => self.word(at + saved),
            Known::No => Err(format!("{register:?} is not known")),
        }
    }

    fn word(&mut self, address: u64) -> Result<u64, String> {
        self.stub.word(address).ok_or_else(|| format!("{address:#x} is not mapped"))
    }
}

/// Registers of user mode lie at the very end of a task's stack; kernels with FRED leave 16 bytes
/// there.
fn is_top(address: u64) -> bool {
    address.is_multiple_of(STACK_BYTES) || (address + 16).is_multiple_of(STACK_BYTES)
}

/// Whether some instruction that ends where the text ends is a call.
fn ends_in_a_call(text: &[u8]) -> bool {
    (0..text.len()).any(|start| {
        let mut decoder = Decoder::new(64, &text[start..], DecoderOptions::NONE);
        let instruction = decoder.decode();
        let calls =
            matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
        calls && instruction.len() == text.len() - start
    })
}
