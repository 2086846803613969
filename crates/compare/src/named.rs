//! Which variants stand for the programs that a user names, all of them running one command?

use crate::layouts::Again;
use crate::settings::Settings;
use crate::{AfterLink, Benchmark, Design, Error, Variant, layouts};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The design of a comparison of programs, each a path or `NAME=PATH`, the base first.
///
/// # Errors
/// Where there is no such program, or the design cannot be run.
pub fn design(
    binaries: &[String],
    command: &[String],
    settings: &Settings,
) -> Result<Design, Error> {
    let mut design = settings.design();
    design.variants = variants(binaries)?;
    let name = shown(command);
    design.benchmarks = vec![Benchmark {
        name,
        command: command.to_vec(),
        metrics: settings.metrics(),
        ..Benchmark::default()
    }];
    design.check()?;
    for variant in &mut design.variants {
        variant.sizes = variant.binaries.first().and_then(|binary| layouts::sizes(binary));
    }
    Ok(design)
}

/// A command without the program, as people wrote it: without what `planish workload` puts around
/// it.
fn shown(command: &[String]) -> String {
    let by_workload = command.get(1..3).is_some_and(|words| words == ["workload", "--program"]);
    let behind = command.iter().position(|word| word == "--").filter(|_| by_workload);
    let own = command.get(behind.map_or(0, |at| at + 1)..).unwrap_or_default();
    let program = ["{bin}", workload::PROGRAM];
    let words: Vec<&str> =
        own.iter().map(String::as_str).filter(|word| !program.contains(word)).collect();
    if words.is_empty() { "run".to_owned() } else { words.join(" ") }
}

/// Which programs are made again in other layouts, and from what, as a user names it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Links {
    /// Archives of link inputs: one for each program that is linked again, in their order, or
    /// `NAME=ARCHIVE` for some of them; the others have theirs beside the program.
    pub objects: Vec<String>,
    /// Names of programs that are measured as built alone.
    pub as_built: Vec<String>,
    /// What is done to programs after their link, by their names.
    pub after: BTreeMap<String, AfterLink>,
}

/// The name and the archive of `NAME=ARCHIVE`; none where it is a path alone.
fn named_archive(given: &str) -> Option<(String, PathBuf)> {
    let (name, path) = given.split_once('=').filter(|_| !Path::new(given).exists())?;
    Some((name.to_owned(), PathBuf::from(path)))
}

impl Links {
    /// Refuses what names no program of the command line.
    ///
    /// # Errors
    /// Where a name is no program's.
    pub fn check(&self, binaries: &[String]) -> Result<(), Error> {
        let of_objects = self.objects.iter().filter_map(|given| Some(named_archive(given)?.0));
        known("--objects", binaries, &of_objects.collect::<Vec<_>>())?;
        known("--after-link", binaries, &self.after.keys().cloned().collect::<Vec<_>>())?;
        known("--as-built", binaries, &self.as_built)
    }

    /// How each variant is made again; none for those that stay as built.
    ///
    /// # Errors
    /// Where the inputs of a link are missing, or the base is to have none.
    pub fn of(&self, design: &Design) -> Result<Vec<Option<Again>>, Error> {
        let stays = |variant: &Variant| self.as_built.contains(&variant.name);
        if let Some(base) = design.variants.first().filter(|base| stays(base)) {
            return Err(Error::Design(format!(
                "--as-built {}: it is the program that the others are compared with, so it needs \
                 layouts; leave out --layouts to measure all programs as they were built",
                base.name
            )));
        }
        let linked: Vec<&Variant> = design.variants.iter().filter(|v| !stays(v)).collect();
        let archives = self.archives(&linked)?;
        let again = |variant: &Variant| {
            let archive = archives.get(&variant.name)?.clone();
            Some(Again { archive, after: self.after.get(&variant.name).cloned() })
        };
        Ok(design.variants.iter().map(again).collect())
    }

    /// The inputs of each link, by the variant's name.
    fn archives(&self, linked: &[&Variant]) -> Result<BTreeMap<String, PathBuf>, Error> {
        let by_name: Option<BTreeMap<String, PathBuf>> =
            self.objects.iter().map(|given| named_archive(given)).collect();
        let given = match by_name {
            Some(given) => given,
            None if self.objects.len() == linked.len() => {
                let names = linked.iter().map(|variant| variant.name.clone());
                names.zip(self.objects.iter().map(PathBuf::from)).collect()
            }
            None => {
                return Err(Error::Design(format!(
                    "--objects: there are {} programs to link again and {} archives; give one for \
                     each, in the same order, or NAME=ARCHIVE",
                    linked.len(),
                    self.objects.len()
                )));
            }
        };
        let archive = |variant: &&Variant| {
            let program = variant.binaries.first().map_or(Path::new(""), PathBuf::as_path);
            let own = given.get(&variant.name).cloned();
            let archive = own.unwrap_or_else(|| layouts::archive_beside(program));
            if archive.is_file() {
                return Ok((variant.name.clone(), archive));
            }
            Err(Error::Design(format!(
                "--layouts: there are no objects of {0} to link again (no {1}). Compile with \
                 -ffunction-sections and link with -fuse-ld=lld -Wl,--reproduce={1}, name the \
                 archive with --objects, or measure this program as it is with --as-built {0}",
                variant.name,
                archive.display()
            )))
        };
        linked.iter().map(archive).collect()
    }
}

/// The programs that are there, and those of the `optional` ones, by name, that are not. The base is
/// never optional.
///
/// # Errors
/// Where an optional name is no program's.
pub fn present(
    binaries: &[String],
    optional: &[String],
) -> Result<(Vec<String>, Vec<String>), Error> {
    known("--optional", binaries, optional)?;
    let named = named(binaries);
    let is_there = |(place, (name, path)): (usize, &(String, PathBuf))| {
        place == 0 || !optional.contains(name) || path.exists()
    };
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for (binary, one) in binaries.iter().zip(named.iter().enumerate()) {
        if is_there(one) { &mut there } else { &mut missing }.push(binary.clone());
    }
    Ok((there, missing))
}

/// Refuses what an option names that is no program's name.
///
/// # Errors
/// Where a name is no program's.
fn known(option: &str, binaries: &[String], wanted: &[String]) -> Result<(), Error> {
    let named = named(binaries);
    let Some(name) = wanted.iter().find(|name| named.iter().all(|(own, _)| own != *name)) else {
        return Ok(());
    };
    let names: Vec<&str> = named.iter().map(|(own, _)| own.as_str()).collect();
    Err(Error::Design(format!(
        "{option} {name}: no variant has this name; there are {}",
        names.join(", ")
    )))
}

/// The name and the path of each program: file names where they differ, else whole paths;
/// `NAME=BINARY` gives the name.
fn named(given: &[String]) -> Vec<(String, PathBuf)> {
    let split = |given: &String| match given.split_once('=') {
        Some((name, path))
            if !name.is_empty() && !name.contains('/') && !Path::new(given).exists() =>
        {
            (Some(name.to_owned()), PathBuf::from(path))
        }
        _ => (None, PathBuf::from(given)),
    };
    let pairs: Vec<(Option<String>, PathBuf)> = given.iter().map(split).collect();
    let short = |path: &PathBuf| {
        path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned())
    };
    let distinct: BTreeSet<String> = pairs.iter().map(|(_, path)| short(path)).collect();
    let all = pairs.len();
    let plain = |path: &PathBuf| match distinct.len() == all {
        true => short(path),
        false => path.display().to_string(),
    };
    pairs.into_iter().map(|(name, path)| (name.unwrap_or_else(|| plain(&path)), path)).collect()
}

fn variants(given: &[String]) -> Result<Vec<Variant>, Error> {
    let variant = |(name, path): (String, PathBuf)| {
        let path = &path;
        if !std::fs::metadata(path).map_err(Error::file(path))?.is_file() {
            return Err(Error::problem(path, "is no file that can be run"));
        }
        // With a slash, so that it is not looked for in PATH.
        let run = if path.components().count() == 1 {
            PathBuf::from(".").join(path)
        } else {
            path.clone()
        };
        let description = path.display().to_string();
        Ok(Variant { name, description, binaries: vec![run], ..Variant::default() })
    };
    let mut variants: Vec<Variant> =
        named(given).into_iter().map(variant).collect::<Result<_, _>>()?;
    // The same file twice is a legitimate question (how noisy is this machine?), so tell the two
    // apart.
    for index in 1..variants.len() {
        if variants[..index].iter().any(|v| v.name == variants[index].name) {
            variants[index].name = format!("{} #{}", variants[index].name, index + 1);
        }
    }
    Ok(variants)
}
