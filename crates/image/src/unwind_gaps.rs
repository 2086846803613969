//! What can be told of callers where `.eh_frame` says nothing: rules of the entries of linkage tables,
//! and whether an address is one that a call returns to.
//!
//! An entry of a linkage table pushes what it pushes and jumps on, so that its frame begins above
//! that. Source: System V ABI for x86-64, 5.2; lld writes no rules for its tables.

use crate::code::{InstructionKind, instructions};
use crate::{Image, ImageAddr, UnwindRules};

/// Linkage tables, and how many words lie on the stack before the first entry runs.
const TABLES: [(&str, i64); 4] = [(".plt", 1), (".iplt", 0), (".plt.sec", 0), (".plt.got", 0)];
const ENTRY_BYTES: u64 = 16;
const WORD: i64 = 8;
/// How long instructions are that call, the most common first.
const CALL_BYTES: [u64; 8] = [5, 2, 3, 6, 7, 4, 8, 9];

impl Image {
    /// The rules of an entry of a linkage table.
    pub(crate) fn linkage_rules(&self, at: ImageAddr) -> Option<UnwindRules> {
        let table = TABLES.iter().find_map(|(name, before)| {
            let start = self.section_by_name(name)?.address.0;
            let size = self.section(name)?.len() as u64;
            (start..start.saturating_add(size)).contains(&at.0).then_some((start, *before))
        });
        let (start, before) = table?;
        let entry = at.0 - (at.0 - start) % ENTRY_BYTES;
        let before = if entry == start { before } else { 0 };
        let passed = instructions(self, ImageAddr(entry))
            .take_while(|one| one.address.0 < at.0)
            .take(ENTRY_BYTES as usize);
        let pushes = passed.filter(|one| self.is_push(one.address)).count() as i64;
        Some(UnwindRules::above_stack(WORD * (1 + before + pushes)))
    }

    /// Whether the instruction pushes a number, or a word of memory.
    fn is_push(&self, at: ImageAddr) -> bool {
        matches!(self.code_at(at), Some([0x68, ..] | [0xff, 0x35, ..]))
    }

    /// Whether an instruction that calls ends at an address: a call returns there.
    pub fn follows_call(&self, at: ImageAddr) -> bool {
        CALL_BYTES.iter().any(|&bytes| {
            let Some(start) = at.0.checked_sub(bytes) else { return false };
            let call = instructions(self, ImageAddr(start)).next();
            call.is_some_and(|one| {
                let calls =
                    matches!(one.kind, InstructionKind::Call | InstructionKind::IndirectCall);
                calls && u64::from(one.len) == bytes
            })
        })
    }
}
