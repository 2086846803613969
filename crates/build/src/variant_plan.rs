//! Which steps build the variants of a comparison?

use crate::call::Output;
use crate::config::{Build, Compiler};
use crate::gnu_link;
use crate::optimization::Optimize;
use crate::pages::Pages;
use crate::plan::STATE_DIRECTORY;
use crate::request::{LibraryRule, Request};
use crate::target::{Knowledge, Target, build_request};
use crate::toolchain::Toolchain;
use crate::variants::VariantConfig;
use crate::{Error, Step};
use std::path::{Path, PathBuf};

/// What a built variant leaves behind, relative to the directory it was built in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltFiles {
    /// The program.
    pub binary: PathBuf,
    /// What its link read, when it can be relinked.
    pub link: Option<PathBuf>,
}

/// The step that builds `variant`, and what it leaves.
///
/// With `relinkable` functions get sections of their own and lld keeps what it read
/// (`--reproduce`). `align` is for the alignment probe. `directory` is where planish.toml lies: of
/// the work tree, or of the commit's.
pub fn variant_step(
    build: &Build,
    tools: &Toolchain,
    directory: &Path,
    variant: &VariantConfig,
    relinkable: bool,
    align: Option<u32>,
) -> Result<(Step, BuiltFiles), Error> {
    let mut own = build.clone();
    if let Some(optimize) = &variant.optimize {
        own.optimize = optimize.clone();
    }
    if let Some(command) = &variant.command {
        own.command = command.clone();
    }
    if relinkable {
        // lld writes the other layouts, in small pages; the program as built shall lie like them.
        own.pages = Pages::Off;
    }
    own.flags = format!("{} {}", own.flags, variant.flags).trim().to_owned();
    if let Some(align) = align {
        own.flags.push_str(&format!(" -falign-functions={align}"));
    }
    let slug = slug(&variant.name, align);
    let folder = Path::new(STATE_DIRECTORY).join("variants");
    let kept = folder.join(&slug);
    let link = folder.join(format!("{slug}.repro.tar"));
    let name = format!("build-{slug}");
    let target = Target::plain(&name, Knowledge::None, &kept);
    let mut request = build_request(&own, &Optimize::default(), tools, directory, target)?;
    request.environment.extend(variant.environment.clone());
    request.libraries = LibraryRule::Never;
    let files = BuiltFiles { binary: kept, link: relinkable.then(|| link.clone()) };
    if relinkable {
        let made = PathBuf::from(STATE_DIRECTORY).join("build").join("planish.repro.tar");
        let mut add = |name: &str, more: &str| {
            let flags = request.environment.entry(name.to_owned()).or_default();
            *flags = format!("{flags} {more}").trim().to_owned();
        };
        add("PLANISH_CFLAGS", "-ffunction-sections");
        add("PLANISH_CXXFLAGS", "-ffunction-sections");
        let linker = match own.compiler {
            Compiler::Gcc => {
                let folder = directory.join(gnu_link::folder());
                format!("{} ", gnu_link::flags(&folder.to_string_lossy()))
            }
            Compiler::Clang => String::new(),
        };
        let keep = format!("{linker}-Wl,--reproduce={}", directory.join(&made).display());
        add("PLANISH_LDFLAGS", &keep);
        add(
            "PLANISH_RUSTFLAGS",
            &format!(
                "-Clink-arg=-fuse-ld=lld -Clink-arg=-Wl,--reproduce={}",
                directory.join(&made).display()
            ),
        );
        request.more.push((made, Output::from(&link)));
    }
    Ok((Step::new(name, Request::Build(request)), files))
}

/// A file name for a variant: what is no letter, digit, dot or dash becomes `_`, and a digest tells
/// names apart that would then be equal.
fn slug(name: &str, align: Option<u32>) -> String {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || ".-".contains(c) { c } else { '_' })
        .take(60)
        .collect();
    let changed = plain != name || plain.starts_with(['.', '-']);
    let digest = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    let suffix = align.map_or_else(String::new, |n| format!(".align{n}"));
    let plain = plain.trim_start_matches(['.', '-']);
    if changed {
        format!("{plain}.{:08x}{suffix}", digest as u32)
    } else {
        format!("{plain}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants::CompareConfig;

    fn step(text: &str, relinkable: bool) -> (Step, BuiltFiles) {
        let config = CompareConfig::parse(text, Path::new("planish.toml")).unwrap();
        let tools = Toolchain {
            cc: "gcc".into(),
            cxx: "g++".into(),
            ld: "ld".into(),
            ..Toolchain::default()
        };
        let build = config.build.unwrap();
        variant_step(&build, &tools, Path::new("/src"), &config.variants[0], relinkable, Some(32))
            .unwrap()
    }

    const GCC: &str = "[build]\ncommand = 'make'\nbinary = 'app'\ncompiler = 'gcc'\nflags = \
                       '-DA'\n[[variant]]\nname = '-fno-ipa-cp'\nflags = '-fno-ipa-cp'\n";

    #[test]
    fn a_variants_flags_come_behind_those_of_the_build_and_its_link_is_kept() {
        let (step, files) = step(GCC, true);
        let environment = step.call().environment;
        let flags = &environment["PLANISH_CFLAGS"];
        assert!(
            flags.ends_with("-DA -fno-ipa-cp -falign-functions=32 -ffunction-sections"),
            "{flags}"
        );
        let link = &environment["PLANISH_LDFLAGS"];
        assert!(
            link.contains(
                "-B/src/.planish/linker -fuse-ld=lld \
                 -Wl,--reproduce=/src/.planish/build/planish.repro.tar"
            ),
            "{link}"
        );
        let tar = files.link.unwrap();
        assert!(step.outputs() == [files.binary.clone(), tar.clone()], "{tar:?}");
        let name = files.binary.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with("fno-ipa-cp.") && name.ends_with(".align32"), "{name}");
    }

    #[test]
    fn without_layouts_the_build_is_left_as_the_user_has_it() {
        let (step, files) = step(GCC, false);
        assert!(
            files.link.is_none() && !step.call().environment["PLANISH_CFLAGS"].contains("sections")
        );
    }
}
