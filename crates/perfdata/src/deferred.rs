//! Call chains whose user part the kernel delivers later: found by their cookies, and put together.
//!
//! A kernel that defers ends a sample's chain with a mark and a cookie, and writes the user part
//! once, in a record of its own, when the thread is about to return to its program; several samples
//! may share it. Both are of one thread, so the cookie counts within the thread. Source:
//! `PERF_CONTEXT_USER_DEFERRED` and `PERF_RECORD_CALLCHAIN_DEFERRED` (include/uapi/linux/
//! perf_event.h, Linux 6.19). Memory: the distinct user parts.

use crate::attr::attr_flag;
use crate::error::Error;
use crate::input::Input;
use crate::kinds::kind;
use crate::raw::raw_records;
use crate::record::Record;
use crate::{EventAttr, Words};
use std::collections::HashMap;

/// `PERF_CONTEXT_USER`: what follows are addresses of the program.
const CONTEXT_USER: u64 = -512i64 as u64;
/// `PERF_CONTEXT_USER_DEFERRED`: what follows is a cookie.
const CONTEXT_USER_DEFERRED: u64 = -640i64 as u64;

/// The user parts of a recording.
#[derive(Clone, Debug, Default)]
pub struct DeferredChains {
    /// By thread and cookie.
    chains: HashMap<(i32, u64), Vec<u64>>,
}

/// A call chain with everything that the recording has of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Addresses and context marks, innermost first.
    pub words: Vec<u64>,
    /// The user part was deferred.
    pub deferred: bool,
    /// The user part was deferred, and the record with it is not there.
    pub missing: bool,
}

impl DeferredChains {
    /// Reads the user parts of `input`, where any event defers them.
    ///
    /// # Errors
    /// Where the recording cannot be read.
    pub fn read(input: &Input) -> Result<DeferredChains, Error> {
        let mut found = DeferredChains::default();
        let defers =
            |a: &EventAttr| a.flags & (attr_flag::DEFER_CALLCHAIN | attr_flag::DEFER_OUTPUT) != 0;
        if !input.attrs().iter().any(defers) {
            return Ok(found);
        }
        for stream in 0..input.stream_count() {
            let mut chunks = input.stream_chunks(stream)?;
            while let Some(chunk) = chunks.next() {
                let chunk = chunk?;
                let records = raw_records(&chunk.bytes, chunk.offset, input.endian());
                for raw in records.filter(|raw| raw.kind == kind::CALLCHAIN_DEFERRED) {
                    if let Ok((Record::CallchainDeferred { cookie, ips }, id)) =
                        Record::parse(&raw, input.layouts())
                    {
                        found.chains.insert((id.tid.unwrap_or(0), cookie), ips.iter().collect());
                    }
                }
                chunks.recycle(chunk.bytes);
            }
        }
        Ok(found)
    }

    /// The chain of a sample of thread `tid`, its user part put where the cookie stood.
    pub fn whole(&self, tid: i32, recorded: &Words<'_>) -> Chain {
        let mut chain = Chain::default();
        let mut words = recorded.iter();
        while let Some(word) = words.next() {
            if word != CONTEXT_USER_DEFERRED {
                chain.words.push(word);
                continue;
            }
            chain.deferred = true;
            let user = words.next().and_then(|cookie| self.chains.get(&(tid, cookie)));
            let Some(user) = user else {
                chain.missing = true;
                continue;
            };
            // The record has marks of its own where the kernel writes them.
            if user.first() != Some(&CONTEXT_USER) {
                chain.words.push(CONTEXT_USER);
            }
            chain.words.extend(user);
        }
        chain
    }
}
