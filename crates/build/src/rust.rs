//! Is the program written in Rust, and will the rustc of its build take a sample profile?
//!
//! rustc takes sample profiles with `-Z` flags only. Without them the baseline would be built,
//! recorded and measured for nothing, so this is decided before anything runs, from text alone:
//! nothing of the project is run.

use crate::cargo_config;
use crate::config::{Build, Command};
use crate::small_file::text;
use crate::{Config, Error, Toolchain};
use std::path::Path;
use toml::Table;

/// The variable that hands rustc its flags.
const FLAGS: &str = "PLANISH_RUSTFLAGS";

/// Files that build commands read without naming them.
const BUILD_FILES: [&str; 6] =
    ["Makefile", "makefile", "GNUmakefile", "justfile", "CMakeLists.txt", "meson.build"];

/// What the build command says of rustc.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rust {
    /// It hands PLANISH_RUSTFLAGS on, or calls cargo or rustc.
    pub used: bool,
    /// It, or the project, names a nightly compiler, or lets a stable one take `-Z` flags.
    pub takes_z: bool,
}

impl Rust {
    /// Reads the build command, the scripts that it names and the usual build files. `directory` is
    /// that of planish.toml.
    pub fn of(build: &Build, directory: &Path) -> Rust {
        let line = match &build.command {
            Command::Line(line) => line.clone(),
            Command::Words(words) => words.join(" "),
        };
        let words: Vec<&str> =
            line.split(|c: char| c.is_whitespace() || ";&|()\"'".contains(c)).collect();
        let scripts = words.iter().copied().filter(|word| !word.is_empty()).chain(BUILD_FILES);
        let texts: Vec<String> = scripts.filter_map(|name| text(&directory.join(name))).collect();
        let all = || std::iter::once(line.as_str()).chain(texts.iter().map(String::as_str));
        let calls =
            words.iter().any(|word| matches!(word.rsplit('/').next(), Some("cargo" | "rustc")));
        Rust {
            used: calls || all().any(|text| text.contains(FLAGS)),
            takes_z: all().any(assigns_or_names) || names_nightly(directory),
        }
    }

    /// An error where rustc would get no profile, or its code no layout, with the way out.
    pub fn check(self, tools: &Toolchain, config: &Config) -> Result<(), Error> {
        if !self.used {
            return Ok(());
        }
        if !self.takes_z && !tools.rust_takes_z {
            return Err(Error::NoRustProfiles);
        }
        match (tools.llvm_of_rust, tools.llvm_of_clang) {
            (Some(rust), Some(clang))
                if rust > clang && config.optimize.linker_compiles_rust(&config.build) =>
            {
                Err(Error::LinkerBehindRust { rust, cc: tools.cc.clone(), clang })
            }
            _ => Ok(()),
        }
    }
}

/// The variable that sets what a Cargo.toml says of link-time optimisation.
pub(crate) const CARGO_LTO: &str = "CARGO_PROFILE_RELEASE_LTO";

/// Whether the project's release profile asks for full link-time optimisation, by the variable, by
/// cargo's configuration, or by the Cargo.toml of the workspace that `directory` lies in; the first
/// that says something counts.
pub(crate) fn asks_for_fat_lto(directory: &Path) -> bool {
    match std::env::var(CARGO_LTO) {
        Ok(value) => ["fat", "true"].contains(&value.as_str()),
        Err(_) => names_fat_lto(directory),
    }
}

fn names_fat_lto(directory: &Path) -> bool {
    let configured = cargo_config::tables(directory);
    let configured = configured.iter().rev().find_map(|(_, table)| fat_lto(table));
    configured.or_else(|| fat_lto(&manifest(directory)?)).unwrap_or_default()
}

/// The manifest whose profiles count: of the workspace, where there is one.
fn manifest(directory: &Path) -> Option<Table> {
    let manifests: Vec<Table> =
        directory.ancestors().filter_map(|at| text(&at.join("Cargo.toml"))?.parse().ok()).collect();
    let root = manifests.iter().find(|manifest| manifest.contains_key("workspace"));
    root.or(manifests.first()).cloned()
}

/// What a table says of link-time optimisation, if it does.
fn fat_lto(table: &Table) -> Option<bool> {
    let lto = table.get("profile")?.get("release")?.get("lto")?;
    Some(lto.as_bool() == Some(true) || lto.as_str() == Some("fat"))
}

/// Whether a script sets RUSTC_BOOTSTRAP or calls the nightly compiler; a comment that names the
/// variable does not.
fn assigns_or_names(text: &str) -> bool {
    let code = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    code.into_iter().any(|line| line.contains("RUSTC_BOOTSTRAP=") || line.contains("+nightly"))
}

/// Whether rustup's file, in the directory or above it, asks for a nightly compiler.
fn names_nightly(directory: &Path) -> bool {
    let files = ["rust-toolchain.toml", "rust-toolchain"];
    let found =
        directory.ancestors().find_map(|at| files.iter().find_map(|name| text(&at.join(name))));
    let Some(found) = found else { return false };
    let channel =
        found.lines().find_map(|line| line.trim().strip_prefix("channel")).unwrap_or(&found);
    channel.trim_start_matches([' ', '=', '"', '\'']).starts_with("nightly")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &str, files: &[(&str, &str)]) -> Rust {
        let folder = tempfile::tempdir().unwrap();
        files
            .iter()
            .for_each(|(name, text)| std::fs::write(folder.path().join(name), text).unwrap());
        let toml = format!(
            "[build]\ncommand = '{command}'\nbinary = 'app'\n[workload]\ntrain = '{{bin}} \
             a'\n[evaluate]\ncommand = '{{bin}} b'\n"
        );
        let config = Config::parse(&toml, Path::new("planish.toml")).unwrap();
        Rust::of(&config.build, folder.path())
    }

    #[test]
    fn full_link_time_optimisation_is_asked_for_by_the_manifest_of_the_workspace() {
        let folder = tempfile::tempdir().unwrap();
        let member = folder.path().join("member");
        std::fs::create_dir(&member).unwrap();
        let write = |at: &Path, text: &str| std::fs::write(at.join("Cargo.toml"), text).unwrap();
        for (lto, fat) in
            [("true", true), ("'fat'", true), ("'thin'", false), ("false", false), ("'off'", false)]
        {
            write(&member, &format!("[package]\nname = 'a'\n[profile.release]\nlto = {lto}\n"));
            assert_eq!(names_fat_lto(&member), fat, "{lto}");
        }
        write(folder.path(), "[workspace]\n[profile.release]\nlto = true\n");
        assert!(names_fat_lto(&member));
        write(folder.path(), "[workspace]\n");
        write(&member, "[package]\nname = 'a'\n[profile.release]\nlto = true\n");
        assert!(!names_fat_lto(&member), "profiles of members do not count");
        let configure = |at: &Path, lto: &str| {
            std::fs::create_dir_all(at.join(".cargo")).unwrap();
            let text = format!("[profile.release]\nlto = {lto}\n");
            std::fs::write(at.join(".cargo/config.toml"), text).unwrap();
        };
        configure(folder.path(), "true");
        assert!(names_fat_lto(&member), "cargo's configuration counts more than a Cargo.toml");
        configure(&member, "'thin'");
        assert!(!names_fat_lto(&member), "the nearest configuration counts");
    }

    #[test]
    fn a_build_that_hands_flags_to_rustc_is_rust_wherever_it_says_so() {
        let (yes, no) = (Rust { used: true, takes_z: false }, Rust::default());
        assert_eq!(of("RUSTFLAGS=\"$PLANISH_RUSTFLAGS\" make", &[]), yes);
        assert_eq!(of("cargo build --release", &[]), yes);
        assert_eq!(of("./build.sh", &[("build.sh", "rustc $PLANISH_RUSTFLAGS a.rs")]), yes);
        assert_eq!(
            of("make all", &[("Makefile", "all:\n\tRUSTFLAGS=$(PLANISH_RUSTFLAGS) cargo b\n")]),
            yes
        );
        assert_eq!(of("make CC=$PLANISH_CC", &[("Cargo.toml", ""), ("Makefile", "all: app")]), no);
    }

    #[test]
    fn a_nightly_compiler_is_taken_at_its_word() {
        let takes = |command: &str, files: &[(&str, &str)]| of(command, files).takes_z;
        assert!(takes("cargo +nightly build", &[]) && takes("RUSTC_BOOTSTRAP=1 cargo b", &[]));
        assert!(takes(
            "cargo b",
            &[("rust-toolchain.toml", "[toolchain]\nchannel = \"nightly-2026-01-01\"\n")]
        ));
        assert!(takes("cargo b", &[("rust-toolchain", "nightly\n")]));
        assert!(!takes("cargo b", &[("rust-toolchain", "1.88\n")]) && !takes("cargo b", &[]));
        let script = |text: &str| takes("sh b.sh", &[("b.sh", text)]);
        assert!(
            script("export RUSTC_BOOTSTRAP=1\ncargo b")
                && !script("# needs RUSTC_BOOTSTRAP=1\ncargo b")
        );
    }

    fn config(text: &str) -> Config {
        let rest = "[build]\ncommand = 'cargo b'\nbinary = 'app'\n[workload]\ntrain = '{bin}'\n\
                    [evaluate]\ncommand = '{bin}'\n";
        Config::parse(&format!("{rest}{text}"), Path::new("planish.toml")).unwrap()
    }

    #[test]
    fn a_stable_compiler_is_refused_with_the_way_out() {
        let tools = Toolchain::default();
        let plain = config("");
        let [stable, nightly] = [false, true].map(|takes_z| Rust { used: true, takes_z });
        let message = stable.check(&tools, &plain).unwrap_err().to_string();
        assert!(
            message.contains("RUSTC_BOOTSTRAP=1") && message.contains("nothing was built"),
            "{message}"
        );
        assert!(
            Rust::default().check(&tools, &plain).is_ok() && nightly.check(&tools, &plain).is_ok()
        );
        let takes = Toolchain { rust_takes_z: true, ..Toolchain::default() };
        assert!(stable.check(&takes, &plain).is_ok());
    }

    #[test]
    fn a_linker_older_than_rustc_lays_nothing_out() {
        let laid_out = config("[optimize]\nsteps = ['autofdo', 'propeller']\n");
        let rust = Rust { used: true, takes_z: true };
        let tools = |rust, clang| Toolchain {
            cc: "clang-19".into(),
            llvm_of_rust: rust,
            llvm_of_clang: clang,
            ..Toolchain::default()
        };
        let message = rust.check(&tools(Some(22), Some(19)), &laid_out).unwrap_err().to_string();
        assert!(message.contains("clang-22") && message.contains("clang-19"), "{message}");
        for fine in [tools(Some(22), Some(22)), tools(Some(21), Some(22)), tools(None, Some(19))] {
            assert!(rust.check(&fine, &laid_out).is_ok());
        }
        assert!(rust.check(&tools(Some(22), Some(19)), &config("")).is_ok());
        assert!(Rust::default().check(&tools(Some(22), Some(19)), &laid_out).is_ok());
    }
}
