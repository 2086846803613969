//! Which compilers are there? The newest versioned name in PATH wins over the plain one.

use crate::Error;
use crate::config::{Build, Compiler};
use crate::words::split_words;
use std::path::{Path, PathBuf};

/// The programs handed to the build command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toolchain {
    /// C compiler.
    pub cc: String,
    /// C++ compiler.
    pub cxx: String,
    /// Linker.
    pub ld: String,
    /// True when rustc is there and takes `-Z` flags.
    pub rust_takes_z: bool,
    /// The LLVM release of rustc, and that of the C compiler where it is clang: the second reads
    /// the bitcode of the first only if it is no older.
    pub llvm_of_rust: Option<u32>,
    /// See [`Toolchain::llvm_of_rust`].
    pub llvm_of_clang: Option<u32>,
    /// Merges what instrumented programs counted (llvm-profdata), where there is one of the
    /// compiler's release.
    pub profdata: Option<String>,
    /// The library that instrumented programs are linked with (compiler-rt's), where the compiler
    /// does not find it.
    pub no_counters: Option<PathBuf>,
    /// llvm-bolt, where there is one.
    pub bolt: Option<String>,
}

/// Debian keeps clang 22 and older side by side; looking above costs nothing.
const NEWEST: u32 = 40;
const OLDEST: u32 = 11;

impl Toolchain {
    /// Finds what `[build]` asks for in the directories of `path` (the value of PATH).
    pub fn find(build: &Build, path: &str) -> Result<Toolchain, Error> {
        let has = |name: &str| locate(name, path).is_some();
        let newest = |stem: &str| {
            let versioned =
                (OLDEST..=NEWEST).rev().map(|v| format!("{stem}-{v}")).find(|name| has(name));
            versioned.or_else(|| has(stem).then(|| stem.to_owned()))
        };
        let own = build.cc.as_deref().map(compiler_of);
        let named = own.as_deref().map(|cc| cc.rsplit('/').next().unwrap_or(cc).to_owned());
        let (cc, cxx, ld) = match build.compiler {
            Compiler::Clang => {
                let cc = newest("clang");
                // The other tools of the same release, not merely the newest of each.
                let suffix =
                    cc.as_deref().and_then(|c| c.strip_prefix("clang")).unwrap_or("").to_owned();
                let ld = format!("ld.lld{suffix}");
                (cc, format!("clang++{suffix}"), if has(&ld) { ld } else { "ld.lld".to_owned() })
            }
            Compiler::Gcc => {
                // The plain name first: it is the one whose libraries are sure to be complete.
                let cc = has("gcc").then(|| "gcc".to_owned()).or_else(|| newest("gcc"));
                let cxx = cc.as_deref().unwrap_or("gcc").replace("gcc", "g++");
                (cc, cxx, "ld".to_owned())
            }
        };
        let family = if build.compiler == Compiler::Clang { "clang" } else { "gcc" };
        let cc = build.cc.clone().or(cc).ok_or_else(|| Error::NoTool {
            tool: family.to_owned(),
            next: "install it (`planish doctor` lists what is there), or name one with cc = … in \
                   [build]"
                .into(),
        })?;
        for line in build.cc.iter().chain(&build.cxx) {
            if let Some(is) = family_of(&compiler_of(line)).filter(|is| *is != family) {
                return Err(Error::Family { named: line.clone(), is, family });
            }
            // The launcher, and the compiler.
            let launcher = split_words(line).ok().and_then(|words| words.into_iter().next());
            for program in launcher.into_iter().chain([compiler_of(line)]) {
                // A path may be relative to the project; what else a line begins with, the shell of
                // the build command knows.
                let relative = program.contains('/') && !program.starts_with('/');
                let unknown = program.contains(|c: char| c.is_whitespace() || c == '=');
                if !relative && !unknown && !has(&program) {
                    return Err(Error::NoTool {
                        tool: program,
                        next: "install it, or name one that is there in [build] (`planish doctor` \
                             lists them)"
                            .into(),
                    });
                }
            }
        }
        let release =
            named.as_deref().unwrap_or(&cc).strip_prefix("clang").unwrap_or("").to_owned();
        let of_release = |stem: &str| Some(format!("{stem}{release}")).filter(|name| has(name));
        // A compiler named by its path may be of another release than the tools in PATH: its own
        // lie beside it.
        let beside = |stem: &str| {
            let (folder, _) = own.as_deref().unwrap_or(&cc).rsplit_once('/')?;
            Some(format!("{folder}/{stem}{release}")).filter(|name| has(name))
        };
        // The format of the counters belongs to one release; BOLT reads any program.
        let profdata = beside("llvm-profdata").or_else(|| of_release("llvm-profdata"));
        let profdata = profdata.filter(|_| build.compiler == Compiler::Clang);
        let bolt = of_release("llvm-bolt").or_else(|| newest("llvm-bolt"));
        let cxx = build.cxx.clone().unwrap_or(cxx);
        Ok(Toolchain { cc, cxx, ld, profdata, bolt, ..Toolchain::default() })
    }
}

/// Programs that run a compiler here and change nothing of what it makes.
const LAUNCHERS: [&str; 8] =
    ["ccache", "sccache", "distcc", "icecc", "icecream", "nice", "ionice", "time"];

/// The words of a line from the compiler on, which may stand behind a launcher
/// (`ccache clang -m64`); the line as one word where nothing is known of how it is to be cut.
pub fn behind(line: &str) -> Vec<String> {
    let Ok(words) = split_words(line) else { return vec![line.to_owned()] };
    let is_launcher = |word: &String| {
        let name = word.rsplit('/').next().unwrap_or(word);
        LAUNCHERS.contains(&name)
    };
    match words.iter().position(|word| !is_launcher(word)) {
        Some(first) if !Path::new(line).is_file() => {
            words.get(first..).unwrap_or_default().to_vec()
        }
        _ => vec![line.to_owned()],
    }
}

/// The compiler of a line, without what stands before and behind it.
pub fn compiler_of(line: &str) -> String {
    behind(line).into_iter().next().unwrap_or_else(|| line.to_owned())
}

/// Whose flags a compiler takes, where its name says it: `/usr/bin/x86_64-linux-gnu-gcc-12` gcc's.
fn family_of(compiler: &str) -> Option<&'static str> {
    let name = compiler.rsplit('/').next().unwrap_or(compiler);
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    match name.rsplit('-').next() {
        Some("clang" | "clang++") => Some("clang"),
        Some("gcc" | "g++") => Some("gcc"),
        _ => None,
    }
}

/// The first executable file of that name in the directories of `path`.
pub fn locate(name: &str, path: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let executable = |file: &Path| {
        std::fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|file| executable(file));
    }
    path.split(':')
        .filter(|d| !d.is_empty())
        .map(|d| Path::new(d).join(name))
        .find(|file| executable(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Command;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_compiler_may_stand_behind_another_program() {
        let of = |line| behind(line).join("|");
        assert_eq!(of("ccache clang-22 -m64"), "clang-22|-m64");
        assert_eq!(of("/opt/ccache distcc '/opt/my x/bin/g++'"), "/opt/my x/bin/g++");
        assert_eq!(of("aarch64-linux-gnu-gcc"), "aarch64-linux-gnu-gcc");
        assert_eq!(of("zig cc"), "zig|cc", "what is no launcher is the compiler");
        assert_eq!(of("clang $(flags)"), "clang $(flags)");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a clang");
        std::fs::write(&path, "").unwrap();
        assert_eq!(behind(&path.to_string_lossy()).len(), 1);
    }

    #[test]
    fn a_compiler_s_name_says_whose_flags_it_takes() {
        assert_eq!(family_of("/usr/bin/x86_64-linux-gnu-gcc-12"), Some("gcc"));
        assert_eq!(family_of("g++"), Some("gcc"));
        assert_eq!(family_of("clang++-22"), Some("clang"));
        assert_eq!(family_of("cc"), None, "it can be either");
        assert_eq!(family_of("my-clang-wrapper"), None);
        let build = Build { compiler: Compiler::Clang, ..build_with("ccache gcc") };
        let error = Toolchain::find(&build, "").unwrap_err().to_string();
        assert!(error.contains("\"ccache gcc\" is gcc, and compiler = \"clang\""), "{error}");
    }

    fn build_with(cc: &str) -> Build {
        Build {
            command: Command::Line("make".into()),
            binary: "app".into(),
            release: None,
            libraries: Vec::new(),
            compiler: Compiler::Gcc,
            cc: Some(cc.to_owned()),
            cxx: None,
            optimize: "-O2".into(),
            flags: String::new(),
            profiled_flags: String::new(),
            thinlto: false,
            pages: crate::pages::Pages::Auto,
            sources: vec![],
        }
    }

    #[test]
    fn what_merges_counters_is_looked_for_beside_a_compiler_named_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let tool = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path.to_string_lossy().into_owned()
        };
        let (cc, in_path) = (tool("own/clang"), tool("path/llvm-profdata"));
        let path = Path::new(&in_path).parent().unwrap().to_string_lossy().into_owned();
        let found = |compiler, cc: &str| {
            Toolchain::find(&Build { compiler, ..build_with(cc) }, &path).unwrap().profdata
        };
        assert_eq!(found(Compiler::Clang, &cc).as_deref(), Some("llvm-profdata"));
        let beside = tool("own/llvm-profdata");
        assert_eq!(found(Compiler::Clang, &cc), Some(beside));
        assert_eq!(found(Compiler::Gcc, &tool("own/gcc")), None);
    }
}
