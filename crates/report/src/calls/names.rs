//! Linkage names as their programmers wrote them.

/// The name of a function as its source has it: C++'s and Rust's names read, others as they are.
pub fn demangled(name: &str) -> String {
    /// No sane name is longer, and reading one takes time and stack.
    const LONGEST: usize = 1 << 14;
    if name.len() > LONGEST {
        return name.to_owned();
    }
    // A symbol's version, or `plt` for a stub.
    if let Some((bare, version)) = name.split_once('@').filter(|(bare, _)| !bare.is_empty()) {
        return format!("{}@{version}", demangled(bare));
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

/// Whether a function is meant by a name: its linkage name, or its name in the source, of which the
/// parameters, and then the type it returns and its template's arguments, may be left out.
pub fn is_called(linkage: &str, name: &str) -> bool {
    if linkage == name {
        return true;
    }
    let read = demangled(linkage);
    if read == name {
        return true;
    }
    // What stands in brackets behind it is the compiler's: `foo(int) [.isra.0]`.
    let of_source = read.split(" [.").next().unwrap_or_default();
    if of_source == name {
        return true;
    }
    let bare = without_parameters(of_source);
    let unreturned = without_return_type(bare);
    let plain = without_arguments(unreturned);
    [bare, unreturned, plain, without_arguments(bare)].contains(&name)
}

/// The places of characters that stand in no brackets.
fn outside(read: &str) -> impl DoubleEndedIterator<Item = (usize, char)> {
    let mut depth = 0usize;
    let of = |(at, c): (usize, char)| {
        let begins = matches!(c, '(' | '<' | '[' | '{');
        let ends = matches!(c, ')' | '>' | ']' | '}')
            && !read.get(..at).is_some_and(|before| before.ends_with('-'));
        depth = if ends { depth.saturating_sub(1) } else { depth };
        let told = (depth == 0).then_some((at, c));
        depth += usize::from(begins);
        told
    };
    read.char_indices().filter_map(of).collect::<Vec<_>>().into_iter()
}

/// Operators are named by brackets and spaces.
fn is_operator(read: &str) -> bool {
    read.contains("operator")
}

fn without_parameters(read: &str) -> &str {
    if is_operator(read) {
        return without_operands(read);
    }
    let begin = outside(read).rev().find(|(at, c)| *c == '(' && *at > 0);
    begin.and_then(|(at, _)| read.get(..at)).unwrap_or(read)
}

/// The same of an operator, whose name may be a pair of brackets: `operator()(int) const`.
fn without_operands(read: &str) -> &str {
    let Some(end) = read.rfind(')') else { return read };
    let mut open = 0usize;
    let brackets = read.get(..=end).unwrap_or(read).char_indices().rev();
    for (at, c) in brackets {
        match c {
            ')' => open += 1,
            '(' if open == 1 => {
                let before = read.get(..at).unwrap_or(read);
                return if before.ends_with("operator") { read } else { before };
            }
            '(' => open = open.saturating_sub(1),
            _ => {}
        }
    }
    read
}

fn without_return_type(read: &str) -> &str {
    let space = outside(read).rev().find(|(_, c)| *c == ' ').filter(|_| !is_operator(read));
    space.and_then(|(at, _)| read.get(at + 1..)).unwrap_or(read)
}

fn without_arguments(read: &str) -> &str {
    if !read.ends_with('>') || is_operator(read) {
        return read;
    }
    let begin = outside(read).rev().find(|(at, c)| *c == '<' && *at > 0);
    let bare = begin.and_then(|(at, _)| read.get(..at)).unwrap_or(read);
    // Rust writes `name::<Type>`.
    bare.strip_suffix("::").unwrap_or(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_as_much_of_its_name_as_people_write() {
        // void mul<double, 64>(double (&)[64])
        let template = "_Z3mulIdLi64EEvRAT0__T_";
        for name in [template, "mul", "mul<double, 64>", "void mul<double, 64>"] {
            assert!(is_called(template, name), "{name}: {}", demangled(template));
        }
        assert!(!is_called(template, "mu") && !is_called(template, "void"));
        let hidden = "_ZN12_GLOBAL__N_13fooEi";
        for name in ["(anonymous namespace)::foo", "(anonymous namespace)::foo(int)"] {
            assert!(is_called(hidden, name), "{name}: {}", demangled(hidden));
        }
        let call = "_ZNK3addclEi";
        assert!(is_called("_Z3fooi.isra.0", "foo(int)") && is_called("_Z3fooi.isra.0", "foo"));
        for name in ["add::operator()(int) const", "add::operator()", call] {
            assert!(is_called(call, name), "{name}: {}", demangled(call));
        }
        assert!(is_called("_ZN3foo3barEv", "foo::bar") && is_called("main", "main"));
        assert!(!is_called("_ZN3foo3barEv", "bar") && !is_called("main", ""));
    }

    #[test]
    fn names_of_cpp_and_rust_are_read_and_others_stay() {
        assert_eq!(demangled("_ZN3foo3barEv"), "foo::bar()");
        assert_eq!(demangled("_ZN3foo3barEv.cold"), "foo::bar() [.cold]");
        assert_eq!(demangled("_ZN3foo3barEv@plt"), "foo::bar()@plt");
        assert_eq!(demangled("memcpy@GLIBC_2.14"), "memcpy@GLIBC_2.14");
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
