//! Did the options do in a build what they should?
//!
//! Reads the commands that kbuild keeps beside every object, so it costs no compilation and sees
//! all objects that were built, be it three of them; and of `vmlinux`, where there is one, the
//! markers of text and the block map.

use crate::architecture::Architecture;
use crate::command::{Area, Compilation};
use crate::config::Config;
use crate::error::Error;
use crate::tree::{AUTOFDO, PROPELLER};
use image::Image;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use std::path::Path;

/// Directories of a build that hold programs for the building machine only.
const NOT_KERNEL: &[&str] =
    &["tools", "scripts", "source", ".git", "Documentation", "samples", "include"];
/// Directories deeper than this are not looked at; the kernel's are at most nine deep.
const DEEPEST: usize = 24;

/// What the objects of one area were compiled with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AreaFound {
    /// Which area.
    pub area: Area,
    /// How many objects there are.
    pub objects: usize,
    /// How many have AutoFDO's flags.
    pub autofdo: usize,
    /// How many have Propeller's flags.
    pub propeller: usize,
    /// One of them, and its flags.
    pub example: (String, Vec<String>),
    /// Objects that have flags where none belong, or lack those of an option that is on.
    pub odd: Vec<String>,
}

impl Serialize for AreaFound {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut area = to.serialize_struct("AreaFound", 7)?;
        area.serialize_field("area", self.area.name())?;
        area.serialize_field("objects", &self.objects)?;
        area.serialize_field("with_autofdo", &self.autofdo)?;
        area.serialize_field("with_propeller", &self.propeller)?;
        area.serialize_field("example", &self.example.0)?;
        area.serialize_field("example_flags", &self.example.1)?;
        area.serialize_field("odd", &self.odd)?;
        area.end()
    }
}

/// What the linked kernel shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Linked {
    /// Bytes of text that is marked as hot; `None` without the markers.
    pub hot_bytes: Option<u64>,
    /// Bytes of split off text.
    pub split_bytes: Option<u64>,
    /// Bytes of unlikely text.
    pub unlikely_bytes: Option<u64>,
    /// Bytes of the block map; `None` without one.
    pub block_map_bytes: Option<u64>,
}

/// What was found in a build, as `planish kernel check --format json` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Whether the configuration has AutoFDO on.
    pub autofdo: bool,
    /// Whether it has Propeller on.
    pub propeller: bool,
    /// By area, without those that have no objects.
    pub areas: Vec<AreaFound>,
    /// vmlinux, if there is one.
    #[serde(rename = "vmlinux")]
    pub linked: Option<Linked>,
    /// What is not as it should be, as sentences.
    pub wrong: Vec<String>,
}

/// Looks at the build in this directory.
pub fn check(build: &Path) -> Result<Checked, Error> {
    let compilations = compilations(build)?;
    let config = Config::read(&build.join(".config"))?;
    let (autofdo, propeller) = (config.is_on(AUTOFDO), config.is_on(PROPELLER));
    let areas =
        Area::ALL.iter().filter_map(|area| of_area(*area, &compilations, autofdo, propeller));
    let areas: Vec<AreaFound> = areas.collect();
    let vmlinux = build.join("vmlinux");
    let linked = if vmlinux.is_file() { Some(linked(&vmlinux)?) } else { None };
    let mut wrong = of_flags(&areas, autofdo, propeller);
    if let Some(linked) = &linked {
        let maps = propeller && !compilations.iter().any(Compilation::has_layout);
        wrong.extend(of_vmlinux(linked, autofdo || propeller, maps));
    }
    Ok(Checked { autofdo, propeller, areas, linked, wrong })
}

/// How each C object of a build was compiled, sorted by name.
pub(crate) fn compilations(build: &Path) -> Result<Vec<Compilation>, Error> {
    let mut compilations = Vec::new();
    collect(build, 0, &mut compilations)?;
    if compilations.is_empty() {
        return Err(Error::NoBuild { path: build.to_owned() });
    }
    compilations.sort_by(|a, b| a.object.cmp(&b.object));
    Ok(compilations)
}

/// All compilations below a directory; links to directories are not followed.
fn collect(directory: &Path, depth: usize, into: &mut Vec<Compilation>) -> Result<(), Error> {
    let entries = std::fs::read_dir(directory).map_err(Error::io(directory))?;
    for entry in entries {
        let entry = entry.map_err(Error::io(directory))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let kind = entry.file_type().map_err(Error::io(entry.path()))?;
        if kind.is_dir() {
            let skipped = depth == 0 && NOT_KERNEL.contains(&name) || depth >= DEEPEST;
            if !skipped {
                collect(&entry.path(), depth + 1, into)?;
            }
        } else if kind.is_file() && name.starts_with('.') && name.ends_with(".o.cmd") {
            let bytes = beside::given::read(&entry.path(), beside::given::TEXT)
                .map_err(Error::io(entry.path()))?;
            into.extend(Compilation::parse(&String::from_utf8_lossy(&bytes)));
        }
    }
    Ok(())
}

fn of_area(area: Area, all: &[Compilation], autofdo: bool, propeller: bool) -> Option<AreaFound> {
    let objects: Vec<&Compilation> =
        all.iter().filter(|compilation| compilation.area() == area).collect();
    let first = objects.first()?;
    let wanted = |option: bool| area.is_profiled() && option;
    let as_it_should = |object: &&&Compilation| {
        object.has_autofdo() == wanted(autofdo) && object.has_propeller() == wanted(propeller)
    };
    let known = objects.iter().find(|object| is_example(&object.object));
    let example = known.or_else(|| objects.iter().find(as_it_should)).unwrap_or(first);
    let flags = example.flags().into_iter().map(str::to_owned).collect();
    Some(AreaFound {
        area,
        objects: objects.len(),
        autofdo: objects.iter().filter(|object| object.has_autofdo()).count(),
        propeller: objects.iter().filter(|object| object.has_propeller()).count(),
        example: (example.object.clone(), flags),
        odd: objects
            .iter()
            .filter(|object| !as_it_should(object))
            .map(|o| o.object.clone())
            .collect(),
    })
}

/// Whether an object is one that stands for its area.
fn is_example(object: &str) -> bool {
    Architecture::ALL.iter().any(|architecture| architecture.examples().contains(&object))
}

fn linked(vmlinux: &Path) -> Result<Linked, Error> {
    let image = Image::open(vmlinux)
        .map_err(|error| Error::Vmlinux { path: vmlinux.to_owned(), reason: error.to_string() })?;
    let between = |name: &str| {
        let start = image.kernel_symbol(&format!("__{name}_text_start"))?;
        let end = image.kernel_symbol(&format!("__{name}_text_end"))?;
        end.0.checked_sub(start.0)
    };
    Ok(Linked {
        hot_bytes: between("hot"),
        split_bytes: between("split"),
        unlikely_bytes: between("unlikely"),
        block_map_bytes: image.section_by_name(".llvm_bb_addr_map").map(|section| section.size),
    })
}

/// What is wrong with the flags of objects.
fn of_flags(areas: &[AreaFound], autofdo: bool, propeller: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for found in areas {
        let name = found.area.name();
        let sides = [(autofdo, AUTOFDO, found.autofdo), (propeller, PROPELLER, found.propeller)];
        for (on, option, with) in sides {
            if !found.area.is_profiled() && with > 0 {
                wrong.push(format!(
                    "{with} objects of {name} have flags of {option}, where none belong"
                ));
            } else if found.area.is_profiled() && on && with == 0 {
                wrong.push(format!("{option} is on, but no object of {name} has its flags"));
            } else if found.area.is_profiled() && !on && with > 0 {
                wrong.push(format!(
                    "{option} is off, but {with} objects of {name} have its flags; build again"
                ));
            }
        }
    }
    wrong
}

/// What is wrong with vmlinux, which has markers where `marked`, and a block map where `mapped`.
fn of_vmlinux(linked: &Linked, marked: bool, mapped: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    if marked && linked.hot_bytes.is_none() {
        wrong.push(
            "vmlinux has no markers of hot text; it was linked before the tree was prepared"
                .to_owned(),
        );
    }
    if mapped && linked.block_map_bytes.is_none_or(|bytes| bytes == 0) {
        wrong.push(format!("{PROPELLER} is on, but vmlinux has no block map"));
    }
    wrong
}
