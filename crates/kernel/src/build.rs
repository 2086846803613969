//! How is a kernel built after a profile or in a layout? A call of make that is a value before it
//! runs, and what it did.

use crate::Error;
use crate::architecture::Architecture;
use crate::config::Config;
use crate::make::{self, DIRECTORY, Made, Make, Request, Variables};
use crate::objects::{
    Chosen, FunctionsOfObjects, functions_of_links, functions_of_modules, functions_of_objects,
};
use crate::requirements::{Purpose, Weight, unmet};
use crate::sample_profile::{self, Compared};
use crate::tree::Tree;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is to be built.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The top directory of the sources.
    pub tree: PathBuf,
    /// The directory of the build, with a `.config`.
    pub build: PathBuf,
    /// With which profile and layout.
    pub request: Request,
    /// Use the profile though another compiler made the kernel that it was taken from.
    pub any_compiler: bool,
    /// How make is called.
    pub make: Make,
    /// Targets and further variables of make; empty for the kernel and its modules.
    pub targets: Vec<String>,
}

/// A build before it runs; profile and layout lie where make reads them.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The words behind `make`.
    pub words: Vec<String>,
    /// The objects that are built with a profile or a layout.
    pub variables: Variables,
    /// The compilers of profile and build.
    pub compared: Option<Compared>,
    /// What the user should know.
    pub warnings: Vec<String>,
    log: PathBuf,
}

/// A finished build.
#[derive(Clone, Debug, Serialize)]
pub struct Built {
    command: String,
    /// The objects that the profile is for.
    pub profiled: Option<Chosen>,
    /// The objects that the layout is for.
    pub laid_out: Option<Chosen>,
    compiler: Option<Compared>,
    /// What make did.
    #[serde(flatten)]
    pub made: Made,
    /// Where all that make said stands.
    pub log: PathBuf,
}

impl Wanted {
    /// Copies profile and layout into the build and says how make is called.
    ///
    /// # Errors
    /// Where the tree is not prepared, the build not configured for profiles, or a profile or a
    /// layout not of this build.
    pub fn plan(self) -> Result<Planned, Error> {
        let build = &self.build;
        let config = self.configuration()?;
        // One that is for neither was refused.
        let architecture = Architecture::of_config(&config).unwrap_or_default();
        let mut words = self.make.words(&self.tree, build, architecture)?;
        let mut warnings = Vec::new();
        let Request { first_round, split, whole, .. } = self.request;
        let known = knows_lists(&self.tree);
        if !known && (first_round || split) {
            warnings.push(format!(
                "warning: {} has the options by itself, not from planish: --first-round and \
                 --split do nothing there",
                self.tree.display()
            ));
        }
        // The linker makes the code, of all objects at once.
        let by_linker = config.is_on("LTO_CLANG");
        let request = Request { whole: whole || !known || by_linker, ..self.request.clone() };
        let (variables, compared) = self.variables(&request, by_linker)?;
        warnings.extend(compared.iter().filter_map(|compared| compared.said.clone()));
        words.extend(variables.words.iter().cloned());
        if self.targets.is_empty() {
            words.extend(architecture.targets().iter().map(|target| (*target).to_owned()));
            words.extend(config.is_on("MODULES").then(|| "modules".to_owned()));
        } else {
            words.extend(self.targets.iter().cloned());
        }
        let log = build.join(DIRECTORY).join("make.log");
        Ok(Planned { words, variables, compared, warnings, log })
    }

    /// The configuration of the build, which must be one that profiles work with.
    fn configuration(&self) -> Result<Config, Error> {
        Tree::open(&self.tree)?.has_options()?;
        let path = self.build.join(".config");
        if !path.is_file() {
            return Err(Error::of_file(
                &path,
                &format!(
                    "there is no such file; configure the build first, for example with make \
                     LLVM=-22 O={} defconfig",
                    self.build.display()
                ),
            ));
        }
        let config = Config::read(&path)?;
        let lays_out = self.request.layout.is_some();
        let purpose = if lays_out { Purpose::Both } else { Purpose::Autofdo };
        let must = unmet(&config, purpose).into_iter().filter(|n| n.weight == Weight::Must);
        let must: Vec<String> =
            must.map(|needed| format!("{}: {}", needed.option, needed.why)).collect();
        if must.is_empty() {
            return Ok(config);
        }
        Err(Error::of_file(
            &path,
            &format!(
                "not a configuration for profiles: {}. `planish kernel config check {} {}` says \
                 more",
                must.join("; "),
                self.tree.display(),
                path.display()
            ),
        ))
    }

    /// The functions of the build, and of the modules outside of the tree that are built (`M=`).
    fn functions(&self, by_linker: bool) -> Result<FunctionsOfObjects, Error> {
        let outside = self.targets.iter().rev().find_map(|word| {
            word.strip_prefix("M=").or_else(|| word.strip_prefix("KBUILD_EXTMOD="))
        });
        // make is called in the tree.
        let outside = outside.map(|directory| self.tree.join(directory));
        if by_linker {
            let mut functions = functions_of_links(&self.build)?;
            if let Some(outside) = outside {
                functions.extend(functions_of_modules(&outside)?);
            }
            return Ok(functions);
        }
        let mut functions = functions_of_objects(&self.build)?;
        if let Some(outside) = outside {
            functions.extend(functions_of_objects(&outside).map_err(|error| match error {
                Error::NoBuild { path } => {
                    let wanted = "no finished module in it; build it once without a profile and a \
                                  layout, so that its functions are known";
                    Error::of_file(&path, wanted)
                }
                other => other,
            })?);
        }
        Ok(functions)
    }

    /// The variables of a request; `by_linker` says that objects hold no code.
    fn variables(
        &self,
        request: &Request,
        by_linker: bool,
    ) -> Result<(Variables, Option<Compared>), Error> {
        if request.profile.is_none() && request.layout.is_none() {
            return Ok((Variables::default(), None));
        }
        let layout = request.layout.as_ref().map(|prefix| {
            let mut name = prefix.as_os_str().to_owned();
            name.push("_cc_profile.txt");
            PathBuf::from(name)
        });
        if let (Some(prefix), Some(file)) = (&request.layout, &layout)
            && prefix.to_string_lossy().ends_with("_cc_profile.txt")
            && !file.exists()
        {
            return Err(Error::of_file(
                prefix,
                "--layout takes the start of the names of its two files, without _cc_profile.txt",
            ));
        }
        for file in request.profile.iter().chain(&layout) {
            beside::given::open(file).map_err(Error::doing(file.display().to_string()))?;
        }
        let functions = self.functions(by_linker).map_err(Error::doing(
            "the objects with samples are looked for in a finished build; build once without a \
             profile",
        ))?;
        let Some(path) = &request.profile else {
            let none = BTreeMap::new();
            return Ok((make::variables(&self.build, request, &functions, &none)?, None));
        };
        let profile = sample_profile::read(path)?;
        // Before anything is written.
        let cc = self.make.compiler(&self.targets)?;
        let compared = sample_profile::compare(path, &profile.provenance, &cc, self.any_compiler)?;
        let samples = sample_profile::samples(&profile);
        let variables = make::variables(&self.build, request, &functions, &samples)?;
        Ok((variables, Some(compared)))
    }
}

impl Planned {
    /// Runs make; `command` is the same for people, and `said` gets what make prints, line by line.
    ///
    /// # Errors
    /// Where it cannot be run, or fails.
    pub fn run(self, command: String, said: &mut dyn FnMut(&str)) -> Result<Built, Error> {
        if let Some(folder) = self.log.parent() {
            std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
        }
        let made = make::run(&self.words, &command, &self.log, said)?;
        let Variables { profiled, laid_out, .. } = self.variables;
        let (compiler, log) = (self.compared, self.log);
        Ok(Built { command, profiled, laid_out, compiler, made, log })
    }
}

/// Whether the tree has our variables; one with the options by itself builds every object with a
/// profile.
fn knows_lists(tree: &Path) -> bool {
    let makefile =
        beside::given::read_text(&tree.join("scripts/Makefile.autofdo"), beside::given::TEXT);
    makefile.is_ok_and(|text| text.contains("CLANG_AUTOFDO_OBJECTS"))
}
