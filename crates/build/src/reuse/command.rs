//! What does a compiler's command line do? Only as much as reuse needs: does it compile C or C++,
//! one file to one object?

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A command line that compiles source files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Compile {
    /// The object file, where there is one.
    pub output: PathBuf,
    /// The file with the names of all files read, where the command line asks for one.
    pub dependencies: Option<PathBuf>,
    one_object: bool,
}

/// Options whose value is the next word.
const WITH_VALUE: [&str; 34] = [
    "-x",
    "-I",
    "-D",
    "-U",
    "-L",
    "-l",
    "-F",
    "-T",
    "-z",
    "-u",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-isysroot",
    "--sysroot",
    "-MF",
    "-MT",
    "-MQ",
    "-MJ",
    "-Xclang",
    "-Xassembler",
    "-Xpreprocessor",
    "-Xlinker",
    "-mllvm",
    "-target",
    "-arch",
    "--param",
    "-aux-info",
    "-framework",
];

/// Options that end in something else than code, or name arguments that are not seen here.
const NO_CODE: [&str; 9] =
    ["-E", "-M", "-MM", "-S", "-fsyntax-only", "-###", "--version", "-emit-llvm", "--precompile"];

/// Options that make more files than the object.
const MORE_FILES: [&str; 8] = [
    "-gsplit-dwarf",
    "-save-temps",
    "--save-temps",
    "-ftime-trace",
    "--coverage",
    "-ftest-coverage",
    "-fprofile-arcs",
    "--serialize-diagnostics",
];

impl Compile {
    /// Looks at the arguments; `None` when they compile nothing that is C or C++ to code, or cannot
    /// be understood.
    pub(super) fn of(arguments: &[OsString]) -> Option<Compile> {
        let words: Vec<&str> = arguments.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
        let (mut output, mut stops_at_object, mut dependencies) = (None, false, None);
        let (mut writes_dependencies, mut more_files, mut language) = (false, false, None);
        let mut files: Vec<&str> = Vec::new();
        let mut rest = words.into_iter();
        while let Some(word) = rest.next() {
            match word {
                _ if NO_CODE.contains(&word) || word.starts_with('@') => return None,
                "-c" => stops_at_object = true,
                "-o" => output = rest.next(),
                "-MD" | "-MMD" => writes_dependencies = true,
                "-MF" => dependencies = rest.next(),
                "-x" => language = rest.next(),
                "-MJ" => {
                    more_files = true;
                    rest.next();
                }
                _ if WITH_VALUE.contains(&word) => {
                    rest.next();
                }
                "-" => files.push(word),
                _ if names_output(word) => output = word.get(2..),
                _ if word.starts_with("-MF") => dependencies = word.get(3..),
                _ if word.starts_with('-') => {
                    more_files |= MORE_FILES.iter().any(|option| word.starts_with(option));
                }
                file => files.push(file),
            }
        }
        let code = |file: &&&str| match language {
            Some(language) => matches!(language, "c" | "c++" | "cpp-output" | "c++-cpp-output"),
            None => is_code(ending_of(file)),
        };
        let sources = files.iter().filter(code).count();
        if sources == 0 {
            return None;
        }
        let one_object =
            stops_at_object && files.len() == 1 && files.first() != Some(&"-") && !more_files;
        // A trial whether the compiler takes it.
        let is_device = |file: Option<&str>| file.is_some_and(|file| file.starts_with("/dev/"));
        let one_object = one_object && !is_device(output) && !is_device(dependencies);
        let output = match (output, files.first()) {
            (Some(output), _) => PathBuf::from(output),
            (None, Some(file)) => Path::new(Path::new(file).file_name()?).with_extension("o"),
            (None, None) => return None,
        };
        let dependencies = match (writes_dependencies, dependencies) {
            (true, Some(file)) => Some(PathBuf::from(file)),
            (true, None) => Some(output.with_extension("d")),
            (false, _) => None,
        };
        Some(Compile { output, dependencies, one_object })
    }

    /// The arguments that decide what is made. Where it goes decides nothing, and some makefiles
    /// name its directory after all flags, those for the linker included.
    pub(super) fn deciding<'a>(&self, arguments: &'a [OsString]) -> Vec<&'a OsString> {
        let is_output = |word: &OsString| Path::new(word) == self.output;
        let mut deciding = Vec::new();
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            match word.to_str().unwrap_or_default() {
                "-o" | "-MF" => {
                    rest.next();
                }
                "-MT" | "-MQ" => {
                    deciding.push(word);
                    deciding.extend(rest.next().filter(|target| !is_output(target)));
                }
                option if WITH_VALUE.contains(&option) => {
                    deciding.push(word);
                    deciding.extend(rest.next());
                }
                joined if names_output(joined) || joined.starts_with("-MF") => {}
                _ => deciding.push(word),
            }
        }
        deciding
    }

    /// Whether one object, and perhaps the list of files read, is all that the command makes.
    pub(super) fn can_be_kept(&self) -> bool {
        self.one_object
    }
}

/// Whether an option is `-o` and the file in one word.
fn names_output(option: &str) -> bool {
    option.starts_with("-o") && !option.starts_with("-objc")
}

fn ending_of(file: &str) -> &str {
    Path::new(file).extension().and_then(|ending| ending.to_str()).unwrap_or_default()
}

/// Whether files of C or C++ that are compiled end so.
pub(crate) fn is_code(ending: &str) -> bool {
    matches!(
        ending,
        "c" | "i" | "cc" | "cp" | "cpp" | "cxx" | "c++" | "C" | "CPP" | "ii" | "m" | "mm"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<Compile> {
        Compile::of(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn one_source_to_one_object_can_be_kept() {
        for line in [
            "-O2 -c a.c -o x/a.o",
            "-I inc -D X -oa.o a.cc -c",
            "-c -x c++ odd.name -o a.o",
            "-c dir/a.c",
            "-c -o a.o -- a.c",
        ] {
            assert!(of(line).is_some_and(|c| c.can_be_kept()), "{line}");
        }
        assert_eq!(of("-c dir/a.c").unwrap().output, Path::new("a.o"));
        assert_eq!(of("-MMD -c a.c -o x/a.o").unwrap().dependencies, Some("x/a.d".into()));
        assert_eq!(of("-MD -MF x.d -c a.c -o x/a.o").unwrap().dependencies, Some("x.d".into()));
    }

    #[test]
    fn where_the_object_goes_does_not_decide_what_it_is() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let deciding = |line: &str| -> String {
            let words = words(line);
            let compile = Compile::of(&words).unwrap();
            compile.deciding(&words).into_iter().map(|w| w.to_str().unwrap()).collect()
        };
        let one = deciding("-O2 -MT obj/1/a.o -MMD -MF obj/1/a.d -c -o obj/1/a.o a.c");
        assert_eq!(one, deciding("-O2 -MT obj/2/a.o -MMD -MFobj/2/a.d -c -oobj/2/a.o a.c"));
        for other in [
            "-O3 -MT obj/1/a.o -MMD -MF obj/1/a.d -c -o obj/1/a.o a.c",
            "-O2 -MT obj/1/b.o -MMD -MF obj/1/a.d -c -o obj/1/a.o a.c",
            "-O2 -MT obj/1/a.o -MMD -MF obj/1/a.d -c -o obj/1/a.o b.c",
            "-O2 -MT obj/1/a.o -MMD -MF obj/1/a.d -D -o -c -o obj/1/a.o a.c",
        ] {
            assert_ne!(one, deciding(other), "{other}");
        }
    }

    #[test]
    fn what_makes_more_or_something_else_is_not_kept() {
        for line in [
            "a.c b.c -o app",
            "-c a.c b.c",
            "-gsplit-dwarf -c a.c",
            "-c -",
            "a.c b.o -o app",
            "-c a.c -o /dev/null",
            "-MD -MF /dev/null -c a.c",
        ] {
            assert!(!of(line).is_some_and(|c| c.can_be_kept()), "{line}");
        }
        for line in
            ["a.o b.o -o app", "-E a.c", "-c start.S -o start.o", "@file -c a.c", "--version"]
        {
            assert_eq!(of(line), None, "{line}");
        }
        assert!(of("a.c b.o -o app").is_some(), "it compiles, though what cannot be kept");
    }
}
