//! What a command line may say of a project: how it is built, what it is recorded and measured on.

use build::composed::Said;
use build::recognise::{Kind, Work};

/// Options of `init` and `optimize`.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "The project")]
pub struct ProjectArgs {
    /// Build with cargo
    #[arg(long, group = "system")]
    pub cargo: bool,
    /// Build with CMake
    #[arg(long, group = "system")]
    pub cmake: bool,
    /// Build with Meson
    #[arg(long, group = "system")]
    pub meson: bool,
    /// Build with configure and make
    #[arg(long, group = "system")]
    pub autotools: bool,
    /// Build with make alone
    #[arg(long, group = "system")]
    pub make: bool,
    /// Build with this line for `sh -c`; it gets PLANISH_CC, PLANISH_CFLAGS and so on, and writes
    /// below PLANISH_OUT
    #[arg(long, group = "system", value_name = "COMMAND", requires = "program")]
    pub build: Option<String>,
    /// The program to make faster: its name, or its path below PLANISH_OUT [default: the one that
    /// the project is named after]
    #[arg(long, value_name = "NAME")]
    pub program: Option<String>,
    /// A shared library, or another executable, of the project that the program runs with: its path
    /// below PLANISH_OUT. Repeat it for more
    #[arg(long, value_name = "PATH")]
    pub library: Vec<String>,
    /// Record the program on this; {bin} is the program. Repeat it for more
    #[arg(long, value_name = "COMMAND")]
    pub train: Vec<String>,
    /// Measure the programs on this [default: what it is trained on, which overstates the gain]
    #[arg(long, value_name = "COMMAND")]
    pub evaluate: Vec<String>,
    /// Set any key of planish.toml, as in evaluate.rounds=60. Repeat it for more
    #[arg(long, value_name = "TABLE.KEY=VALUE")]
    pub set: Vec<String>,
}

impl ProjectArgs {
    /// The same, as the project's own value.
    pub fn said(&self) -> Said {
        let systems = [
            (self.cargo, Kind::Cargo),
            (self.cmake, Kind::Cmake),
            (self.meson, Kind::Meson),
            (self.autotools, Kind::Autotools),
            (self.make, Kind::Make),
        ];
        // A list of JSON is one of TOML.
        let libraries = serde_json::json!(self.library);
        let libraries = (!self.library.is_empty()).then(|| format!("build.libraries={libraries}"));
        Said {
            kind: systems.into_iter().find_map(|(said, kind)| said.then_some(kind)),
            build: self.build.clone(),
            program: self.program.clone(),
            work: Work { train: self.train.clone(), evaluate: self.evaluate.clone() },
            settings: libraries.into_iter().chain(self.set.iter().cloned()).collect(),
        }
    }
}
