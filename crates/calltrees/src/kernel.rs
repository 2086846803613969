//! Names of the running kernel's functions, from the text of `/proc/kallsyms`.

use perfdata::RuntimeAddr;

/// The kernel's functions by address.
#[derive(Clone, Debug, Default)]
pub struct KernelSymbols {
    /// Sorted by address.
    functions: Vec<(u64, String)>,
    text: Option<u64>,
}

impl KernelSymbols {
    /// Reads the text of `/proc/kallsyms`; addresses that the kernel hides (0) give nothing.
    pub fn parse(kallsyms: &str) -> KernelSymbols {
        let mut functions: Vec<(u64, String)> = Vec::new();
        let mut text = None;
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
            if name == "_text" {
                text = Some(address);
            }
            if matches!(kind, "t" | "T" | "w" | "W") && name != "_text" {
                functions.push((address, name.to_owned()));
            }
        }
        functions.sort();
        functions.dedup_by_key(|(address, _)| *address);
        KernelSymbols { functions, text }
    }

    /// Whether these are the names of a kernel whose text began at this address: the recorded one,
    /// unless the machine was started again since.
    pub fn is_at(&self, text: RuntimeAddr) -> bool {
        self.text == Some(text.0)
    }

    /// The function that an address lies in.
    pub fn find(&self, address: RuntimeAddr) -> Option<&str> {
        let after = self.functions.partition_point(|(start, _)| *start <= address.0);
        self.functions.get(after.checked_sub(1)?).map(|(_, name)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_the_function_before_them() {
        let text = "ffffffff81000000 T _text\nffffffff81000000 T start\nffffffff81000100 t \
                    schedule\nffffffff81000200 D data\n0000000000000000 T \
                    hidden\nffffffffa0000000 t run\t[module]\nbroken";
        let symbols = KernelSymbols::parse(text);
        assert!(
            symbols.is_at(RuntimeAddr(0xffff_ffff_8100_0000)) && !symbols.is_at(RuntimeAddr(0))
        );
        assert_eq!(symbols.find(RuntimeAddr(0xffff_ffff_8100_0000)), Some("start"));
        assert_eq!(symbols.find(RuntimeAddr(0xffff_ffff_8100_0250)), Some("schedule"));
        assert_eq!(symbols.find(RuntimeAddr(0xffff_ffff_a000_0001)), Some("run"));
        assert_eq!(symbols.find(RuntimeAddr(5)), None);
    }
}
