//! How is one program built: the step that runs the build command with the flags for what the build
//! knows?

use crate::STATE_DIRECTORY;
use crate::call::{Input, Output, Wrapper};
use crate::config::{Build, Command, Compiler, Config};
use crate::configure;
use crate::described::Described;
use crate::files::{OBJECTS_LOG, RELEASE, Round, text};
use crate::flags::{self, Extras, Phase};
use crate::gnu_link;
use crate::optimization::Optimize;
use crate::pages::Pages;
use crate::request::{BuildCommand, LibraryRule, LinkAgain, Request};
use crate::toolchain::{Toolchain, behind, compiler_of};
use crate::{Error, Rust, Step};
use std::path::{Path, PathBuf};

/// The two files of a layout that a build reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutFiles {
    /// What the names of both begin with.
    pub prefix: PathBuf,
    /// For the compiler.
    pub cc_profile: PathBuf,
    /// For the linker.
    pub ld_profile: PathBuf,
}

impl LayoutFiles {
    /// The files that `planish layout --prefix PREFIX` writes.
    pub fn of(prefix: &Path) -> LayoutFiles {
        let with = |ending: &str| {
            let mut name = prefix.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        LayoutFiles {
            prefix: prefix.to_owned(),
            cc_profile: with("_cc_profile.txt"),
            ld_profile: with("_ld_profile.txt"),
        }
    }

    /// The same, which must be there, by absolute names.
    ///
    /// # Errors
    /// Where one is not there.
    pub fn open(prefix: &Path) -> Result<LayoutFiles, Error> {
        let files = LayoutFiles::of(&absolute(prefix)?);
        let missing = [&files.cc_profile, &files.ld_profile].into_iter().find(|f| !f.is_file());
        match missing.cloned() {
            Some(file) => Err(Error::NoLayout { file, prefix: prefix.to_owned() }),
            None => Ok(files),
        }
    }
}

/// The path without `..` and links in its directories, so that it is the same from wherever it is
/// named.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Error> {
    let failed = |path: &Path, source| Error::Read { path: path.to_owned(), source };
    let full = std::path::absolute(path).map_err(|error| failed(path, error))?;
    let (Some(directory), Some(name)) = (full.parent(), full.file_name()) else { return Ok(full) };
    let directory = directory.canonicalize().map_err(|error| failed(directory, error))?;
    Ok(directory.join(name))
}

/// Which knowledge of its runs a build uses; paths relative to the directory of planish.toml, or
/// absolute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Knowledge<'a> {
    /// None.
    #[default]
    None,
    /// A sample profile.
    Profile(&'a Path),
    /// None; the program will count, into this folder where the compiler decides that (gcc).
    Instrumented(&'a Path),
    /// Merged counters: a file, or a folder (gcc).
    Counters(&'a Path),
}

/// What [`build_step`] builds.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Name of the step.
    pub name: &'a str,
    /// What it knows.
    pub knowledge: Knowledge<'a>,
    /// Whether the program can be laid out later, or is: its compiler is wrapped, so that objects
    /// are kept.
    pub reuses: bool,
    /// Whether the program must say where its basic blocks lie; one that can be laid out must.
    pub address_map: bool,
    /// Whether a profile is made from recordings of the program, so that it must have debug
    /// information.
    pub recorded: bool,
    /// Whether the program keeps its relocations.
    pub relocations: bool,
    /// Whether the inputs of its link are kept, so that it can be repeated in other layouts.
    pub keeps_link: bool,
    /// The layout to apply.
    pub layout: Option<&'a LayoutFiles>,
    /// The archive of a link that gives the program its layout, where no compiler has to: the build
    /// that is recorded leaves it, empty where it cannot; the one with the layout takes it.
    pub link: Option<&'a Path>,
    /// Where the program is kept.
    pub kept: &'a Path,
}

impl<'a> Target<'a> {
    /// A program that is neither laid out nor prepared for it.
    pub fn plain(name: &'a str, knowledge: Knowledge<'a>, kept: &'a Path) -> Target<'a> {
        Target {
            name,
            knowledge,
            reuses: false,
            address_map: false,
            recorded: false,
            relocations: false,
            keeps_link: false,
            layout: None,
            link: None,
            kept,
        }
    }
}

/// The step that builds a program. `directory` is the absolute directory of planish.toml.
pub fn build_step(
    config: &Config,
    tools: &Toolchain,
    directory: &Path,
    target: Target,
) -> Result<Step, Error> {
    let request = build_request(&config.build, &config.optimize, tools, directory, target)?;
    Ok(Step::new(target.name, Request::Build(request)))
}

/// What the step asks for, from the tables alone.
pub fn build_request(
    build: &Build,
    options: &Optimize,
    tools: &Toolchain,
    directory: &Path,
    target: Target,
) -> Result<BuildCommand, Error> {
    let folder = Path::new(STATE_DIRECTORY).join("build");
    let word = |path: &Path| one_word(directory, path);
    let (read, profile) = match target.knowledge {
        Knowledge::Profile(path) | Knowledge::Counters(path) => (Some(path), word(path)?),
        Knowledge::Instrumented(folder) => (None, word(folder)?),
        Knowledge::None => (None, String::new()),
    };
    let phase = match target.knowledge {
        Knowledge::None => Phase::Baseline,
        Knowledge::Profile(_) => Phase::Profiled(&profile),
        Knowledge::Instrumented(_) => Phase::Instrumented(&profile),
        Knowledge::Counters(_) => Phase::Counted(&profile),
    };
    let layout = target
        .layout
        .map(|l| Ok::<_, Error>((word(&l.cc_profile)?, word(&l.ld_profile)?)))
        .transpose()?;
    let linker = linker_wrapper(tools, directory);
    let lld_for_gcc = target.keeps_link && build.compiler == Compiler::Gcc;
    let named_lld = lld_for_gcc.then(|| word(&gnu_link::folder())).transpose()?;
    // Layouts need the link of each program, a program that gets its layout by its link the one before.
    let archives_link = target.keeps_link || (target.link.is_some() && target.layout.is_none());
    let extras = Extras {
        address_map: target.reuses || target.address_map,
        relocations: target.relocations,
        for_layout: target.reuses,
        // C code that the linker is to optimise needs its thin optimisation.
        fat_lto: options.linker_compiles_rust(build)
            && !build.thinlto
            && crate::rust::asks_for_fat_lto(directory),
        keeps_link: target.keeps_link,
        named_lld: named_lld.as_deref(),
        linker: linker.as_deref().filter(|_| archives_link),
        layout: layout.as_ref().map(|(cc, ld)| (cc.as_str(), ld.as_str())),
    };
    let out = text(&directory.join(&folder));
    let mut request = BuildCommand {
        command: build.command.words(),
        environment: taken()
            .chain(flags::variables(build, options, tools, (phase, extras), &out))
            .collect(),
        wrappers: Vec::new(),
        sources: build.sources.iter().map(Input::from).collect(),
        knowledge: read.map(Input::from),
        layout: Vec::new(),
        fresh_directories: Vec::new(),
        made: folder.join(&build.binary),
        program: Output::from(target.kept),
        pages: build.pages,
        described: Described { lines: target.recorded, blocks: extras.address_map },
        may_lack: Vec::new(),
        by_link: None,
        // What is built for the user to take away runs where they say.
        libraries: match target.kept.starts_with(STATE_DIRECTORY) {
            true => LibraryRule::Kept,
            false => LibraryRule::Any,
        },
        more: beside(build, &folder, target.kept),
    };
    configured(&mut request, directory, target.knowledge == Knowledge::None);
    if let Some(files) = target.layout {
        request.layout = [&files.cc_profile, &files.ld_profile].map(Input::from).to_vec();
        if keeps_objects(build, directory) {
            let objects = kept_for(target.knowledge, OBJECTS_LOG);
            request.more.push((folder.join(crate::reuse::LOG), Output::from(&objects)));
        }
    }
    let by_gcc = matches!(phase, Phase::Profiled(_)) && build.compiler == Compiler::Gcc;
    if target.reuses || archives_link {
        wrap(&mut request, directory)?;
    } else if by_gcc {
        // It may crash over a profile ([`crate::reuse`]); where it cannot be wrapped, it goes without.
        let mut wrapped = request.clone();
        if wrap(&mut wrapped, directory).is_ok() {
            request = wrapped;
        }
    }
    if archives_link {
        archive_link(&mut request, build, directory, &target);
    }
    if let (Some(archive), Some(layout)) = (target.link, target.layout) {
        request.by_link =
            Some(LinkAgain { archive: Input::from(archive), prefix: layout.prefix.clone() });
    }
    if target.reuses {
        let kept = kept_for(target.knowledge, "objects");
        keep_objects(&mut request, directory, kept, layout.as_ref().map(|(cc, _)| cc.as_str()));
    }
    request.fresh_directories.push(folder);
    if let (Phase::Profiled(_), Some(read)) = (phase, read)
        && tools.rust_takes_z
        && Rust::of(build, directory).used
        && target.layout.is_none()
    {
        // Those of another build would speak for this one.
        request.fresh_directories.push(flags::remarks_of(&text(read)).into());
    }
    Ok(request)
}

/// What build systems take of the environment.
pub(crate) const OWN_VARIABLES: [&str; 7] =
    ["CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "RUSTFLAGS"];

/// What a build may take of the environment: a part of its step, which runs again where that is
/// another.
fn taken() -> impl Iterator<Item = (String, String)> {
    OWN_VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
}

/// What the project's own release build asks for: nothing of planish's but where to write.
pub(crate) fn release_request(build: &Build, command: &Command, directory: &Path) -> BuildCommand {
    let folder = Path::new(STATE_DIRECTORY).join("build");
    let kept = crate::images::program(build, RELEASE);
    let out = text(&directory.join(&folder));
    BuildCommand {
        command: command.words(),
        environment: taken().chain([("PLANISH_OUT".to_owned(), out)]).collect(),
        wrappers: Vec::new(),
        sources: build.sources.iter().map(Input::from).collect(),
        knowledge: None,
        layout: Vec::new(),
        made: folder.join(&build.binary),
        more: beside(build, &folder, &kept),
        program: Output::from(&kept),
        pages: Pages::Off,
        described: Described::default(),
        may_lack: Vec::new(),
        by_link: None,
        // The last to be built.
        libraries: LibraryRule::Any,
        fresh_directories: vec![folder],
    }
}

/// The libraries of a build: where it leaves them in `folder`, and where they are kept.
fn beside(build: &Build, folder: &Path, kept: &Path) -> Vec<(PathBuf, Output)> {
    let pairs = crate::images::beside(build, kept).into_iter();
    pairs.map(|(made, kept)| (folder.join(made), Output::from(&kept))).collect()
}

/// Whether a relink says what it did with each object: rustc's code is compiled by the linker, and
/// a project may have no other.
pub(crate) fn keeps_objects(build: &Build, directory: &Path) -> bool {
    !Rust::of(build, directory).used
}

/// Lets configure scripts keep what they find; the first build asks everything anew. A site file of
/// the user's own stays in force.
fn configured(request: &mut BuildCommand, directory: &Path, first: bool) {
    if std::env::var_os(configure::SITE).is_some() {
        return;
    }
    let kept = configure::kept();
    let full = |path: &Path| text(&directory.join(path));
    request.environment.insert(configure::SITE.to_owned(), full(&configure::site()));
    request.environment.insert(configure::KEPT.to_owned(), full(&kept));
    if first {
        request.fresh_directories.push(kept);
    }
}

/// Where objects that a relink may reuse are kept, and what a relink says of them: programs with
/// counters in the profile's place have objects of their own.
fn kept_for(knowledge: Knowledge, name: &str) -> PathBuf {
    let path = Path::new(STATE_DIRECTORY).join(name);
    match knowledge {
        Knowledge::Counters(_) => Round::COUNTED.path_of_relink(&path),
        _ => path,
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// What stands in the place of a compiler, by the compiler's own name: build systems look at it.
fn wrapper_of(compiler: &str) -> PathBuf {
    Path::new(STATE_DIRECTORY).join("tools").join(file_name(&compiler_of(compiler)))
}

/// What rustc links by in the compiler's place; none where a blank in its path would cut rustc's flags.
pub(crate) fn linker_wrapper(tools: &Toolchain, directory: &Path) -> Option<String> {
    Some(text(&directory.join(wrapper_of(&tools.cc)))).filter(|path| !crate::words::is_cut(path))
}

/// Puts wrappers in the compilers' place ([`crate::reuse`]).
fn wrap(request: &mut BuildCommand, directory: &Path) -> Result<(), Error> {
    for name in ["PLANISH_CC", "PLANISH_CXX"] {
        let Some(compiler) = request.environment.get_mut(name) else { continue };
        let path = wrapper_of(compiler);
        let wrapper = Wrapper { path: path.clone(), compiler: behind(compiler) };
        if let [first, rest @ ..] = wrapper.compiler.as_slice()
            && !relink::is_compiler(first)
            && rest.iter().any(|word| relink::is_compiler(word))
        {
            return Err(Error::Launcher(compiler.clone(), first.clone()));
        }
        if request.wrappers.iter().any(|other| other.path == path && *other != wrapper) {
            return Err(Error::SameCompiler(compiler_of(compiler)));
        }
        *compiler = one_word(directory, &path)?;
        if !request.wrappers.contains(&wrapper) {
            request.wrappers.push(wrapper);
        }
    }
    Ok(())
}

/// Lets the wrappers keep what the program's link reads.
fn archive_link(request: &mut BuildCommand, build: &Build, directory: &Path, target: &Target) {
    let inputs = Path::new(STATE_DIRECTORY).join("build").join(crate::reuse::LINK);
    let variables = [
        (crate::reuse::LINK_INPUTS, text(&directory.join(&inputs))),
        (crate::reuse::LINK_PROGRAM, text(Path::new(file_name(&build.binary)))),
    ];
    request.environment.extend(variables.map(|(name, value)| (name.to_owned(), value)));
    let kept = compare::layouts::archive_beside(target.kept);
    if !target.keeps_link {
        request.may_lack.push(inputs.clone());
    }
    request.more.push((inputs, Output::from(&kept)));
}

/// Lets the wrappers keep objects in `objects`, or take them from there.
fn keep_objects(
    request: &mut BuildCommand,
    directory: &Path,
    objects: PathBuf,
    cc_profile: Option<&str>,
) {
    request.environment.insert(crate::reuse::OBJECTS.to_owned(), text(&directory.join(&objects)));
    match cc_profile {
        Some(path) => {
            request.environment.insert(crate::reuse::CC_PROFILE.to_owned(), path.to_owned());
        }
        // Every object is made now; what is there belongs to other sources or flags.
        None => request.fresh_directories.push(objects),
    }
}

/// A path as the flags name it, such as the profile's. Build commands cut flags at blanks, so a
/// directory with a blank in its name is left out: the path is then relative to where the build
/// command starts.
fn one_word(directory: &Path, profile: &Path) -> Result<String, Error> {
    let full = directory.join(profile);
    let apart = |path: &Path| crate::words::is_cut(&text(path));
    if !apart(&full) {
        return Ok(text(&full));
    }
    match full.strip_prefix(directory) {
        Ok(relative) if !apart(relative) => Ok(text(relative)),
        _ => Err(Error::Path(full)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_in_a_directory_with_a_blank_stays_one_word_of_the_flags() {
        let word =
            |directory: &str, profile: &str| one_word(Path::new(directory), Path::new(profile));
        assert_eq!(word("/src/app", ".planish/a.afdo").unwrap(), "/src/app/.planish/a.afdo");
        assert_eq!(word("/my src", ".planish/a.afdo").unwrap(), ".planish/a.afdo");
        assert_eq!(word("/my src", "/my src/a.afdo").unwrap(), "a.afdo");
        let message = word("/my src", "/my profiles/a.afdo").unwrap_err().to_string();
        assert!(message.contains("/my profiles/a.afdo") && message.contains("blank"), "{message}");
    }
}
