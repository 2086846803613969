//! Kept objects: `KEY.o`, what it was made from in `KEY.json`, and the list of files read as the
//! build wants it, `KEY.d`.

use super::command::Compile;
use crate::Error;
use crate::toolchain::locate;
use object::{Object, ObjectSymbol, SymbolKind};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// A directory of kept objects.
pub(super) struct Store {
    directory: PathBuf,
}

/// What is known of a kept object.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Where the command put it.
    #[serde(default)]
    output: PathBuf,
    /// Every file that was read, with its SHA-256.
    reads: Vec<(PathBuf, String)>,
    /// The functions defined in it; none in LLVM's own form, which the linker compiles.
    pub functions: Vec<String>,
    has_dependency_file: bool,
}

/// Variables that change what compilers make.
const VARIABLES: [&str; 8] = [
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "OBJC_INCLUDE_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "CCC_OVERRIDE_OPTIONS",
    "SOURCE_DATE_EPOCH",
];

/// How words begin that are for the linker alone.
const FOR_LINKER: [&[u8]; 3] = [b"-Wl,", b"-fuse-ld=", b"--ld-path="];

impl Store {
    pub(super) fn new(directory: PathBuf) -> Store {
        Store { directory }
    }

    /// What the command makes is decided by this and the files that it reads. `None` when the
    /// directory is unknown.
    pub(super) fn key(
        &self,
        compiler: &OsStr,
        compile: &Compile,
        arguments: &[OsString],
    ) -> Option<String> {
        let here = std::env::current_dir().ok()?;
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        add(here.as_os_str().as_encoded_bytes());
        let path = std::env::var("PATH").unwrap_or_default();
        let program = compiler.to_str().and_then(|name| locate(name, &path))?;
        let about = std::fs::metadata(&program).ok()?;
        let changed = about.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        add(program.as_os_str().as_encoded_bytes());
        add(&about.len().to_le_bytes());
        add(&changed.map_or(0, |t| t.as_nanos()).to_le_bytes());
        for argument in compile.deciding(arguments) {
            // A makefile may hand what is for the linker to every call; where only objects are made it
            // counts for nothing.
            if FOR_LINKER.iter().any(|begin| argument.as_encoded_bytes().starts_with(begin)) {
                continue;
            }
            add(argument.as_encoded_bytes());
            // Profiles, lists of functions: what a flag names is read, but not among the files the
            // compiler lists.
            let named =
                argument.to_str().and_then(|a| a.split_once('=')).map(|(_, path)| Path::new(path));
            if let Some(path) = named.filter(|path| path.is_file()) {
                add(hash_of(path).ok()?.as_bytes());
            }
        }
        for name in VARIABLES {
            add(std::env::var_os(name).unwrap_or_default().as_encoded_bytes());
        }
        Some(short(&hex::encode(hash.finalize())))
    }

    /// The key of the same command with a part of a cc profile.
    pub(super) fn key_with(&self, key: &str, part: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(key);
        hash.update(part);
        short(&hex::encode(hash.finalize()))
    }

    /// A file in the directory with this part of a cc profile; its name contains its hash.
    pub(super) fn list(&self, part: &str) -> Result<PathBuf, Error> {
        let path =
            self.directory.join(format!("cc-{}.txt", short(&hex::encode(Sha256::digest(part)))));
        let write = || {
            std::fs::create_dir_all(&self.directory)?;
            self.write(&path, part.as_bytes())
        };
        if !path.is_file() {
            write().map_err(|source| Error::File {
                path: path.clone(),
                action: "cannot write",
                source,
            })?;
        }
        Ok(path)
    }

    /// Where the compiler is asked to list the files it reads.
    pub(super) fn dependency_file(&self, key: &str) -> PathBuf {
        // Best effort: without the directory the compiler says so.
        let _ = std::fs::create_dir_all(&self.directory);
        self.directory.join(format!("{key}.{}.reads", std::process::id()))
    }

    /// Keeps what a command has just made. `own` lists the files read unless the command itself
    /// asks for a list.
    pub(super) fn put(&self, key: &str, compile: &Compile, own: &Path) -> io::Result<()> {
        let list = std::fs::read_to_string(compile.dependencies.as_deref().unwrap_or(own))?;
        let here = std::env::current_dir()?;
        let mut reads = Vec::new();
        for name in files_of(&list) {
            let path = here.join(name);
            let hash = hash_of(&path)?;
            reads.push((path, hash));
        }
        if reads.is_empty() {
            return Err(io::Error::other("the compiler lists no file that it read"));
        }
        let object = std::fs::read(&compile.output)?;
        let kept = Kept {
            output: compile.output.clone(),
            reads,
            functions: functions_of(&object),
            has_dependency_file: compile.dependencies.is_some(),
        };
        self.write(&self.file(key, "o"), &object)?;
        if kept.has_dependency_file {
            self.write(&self.file(key, "d"), list.as_bytes())?;
        }
        self.write(&self.file(key, "json"), &serde_json::to_vec(&kept)?)
    }

    /// A kept object whose files are still the same.
    pub(super) fn get(&self, key: &str) -> Option<Kept> {
        let kept: Kept =
            serde_json::from_slice(&std::fs::read(self.file(key, "json")).ok()?).ok()?;
        let same = |(path, hash): &(PathBuf, String)| hash_of(path).is_ok_and(|now| now == *hash);
        (self.file(key, "o").is_file() && kept.reads.iter().all(same)).then_some(kept)
    }

    /// Puts a kept object where the command would have.
    pub(super) fn copy(&self, key: &str, kept: &Kept, compile: &Compile) -> Result<(), Error> {
        let failed = |to: &Path| {
            let path = to.to_owned();
            |source| Error::File { path, action: "cannot write", source }
        };
        if let (true, Some(to)) = (kept.has_dependency_file, &compile.dependencies) {
            std::fs::read_to_string(self.file(key, "d"))
                .and_then(|list| self.write(to, of_target(&list, kept, compile).as_bytes()))
                .map_err(failed(to))?;
        }
        let to = &compile.output;
        beside::copy(&self.file(key, "o"), to).map(|_| ()).map_err(failed(to))
    }

    fn file(&self, key: &str, ending: &str) -> PathBuf {
        self.directory.join(format!("{key}.{ending}"))
    }

    /// Beside, then renamed: several compilers may run at once.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        beside::write(path, bytes)
    }
}

/// A kept list of files for the object of another name: a rule for the kept one is for that.
fn of_target(list: &str, kept: &Kept, compile: &Compile) -> String {
    let plain = |path: &Path| path.to_string_lossy().into_owned();
    let escaped =
        |path: &Path| plain(path).replace('$', "$$").replace(' ', "\\ ").replace('#', "\\#");
    let Some((targets, rest)) = list.split_once(": ") else { return list.to_owned() };
    // As compilers write it, or as -MT has it.
    let targets = match targets.contains(&escaped(&kept.output)) {
        true => targets.replace(&escaped(&kept.output), &escaped(&compile.output)),
        false => targets.replace(&plain(&kept.output), &plain(&compile.output)),
    };
    format!("{targets}: {rest}")
}

/// The files of the first rule of a makefile, as compilers write it: after the colon, blanks
/// escaped by a backslash, `$` doubled, lines continued by a backslash.
fn files_of(list: &str) -> Vec<String> {
    let joined = list.replace("\\\r\n", " ").replace("\\\n", " ");
    let rule = joined.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let Some((_, names)) = rule.split_once(": ") else { return Vec::new() };
    let mut files = Vec::new();
    let mut name = String::new();
    let mut letters = names.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('\\', Some(&next @ (' ' | '#'))) | ('$', Some(&next @ '$')) => {
                name.push(next);
                letters.next();
            }
            (' ' | '\t', _) => files.extend((!name.is_empty()).then(|| std::mem::take(&mut name))),
            (letter, _) => name.push(letter),
        }
    }
    files.extend((!name.is_empty()).then_some(name));
    files
}

/// Names of the functions defined in an object; none where it is not one of machine code.
pub(super) fn functions_of(bytes: &[u8]) -> Vec<String> {
    let Ok(file) = object::File::parse(bytes) else { return Vec::new() };
    let defined = file.symbols().filter(|s| s.kind() == SymbolKind::Text && s.is_definition());
    let mut names: Vec<String> = defined.filter_map(|s| s.name().ok().map(str::to_owned)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Most bytes that are looked at of what is no regular file.
const MOST_OF_STREAM: u64 = 1 << 20;

pub(super) fn hash_of(path: &Path) -> io::Result<String> {
    // A compiler may read a device or a pipe, such as /dev/null.
    let most = if path.is_file() { beside::given::DATA } else { MOST_OF_STREAM };
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(
            "more bytes than are looked at of a file that a compiler reads",
        ));
    }
    Ok(hex::encode(Sha256::digest(bytes)))
}

/// 128 bits: no two of them meet by chance.
fn short(hash: &str) -> String {
    hash.chars().take(32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_makefile_rule_are_read_with_blanks_in_their_names() {
        let list = "a.o: a.c /usr/include/x.h \\\n  my\\ own.h \\\n  price$$.h\n\nx.h:\n";
        assert_eq!(files_of(list), ["a.c", "/usr/include/x.h", "my own.h", "price$.h"]);
        assert!(files_of("").is_empty());
    }
}
