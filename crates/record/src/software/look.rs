//! The memory of a stopped thread, for looking ahead.

use super::text::Code;
use crate::sys::vvar::{self, Vvar};
use lookahead::{Fetched, Page, Registers, Source, Text};
use perfdata::RuntimeAddr;
use stops::Stopped;

/// What is known of a process's memory from stop to stop.
#[derive(Default)]
pub(crate) struct Known {
    pub code: Code,
    /// Where its clock pages lie; none before that was asked.
    clock: Option<Option<(u64, u64)>>,
}

impl Known {
    /// What a process knows that was made from another.
    pub(crate) fn forked(&self) -> Known {
        Known { code: self.code.clone(), clock: self.clock }
    }

    /// The process became another program.
    pub(crate) fn clear(&mut self) {
        self.code.clear();
        self.clock = None;
    }
}

/// A stopped thread's memory.
pub(crate) struct Memory<'s, 't> {
    pub thread: &'s Stopped<'t>,
    pub known: &'s mut Known,
    pub own_clock: &'s mut Option<Vvar>,
    /// Whether the thread has a shadow stack, once that was asked.
    pub shadow_stack: Option<bool>,
}

impl Memory<'_, '_> {
    /// The clock pages behind the vdso are the same in all processes of one kernel, and nobody else
    /// may read them.
    fn clock_page(&mut self, address: RuntimeAddr, into: &mut Page) -> Fetched {
        let pid = self.thread.pid();
        let range = *self.known.clock.get_or_insert_with(|| {
            std::fs::read(format!("/proc/{pid}/maps")).ok().and_then(|maps| vvar::range(&maps))
        });
        let Some((start, _)) = range.filter(|(start, end)| (*start..*end).contains(&address.0))
        else {
            return Fetched::Absent;
        };
        let Some(own) = self.own_clock else { return Fetched::Absent };
        match own.page(address.0 - start, into) {
            Ok(()) => Fetched::Live,
            Err(_) => Fetched::Absent,
        }
    }
}

impl Source for Memory<'_, '_> {
    fn page(&mut self, address: RuntimeAddr, into: &mut Page) -> Fetched {
        if let Some(Some((start, end))) = self.known.clock
            && (start..end).contains(&address.0)
        {
            return self.clock_page(address, into);
        }
        match self.thread.read_many(&[address], std::slice::from_mut(into)) {
            1 => Fetched::Copied,
            _ => self.clock_page(address, into),
        }
    }

    fn text(&mut self, address: RuntimeAddr) -> Text {
        self.known.code.kind(address)
    }

    fn has_shadow_stack(&mut self) -> bool {
        let tid = self.thread.tid();
        *self.shadow_stack.get_or_insert_with(|| {
            // Kernels that know shadow stacks name the thread's features here.
            std::fs::read_to_string(format!("/proc/{tid}/status")).map_or(true, |status| {
                status.lines().any(|line| {
                    line.strip_prefix("x86_Thread_features:")
                        .is_some_and(|list| list.contains("shstk"))
                })
            })
        })
    }

    fn pages(&mut self, addresses: &[RuntimeAddr], into: &mut [Page]) -> usize {
        // Those that only the file would give are fetched one by one.
        match (addresses.first(), self.known.clock) {
            (Some(first), Some(Some((start, end)))) if (start..end).contains(&first.0) => 0,
            _ => self.thread.read_many(addresses, into),
        }
    }
}

/// The registers, as the look-ahead wants them.
pub(crate) fn registers(of: &stops::Registers) -> Registers {
    Registers {
        general: [
            of.rax, of.rcx, of.rdx, of.rbx, of.rsp, of.rbp, of.rsi, of.rdi, of.r8, of.r9, of.r10,
            of.r11, of.r12, of.r13, of.r14, of.r15,
        ],
        instruction_pointer: RuntimeAddr(of.rip),
        flags: of.eflags,
        fs_base: of.fs_base,
        gs_base: of.gs_base,
    }
}
