//! The profile that a kernel is built with: its samples by function, and whether the compiler of
//! the build is the one that made the kernel it was taken from.

use crate::cli::Global;
use anyhow::{Context, bail};
use kernel::compiler::{Fit, fit};
use profile::{FunctionProfile, Provenance, SampleProfile};
use programs::Surroundings;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Reads a profile whose functions have names.
pub fn read(path: &Path) -> anyhow::Result<SampleProfile> {
    let name = || path.display().to_string();
    let bytes = crate::input::read(path)?;
    let profile = profile::format::read(&bytes).with_context(name)?;
    if profile.has_hashes() {
        bail!(
            "{}: it has hashes in place of names, so its functions cannot be found; write it \
             without --md5",
            name()
        );
    }
    Ok(profile)
}

/// Samples of a profile by function.
pub fn samples(profile: &SampleProfile) -> BTreeMap<String, u64> {
    let of = |f: &FunctionProfile| Some((f.name.as_text()?.to_owned(), f.total));
    profile.functions.values().filter_map(of).collect()
}

/// What was compared, and what came of it.
pub struct Compared {
    profile: Vec<String>,
    build: String,
    word: &'static str,
}

impl Compared {
    /// As the result of the command has it.
    pub fn object(&self) -> Value {
        json!({"profile": self.profile, "build": self.build, "fit": self.word})
    }
}

/// Compares, and says what is not certain. `cc` is the command that make compiles with.
///
/// # Errors
/// The compiler does not run, or is another one or of another major release, unless `any` is set.
pub fn compare(
    path: &Path,
    provenance: &Provenance,
    cc: &str,
    any: bool,
    global: &Global,
) -> anyhow::Result<Compared> {
    let build = release(cc)?;
    let file = path.display();
    let found = fit(path, provenance.compilers(), &build);
    let (word, said) = match found {
        Ok(Fit::Same) => ("same", None),
        Ok(Fit::Minor(named)) => (
            "minor",
            Some(format!(
                "warning: {file}: taken from a kernel compiled by {named}, and this build \
                 compiles with {build}; another minor release mostly fits"
            )),
        ),
        Ok(Fit::ProfileUnknown) => (
            "unknown",
            Some(match provenance.compilers().next() {
                Some(named) => format!(
                    "warning: {file}: taken from a kernel compiled by `{named}`, which is no \
                     compiler that planish knows, so it is not compared with {build}"
                ),
                None => format!(
                    "note: {file}: which compiler made the profiled kernel is not known, so it is \
                     not compared with {build}"
                ),
            }),
        ),
        Ok(Fit::BuildUnknown) => (
            "unknown",
            Some(format!(
                "note: {cc}: states no release that is known (`{build}`), so the profile's \
                 compiler is not compared"
            )),
        ),
        Err(error) if any => ("other", Some(format!("warning: {error}"))),
        Err(error) => return Err(error.into()),
    };
    if let Some(said) = said.filter(|_| !global.quiet) {
        eprintln!("planish: {said}");
    }
    Ok(Compared { profile: provenance.compilers().map(str::to_owned).collect(), build, word })
}

/// The first line that a compiler answers to `--version`; of a command with a wrapper, the last
/// word is the compiler.
fn release(cc: &str) -> anyhow::Result<String> {
    let compiler = cc.split_whitespace().last().unwrap_or_default();
    let around = Surroundings::here();
    let Some(program) = around.named(compiler) else {
        bail!(
            "{compiler}: cannot be asked for its release: no such program in PATH (absolute \
             entries count)"
        );
    };
    let output = around.ask(&program).arg("--version").output();
    let output = output.with_context(|| format!("cannot ask {compiler} for its release"))?;
    if !output.status.success() {
        bail!("{compiler} --version failed ({}); is it a compiler?", output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}
