//! Which profile is a kernel built with? Its samples by function, and whether the compiler of the
//! build is the one that made the kernel it was taken from.

use crate::Error;
use crate::compiler::{Fit, fit};
use profile::{FunctionProfile, Provenance, SampleProfile};
use programs::Surroundings;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Reads a profile whose functions have names.
///
/// # Errors
/// Where it cannot be read, or has hashes in place of names.
pub fn read(path: &Path) -> Result<SampleProfile, Error> {
    let bytes = beside::given::read(path, beside::given::DATA).map_err(Error::io(path))?;
    let profile = profile::format::read(&bytes);
    let profile = profile.map_err(Error::doing(path.display().to_string()))?;
    if profile.has_hashes() {
        return Err(Error::of_file(
            path,
            "it has hashes in place of names, so its functions cannot be found; write it without \
             --md5",
        ));
    }
    Ok(profile)
}

/// Samples of a profile by function.
pub fn samples(profile: &SampleProfile) -> BTreeMap<String, u64> {
    let of = |f: &FunctionProfile| Some((f.name.as_text()?.to_owned(), f.total));
    profile.functions.values().filter_map(of).collect()
}

/// Which compilers were compared, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// Those that the profile names.
    profile: Vec<String>,
    /// What that of the build states.
    build: String,
    /// `same`, `minor`, `unknown` or `other`.
    fit: &'static str,
    /// What is not certain, for the user.
    #[serde(skip)]
    pub said: Option<String>,
}

/// Compares the compilers. `cc` is the command that make compiles with.
///
/// # Errors
/// The compiler does not run, or is another one or of another major release, unless `any` is set.
pub fn compare(
    path: &Path,
    provenance: &Provenance,
    cc: &str,
    any: bool,
) -> Result<Compared, Error> {
    let build = release(cc)?;
    let file = path.display();
    let (fit, said) = match fit(path, provenance.compilers(), &build) {
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
        Err(error) => return Err(error),
    };
    let profile = provenance.compilers().map(str::to_owned).collect();
    Ok(Compared { profile, build, fit, said })
}

/// The first line that a compiler answers to `--version`; of a command with a wrapper, the last
/// word is the compiler.
fn release(cc: &str) -> Result<String, Error> {
    let compiler = cc.split_whitespace().last().unwrap_or_default();
    let around = Surroundings::here();
    let Some(program) = around.named(compiler) else {
        return Err(Error::Wanted(format!(
            "{compiler}: cannot be asked for its release: no such program in PATH (absolute \
             entries count)"
        )));
    };
    let output = around.ask(&program).arg("--version").output();
    let asking = format!("cannot ask {compiler} for its release");
    let output = output.map_err(Error::doing(asking))?;
    if !output.status.success() {
        return Err(Error::Wanted(format!(
            "{compiler} --version failed ({}); is it a compiler?",
            output.status
        )));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}
