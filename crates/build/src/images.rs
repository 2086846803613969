//! Which files of a project run beside its program: shared libraries and further executables that
//! the build makes. Where is each kept, and how does each program find those of its own build?
//!
//! Every variant has a directory of its own, in which program and libraries lie as they do below
//! `$PLANISH_OUT`: so a RUNPATH with `$ORIGIN` leads from one to the other. `LD_LIBRARY_PATH` names
//! the directories besides, since build systems also write absolute paths into programs.

use crate::STATE_DIRECTORY;
use crate::config::Build;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// In the state directory: a directory for each variant, where the project has libraries.
const IMAGES: &str = "images";

/// What the dynamic linker looks into before anything else but an RPATH.
pub(crate) const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// One file that runs: the program, or a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectImage {
    /// Its path below `$PLANISH_OUT`.
    pub below_out: PathBuf,
    /// Its file name, which no other image of the project has.
    pub name: String,
    /// Whether it is `[build] binary`.
    pub is_program: bool,
}

impl ProjectImage {
    fn of(path: &str, is_program: bool) -> ProjectImage {
        let below_out = PathBuf::from(path);
        let name = below_out.file_name().unwrap_or_default().to_string_lossy().into_owned();
        ProjectImage { below_out, name, is_program }
    }
}

/// The images of a project: the program, then its libraries in the order of planish.toml.
pub fn images(build: &Build) -> Vec<ProjectImage> {
    let program = [ProjectImage::of(&build.binary, true)];
    program.into_iter().chain(libraries(build)).collect()
}

/// The libraries alone.
pub fn libraries(build: &Build) -> Vec<ProjectImage> {
    build.libraries.iter().map(|path| ProjectImage::of(path, false)).collect()
}

/// The directory of a variant, by its ending.
fn directory(ending: &str) -> PathBuf {
    Path::new(STATE_DIRECTORY).join(IMAGES).join(ending)
}

/// Where the program of a variant is kept: `NAME.ENDING`, so that it can be told from the others.
pub(crate) fn program(build: &Build, ending: &str) -> PathBuf {
    let image = ProjectImage::of(&build.binary, true);
    let name = format!("{}.{ending}", image.name);
    if build.libraries.is_empty() {
        return Path::new(STATE_DIRECTORY).join(name);
    }
    directory(ending).join(image.below_out.with_file_name(name))
}

/// Where an image of a variant is kept.
pub fn kept(build: &Build, ending: &str, image: &ProjectImage) -> PathBuf {
    match image.is_program {
        true => program(build, ending),
        false => directory(ending).join(&image.below_out),
    }
}

/// Where the libraries go that are built together with a program kept at this path: below `$PLANISH_OUT`,
/// kept. None where the program leaves the state directory, or has no libraries.
pub(crate) fn beside(build: &Build, program: &Path) -> Vec<(PathBuf, PathBuf)> {
    let inside = program.strip_prefix(Path::new(STATE_DIRECTORY).join(IMAGES)).ok();
    let ending = inside.and_then(|path| match path.components().next()? {
        Component::Normal(ending) => ending.to_str(),
        _ => None,
    });
    let Some(ending) = ending else { return Vec::new() };
    let pair = |image: ProjectImage| {
        let kept = kept(build, ending, &image);
        (image.below_out, kept)
    };
    libraries(build).into_iter().map(pair).collect()
}

/// The directories with libraries of a variant, below the one that it has, each once.
fn folders(build: &Build) -> Vec<PathBuf> {
    let mut known = BTreeSet::new();
    let parents = libraries(build).into_iter().filter_map(|image| {
        let parent = image.below_out.parent()?.to_owned();
        known.insert(parent.clone()).then_some(parent)
    });
    parents.collect()
}

/// `LD_LIBRARY_PATH` of a variant; none where there are no libraries. `root` is the absolute
/// directory of planish.toml, `inherited` what the variable says already.
pub(crate) fn library_path(
    build: &Build,
    root: &Path,
    ending: &str,
    inherited: Option<&str>,
) -> Option<String> {
    let own = folders(build).into_iter().map(|folder| {
        let path = root.join(directory(ending)).join(folder);
        // An empty folder would leave a slash at the end.
        path.components().collect::<PathBuf>().display().to_string()
    });
    let own: Vec<String> = own.collect();
    let inherited = inherited.filter(|path| !path.is_empty()).map(str::to_owned);
    (!own.is_empty()).then(|| own.into_iter().chain(inherited).collect::<Vec<_>>().join(":"))
}

/// The directories with libraries as they lie from the program's own directory.
pub(crate) fn from_program(build: &Build) -> Vec<PathBuf> {
    let depth = Path::new(&build.binary).parent().map_or(0, |parent| parent.components().count());
    let up: PathBuf = std::iter::repeat_n("..", depth).collect();
    let path = |folder: PathBuf| {
        let path = up.join(folder);
        if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }
    };
    folders(build).into_iter().map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn build(binary: &str, libraries: &str) -> Result<Build, String> {
        let text = format!(
            "[build]\ncommand = 'make'\nbinary = '{binary}'\nlibraries = [{libraries}]\n\
             [workload]\ntrain = '{{bin}} a'\n[evaluate]\ncommand = '{{bin}} b'\n"
        );
        let config = Config::parse(&text, Path::new("planish.toml"));
        config.map(|config| config.build).map_err(|error| error.to_string())
    }

    #[test]
    fn a_variant_has_its_libraries_where_the_build_puts_them_from_the_program() {
        let build = build("bin/app", "'lib/libone.so', 'lib/libtwo.so', 'helper'").unwrap();
        let base = program(&build, "base");
        assert_eq!(base, Path::new(".planish/images/base/bin/app.base"));
        let kept: Vec<PathBuf> = beside(&build, &base).into_iter().map(|pair| pair.1).collect();
        let expected = ["lib/libone.so", "lib/libtwo.so", "helper"];
        assert_eq!(kept, expected.map(|path| Path::new(".planish/images/base").join(path)));
        assert_eq!(from_program(&build), ["../lib", ".."].map(PathBuf::from));
        let path = library_path(&build, Path::new("/src"), "opt", Some("/own"));
        let opt = "/src/.planish/images/opt";
        assert_eq!(path.unwrap(), format!("{opt}/lib:{opt}:/own"));
        assert!(beside(&build, Path::new("/elsewhere/app")).is_empty());
    }

    #[test]
    fn without_libraries_nothing_lies_deeper_and_no_variable_is_set() {
        let build = build("bin/app", "").unwrap();
        assert_eq!(program(&build, "opt"), Path::new(".planish/app.opt"));
        assert_eq!(library_path(&build, Path::new("/src"), "opt", Some("/own")), None);
        assert!(beside(&build, &program(&build, "opt")).is_empty());
    }

    #[test]
    fn a_path_that_leaves_the_build_and_a_name_twice_are_refused() {
        for wrong in ["'../libone.so'", "'/usr/lib/libz.so'", "''", "'a:b'", "'lib/'"] {
            assert!(build("app", wrong).unwrap_err().contains("$PLANISH_OUT"), "{wrong}");
        }
        assert!(build("app", "'a/libx.so', 'b/libx.so'").unwrap_err().contains("\"b/libx.so\""));
        assert!(build("app", "'lib/app'").unwrap_err().contains("same file name"));
    }
}
