//! Linkage names as their programmers wrote them.

/// The name of a function as its source has it: C++'s and Rust's names read, others as they are.
pub fn demangled(name: &str) -> String {
    /// No sane name is longer, and reading one takes time and stack.
    const LONGEST: usize = 1 << 14;
    if name.len() > LONGEST {
        return name.to_owned();
    }
    // Suffixes such as .cold and .llvm.123 are the compiler's.
    if let Ok(read) = rustc_demangle::try_demangle(name) {
        return format!("{read:#}");
    }
    if !name.starts_with("_Z") && !name.starts_with("__Z") {
        return name.to_owned();
    }
    let (bare, suffix) = name.split_once('.').map_or((name, None), |(bare, s)| (bare, Some(s)));
    let read = cpp_demangle::Symbol::new(bare).ok().and_then(|symbol| symbol.demangle().ok());
    // A pack of no types leaves its comma behind.
    let read = read.map(|read| read.replace(", >", ">"));
    match (read, suffix) {
        (Some(read), Some(suffix)) => format!("{read} [.{suffix}]"),
        (Some(read), None) => read,
        (None, _) => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cpp_and_rust_are_read_and_others_stay() {
        assert_eq!(demangled("_ZN3foo3barEv"), "foo::bar()");
        assert_eq!(demangled("_ZN3foo3barEv.cold"), "foo::bar() [.cold]");
        assert_eq!(demangled("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
        assert_eq!(demangled("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        let packs = demangled("_Z3runIRFvvEJEEvOT_DpOT0_");
        assert!(packs.starts_with("void run<void (&)()>("), "{packs}");
        for plain in ["memcpy", "_Z", "_ZN", "", "main.cold", "_start"] {
            assert_eq!(demangled(plain), plain);
        }
        let long = format!("_Z{}", "N".repeat(1 << 20));
        assert_eq!(demangled(&long), long);
    }
}
