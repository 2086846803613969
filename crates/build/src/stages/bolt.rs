//! The steps that hand a program to llvm-bolt: all of it, for comparison, or what a layout could not
//! reach.

use super::Stages;
use crate::STATE_DIRECTORY;
use crate::call::{Input, Output};
use crate::files::Round;
use crate::request::{Bolt, BoltKnowledge, Layout, LayoutKind, Request};
use crate::{Error, Step};
use std::path::Path;

impl Stages<'_> {
    /// The program of a round under BOLT.
    pub(crate) fn bolt(&self, round: Round) -> Vec<Step> {
        let name = if round == Round::COUNTED { "pgo-bolt" } else { "bolt" };
        let text_counts = Path::new(STATE_DIRECTORY).join(format!("{name}-counts.txt"));
        let counts = Layout {
            files: vec![Output::from(&text_counts)],
            ..self.layout(round, name, LayoutKind::Preaggregated)
        };
        let bolt = Bolt {
            tool: self.tools.bolt.clone().unwrap_or_default(),
            binary: Input::from(&self.files.program(round.recorded())),
            knowledge: BoltKnowledge::Counts(Input::from(&text_counts)),
            output: Output::from(&self.files.program(name)),
            pages: self.config.build.pages,
        };
        let counts = Step::new(format!("{name}-counts"), Request::Layout(counts));
        let bolt = Step::new(name, Request::Bolt(bolt));
        [counts, bolt].into_iter().map(Step::optional).collect()
    }

    /// The program with the layout, in which BOLT places the functions that ran and that no block
    /// map covers: those of libraries that were linked in, and of assemblers.
    ///
    /// A relink leaves the code of these functions as it was, so what the round's recording says of
    /// them holds in the new program too, by names and offsets.
    ///
    /// # Errors
    /// Where there is no llvm-bolt.
    pub(crate) fn bolt_rest(&self, round: Round) -> Result<Vec<Step>, Error> {
        let tool = self.tools.bolt.clone().ok_or_else(|| Error::NoTool {
            tool: "llvm-bolt".to_owned(),
            next: "install it (Debian: bolt-22), or leave \"bolt-rest\" out of steps in [optimize]"
                .into(),
        })?;
        let file = |name: &str| Path::new(STATE_DIRECTORY).join(name);
        let (profile, names) = (file("rest.fdata"), file("rest-functions.txt"));
        let counts = Layout {
            files: [&profile, &names].map(Output::from).to_vec(),
            ..self.layout(round, "rest", LayoutKind::Rest)
        };
        let bolt = Bolt {
            tool,
            binary: Input::from(&self.files.program("layout")),
            knowledge: BoltKnowledge::Functions {
                profile: Input::from(&profile),
                names: Input::from(&names),
            },
            output: Output::from(&self.files.program("rest")),
            pages: self.config.build.pages,
        };
        let counts = Step::new("rest-counts", Request::Layout(counts));
        let bolt = Step::new("bolt-rest", Request::Bolt(bolt));
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
    fn without_llvm_bolt_the_step_is_refused_with_the_way_out() {
        let config = Config::parse(CONFIG, Path::new("planish.toml")).unwrap();
        let tools = Toolchain { cc: "clang".into(), ..Toolchain::default() };
        let refused = optimize(&config, &tools, Path::new("/src/app"), "planish.toml");
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("llvm-bolt") && said.contains("leave \"bolt-rest\" out"), "{said}");
    }
}
