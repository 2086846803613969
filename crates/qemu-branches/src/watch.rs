//! What the plugin remembers of the guest's code: blocks, known executable ranges, and signal
//! handlers.

use crate::block::Block;
use crate::lock::Lock;
use crate::maps;
use crate::process;
use crate::records::Mapping;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

/// The guest's code as seen so far.
#[derive(Default)]
struct Code {
    blocks: HashMap<u64, Vec<&'static Block>>,
    /// Executable mappings that records told of.
    known: Vec<Mapping>,
    /// Guest address ranges that need no look at the maps.
    covered: Vec<(u64, u64)>,
    /// The guest changed its mappings since the last look.
    stale: bool,
    handlers: HashSet<u64>,
    /// Host address of guest address 0.
    guest_base: u64,
}

static CODE: Lock<Option<Code>> = Lock::new(None);

fn with_code<R>(work: impl FnOnce(&mut Code) -> R) -> R {
    CODE.with(|code| work(code.get_or_insert_with(Code::default)))
}

/// A description that lives forever; the same block translated again gets the same one.
pub fn intern(block: Block) -> &'static Block {
    with_code(|code| {
        if code.handlers.contains(&block.start) {
            block.handler.store(true, Ordering::Relaxed);
        }
        let of_address = code.blocks.entry(block.start).or_default();
        if let Some(known) = of_address.iter().find(|known| known.same(&block)) {
            return *known;
        }
        let block: &'static Block = Box::leak(Box::new(block));
        of_address.push(block);
        block
    })
}

/// Code at `address` is being translated; `host` is where it lies in this process.
pub(crate) fn translating(address: u64, host: Option<u64>) {
    let new = with_code(|code| {
        let covered =
            |code: &Code| code.covered.iter().any(|(start, end)| (*start..*end).contains(&address));
        if !code.stale && covered(code) {
            return Vec::new();
        }
        code.stale = false;
        code.guest_base = host.map_or(0, |host| host.wrapping_sub(address));
        let Some(scan) = maps::scan(code.guest_base, address) else { return Vec::new() };
        let range = |mapping: &Mapping| (mapping.start, mapping.start.saturating_add(mapping.len));
        code.covered = scan.code.iter().map(range).collect();
        let mut now = scan.code;
        if !covered(code) {
            match scan.around {
                Some(around) => {
                    code.covered.push(range(&around));
                    now.push(around);
                }
                // Nothing is mapped there as far as the host knows; one look per page is enough.
                None => {
                    code.covered.push((address & !4095, (address & !4095).saturating_add(4096)))
                }
            }
        }
        // Keep plain mappings that were told of before, as long as no look shows something else
        // there.
        let new: Vec<Mapping> =
            now.iter().filter(|mapping| !code.known.contains(mapping)).cloned().collect();
        code.known.retain(|old| {
            let (start, end) = range(old);
            now.contains(old) || !new.iter().map(range).any(|(from, to)| from < end && start < to)
        });
        code.known.extend(new.iter().cloned());
        new
    });
    for mapping in &new {
        process::tell_mapping(mapping);
    }
}

/// Learns where guest memory lies in this process from an instruction's place; without this, signal
/// handlers are looked for at guest addresses.
pub(crate) fn set_guest_base(address: u64, host: Option<u64>) {
    let Some(host) = host else { return };
    with_code(|code| code.guest_base = host.wrapping_sub(address));
}

/// The guest mapped something executable, or unmapped something.
pub fn mappings_changed() {
    with_code(|code| code.stale = true);
}

/// True when a guest range overlaps code that was looked at.
pub fn is_code(start: u64, len: u64) -> bool {
    let end = start.saturating_add(len);
    with_code(|code| code.covered.iter().any(|(from, to)| *from < end && start < *to))
}

/// The guest set a signal handler; `action` is the guest address of its `struct sigaction`.
pub fn handler_set(action: u64) {
    with_code(|code| {
        let Some(handler) = read_guest_word(code.guest_base.wrapping_add(action)) else { return };
        // 0 and 1 mean default and ignore.
        if handler > 1 && code.handlers.insert(handler) {
            for block in code.blocks.get(&handler).into_iter().flatten() {
                block.handler.store(true, Ordering::Relaxed);
            }
        }
    });
}

/// Reads a word that may not be mapped.
fn read_guest_word(address: u64) -> Option<u64> {
    let mut word = 0u64;
    let local = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: 8 };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: 8 };
    // SAFETY: the kernel checks the remote address, and writes at most eight bytes to a local of
    // eight.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    (read == 8).then_some(word)
}

/// Holds the lock across a fork, so that a child never finds it taken by a thread it does not have.
pub fn before_fork() {
    CODE.acquire();
}

/// See [`before_fork`].
pub fn after_fork() {
    CODE.release();
}
