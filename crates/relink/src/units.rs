//! Which sections make up a program, and which section of one variant is which of another?

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::archive;
use crate::error::Error;
use crate::inputs::{Inputs, Work};
use crate::map::LiveSections;
use crate::names::{self, Handle};
use crate::relocatable::{self, Object, Section, settled};
use crate::response::Response;

/// An object that is in the program.
#[derive(Debug)]
pub(crate) struct LiveObject {
    /// Its file below the root, or the library that it is in.
    pub(crate) file: String,
    /// Its place in the library.
    member: Option<usize>,
    /// Stands for it in all variants: does not name directories, which differ between builds.
    key: String,
    pub(crate) object: Object,
}

/// A section as the variants of a program share it.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    /// Stands for it in all variants.
    pub(crate) key: String,
    /// Of content and relocations.
    pub(crate) hash: [u8; 32],
    pub(crate) size: u64,
    pub(crate) align: u64,
    pub(crate) executable: bool,
    /// By which name lld finds it; none when by no name.
    pub(crate) name: Option<String>,
    /// For people.
    pub(crate) shown: String,
}

/// New names of local symbols, by file and place in the library: the symbol's number and its name.
type NewNames<'a> = BTreeMap<(&'a str, Option<usize>), Vec<(usize, String)>>;

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The file of a map's entry, and the member when it is a library's.
fn split(root: &Path, entry: &str) -> Option<(String, Option<String>)> {
    let on_disk = |path: &str| root.join(path.trim_start_matches('/')).is_file();
    if on_disk(entry) {
        return Some((entry.trim_start_matches('/').to_owned(), None));
    }
    let (file, member) = entry.strip_suffix(')')?.rsplit_once('(')?;
    on_disk(file).then(|| (file.trim_start_matches('/').to_owned(), Some(member.to_owned())))
}

/// Reads the objects of a link that are in the program, in the order of its command, then by name.
pub(crate) fn read(
    root: &Path,
    live: &LiveSections,
    response: &Response,
) -> Result<Vec<LiveObject>, Error> {
    let mut files: BTreeMap<String, BTreeMap<Option<String>, &BTreeSet<String>>> = BTreeMap::new();
    for (entry, sections) in live {
        // Not on disk: what the linker makes itself, as code from bitcode.
        if let Some((file, member)) = split(root, entry) {
            files.entry(file).or_default().insert(member, sections);
        }
    }
    let places: BTreeMap<&str, usize> = response
        .paths()
        .enumerate()
        .map(|(place, path)| (path.trim_start_matches('/'), place))
        .collect();
    let mut order: Vec<(usize, &String)> = files
        .keys()
        .map(|file| (places.get(file.as_str()).copied().unwrap_or(usize::MAX), file))
        .collect();
    order.sort_unstable();
    let mut objects = Vec::new();
    for (_, file) in order {
        let Some(members) = read_members(&root.join(file))? else { continue };
        let wanted = &files[file];
        for (place, member) in members.iter().enumerate() {
            let in_library = !member.name.is_empty();
            let name = in_library.then(|| member.name.clone());
            let Some(sections) =
                wanted.get(&name).filter(|_| relocatable::is_object(&member.bytes))
            else {
                continue;
            };
            let shown = if in_library { format!("{file}({})", member.name) } else { file.clone() };
            let broken = |found| Error::Object { object: shown, found };
            let object = relocatable::parse(&member.bytes, sections).map_err(broken)?;
            let key = if in_library {
                format!("{}({})", file_name(file), member.name)
            } else {
                object.source.clone().unwrap_or_else(|| file_name(file).to_owned())
            };
            objects.push(LiveObject {
                file: file.clone(),
                member: in_library.then_some(place),
                key,
                object,
            });
        }
    }
    Ok(objects)
}

/// Numbers equal keys in their order: `f`, `f#2`, `f#3`.
fn numbered(seen: &mut BTreeMap<String, u32>, key: String) -> String {
    let count = seen.entry(key.clone()).or_default();
    *count += 1;
    if *count == 1 { key } else { format!("{key}#{count}") }
}

fn unit_key(object: &str, section: &Section) -> String {
    match section.globals.first() {
        // Whichever file it comes from: a function that moved to another file is still the same.
        Some(global) => format!("{global}@{}", kind(section)),
        None => format!("{object}:{}", settled(&section.name)),
    }
}

/// Tells a function's section from that of its cold part.
fn kind(section: &Section) -> &str {
    if section.name.starts_with(".text.unlikely") || section.name.starts_with(".text.split") {
        "cold"
    } else {
        ""
    }
}

/// The units of a program, and the directory whose objects have the names that the units are found
/// by.
pub(crate) fn of(inputs: &Inputs) -> Result<(Vec<Unit>, PathBuf), Error> {
    let all = || {
        inputs
            .objects
            .iter()
            .flat_map(|live| live.object.sections.iter().map(move |section| (live, section)))
    };
    let sections: Vec<&Section> = all().map(|(_, section)| section).collect();
    let others =
        inputs.objects.iter().flat_map(|live| live.object.others.iter().map(String::as_str));
    let handles = names::choose(&sections, others);
    let mut seen = BTreeMap::new();
    let mut object_keys: BTreeMap<String, u32> = BTreeMap::new();
    let keys: Vec<String> =
        inputs.objects.iter().map(|live| numbered(&mut object_keys, live.key.clone())).collect();
    let section_keys = inputs
        .objects
        .iter()
        .zip(&keys)
        .flat_map(|(live, key)| live.object.sections.iter().map(move |_| key));
    let mut units = Vec::with_capacity(sections.len());
    let mut renamed: NewNames<'_> = BTreeMap::new();
    for (((live, section), object_key), handle) in all().zip(section_keys).zip(handles) {
        let name = match handle {
            Handle::Own(name) => Some(name),
            Handle::Renamed(symbol, name) => {
                renamed.entry((&live.file, live.member)).or_default().push((symbol, name.clone()));
                Some(name)
            }
            Handle::Nothing => None,
        };
        let first = section.globals.first().or(section.locals.first());
        units.push(Unit {
            key: numbered(&mut seen, unit_key(object_key, section)),
            hash: section.hash,
            size: section.size,
            align: section.align,
            executable: section.executable,
            shown: first.map_or_else(|| format!("{object_key}:{}", section.name), Clone::clone),
            name,
        });
    }
    let root = if renamed.is_empty() { inputs.root() } else { name_objects(inputs, &renamed)? };
    Ok((units, root))
}

/// Makes a second directory of the inputs, in which some objects have new names for local symbols.
/// All other files are links to the first.
fn name_objects(inputs: &Inputs, renamed: &NewNames<'_>) -> Result<PathBuf, Error> {
    let place = inputs.home.join("named");
    if place.is_dir() {
        return Ok(place);
    }
    let work = Work::new(&inputs.home)?;
    let base = work.path().join("named");
    let files: BTreeSet<&str> = renamed.keys().map(|&(file, _)| file).collect();
    link_tree(&inputs.root(), &base, &files, "")?;
    for file in files {
        let path = inputs.root().join(file);
        let mut members = read_members(&path)?.unwrap_or_default();
        for (&(_, member), names) in
            renamed.range((file, None)..).take_while(|((of, _), _)| *of == file)
        {
            let Some(object) = members.get_mut(member.unwrap_or(0)) else { continue };
            let broken = |found| Error::Object { object: format!("{file} {}", object.name), found };
            object.bytes = relocatable::rename(&object.bytes, names).map_err(broken)?;
        }
        let library = members.first().is_some_and(|member| !member.name.is_empty());
        let bytes = if library { archive::write(&members) } else { members.swap_remove(0).bytes };
        let out = base.join(file);
        beside::write(&out, bytes).map_err(Error::file(&out, "write"))?;
    }
    work.publish("named", &place)?;
    Ok(place)
}

/// Links all files of a directory into another one, but for some.
fn link_tree(from: &Path, to: &Path, but: &BTreeSet<&str>, below: &str) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(Error::file(to, "create"))?;
    for entry in fs::read_dir(from).map_err(Error::file(from, "list"))? {
        let entry = entry.map_err(Error::file(from, "list"))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let (source, target) = (entry.path(), to.join(&name));
        if source.is_dir() {
            link_tree(&source, &target, but, &path)?;
        } else if !but.contains(path.as_str()) {
            // Not every file system has hard links.
            fs::hard_link(&source, &target)
                .or_else(|_| fs::copy(&source, &target).map(|_| ()))
                .map_err(Error::file(&target, "link"))?;
        }
    }
    Ok(())
}

/// Reads a library or object of the link; none for what is neither.
fn read_members(path: &Path) -> Result<Option<Vec<archive::Member>>, Error> {
    let bytes =
        beside::given::read(path, beside::given::DATA).map_err(Error::file(path, "read"))?;
    if archive::is_archive(&bytes) {
        return archive::members(path, &bytes).map(Some);
    }
    if relocatable::is_object(&bytes) {
        return Ok(Some(vec![archive::Member { name: String::new(), bytes }]));
    }
    Ok(None)
}
