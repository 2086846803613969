//! The values of a call chain that are no addresses but say whose the following ones are.
//!
//! Source: `enum perf_callchain_context`, `include/uapi/linux/perf_event.h`.

use perfdata::CpuMode;

/// Every value from here on is a mark.
const FIRST: u64 = -4095i64 as u64;
const KERNEL: u64 = -128i64 as u64;
const USER: u64 = -512i64 as u64;
/// Stand for what is not there; no marks of the kernel's.
const MISSING: u64 = -3001i64 as u64;
const NO_SAMPLE: u64 = -3002i64 as u64;
/// `PERF_CONTEXT_USER_DEFERRED`: what follows is a cookie.
const USER_DEFERRED: u64 = -640i64 as u64;

/// Whose an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Owner {
    /// A process of this machine.
    Process,
    /// The kernel of this machine.
    Kernel,
    /// The hypervisor, or a virtual machine: what lies where is not in the recording.
    Elsewhere,
    /// Nobody's: callers that a chain lacks stand there.
    Missing,
    /// Nobody's: there is no sample that tells the chain.
    NoSample,
}

impl Owner {
    /// What a mark says; none where the value is an address.
    pub(crate) fn of_mark(word: u64) -> Option<Owner> {
        match word {
            KERNEL => Some(Owner::Kernel),
            USER => Some(Owner::Process),
            word if word >= FIRST => Some(Owner::Elsewhere),
            _ => None,
        }
    }

    /// What a word says that stands where an address would.
    fn instead_of_address(word: u64) -> Option<Owner> {
        match word {
            MISSING => Some(Owner::Missing),
            NO_SAMPLE => Some(Owner::NoSample),
            _ => None,
        }
    }

    /// Whether the word stands for a user part that comes later.
    pub(crate) fn is_deferred(word: u64) -> bool {
        word == USER_DEFERRED
    }

    /// Of the address that was sampled.
    pub(crate) fn of_mode(mode: CpuMode) -> Owner {
        match mode {
            CpuMode::Kernel => Owner::Kernel,
            CpuMode::User | CpuMode::Unknown => Owner::Process,
            CpuMode::Hypervisor | CpuMode::GuestKernel | CpuMode::GuestUser => Owner::Elsewhere,
        }
    }

    /// The mark that stands before such addresses, or in their place.
    pub(crate) fn mark(self) -> u64 {
        match self {
            Owner::Process => USER,
            Owner::Kernel => KERNEL,
            Owner::Elsewhere => FIRST,
            Owner::Missing => MISSING,
            Owner::NoSample => NO_SAMPLE,
        }
    }
}

/// An address of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Step {
    pub owner: Owner,
    /// Where to look for the function: a caller's return address may lie behind the function that
    /// made the call, so that it is the address before.
    pub code: u64,
}

/// The words of a chain that [`steps`] has a step for.
pub(crate) fn addresses(words: &[u64]) -> impl Iterator<Item = u64> + '_ {
    let is_step =
        |word: &u64| Owner::instead_of_address(*word).is_some() || Owner::of_mark(*word).is_none();
    words.iter().copied().filter(is_step)
}

/// The addresses of a chain, innermost first.
pub(crate) fn steps(words: &[u64]) -> impl Iterator<Item = Step> + '_ {
    let mut owner = Owner::Process;
    let mut innermost = true;
    words.iter().filter_map(move |&word| {
        if let Some(owner) = Owner::instead_of_address(word) {
            return Some(Step { owner, code: 0 });
        }
        if let Some(marked) = Owner::of_mark(word) {
            owner = marked;
            innermost = true;
            return None;
        }
        let code = if innermost { word } else { word.saturating_sub(1) };
        innermost = false;
        Some(Step { owner, code })
    })
}

/// Puts another word in place of each address of the user's for which `other` has one, given the
/// address of the code: of callers, the byte before the one that they go on at.
pub(crate) fn replace_user(words: &mut [u64], mut other: impl FnMut(u64) -> Option<u64>) {
    let mut owner = Owner::Process;
    let mut innermost = true;
    for word in words {
        if Owner::instead_of_address(*word).is_some() {
            continue;
        }
        if let Some(marked) = Owner::of_mark(*word) {
            owner = marked;
            innermost = true;
            continue;
        }
        let before = u64::from(!innermost);
        innermost = false;
        if owner == Owner::Process {
            let found = other(word.saturating_sub(before));
            *word = found.map_or(*word, |found| found.saturating_add(before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_say_whose_addresses_follow_and_callers_are_looked_for_one_byte_before() {
        let words = [KERNEL, 0x100, 0x200, USER, 0x300, 0x400, -2048i64 as u64, 0x500];
        let found: Vec<_> = steps(&words).map(|step| (step.owner, step.code)).collect();
        let kernel = [(Owner::Kernel, 0x100), (Owner::Kernel, 0x1ff)];
        let user = [(Owner::Process, 0x300), (Owner::Process, 0x3ff)];
        assert_eq!(found, [&kernel[..], &user[..], &[(Owner::Elsewhere, 0x500)]].concat());
        for owner in [Owner::Process, Owner::Kernel, Owner::Elsewhere] {
            assert_eq!(Owner::of_mark(owner.mark()), Some(owner));
        }
        // What is missing between two callers changes neither.
        let words = [USER, 0x300, MISSING, 0x400];
        let found: Vec<_> = steps(&words).map(|step| (step.owner, step.code)).collect();
        let user = |code| (Owner::Process, code);
        assert_eq!(found, [user(0x300), (Owner::Missing, 0), user(0x3ff)]);
    }
}
