//! A program of some sixty functions in two files, built by every compiler that is installed.

#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSymbol, SymbolKind};
use relink::{Error, Inputs, Linker};

/// Says that a function is compiled without looking at others, so that an edit changes that
/// function only.
const ALONE: &str = "#ifdef __clang__\n#define ALONE __attribute__((noinline))\n#else\n\
    #define ALONE __attribute__((noipa))\n#endif\n";

/// A compiler of the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compiler {
    Clang,
    Gcc,
}

impl Compiler {
    /// Its name, where it is installed.
    pub fn program(self) -> Option<&'static str> {
        let names: &[&str] = match self {
            Compiler::Clang => &["clang-22", "clang"],
            Compiler::Gcc => &["gcc"],
        };
        names.iter().copied().find(|name| output_of(name, &["--version"]).is_some())
    }
}

/// What a command prints; none when it is missing or fails.
pub fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The compilers that are installed, none without lld.
pub fn tools() -> Vec<Compiler> {
    if let Err(error) = Linker::find() {
        eprintln!("skipped: {error}");
        return Vec::new();
    }
    let there = |compiler: &Compiler| {
        let there = compiler.program().is_some();
        if !there {
            eprintln!("skipped: {compiler:?} is not installed");
        }
        there
    };
    [Compiler::Clang, Compiler::Gcc].into_iter().filter(there).collect()
}

/// What a variant of the program is made of.
#[derive(Debug, Default)]
pub struct Sources {
    /// This function does more.
    pub longer: Option<usize>,
    /// There is a function that nothing calls.
    pub added: bool,
    /// The static `helper` of the second file does more.
    pub other_helper: bool,
    /// Every third function holds another number of the same length, as line numbers do.
    pub other_number: bool,
    /// Flags of the second file, and with `more_flags` of the first.
    pub flags: &'static [&'static str],
    pub more_flags: bool,
    /// Without function sections.
    pub whole_files: bool,
    /// The second file is in a static library.
    pub library: bool,
    pub link: &'static [&'static str],
    pub more_link: Vec<String>,
}

impl Sources {
    fn first(&self) -> String {
        let mut text =
            "#include <stdio.h>\nextern unsigned second(unsigned);\nextern const char *name_of(int);\n\
            static unsigned counter;\nstatic ALONE unsigned helper(unsigned x)\n\
            { counter++; printf(\"first %u\\n\", x); return x * 3 + counter; }\n"
                .to_owned();
        if self.added {
            text.push_str(
                "void never_called(void) { puts(\"a string that is new and comes first\"); }\n",
            );
        }
        for number in 0..60 {
            let more = if self.longer == Some(number) {
                "x ^= x >> 3; for (unsigned i = 0; i < 3; i++) x += i * x;"
            } else {
                ""
            };
            let line = number + if self.other_number { 2000 } else { 1000 };
            let body = match number % 3 {
                0 => format!(
                    "switch (x % 7) {{ case 0: x += 3; break; case 1: x *= 5; break; case 2: x ^= 9; break; \
                    case 3: x -= {line}; break; case 4: x = ~x; break; default: x += second(x); }}"
                ),
                1 => format!(
                    "for (unsigned i = 0; i < {}; i++) x = x * 31 + i; puts(\"work {number}\");",
                    number % 9 + 2
                ),
                _ => format!("static unsigned seen; seen += x; x += seen % {};", number + 3),
            };
            writeln!(
                text,
                "ALONE unsigned work_{number}(unsigned x) {{ {body} {more} return x; }}"
            )
            .unwrap();
        }
        text.push_str("int main(void) {\n  unsigned sum = helper(1);\n");
        for number in 0..60 {
            writeln!(text, "  sum += work_{number}({number} + sum % 5);").unwrap();
        }
        text.push_str("  printf(\"sum %u %s\\n\", sum, name_of(sum % 3));\n  return 0;\n}\n");
        text
    }

    fn second(&self) -> String {
        let more =
            if self.other_helper { "puts(\"more\"); x += 1; puts(\"and more\");" } else { "" };
        format!(
            "#include <stdio.h>\nstatic const char *const names[] = {{\"one\", \"two\", \"three\"}};\n\
             static ALONE unsigned helper(unsigned x) {{ {more} return x * 7 + 1; }}\n\
             ALONE unsigned second(unsigned x) {{ return helper(x) + 2; }}\n\
             ALONE const char *name_of(int x) {{ return names[x]; }}\n"
        )
    }
}

/// A directory with programs built by one compiler.
pub struct Build {
    compiler: Compiler,
    directory: tempfile::TempDir,
}

impl Build {
    pub fn new(compiler: Compiler) -> Build {
        Build { compiler, directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, directory: &Path, program: &str, arguments: &[&str]) {
        let output = Command::new(program).args(arguments).current_dir(directory).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{program} {arguments:?}: {said}");
    }

    /// Compiles a variant into its directory; the command that links it.
    pub fn compile(&self, name: &str, sources: &Sources) -> Vec<String> {
        let directory = self.path(name);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("first.c"), ALONE.to_owned() + &sources.first()).unwrap();
        fs::write(directory.join("second.c"), ALONE.to_owned() + &sources.second()).unwrap();
        let program = self.compiler.program().unwrap();
        for (file, own) in [("first.c", sources.more_flags), ("second.c", true)] {
            let mut arguments = vec!["-O2", "-w", "-c", file];
            if !sources.whole_files {
                arguments.extend(["-ffunction-sections", "-fdata-sections"]);
            }
            if own {
                arguments.extend(sources.flags);
            }
            self.run(&directory, program, &arguments);
        }
        let mut link = vec![program, "-O2", "first.o"];
        if sources.library {
            self.run(&directory, "ar", &["rc", "libsecond.a", "second.o"]);
            link.extend(["-L.", "-lsecond"]);
        } else {
            link.push("second.o");
        }
        link.extend(sources.link);
        link.extend(sources.more_link.iter().map(String::as_str));
        link.extend(["-o", "prog"]);
        link.into_iter().map(str::to_owned).collect()
    }

    /// Builds a variant and opens the archive of its link.
    pub fn open(&self, name: &str, edit: impl FnOnce(&mut Sources)) -> Result<Inputs, Error> {
        let mut sources = Sources::default();
        edit(&mut sources);
        let link = self.compile(name, &sources);
        let directory = self.path(name);
        let linker = Linker::find().unwrap();
        let prefix = self.path("bin");
        fs::create_dir_all(&prefix).unwrap();
        let _ = std::os::unix::fs::symlink(linker.path(), prefix.join("ld.lld"));
        let output = Command::new(&link[0])
            .args(&link[1..])
            .args(["-fuse-ld=lld", "-Wl,--reproduce=link.tar"])
            .arg(format!("-B{}/", prefix.display()))
            .current_dir(&directory)
            .output()
            .unwrap();
        // Links that lld cannot do leave an archive all the same.
        assert!(
            directory.join("link.tar").is_file(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Inputs::open(&directory.join("link.tar"), &self.path("state"))
    }

    pub fn inputs(&self, name: &str, edit: impl FnOnce(&mut Sources)) -> Inputs {
        self.open(name, edit).unwrap()
    }
}

/// Runs a program; what it printed.
pub fn said(program: &Path) -> String {
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success(), "{}: {}", program.display(), output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The functions of a program in the order in which they lie.
pub fn functions_by_address(program: &Path) -> Vec<String> {
    let bytes = fs::read(program).unwrap();
    let file = object::File::parse(bytes.as_slice()).unwrap();
    let functions =
        file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
    let mut functions: Vec<(u64, String)> =
        functions.map(|symbol| (symbol.address(), symbol.name().unwrap().to_owned())).collect();
    functions.sort();
    functions.into_iter().map(|(_, name)| name).collect()
}
