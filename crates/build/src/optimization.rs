//! What does planish.toml say about the way to the optimised program? `[optimize]`: the steps,
//! other ways beside them, and named compiler options.

use crate::config::{Build, Command, Compiler, default_optimize};
use serde::{Deserialize, Serialize};

/// `[optimize]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Optimize {
    /// What is done to the program, in this order.
    pub steps: Vec<Stage>,
    /// Other ways to a faster program, built and measured beside it.
    pub also: Vec<Alternative>,
    /// Tests that every program of `steps` must pass before it is measured; `{bin}` stands for the
    /// program.
    pub test: Option<Command>,
    /// Whether the layout may clone small blocks along paths.
    pub clone: bool,
    /// Ext-TSP block placement (clang).
    pub ext_tsp: bool,
    /// The inliner weighs the cycles that a hot call saves against the bytes that it adds (clang, and
    /// rustc where it takes sample profiles).
    pub inline_by_benefit: bool,
    /// Cold blocks of functions go to sections of their own, by the profile (clang).
    pub split_functions: bool,
    /// Every function gets a section of its own.
    pub function_sections: bool,
    /// The linker keeps hot, unlikely and split code together (`-z keep-text-section-prefix`;
    /// clang, lld).
    pub group_text: bool,
    /// Functions begin at multiples of so many bytes.
    pub align_functions: Option<u32>,
    /// Loops begin at multiples of so many bytes.
    pub align_loops: Option<u32>,
}

impl Default for Optimize {
    fn default() -> Self {
        Optimize {
            steps: vec![Stage::Autofdo],
            also: Vec::new(),
            test: None,
            clone: true,
            ext_tsp: true,
            inline_by_benefit: true,
            split_functions: false,
            function_sections: false,
            group_text: false,
            align_functions: None,
            align_loops: None,
        }
    }
}

/// A step to the optimised program: record what there is, build the next from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// A sample profile, and a rebuild that uses it.
    Autofdo,
    /// A layout of basic blocks and functions, applied by a relink.
    Propeller,
    /// llvm-bolt on the functions that the layout cannot reach: those without a block map.
    #[serde(rename = "bolt-rest")]
    BoltRest,
}

/// Another way to a faster program, for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Alternative {
    /// Instrumented profile-guided optimisation: counters in the program, the training commands, a
    /// rebuild.
    Pgo,
    /// BOLT on the AutoFDO program, from a recording of it.
    Bolt,
    /// BOLT on the program of [`Alternative::Pgo`], from a recording of it.
    #[serde(rename = "pgo-bolt")]
    PgoBolt,
    /// The program of [`Alternative::Pgo`] relinked in a layout of its own, from a recording of it.
    #[serde(rename = "pgo-layout")]
    PgoLayout,
}

impl Alternative {
    /// Its word in planish.toml, and the ending of its program's name.
    pub fn word(self) -> &'static str {
        match self {
            Alternative::Pgo => "pgo",
            Alternative::Bolt => "bolt",
            Alternative::PgoBolt => "pgo-bolt",
            Alternative::PgoLayout => "pgo-layout",
        }
    }
}

impl Optimize {
    /// Whether a layout is applied at the end.
    pub fn lays_out(&self) -> bool {
        self.steps.contains(&Stage::Propeller)
    }

    /// Whether a layout is applied to the program of [`Alternative::Pgo`].
    pub fn lays_out_counted(&self) -> bool {
        self.also.contains(&Alternative::PgoLayout)
    }

    /// Whether rustc hands bitcode to the linker: rustc lists no basic blocks and places none, lld
    /// does both where it compiles.
    pub(crate) fn linker_compiles_rust(&self, build: &Build) -> bool {
        build.compiler == Compiler::Clang && (build.thinlto || self.lays_out())
    }

    /// Whether llvm-bolt places what the layout cannot reach: without one, everything that ran.
    pub fn places_rest(&self) -> bool {
        self.steps.contains(&Stage::BoltRest)
    }

    /// Whether the program that was rebuilt last is recorded, and changed without its sources.
    pub fn goes_on_behind_profile(&self) -> bool {
        self.lays_out() || self.places_rest()
    }

    /// Whether llvm-bolt gets the program that was rebuilt last.
    pub(crate) fn bolts_profiled(&self) -> bool {
        self.places_rest() && !self.lays_out()
    }

    /// How often the program is rebuilt with a sample profile.
    pub fn profile_rounds(&self) -> usize {
        self.steps.iter().filter(|&&stage| stage == Stage::Autofdo).count()
    }

    /// What was set and does nothing for this compiler: rustc's flags are its own.
    pub(crate) fn without_effect(&self, build: &Build, rust: bool) -> Vec<String> {
        if !rust {
            return Vec::new();
        }
        let by_linker = self.linker_compiles_rust(build);
        let set = [
            // rustc's own level is the same.
            ("optimize", ![default_optimize().as_str(), "-O3"].contains(&build.optimize.as_str())),
            ("flags", !build.flags.trim().is_empty()),
            ("profiled_flags", !build.profiled_flags.trim().is_empty()),
            ("function_sections", self.function_sections),
            ("split_functions", self.split_functions && !by_linker),
            ("align_functions", self.align_functions.is_some()),
            ("align_loops", self.align_loops.is_some() && !by_linker),
        ];
        let keys: Vec<&str> = set.iter().filter(|(_, set)| *set).map(|(key, _)| *key).collect();
        let mut said = Vec::new();
        if !keys.is_empty() {
            said.push(format!(
                "what is set by {} reaches C and C++ alone: rustc takes none of it \
                 (PLANISH_RUSTFLAGS)",
                keys.join(", ")
            ));
        }
        said
    }

    /// What contradicts itself or `[build]`, with the way out.
    pub(crate) fn check(&self, build: &Build) -> Result<(), String> {
        let rounds = self.profile_rounds();
        let (profiled, after) = self.steps.split_at(rounds);
        let in_order = profiled.iter().all(|&stage| stage == Stage::Autofdo)
            && matches!(
                after,
                [] | [Stage::Propeller] | [Stage::BoltRest] | [Stage::Propeller, Stage::BoltRest]
            );
        if !(1..=2).contains(&rounds) || !in_order {
            return Err("[optimize] steps: take [\"autofdo\"], and behind it \"propeller\", \
                        \"bolt-rest\" or both in this order; a second \"autofdo\" records the \
                        rebuilt program once more"
                .into());
        }
        if self.places_rest() && !build.libraries.is_empty() {
            return Err(
                "[optimize] steps: \"bolt-rest\" is run on one program, and this project has \
                        libraries: leave it out, or leave [build] libraries out"
                    .into(),
            );
        }
        for (n, alternative) in self.also.iter().enumerate() {
            if self.also[..n].contains(alternative) {
                return Err(format!("[optimize] also names {:?} twice", alternative.word()));
            }
        }
        if self.bolts_profiled() && self.also.contains(&Alternative::Bolt) {
            return Err(
                "[optimize] also: \"bolt\" is what \"bolt-rest\" in steps makes where there is \
                        no \"propeller\"; leave one of them out"
                    .into(),
            );
        }
        let counted = [Alternative::PgoBolt, Alternative::PgoLayout];
        let of_counted = counted.into_iter().find(|other| self.also.contains(other));
        if let (Some(other), false) = (of_counted, self.also.contains(&Alternative::Pgo)) {
            return Err(format!(
                "[optimize] also: {:?} lays out the program of \"pgo\"; name both",
                other.word()
            ));
        }
        if self.lays_out_counted() && !self.lays_out() {
            return Err("[optimize] also: \"pgo-layout\" is measured beside the layout of \
                        \"propeller\"; name that in steps"
                .into());
        }
        let clang = build.compiler == Compiler::Clang;
        if self.lays_out() && !clang {
            return Err("[optimize] steps: \"propeller\" needs basic block sections, which only \
                        compiler = \"clang\" makes; with gcc, \"bolt-rest\" in its place lets \
                        llvm-bolt lay out what ran"
                .into());
        }
        if self.split_functions && !clang {
            return Err("[optimize] split_functions is for compiler = \"clang\"; gcc splits \
                        functions by its profile without being asked"
                .into());
        }
        if self.group_text && !clang {
            return Err("[optimize] group_text is for compiler = \"clang\", which links with \
                        lld; GNU ld groups these sections without being asked and ignores the \
                        flag"
                .into());
        }
        if self.split_functions && self.lays_out() {
            return Err("[optimize] split_functions: the layout of \"propeller\" splits \
                        functions itself; leave one of them out"
                .into());
        }
        for (key, value) in
            [("align_functions", self.align_functions), ("align_loops", self.align_loops)]
        {
            if value.is_some_and(|bytes| !bytes.is_power_of_two() || !(1..=4096).contains(&bytes)) {
                return Err(format!(
                    "[optimize] {key}: expected a power of two from 1 to 4096 (bytes); 32 and 64 \
                     are usual"
                ));
            }
        }
        if matches!(&self.test, Some(Command::Words(words)) if words.is_empty()) {
            return Err("[optimize] test is empty; leave it out where there are no tests".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use std::path::Path;

    fn refused(optimize: &str) -> String {
        refused_by("clang", optimize)
    }

    fn refused_by(compiler: &str, optimize: &str) -> String {
        let text = format!(
            "[build]\ncommand = 'make'\nbinary = 'app'\ncompiler = \
             '{compiler}'\n[workload]\ntrain = '{{bin}} a'\n[evaluate]\ncommand = '{{bin}} \
             b'\n[optimize]\n{optimize}\n"
        );
        let config = Config::parse(&text, Path::new("planish.toml"));
        config.map(|_| String::new()).unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn steps_stand_in_an_order_that_makes_sense() {
        for fine in [
            "['autofdo']",
            "['autofdo', 'propeller']",
            "['autofdo', 'autofdo', 'propeller']",
            "['autofdo', 'bolt-rest']",
        ] {
            assert_eq!(refused(&format!("steps = {fine}")), "");
        }
        for wrong in [
            "[]",
            "['propeller']",
            "['propeller', 'autofdo']",
            "['autofdo', 'propeller', 'propeller']",
            "['bolt-rest']",
            "['autofdo', 'bolt-rest', 'propeller']",
            "['autofdo', 'propeller', 'bolt-rest', 'bolt-rest']",
        ] {
            assert!(
                refused(&format!("steps = {wrong}")).contains("[optimize] steps: take"),
                "{wrong}"
            );
        }
        assert!(refused("steps = ['bolt']").contains("there is no `bolt`"));
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let both = refused("steps = ['autofdo', 'propeller']\nsplit_functions = true");
        assert!(both.contains("splits functions itself"), "{both}");
        for only_clang in ["split_functions", "group_text"] {
            let line = format!("{only_clang} = true");
            let said = refused_by("gcc", &line);
            assert!(said.contains(&format!("[optimize] {only_clang} is for compiler")), "{said}");
            assert_eq!(refused_by("clang", &line), "");
        }
        assert!(refused("align_functions = 48").contains("power of two"));
        assert!(refused("also = ['pgo', 'pgo']").contains("twice"));
        assert_eq!(refused("also = ['pgo', 'bolt']\nalign_loops = 32"), "");
        assert_eq!(refused("align_loops = 1"), "", "no padding at all");
        assert!(refused("also = ['bolt', 'pgo-bolt']").contains("name both"));
        assert_eq!(refused("also = ['pgo-bolt', 'pgo']"), "");
        assert!(refused("also = ['pgo-layout']").contains("\"pgo-layout\" lays out"));
        assert!(refused("also = ['pgo', 'pgo-layout']").contains("name that in steps"));
        let twice = "steps = ['autofdo', 'bolt-rest']\nalso = ['bolt']";
        assert!(refused(twice).contains("leave one of them out"));
        assert_eq!(refused("steps = ['autofdo', 'propeller', 'bolt-rest']\nalso = ['bolt']"), "");
        let laid_out = refused_by("gcc", "steps = ['autofdo', 'propeller']");
        assert!(laid_out.contains("\"bolt-rest\""), "{laid_out}");
    }
}
