//! Is this the link of the program, whose inputs are kept so that it can be repeated in other
//! layouts?

use super::store::hash_of;
use crate::words::quoted;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Hexadecimal digits that cargo puts behind the names of programs it links.
const HASH_DIGITS: usize = 16;

/// Whether a compiler with these arguments links a program of this file name. Libtool and cargo link
/// under names of their own.
pub(super) fn makes(arguments: &[OsString], program: &OsStr) -> bool {
    let (Some(output), Some(program)) = (output(arguments), program.to_str()) else { return false };
    let name = Path::new(output).file_name().and_then(OsStr::to_str).unwrap_or_default();
    let behind = |word: &str| name.strip_prefix(word);
    let is_hash =
        |end: &str| end.len() == HASH_DIGITS && end.bytes().all(|b| b.is_ascii_hexdigit());
    // Crates are named with `_` in place of `-`.
    let of_cargo = behind(&program.replace('-', "_"))
        .or(behind(program))
        .and_then(|end| end.strip_prefix('-'))
        .is_some_and(is_hash);
    name == program || behind("lt-") == Some(program) || of_cargo
}

/// What a linking command writes; none where the compiler does not link.
fn output(arguments: &[OsString]) -> Option<&str> {
    let mut output = None;
    let mut rest = arguments.iter().filter_map(|word| word.to_str());
    while let Some(word) = rest.next() {
        match word {
            "-c" | "-S" | "-E" | "-M" | "-MM" | "-fsyntax-only" | "-shared" | "-r" => return None,
            "-o" => output = rest.next(),
            _ => output = word.strip_prefix("-o").filter(|name| !name.is_empty()).or(output),
        }
    }
    output
}

/// Notes what a link made beside the archive of what it read. Where that cannot be done, the program
/// is built once more.
pub(super) fn note(inputs: &Path, arguments: &[OsString]) {
    let hash = output(arguments).and_then(|made| hash_of(Path::new(made)).ok());
    if let Some(hash) = hash {
        let _ = ::beside::write(&beside(inputs), hash.as_bytes());
    }
}

/// Whether the link whose inputs were kept made this very program, and nothing changed it since.
pub(crate) fn made(inputs: &Path, program: &Path) -> bool {
    let noted = std::fs::read_to_string(beside(inputs));
    inputs.is_file() && noted.is_ok_and(|noted| hash_of(program).is_ok_and(|hash| hash == noted))
}

/// The same as a condition of a shell.
pub(crate) fn test(inputs: &Path, program: &Path) -> String {
    let name = |path: &Path| quoted(&path.to_string_lossy());
    let (note, program) = (name(&beside(inputs)), name(program));
    format!("[ \"$(sha256sum <{program} | cut -c1-64)\" = \"$(cat {note})\" ]")
}

fn beside(inputs: &Path) -> PathBuf {
    inputs.with_extension("sha256")
}

/// The flags that make lld keep what it reads, whatever signs the path has.
pub(super) fn reproduce(inputs: &OsStr) -> [OsString; 2] {
    let mut flag = OsString::from("--reproduce=");
    flag.push(inputs);
    ["-Xlinker".into(), flag]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_known_by_the_name_that_it_is_linked_under() {
        let made = |line: &str, program: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            makes(&words, OsStr::new(program))
        };
        for (line, program) in [
            ("a.o b.o -o app", "app"),
            ("-O2 a.c -obin/app", "app"),
            ("a.o -o .libs/lt-app -lm", "app"),
            ("-m64 x.o -o /t/release/deps/rg-0123456789abcdef -lc", "rg"),
            ("x.o -o deps/my_tool-0123456789abcdef", "my-tool"),
        ] {
            assert!(made(line, program), "{line}");
        }
        for (line, program) in [
            ("-c a.c -o app", "app"),
            ("a.o -o conftest", "app"),
            ("-shared a.o -o app", "app"),
            ("a.o -o rg-0123456789abcdez", "rg"),
            ("a.o -o rg-test", "rg"),
            ("a.o", "app"),
        ] {
            assert!(!made(line, program), "{line}");
        }
    }
}
