//! Names of a kernel's functions, from the text of `/proc/kallsyms`, of this machine or another.

use perfdata::RuntimeAddr;
use std::cmp::Reverse;

/// Where the recorded kernel lay: the symbol that the name of its map ends in, and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// Its address when it was recorded.
    pub address: RuntimeAddr,
    /// Whether it is `_stext`, else `_text`.
    pub is_stext: bool,
}

/// A kernel's functions by address.
#[derive(Clone, Debug, Default)]
pub struct KernelSymbols {
    /// Of the kernel itself, sorted by address.
    core: Vec<(u64, String)>,
    /// Of modules and of code made at run time.
    others: Vec<(u64, String)>,
    text: Option<u64>,
    stext: Option<u64>,
    runs: bool,
    is_recorded_build: bool,
}

impl KernelSymbols {
    /// Reads the text of `/proc/kallsyms`; addresses that the kernel hides (0) give nothing. Of
    /// several functions at one address, the one counts that perf shows.
    pub fn parse(kallsyms: &str) -> KernelSymbols {
        let mut symbols = KernelSymbols::default();
        let (mut core, mut others) = (Vec::new(), Vec::new());
        for line in kallsyms.lines() {
            let mut words = line.split_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Some(address) =
                u64::from_str_radix(address, 16).ok().filter(|address| *address != 0)
            else {
                continue;
            };
            match name {
                "_text" => symbols.text = Some(address),
                "_stext" => symbols.stext = Some(address),
                _ => {}
            }
            if matches!(kind, "t" | "T" | "w" | "W") && name != "_text" {
                let list = if words.next().is_none() { &mut core } else { &mut others };
                list.push((address, kind, name));
            }
        }
        symbols.core = best(core);
        symbols.others = best(others);
        symbols
    }

    /// They are of the kernel that runs.
    #[must_use]
    pub fn of_running_kernel(self) -> KernelSymbols {
        KernelSymbols { runs: true, ..self }
    }

    /// They are of the recorded kernel by its build ID, which may have lain elsewhere when it was
    /// recorded.
    #[must_use]
    pub fn of_recorded_build(self) -> KernelSymbols {
        KernelSymbols { is_recorded_build: true, ..self }
    }

    /// As names of a kernel that lay there; none if it was another one.
    pub(crate) fn at(&self, reference: Reference) -> Option<KernelNames<'_>> {
        let own = if reference.is_stext { self.stext } else { self.text };
        let shift = reference.address.0.wrapping_sub(own?);
        (shift == 0 || self.is_recorded_build).then_some(KernelNames { symbols: self, shift })
    }
}

/// The function that perf shows of those at one address: a strong one rather than a weak one, a
/// global one rather than a local one, fewer underscores, a longer name.
fn best(mut all: Vec<(u64, &str, &str)>) -> Vec<(u64, String)> {
    all.sort_by_key(|(address, kind, name)| {
        let underscores = name.bytes().take_while(|&byte| byte == b'_').count();
        let global = kind.starts_with(char::is_uppercase);
        (*address, *kind == "W", !global, underscores, Reverse(name.len()))
    });
    all.dedup_by_key(|(address, ..)| *address);
    all.into_iter().map(|(address, _, name)| (address, name.to_owned())).collect()
}

/// The names of the recorded kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelNames<'k> {
    symbols: &'k KernelSymbols,
    /// How much further on the kernel lay when it was recorded, modulo 2^64.
    shift: u64,
}

impl<'k> KernelNames<'k> {
    /// Whether it runs and was not started again since.
    pub(crate) fn runs(&self) -> bool {
        self.symbols.runs && self.shift == 0
    }

    /// The function that an address lies in.
    pub(crate) fn find(&self, address: RuntimeAddr, in_module: bool) -> Option<&'k str> {
        let own = address.0.wrapping_sub(self.shift);
        let nearest = |list: &'k [(u64, String)]| {
            let after = list.partition_point(|(start, _)| *start <= own);
            list.get(after.checked_sub(1)?)
        };
        let core = nearest(&self.symbols.core).filter(|_| !in_module || self.shift == 0);
        // Modules lie elsewhere after each start.
        let other = nearest(&self.symbols.others).filter(|_| self.shift == 0);
        core.into_iter().chain(other).max_by_key(|(start, _)| *start).map(|(_, name)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "ffffffff81000000 T _text\nffffffff81000000 T start\nffffffff81000100 t \
                        schedule\nffffffff81000200 D data\n0000000000000000 T \
                        hidden\nffffffffa0000000 t run\t[module]\nbroken\nffffffff81000300 t \
                        local\nffffffff81000300 T __two\nffffffff81000300 T \
                        _one\nffffffff81000300 W weak";

    fn at(address: u64) -> Reference {
        Reference { address: RuntimeAddr(address), is_stext: false }
    }

    #[test]
    fn addresses_are_found_in_the_function_before_them() {
        let symbols = KernelSymbols::parse(TEXT);
        assert!(symbols.at(at(0)).is_none());
        let names = symbols.at(at(0xffff_ffff_8100_0000)).unwrap();
        let find = |address| names.find(RuntimeAddr(address), false);
        assert_eq!(find(0xffff_ffff_8100_0000), Some("start"));
        assert_eq!(find(0xffff_ffff_8100_0250), Some("schedule"));
        assert_eq!(find(0xffff_ffff_8100_0300), Some("_one"), "as perf chooses");
        assert_eq!(find(0xffff_ffff_a000_0001), Some("run"));
        assert_eq!(find(5), None);
    }

    #[test]
    fn the_same_build_is_found_wherever_it_lay_but_for_its_modules() {
        let symbols = KernelSymbols::parse(TEXT).of_recorded_build().of_running_kernel();
        let names = symbols.at(at(0xffff_ffff_9200_0000)).unwrap();
        assert!(!names.runs() && symbols.at(at(0xffff_ffff_8100_0000)).unwrap().runs());
        let find = |address, in_module| names.find(RuntimeAddr(address), in_module);
        assert_eq!(find(0xffff_ffff_9200_0150, false), Some("schedule"));
        assert_eq!(find(0xffff_ffff_b100_0001, true), None);
        let other = Reference { is_stext: true, ..at(0xffff_ffff_9200_0000) };
        assert!(symbols.at(other).is_none(), "a symbol that is not there places nothing");
    }
}
