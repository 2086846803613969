//! The steps that hand a program to llvm-bolt: all of it, for comparison, or what a layout could not
//! reach.

use super::Stages;
use crate::STATE_DIRECTORY;
use crate::call::{Input, Output};
use crate::files::{Measured, Round, last_round};
use crate::request::{Again, Bolt, BoltKnowledge, Layout, LayoutKind, Request};
use crate::{Error, Step};
use std::path::{Path, PathBuf};

/// The ending of a round's program under BOLT.
fn bolted(round: Round) -> &'static str {
    if round == Round::COUNTED { "pgo-bolt" } else { "bolt" }
}

/// The counts that BOLT gets of a round's program.
fn counts_of(round: Round) -> PathBuf {
    Path::new(STATE_DIRECTORY).join(format!("{}-counts.txt", bolted(round)))
}

/// What BOLT is told of the functions that no layout reaches: their branches and their names.
fn rest_files() -> [PathBuf; 2] {
    ["rest.fdata", "rest-functions.txt"].map(|name| Path::new(STATE_DIRECTORY).join(name))
}

impl Stages<'_> {
    /// The program of a round under BOLT.
    pub(crate) fn bolt(&self, round: Round) -> Vec<Step> {
        let (name, text_counts) = (bolted(round), counts_of(round));
        let counts = Layout {
            files: vec![Output::from(&text_counts)],
            ..self.layout(round, name, LayoutKind::Preaggregated)
        };
        let counts = Step::new(format!("{name}-counts"), Request::Layout(counts));
        let bolt = Step::new(name, Request::Bolt(self.bolt_of(round, &text_counts)));
        [counts, bolt].into_iter().map(Step::optional).collect()
    }

    fn bolt_of(&self, round: Round, text_counts: &Path) -> Bolt {
        let name = bolted(round);
        let named = Path::new(STATE_DIRECTORY).join(format!("{name}.yaml"));
        Bolt {
            tool: self.tools.bolt.clone().unwrap_or_default(),
            binary: Input::from(&self.files.program(round.recorded())),
            knowledge: BoltKnowledge::Counts(Input::from(text_counts)),
            output: Output::from(&self.files.program(name)),
            named: (self.config.evaluate.layouts > 0).then(|| Output::from(&named)),
            pages: self.config.build.pages,
        }
    }

    /// How a measured program comes by its layouts; none where planish neither links it nor makes it
    /// of one that it links.
    pub(crate) fn again(&self, program: &Measured) -> Option<Again> {
        if program.is_release() {
            return None;
        }
        let round = match program.ending {
            "bolt" => last_round(self.config).next(),
            "pgo-bolt" => Round::COUNTED,
            "rest" => return Some(Again::of(program, &self.rest_of())),
            _ => return Some(Again::link(program)),
        };
        Some(Again::of(program, &self.bolt_of(round, &counts_of(round))))
    }

    fn rest_of(&self) -> Bolt {
        let [profile, names] = rest_files();
        let before = match self.config.optimize.lays_out() {
            true => "layout",
            false => last_round(self.config).rebuilt(),
        };
        Bolt {
            tool: self.tools.bolt.clone().unwrap_or_default(),
            binary: Input::from(&self.files.program(before)),
            knowledge: BoltKnowledge::Functions {
                profile: Input::from(&profile),
                names: Input::from(&names),
            },
            output: Output::from(&self.files.program("rest")),
            named: None,
            pages: self.config.build.pages,
        }
    }

    /// The program so far, in which BOLT places the functions that ran and that no block map covers:
    /// behind a layout those of libraries that were linked in, and of assemblers, else all.
    ///
    /// A relink leaves the code of these functions as it was, so what the round's recording says of
    /// them holds in the new program too, by names and offsets.
    ///
    /// # Errors
    /// Where there is no llvm-bolt.
    pub(crate) fn bolt_rest(&self, round: Round) -> Result<Vec<Step>, Error> {
        if self.tools.bolt.is_none() {
            return Err(Error::NoTool {
                tool: "llvm-bolt".to_owned(),
                next: "install it (Debian: bolt-22), or leave \"bolt-rest\" out of steps in [optimize]"
                    .into(),
            });
        }
        let counts = Layout {
            files: rest_files().iter().map(Output::from).collect(),
            ..self.layout(round, "rest", LayoutKind::Rest)
        };
        let counts = Step::new("rest-counts", Request::Layout(counts));
        let bolt = Step::new("bolt-rest", Request::Bolt(self.rest_of()));
        Ok([counts, bolt].into_iter().chain(self.test("rest")).collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::plan::optimize;
    use crate::toolchain::Toolchain;
    use std::path::Path;

    const CONFIG: &str = "[build]\ncommand = 'make'\nbinary = 'app'\n[workload]\ntrain = '{bin} a'\n\
                          [evaluate]\ncommand = '{bin} b'\n[record]\nbranches = 'hardware'\n\
                          [optimize]\nsteps = ['autofdo', 'propeller', 'bolt-rest']\ntest = 't \
                          {bin}'\n";

    #[test]
    fn the_rest_is_placed_in_the_relinked_program_by_the_recording_before_it() {
        let config = Config::parse(CONFIG, Path::new("planish.toml")).unwrap();
        let tools = Toolchain {
            cc: "clang".into(),
            bolt: Some("llvm-bolt".into()),
            ..Toolchain::default()
        };
        let plan = optimize(&config, &tools, Path::new("/src/app"), "planish.toml").unwrap();
        let names: Vec<&str> = plan.steps.iter().map(|step| step.name.as_str()).collect();
        assert!(
            names.join(" ").contains("test-layout rest-counts bolt-rest test-rest compare-1"),
            "{names:?}"
        );
        let line = |name: &str| {
            let step = plan.steps.iter().find(|step| step.name == name).unwrap();
            (step.command_line(), step.call().environment)
        };
        assert!(!line("profile").0.contains("--symbol-list"), "clang's has none");
        let counts = line("rest-counts").0;
        assert!(
            counts.starts_with("planish layout .planish/opt-run.counts --binary .planish/app.opt "),
            "{counts}"
        );
        let placed = line("bolt-rest").0;
        assert!(
            placed.starts_with(
                "llvm-bolt .planish/app.layout -o .planish/app.rest -data .planish/rest.fdata \
                 -funcs-file-no-regex .planish/rest-functions.txt "
            ),
            "{placed}"
        );
        // Only the program that llvm-bolt reads keeps its relocations.
        let keeps = |name: &str| line(name).1["PLANISH_LDFLAGS"].contains("--emit-relocs");
        assert_eq!([keeps("rebuild"), keeps("relink")], [false, true]);
    }

    #[test]
    fn without_a_layout_all_that_ran_is_placed_in_the_rebuilt_program() {
        let config =
            CONFIG.replace("'propeller', ", "").replace("'app'\n", "'app'\ncompiler = 'gcc'\n");
        let config = Config::parse(&config, Path::new("planish.toml")).unwrap();
        let tools =
            Toolchain { cc: "gcc".into(), bolt: Some("llvm-bolt".into()), ..Toolchain::default() };
        let plan = optimize(&config, &tools, Path::new("/src/app"), "planish.toml").unwrap();
        let names: Vec<&str> = plan.steps.iter().map(|step| step.name.as_str()).collect();
        assert!(
            names.join(" ").contains(
                "rebuild verify test-opt opt-record-1 opt-aggregate rest-counts bolt-rest test-rest"
            ),
            "{names:?}"
        );
        let step = |name: &str| plan.steps.iter().find(|step| step.name == name).unwrap();
        let placed = step("bolt-rest").command_line();
        assert!(
            placed.starts_with("llvm-bolt .planish/app.opt -o .planish/app.rest -data "),
            "{placed}"
        );
        let rebuilt = step("rebuild").call();
        let flags = &rebuilt.environment;
        assert!(flags["PLANISH_LDFLAGS"].contains("--emit-relocs"), "{flags:?}");
        assert!(flags["PLANISH_CFLAGS"].starts_with("-O2 -fno-unroll-loops --param="), "{flags:?}");
        assert!(!step("build").call().environment["PLANISH_CFLAGS"].contains("unroll"));
        // gcc may crash over the profile, which is seen.
        assert!(rebuilt.wrappers.iter().any(|one| one.compiler == ["gcc"]), "{rebuilt:?}");
        assert!(step("profile").command_line().contains(" --symbol-list"));
    }

    #[test]
    fn without_llvm_bolt_the_step_is_refused_with_the_way_out() {
        let config = Config::parse(CONFIG, Path::new("planish.toml")).unwrap();
        let tools = Toolchain { cc: "clang".into(), ..Toolchain::default() };
        let refused = optimize(&config, &tools, Path::new("/src/app"), "planish.toml");
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("llvm-bolt") && said.contains("leave \"bolt-rest\" out"), "{said}");
    }
}
