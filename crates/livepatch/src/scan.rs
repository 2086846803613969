//! Which files of a build directory belong together: object files with the compiler's dumps beside
//! them, and programs.
//!
//! gcc names a dump after its output, not its source: `gcc -c a.c -o out.o` writes
//! `out.c.000i.ipa-clones`, and a later `-o other.o` leaves it lying about. So a dump counts only
//! where its object is there and of about the same age.

use crate::{Error, walk};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A compilation ends within this time after its dumps were written; a wider gap means two
/// compilations.
const ONE_COMPILATION: Duration = Duration::from_secs(15 * 60);
/// Few files take longer from their dumps to their object.
const ONE_FILE: Duration = Duration::from_secs(30);

/// What clang puts behind the name of a program that it optimised at link time: `prog-opt.ld.yaml`,
/// and with thin link-time optimisation `prog-opt.ld.yaml.thin.1.yaml` and so on.
const LINK_REMARKS: &str = "-opt.ld.yaml";

/// Why a link was left out.
const LINK: &str = "a link to a file outside, which may be of another build; give the directory \
                    that holds the file";

/// What a dump is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DumpKind {
    /// gcc `-fdump-ipa-clones`.
    IpaClones,
    /// gcc `-fdump-ipa-icf-details`.
    Icf,
    /// clang `-fsave-optimization-record`.
    Remarks,
}

/// A file that a compiler wrote beside its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub kind: DumpKind,
}

/// What one compilation (or one link-time optimisation) made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Path of its object file or program, from the directory that was scanned.
    pub name: String,
    /// The file.
    pub object: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Whether it is LLVM bitcode: clang's object for link-time optimisation, without machine
    /// code.
    pub is_bitcode: bool,
    /// Its dumps, sorted by path.
    pub dumps: Vec<Dump>,
    /// Whether the dumps are those of link-time optimisation, which name functions of other units.
    pub is_link: bool,
}

/// The files of a build.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Build {
    /// The directory.
    pub root: PathBuf,
    /// Object files, sorted by name; programs where there are no object files, or where they have
    /// dumps of their own.
    pub units: Vec<Unit>,
    /// Programs and libraries, for names that the linker gave one address.
    pub linked: Vec<PathBuf>,
    /// Files left out, and why.
    pub skipped: Vec<(PathBuf, String)>,
    /// Dumps that are used, but may be older than they should be.
    pub doubts: Vec<(PathBuf, String)>,
}

/// What the directory says of a file, and its first bytes.
#[derive(Clone, Copy)]
struct Seen {
    written: SystemTime,
    bytes: u64,
    is_bitcode: bool,
}

#[derive(Default)]
struct Found {
    objects: BTreeMap<PathBuf, Seen>,
    linked: BTreeMap<PathBuf, Seen>,
    dumps: Vec<(Dump, SystemTime)>,
    skipped: Vec<(PathBuf, String)>,
}

/// Finds the units of a build directory, on `threads` threads.
///
/// # Errors
/// When a directory cannot be read, or there is nothing to learn from.
pub fn scan(root: &Path, threads: usize) -> Result<Build, Error> {
    let mut found = Found::default();
    let walk::Files { files: mut candidates, links } = walk::files(root)?;
    let in_place = candidates.len();
    candidates.extend(links);
    let kinds =
        jobs::run(candidates.len(), threads, |job| candidates.get(job).map(|path| look(path)));
    for (number, (path, kind)) in candidates.iter().zip(kinds.into_iter().flatten()).enumerate() {
        match kind? {
            Looked::Other => {}
            _ if number >= in_place => found.skipped.push((path.clone(), LINK.to_owned())),
            looked => found.add(path, looked),
        }
    }
    let mut build = Build { root: root.to_owned(), skipped: found.skipped, ..Build::default() };
    let mut dumps: BTreeMap<PathBuf, Vec<Dump>> = BTreeMap::new();
    found.dumps.sort_by(|a, b| a.0.path.cmp(&b.0.path));
    for (dump, written) in found.dumps {
        match owner(&dump, written, &found.objects, &found.linked) {
            Ok((object, apart)) => {
                if apart > ONE_FILE {
                    let object = object.file_name().unwrap_or_default().to_string_lossy();
                    let seconds = apart.as_secs();
                    let doubt = format!(
                        "written {seconds} s before {object}: if that was compiled again without \
                         the options for dumps, this is stale; clean and build again"
                    );
                    build.doubts.push((dump.path.clone(), doubt));
                }
                dumps.entry(object).or_default().push(dump);
            }
            Err(reason) => build.skipped.push((dump.path, reason)),
        }
    }
    let programs_alone = found.objects.is_empty();
    build.linked = found.linked.keys().cloned().collect();
    let objects = found.objects.into_iter().map(|object| (object, false));
    let linked = found.linked.into_iter().map(|object| (object, true));
    for ((object, seen), is_linked) in objects.chain(linked) {
        let dumps = dumps.remove(&object).unwrap_or_default();
        if is_linked && dumps.is_empty() && !programs_alone {
            continue;
        }
        let name = object.strip_prefix(root).unwrap_or(&object).display().to_string();
        let is_link = is_linked && dumps.iter().any(|dump| is_link_dump(&dump.path));
        let Seen { bytes, is_bitcode, .. } = seen;
        build.units.push(Unit { name, object, bytes, is_bitcode, dumps, is_link });
    }
    build.units.sort_by(|a, b| a.name.cmp(&b.name));
    if build.units.is_empty() {
        return Err(Error::Empty { path: root.to_owned() });
    }
    Ok(build)
}

/// What a file is to this crate.
enum Looked {
    Dump(DumpKind, SystemTime),
    Elf(Elf, Seen),
    /// It could not be read, or holds others that are read themselves.
    Skipped(String),
    Other,
}

fn look(path: &Path) -> Result<Looked, Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let dump = [
        (".ipa-clones", DumpKind::IpaClones),
        (".icf", DumpKind::Icf),
        (".opt.yaml", DumpKind::Remarks),
    ];
    let dump = dump.into_iter().find(|(end, _)| name.ends_with(end));
    let dump = dump.or_else(|| name.contains(LINK_REMARKS).then_some(("", DumpKind::Remarks)));
    if let Some((_, kind)) = dump {
        let written = path.metadata().and_then(|data| data.modified()).map_err(io)?;
        return Ok(Looked::Dump(kind, written));
    }
    let mut file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) => return Ok(Looked::Skipped(error.to_string())),
    };
    let kind = match elf_kind(&mut file) {
        Ok(None) => return Ok(Looked::Other),
        Ok(Some(kind)) => kind,
        Err(reason) => return Ok(Looked::Skipped(reason)),
    };
    let data = file.metadata().map_err(io)?;
    let is_bitcode = matches!(kind, Elf::Bitcode);
    Ok(Looked::Elf(
        kind,
        Seen { written: data.modified().map_err(io)?, bytes: data.len(), is_bitcode },
    ))
}

impl Found {
    fn add(&mut self, path: &Path, looked: Looked) {
        let path = path.to_owned();
        match looked {
            Looked::Dump(kind, written) => self.dumps.push((Dump { path, kind }, written)),
            Looked::Elf(Elf::Linked, seen) => drop(self.linked.insert(path, seen)),
            Looked::Elf(Elf::Object | Elf::Bitcode, seen) => drop(self.objects.insert(path, seen)),
            Looked::Skipped(reason) => self.skipped.push((path, reason)),
            Looked::Other => {}
        }
    }
}

enum Elf {
    Object,
    Bitcode,
    Linked,
}

/// What an object file or program is; `None` for other files.
fn elf_kind(file: &mut std::fs::File) -> Result<Option<Elf>, String> {
    use std::io::Read as _;
    let mut head = [0u8; 18];
    if file.read(&mut head).map_err(|error| error.to_string())? < head.len() {
        return Ok(None);
    }
    // As it is, and in the wrapper that some targets need.
    if head.starts_with(b"BC\xc0\xde") || head.starts_with(&[0xde, 0xc0, 0x17, 0x0b]) {
        return Ok(Some(Elf::Bitcode));
    }
    if !head.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let [.., low, high] = head;
    let kind = if head.get(5) == Some(&2) {
        u16::from_be_bytes([low, high])
    } else {
        u16::from_le_bytes([low, high])
    };
    match kind {
        1 => composite(file),
        2 | 3 => Ok(Some(Elf::Linked)),
        _ => Ok(None),
    }
}

/// An object file that `ld -r` made of others would state every function twice.
fn composite(file: &mut std::fs::File) -> Result<Option<Elf>, String> {
    use object::{Object as _, ObjectSymbol as _};
    // Only headers and symbols are read: such files may hold a whole kernel.
    let bytes = object::ReadCache::new(file);
    let file =
        object::File::parse(&bytes).map_err(|error| format!("no readable object file: {error}"))?;
    // gcc's own partial links of link-time optimisation have slim objects: no code, no file
    // symbols.
    let sources =
        file.symbols().filter(|symbol| symbol.kind() == object::SymbolKind::File).take(2).count();
    if sources > 1 {
        return Err("linked from several objects, which are read themselves".to_owned());
    }
    Ok(Some(Elf::Object))
}

fn is_link_dump(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.contains(".wpa.") || name.contains(".ltrans.") || name.contains(LINK_REMARKS)
}

/// The file that a dump belongs to, or why it belongs to none.
fn owner(
    dump: &Dump,
    written: SystemTime,
    objects: &BTreeMap<PathBuf, Seen>,
    linked: &BTreeMap<PathBuf, Seen>,
) -> Result<(PathBuf, Duration), String> {
    let name = dump.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some(output) = output_name(&name, dump.kind) else {
        return Err("its name is not one that gcc or clang gives a dump".to_owned());
    };
    let object = dump.path.with_file_name(format!("{output}.o"));
    let program = dump.path.with_file_name(output);
    // What link-time optimisation says is about the program, also where it is named as one of its
    // objects (`lua` beside `lua.o`); a partial link makes an object.
    let (object, program) = (objects.get_key_value(&object), linked.get_key_value(&program));
    let found = if is_link_dump(&dump.path) { program.or(object) } else { object.or(program) };
    // `gcc a.c -o prog` keeps no object; the dump is `prog-a.c.…`.
    let found = found.or_else(|| {
        let at = output.match_indices('-').rev();
        at.filter_map(|(at, _)| linked.get_key_value(&dump.path.with_file_name(output.get(..at)?)))
            .next()
    });
    let Some((object, &Seen { written: made, .. })) = found else {
        return Err(format!(
            "stale: {output}.o, which it was written with, is not there; clean and build again"
        ));
    };
    let apart =
        made.duration_since(written).or_else(|_| written.duration_since(made)).unwrap_or_default();
    if apart > ONE_COMPILATION {
        let minutes = apart.as_secs() / 60;
        let object = object.file_name().unwrap_or_default().to_string_lossy();
        return Err(format!(
            "stale: it and {object} were written {minutes} minutes apart, by two compilations; \
             clean and build again"
        ));
    }
    Ok((object.clone(), made.duration_since(written).unwrap_or_default()))
}

/// What `-o` named, without its ending: `out` for `out.c.000i.ipa-clones` and `out.opt.yaml`.
fn output_name(name: &str, kind: DumpKind) -> Option<&str> {
    let pass = match kind {
        DumpKind::Remarks => {
            let of_link = name.split_once(LINK_REMARKS).map(|(output, _)| output);
            return of_link.or_else(|| name.strip_suffix(".opt.yaml"));
        }
        DumpKind::IpaClones => name.strip_suffix(".ipa-clones")?,
        DumpKind::Icf => name.strip_suffix(".icf")?,
    };
    let (source, number) = pass.rsplit_once('.')?;
    let number = number.strip_suffix(['i', 't', 'r'])?;
    if number.is_empty() || !number.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    if let Some(output) = source.strip_suffix(".wpa") {
        return Some(output);
    }
    if let Some((output, part)) =
        source.strip_suffix(".ltrans").and_then(|rest| rest.rsplit_once('.'))
    {
        return part.starts_with("ltrans").then_some(output);
    }
    source.rsplit_once('.').map(|(output, _)| output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_is_named_after_its_output() {
        let of = |name| output_name(name, DumpKind::IpaClones);
        assert_eq!(of("out.c.000i.ipa-clones"), Some("out"));
        assert_eq!(of("prog.wpa.000i.ipa-clones"), Some("prog"));
        assert_eq!(of("prog.ltrans12.ltrans.000i.ipa-clones"), Some("prog"));
        assert_eq!(output_name("a.b.cc.079i.icf", DumpKind::Icf), Some("a.b"));
        assert_eq!(output_name("cl.opt.yaml", DumpKind::Remarks), Some("cl"));
        assert_eq!(output_name("a-b-opt.ld.yaml.thin.1.yaml", DumpKind::Remarks), Some("a-b"));
        for name in [".ipa-clones", "a.ipa-clones", "a.c.ipa-clones", "a.c.xi.ipa-clones"] {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
