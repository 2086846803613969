//! Which modules does a guest load, with which others before them, and how do they get there?
//!
//! A module says in its section `.modinfo` what it needs (`depends=`), what it asks for by name while
//! it runs (`softdep=pre:`), and by which further names it answers (`alias=`). Source: Linux,
//! `include/linux/module.h` and `linux/scripts/mod/modpost.c`.

use crate::Error;
use crate::initrd::Archive;
use address_spaces::module_name;
use image::{Image, ImageKind};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where a guest's init finds modules, in the order to load them in.
const DIRECTORY: &str = "planish/modules";

/// A module that a guest loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name in /proc/modules.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
}

impl Module {
    /// A module of a build, which is called as its file.
    fn built(path: PathBuf) -> Module {
        Module { name: name_of(&path), path }
    }

    /// A file that the user names, which may be called otherwise.
    fn given(path: &Path) -> Result<Module, Error> {
        if !path.exists() {
            let wanted = "there is no such file; a module of the build is named without .ko";
            return Err(Error::of_file(path, wanted));
        }
        let name = About::read(path)?.name.unwrap_or_else(|| name_of(path));
        Ok(Module { name, path: path.canonicalize().map_err(Error::io(path))? })
    }
}

/// What a module is called by the name of its file.
pub fn name_of(path: &Path) -> String {
    module_name(&path.to_string_lossy())
}

/// Whether a word is a file, and not the name of a module of the build.
fn is_file(word: &str) -> bool {
    word.contains('/') || word.ends_with(".ko")
}

/// What a module says of itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct About {
    name: Option<String>,
    /// The kernel that it was built for.
    release: Option<String>,
    aliases: Vec<String>,
    needs: Vec<String>,
    asks_for: Vec<String>,
}

impl About {
    fn read(path: &Path) -> Result<About, Error> {
        let image = Image::open(path)?;
        let info = image.section(".modinfo").filter(|_| image.kind() == ImageKind::KernelModule);
        let info = info.ok_or_else(|| Error::of_file(path, "no module of Linux"))?;
        Ok(About::of(&info))
    }

    /// From the texts of a `.modinfo`, each ended by a NUL.
    fn of(info: &[u8]) -> About {
        let mut about = About::default();
        let named = |text: &str| text.replace('-', "_");
        for text in info.split(|byte| *byte == 0) {
            let text = String::from_utf8_lossy(text);
            match text.split_once('=') {
                Some(("name", name)) => about.name = Some(named(name)),
                Some(("vermagic", words)) => {
                    about.release = words.split(' ').next().map(str::to_owned);
                }
                Some(("alias", name)) => about.aliases.push(named(name)),
                Some(("depends", names)) => {
                    let names = names.split(',').filter(|name| !name.is_empty());
                    about.needs.extend(names.map(named));
                }
                Some(("softdep", words)) => {
                    let before = words.split_whitespace().skip_while(|word| *word != "pre:");
                    let before = before.skip(1).take_while(|word| !word.ends_with(':'));
                    about.asks_for.extend(before.map(named));
                }
                _ => {}
            }
        }
        about
    }
}

/// The files of a build's modules, in the order of `modules.order`; none where there is no such file.
///
/// # Errors
/// Where it cannot be read, or names a file that is not there.
pub fn built(build: &Path) -> Result<Vec<PathBuf>, Error> {
    let order = build.join("modules.order");
    if !order.is_file() {
        return Ok(Vec::new());
    }
    let names = beside::given::read_text(&order, beside::given::TEXT).map_err(Error::io(&order))?;
    // Linux named the module here up to 6.1, its object later.
    let file = |name: &str| {
        let path = build.join(name).with_extension("ko");
        if path.is_file() {
            return Ok(path);
        }
        let reason = format!(
            "names {}, which is not there; finish the build (make modules)",
            path.strip_prefix(build).unwrap_or(&path).display()
        );
        Err(Error::of_file(&order, &reason))
    };
    names.lines().filter(|name| !name.trim().is_empty()).map(file).collect()
}

/// The modules that a guest is to load, each after those that it needs: names of modules of the
/// build, or files. What a module only asks for may be part of the kernel: where the build has no
/// such module, it is left out.
///
/// # Errors
/// Where there is no such module, one that another needs is missing, or one is for another kernel.
pub fn find(build: Option<&Path>, wanted: &[String]) -> Result<Vec<Module>, Error> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut search = Search { build, ..Search::default() };
    if let Some(build) = build {
        search.built = built(build)?.into_iter().map(Module::built).collect();
        let release = build.join("include/config/kernel.release");
        let release = beside::given::read_text(&release, beside::given::TEXT).ok();
        search.release = release.map(|release| release.trim().to_owned());
    }
    // All files first: each is meant wherever its name comes up.
    let mut names = Vec::new();
    for word in wanted {
        names.push(if is_file(word) { search.give(Path::new(word))? } else { word.clone() });
    }
    for name in names {
        let module = search.named(&name).ok_or_else(|| search.missing(&name))?;
        search.add(module, &mut Vec::new())?;
    }
    Ok(search.found)
}

#[derive(Default)]
struct Search<'a> {
    build: Option<&'a Path>,
    /// The release of the kernel that is built there.
    release: Option<String>,
    /// Files that the user named.
    given: Vec<Module>,
    built: Vec<Module>,
    /// Of all modules of the build, read once one is asked for.
    aliases: Option<BTreeMap<String, Module>>,
    found: Vec<Module>,
}

impl Search<'_> {
    /// Takes a file that the user named; gives the module's name.
    fn give(&mut self, path: &Path) -> Result<String, Error> {
        let module = Module::given(path)?;
        let name = module.name.clone();
        match self.given.iter().find(|known| known.name == name) {
            Some(known) if known.path != module.path => Err(Error::Wanted(format!(
                "{} and {} are both the module {name}; a kernel loads one of them",
                known.path.display(),
                module.path.display()
            ))),
            Some(_) => Ok(name),
            None => {
                self.given.push(module);
                Ok(name)
            }
        }
    }

    fn named(&self, name: &str) -> Option<Module> {
        let name = name.replace('-', "_");
        self.given.iter().chain(&self.built).find(|module| module.name == name).cloned()
    }

    /// The one that answers by a name.
    fn asked_for(&mut self, name: &str) -> Result<Option<Module>, Error> {
        if let Some(own) = self.named(name) {
            return Ok(Some(own));
        }
        if self.aliases.is_none() {
            let mut aliases = BTreeMap::new();
            for module in &self.built {
                let about = About::read(&module.path)?;
                aliases.extend(about.aliases.into_iter().map(|alias| (alias, module.clone())));
            }
            self.aliases = Some(aliases);
        }
        Ok(self.aliases.as_ref().and_then(|aliases| aliases.get(name)).cloned())
    }

    fn missing(&self, name: &str) -> Error {
        let Some(build) = self.build else {
            return Error::Wanted(format!(
                "the module {name}: a boot image alone does not say where its modules are; give the \
                 directory of its build, or a module's file, as ./{name}.ko"
            ));
        };
        let listed = match self.built.len() {
            0 => "there is no modules.order, or nothing in it".to_owned(),
            many => format!("it is not among the {many} of modules.order"),
        };
        let reason = format!(
            "has no module {name}: {listed}. Turn its option to =m and build the modules, or give \
             its file, as ./{name}.ko"
        );
        Error::of_file(build, &reason)
    }

    /// Adds a module behind what it needs; `open` are those whose needs are being added.
    fn add(&mut self, module: Module, open: &mut Vec<String>) -> Result<(), Error> {
        let known = self.found.iter().any(|known| known.name == module.name);
        if known || open.contains(&module.name) {
            return Ok(());
        }
        let about = About::read(&module.path)?;
        if let (Some(of), Some(own)) = (&about.release, &self.release)
            && of != own
        {
            let reason = format!(
                "is for Linux {of}, and the kernel is {own}; build the module against this kernel"
            );
            return Err(Error::of_file(&module.path, &reason));
        }
        open.push(module.name.clone());
        for name in about.asks_for {
            if let Some(needed) = self.asked_for(&name)? {
                self.add(needed, open)?;
            }
        }
        for name in about.needs {
            let needed = self.named(&name).ok_or_else(|| {
                let reason = format!(
                    "needs the module {name}, which is neither given nor one of the build; give \
                     its file, too"
                );
                Error::of_file(&module.path, &reason)
            })?;
            self.add(needed, open)?;
        }
        open.pop();
        self.found.push(module);
        Ok(())
    }
}

/// An archive with modules, to stand behind another one.
///
/// # Errors
/// Where a file cannot be read.
pub fn archive(modules: &[Module]) -> Result<Vec<u8>, Error> {
    let mut archive = Archive::default();
    for directory in DIRECTORY.match_indices('/').map(|(at, _)| at).chain([DIRECTORY.len()]) {
        archive.directory(DIRECTORY.get(..directory).unwrap_or(DIRECTORY));
    }
    for (place, Module { name, path }) in modules.iter().enumerate() {
        let bytes = beside::given::read(path, beside::given::DATA).map_err(Error::io(path))?;
        let inside = format!("{DIRECTORY}/{place:04}-{name}.ko");
        archive.program(&inside, &bytes).map_err(Error::io(path))?;
    }
    Ok(archive.finish())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    /// An ELF file that can be relocated, of two sections: `.modinfo` and their names (elf(5)).
    fn elf(info: &[u8]) -> Vec<u8> {
        const NAMES: &[u8] = b"\0.modinfo\0.shstrtab\0";
        let (info_at, names_at) = (64, 64 + info.len());
        let headers_at = (names_at + NAMES.len()).next_multiple_of(8);
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        let halves = |bytes: &mut Vec<u8>, of: &[u16]| {
            of.iter().for_each(|half| bytes.extend(half.to_le_bytes()));
        };
        // ET_REL, EM_X86_64, EV_CURRENT; then entry, program headers, section headers, flags.
        halves(&mut bytes, &[1, 62, 1, 0]);
        [0, 0, headers_at as u64].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        halves(&mut bytes, &[0, 0, 64, 0, 0, 64, 3, 2]);
        bytes.extend(info);
        bytes.extend(NAMES);
        bytes.resize(headers_at + 64, 0);
        for (name, kind, at, size) in
            [(1u32, 1u32, info_at, info.len()), (10, 3, names_at, NAMES.len())]
        {
            [name, kind].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
            let words = [0, 0, at as u64, size as u64, 0, 1, 0];
            words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        }
        bytes
    }

    /// Writes a module with this `.modinfo`, and adds it to the build.
    fn module(build: &Path, name: &str, info: &[&str]) {
        let bytes = elf((info.join("\0") + "\0").as_bytes());
        std::fs::write(build.join(format!("{name}.ko")), bytes).unwrap();
        let order = build.join("modules.order");
        let before = std::fs::read_to_string(&order).unwrap_or_default();
        std::fs::write(&order, format!("{before}{name}.o\n")).unwrap();
    }

    fn names(found: Result<Vec<Module>, Error>) -> String {
        let names: Vec<String> = found.unwrap().into_iter().map(|module| module.name).collect();
        names.join(" ")
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn modules_come_after_those_that_they_need_and_ask_for() {
        let dir = tempfile::tempdir().unwrap();
        let build = dir.path();
        module(build, "ext4", &["depends=jbd2,mb-cache", "softdep=pre: crc32c post: late"]);
        module(build, "jbd2", &["depends="]);
        module(build, "mb-cache", &["depends=jbd2", "softdep=pre: built-in"]);
        module(build, "crc32c_generic", &["alias=crc32c", "alias=crypto-crc32c", "license=GPL"]);
        module(build, "late", &[]);
        let found = find(Some(build), &words(&["ext4", "jbd2"]));
        assert_eq!(names(found), "crc32c_generic jbd2 mb_cache ext4");
        let file = build.join("late.ko").display().to_string();
        assert_eq!(names(find(None, &[file])), "late");
        assert_eq!(names(find(None, &[])), "");
    }

    #[test]
    fn a_circle_ends() {
        let dir = tempfile::tempdir().unwrap();
        module(dir.path(), "a", &["softdep=pre: b"]);
        module(dir.path(), "b", &["depends=a"]);
        assert_eq!(names(find(Some(dir.path()), &words(&["a"]))), "b a");
    }

    #[test]
    fn what_is_missing_is_said_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        module(dir.path(), "a", &["depends=gone"]);
        let said = |build: Option<&Path>, word: &str| {
            find(build, &words(&[word])).unwrap_err().to_string()
        };
        let text = said(Some(dir.path()), "none");
        assert!(text.contains("has no module none: it is not among the 1 of"), "{text}");
        assert!(said(None, "a").contains("give the directory of its build"));
        let text = said(Some(dir.path()), "a");
        assert!(text.contains("a.ko: needs the module gone"), "{text}");
        let other = dir.path().join("x.ko");
        std::fs::write(&other, b"\xfd7zXZ\0 and so on, and so on, and so on, and so on").unwrap();
        let text = said(None, &other.display().to_string());
        assert!(text.contains("x.ko") && text.contains("compressed"), "{text}");
        assert!(said(None, "y.ko").contains("is named without .ko"));
        let text = said(Some(other.parent().unwrap().join("none").as_path()), "ext4");
        assert!(text.contains("there is no modules.order"), "{text}");
        std::fs::write(dir.path().join("modules.order"), "\na.o\nb.o\n").unwrap();
        let text = said(Some(dir.path()), "a");
        assert!(text.contains("modules.order: names b.ko, which is not there"), "{text}");
    }

    #[test]
    fn a_module_for_another_kernel_and_two_files_of_one_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let build = dir.path();
        module(build, "a", &["vermagic=6.12.1 SMP preempt mod_unload "]);
        module(build, "other-file", &["name=a"]);
        let file = |name: &str| build.join(name).display().to_string();
        assert_eq!(names(find(Some(build), &words(&["a", "a"]))), "a");
        let both = [file("a.ko"), file("other-file.ko")];
        let said = find(None, &both).unwrap_err().to_string();
        assert!(said.contains("are both the module a;"), "{said}");
        std::fs::create_dir_all(build.join("include/config")).unwrap();
        std::fs::write(build.join("include/config/kernel.release"), "6.12.2\n").unwrap();
        let said = find(Some(build), &words(&["a"])).unwrap_err().to_string();
        assert!(said.contains("a.ko: is for Linux 6.12.1, and the kernel is 6.12.2"), "{said}");
    }

    #[test]
    fn the_archive_has_them_in_order() {
        let dir = tempfile::tempdir().unwrap();
        module(dir.path(), "b", &["depends=a"]);
        module(dir.path(), "a", &[]);
        let bytes = archive(&find(Some(dir.path()), &words(&["b"])).unwrap()).unwrap();
        let at = |name: &str| bytes.windows(name.len()).position(|part| part == name.as_bytes());
        let places =
            ["planish\0", "planish/modules\0", "modules/0000-a.ko\0", "modules/0001-b.ko\0"];
        let places = places.map(|name| at(name).unwrap());
        assert!(places.is_sorted(), "{places:?}");
    }
}
