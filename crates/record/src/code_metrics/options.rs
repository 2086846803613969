//! How to measure: caches, CPU, and everything around the program that its path through the code
//! may depend on.

use super::Geometry;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The environment variables that the program gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Environment {
    /// These and no others.
    Fixed(BTreeMap<String, String>),
    /// The caller's, without those that steer the emulator (`QEMU_…`). The metrics may then differ
    /// between callers.
    Inherited,
}

impl Default for Environment {
    /// `HOME=/`, `LC_ALL=C`, `PATH=/usr/local/bin:/usr/bin:/bin`, `TZ=UTC`.
    fn default() -> Environment {
        let variables = [
            ("HOME", "/"),
            ("LC_ALL", "C"),
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("TZ", "UTC"),
        ];
        Environment::Fixed(
            variables
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        )
    }
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct MetricsOptions {
    /// The simulated caches and translation buffers; read parts of it from text with
    /// [`Geometry::set`].
    pub geometry: Geometry,
    /// The emulated CPU, as qemu's `-cpu` takes it. It decides which variants of memcpy and the
    /// like the C library chooses, so it is fixed and not the machine's own. `max` has all
    /// that the emulator can do.
    pub cpu: String,
    /// The program's environment.
    pub environment: Environment,
    /// The program's name for itself (`argv[0]`); the file name of the command's first word when
    /// none. Its length shifts the stack, so give variants under different names the same one.
    pub name: Option<String>,
    /// Where the program runs; the caller's directory when none.
    pub directory: Option<PathBuf>,
    /// The program's standard input; empty when none.
    pub stdin: Option<PathBuf>,
    /// Where the emulator looks for a dynamically linked program's loader and libraries (qemu's
    /// `-L`), for a machine that is not this one's.
    pub sysroot: Option<PathBuf>,
    /// Stops the program after this much wall time.
    pub timeout: Option<Duration>,
    /// The plugin, when it is not where it is looked for.
    pub plugin: Option<PathBuf>,
}

impl Default for MetricsOptions {
    fn default() -> MetricsOptions {
        MetricsOptions {
            geometry: Geometry::default(),
            cpu: "max".into(),
            environment: Environment::default(),
            name: None,
            directory: None,
            stdin: None,
            sysroot: None,
            timeout: None,
            plugin: None,
        }
    }
}
