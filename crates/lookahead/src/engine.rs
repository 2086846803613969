//! Looking ahead from a stop.

use crate::code::{Code, NONE};
use crate::cpu::Cpu;
use crate::flags::Flags;
use crate::memory::{Pages, Source};
use crate::native::Native;
use crate::op::{MOST_CALLS, Op};
use crate::state::{FS_BASE, GS_BASE, State};
use crate::vectors::{ALL, Places, read_xsave};
use crate::{Branch, Stop, sys};
use perfdata::RuntimeAddr;

/// The registers of a stopped thread.
#[derive(Clone, Debug, Default)]
pub struct Registers {
    /// rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
    pub general: [u64; 16],
    /// The instruction that runs next.
    pub instruction_pointer: RuntimeAddr,
    /// RFLAGS.
    pub flags: u64,
    /// Where the segment fs begins.
    pub fs_base: u64,
    /// Where the segment gs begins.
    pub gs_base: u64,
}

/// How far to look.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Taken branches.
    pub depth: usize,
    /// Instructions.
    pub instructions: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { depth: 1024, instructions: 65_536 }
    }
}

/// What a look-ahead found, beside the branches.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Why it ended.
    pub stop: Stop,
    /// Instructions that were followed; in steps of a block.
    pub instructions: u64,
    /// Pages of memory that were copied.
    pub pages: usize,
    /// Whether a clock was read, or which CPU this is: what depends on it may go another way a
    /// moment later.
    pub clock_read: bool,
    /// Where the look-ahead ended: the instruction that the thread runs next, after those that were
    /// followed.
    pub instruction_pointer: RuntimeAddr,
}

/// Looks ahead in the threads of one process. It remembers the code that it has seen.
pub struct Engine {
    state: Box<State>,
    pages: Pages,
    code: Code,
    native: Native,
    places: Places,
    flags: Flags,
}

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine {
    /// Knows nothing yet.
    pub fn new() -> Engine {
        Engine {
            state: Box::new(State::new()),
            pages: Pages::new(),
            code: Code::default(),
            native: Native::new(),
            places: Places::here(),
            flags: Flags::default(),
        }
    }

    /// Forgets all code: the process has mapped other code somewhere, or become another program.
    pub fn forget(&mut self) {
        self.code.clear();
        self.native.clear();
    }

    /// Follows a thread from its registers (`xsave`: the area of `NT_X86_XSTATE` in its standard
    /// form, as ptrace gives it) and puts the branches that it takes into `branches`, oldest
    /// first, replacing what was there.
    pub fn run(
        &mut self,
        registers: &Registers,
        xsave: &[u8],
        source: &mut dyn Source,
        limits: &Limits,
        branches: &mut Vec<Branch>,
    ) -> Outcome {
        self.run_with(registers, xsave, source, limits, branches, None)
    }

    /// As [`Engine::run`], and shows the address of each instruction before it is followed.
    pub fn trace(
        &mut self,
        registers: &Registers,
        xsave: &[u8],
        source: &mut dyn Source,
        limits: &Limits,
        branches: &mut Vec<Branch>,
        seen: &mut dyn FnMut(RuntimeAddr),
    ) -> Outcome {
        self.run_with(registers, xsave, source, limits, branches, Some(seen))
    }

    /// The general registers, flags and instruction pointer after the last look-ahead; whole
    /// instructions were followed where it ended by [`Stop::Depth`] or [`Stop::SystemCall`].
    pub fn registers(&self, outcome: &Outcome) -> Registers {
        let mut general = [0; 16];
        general.copy_from_slice(&self.state.gpr[..16]);
        Registers {
            general,
            instruction_pointer: outcome.instruction_pointer,
            flags: self.flags.image(),
            fs_base: self.state.gpr[usize::from(FS_BASE)],
            gs_base: self.state.gpr[usize::from(GS_BASE)],
        }
    }

    fn run_with(
        &mut self,
        registers: &Registers,
        xsave: &[u8],
        source: &mut dyn Source,
        limits: &Limits,
        branches: &mut Vec<Branch>,
        seen: Option<&mut dyn FnMut(RuntimeAddr)>,
    ) -> Outcome {
        const NONE_YET: Branch = Branch { from: RuntimeAddr(0), to: RuntimeAddr(0) };
        branches.resize(limits.depth.max(1), NONE_YET);
        self.state.gpr[..16].copy_from_slice(&registers.general);
        self.state.gpr[usize::from(FS_BASE)] = registers.fs_base;
        self.state.gpr[usize::from(GS_BASE)] = registers.gs_base;
        let mxcsr = read_xsave(xsave, &self.places, ALL, &mut self.state);
        if let Some(image) = xsave.first_chunk::<512>() {
            self.native.x87.0 = *image;
        }
        self.native.x87_loaded = false;
        self.native.saved.clear();
        self.code.begin(&mut self.native);
        self.pages.begin(source, registers.general[4]);
        let host = sys::mxcsr();
        sys::set_mxcsr(mxcsr);
        let mut cpu = Cpu {
            state: &mut self.state,
            flags: Flags::from_image(registers.flags),
            rip: registers.instruction_pointer.0,
            pages: &mut self.pages,
            source,
            branches,
            found: 0,
            stop: None,
            ended_at: 0,
            native: &mut self.native,
            taken: false,
            patience: limits.instructions,
        };
        let stop = follow(&mut self.code, &mut cpu, seen);
        let (instructions, rip, found) = (limits.instructions - cpu.patience, cpu.rip, cpu.found);
        self.flags = cpu.flags;
        if cpu.native.x87_loaded {
            sys::clear_x87();
        }
        sys::set_mxcsr(host);
        branches.truncate(found);
        let (pages, clock_read) = (self.pages.copied(), self.pages.clock_read);
        Outcome { stop, instructions, pages, clock_read, instruction_pointer: RuntimeAddr(rip) }
    }
}

/// Runs the instructions of a block; false where the look-ahead ends.
fn run_each(ops: &[Op], cpu: &mut Cpu<'_>, seen: &mut dyn FnMut(RuntimeAddr)) -> bool {
    ops.iter().all(|op| {
        // The end of a block that was cut is no instruction.
        if op.length() != 0 {
            seen(RuntimeAddr(op.ip(cpu.rip)));
        }
        (op.run)(cpu, std::slice::from_ref(op))
    })
}

/// Runs block after block.
fn follow(
    code: &mut Code,
    cpu: &mut Cpu<'_>,
    mut seen: Option<&mut dyn FnMut(RuntimeAddr)>,
) -> Stop {
    let mut last = NONE;
    let mut next = NONE;
    loop {
        let block = match code.blocks.get(next as usize) {
            Some(block) if block.start == cpu.rip => block,
            _ => {
                let Some(found) = code.find(cpu.rip, cpu.pages, cpu.source, cpu.native) else {
                    return Stop::Memory { address: RuntimeAddr(cpu.rip) };
                };
                code.link(last, cpu.taken, found);
                next = found;
                let Some(block) = code.blocks.get(found as usize) else { return Stop::Fault };
                block
            }
        };
        let first = block.first as usize;
        let count = block.count as usize;
        let Some(ops) = code.ops.get(first..first + count) else { return Stop::Fault };
        debug_assert!(ops.len() <= MOST_CALLS, "a block of {} ops", ops.len());
        let on = match (&mut seen, ops.first()) {
            (None, Some(first)) => (first.run)(cpu, ops),
            (Some(seen), _) => run_each(ops, cpu, seen),
            (None, None) => true,
        };
        if !on {
            if cpu.stop != Some(Stop::Depth) {
                cpu.rip = cpu.ended_at;
            }
            return cpu.stop.unwrap_or(Stop::Fault);
        }
        cpu.patience = cpu.patience.saturating_sub(count as u64);
        if cpu.patience == 0 {
            return Stop::Long;
        }
        last = next;
        next = block.links[usize::from(cpu.taken)];
    }
}
