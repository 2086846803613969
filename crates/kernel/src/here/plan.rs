//! What is measured on the machine itself: kernels, commands, and how the machine boots.

use super::{BootOnce, Identity, PLAN, runs, unit};
use crate::Error;
use crate::time::design;
use compare::{Benchmark, Metric, Recorded, Settings, kept};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const FORMAT: &str = "planish-kernel-here";
const VERSION: u32 = 1;

/// What [`begin`] is asked for.
#[derive(Clone, Debug)]
pub struct Begin<'a> {
    /// Kernels by name, the base first, with their boot images.
    pub kernels: &'a [(String, PathBuf)],
    /// What runs after a boot: by the name of the benchmark, the command.
    pub commands: &'a [(String, Vec<String>)],
    /// What is looked at, the first decides.
    pub metrics: Vec<Metric>,
    /// Rounds, seed, margin.
    pub settings: Settings,
    /// How the next boot is chosen.
    pub boot_once: BootOnce,
    /// What ends this boot, the program and its arguments.
    pub reboot: Vec<String>,
    /// Runs of each command after a boot that do not count.
    pub warm_ups: u32,
    /// How long the machine has run before anything is measured; seconds.
    pub settle_s: f64,
}

/// What is measured, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    format: String,
    version: u32,
    /// What each image says of itself.
    pub(super) identities: BTreeMap<PathBuf, Identity>,
    pub(super) boot_once: BootOnce,
    /// What ends a boot.
    pub reboot: Vec<String>,
    pub(super) warm_ups: u32,
    pub(super) settle_s: f64,
}

/// Writes into a directory what is to be measured; `planish` is the program that goes on after each
/// boot.
///
/// # Errors
/// Where kernels cannot be told apart or booted, or something was begun there before.
pub fn begin(directory: &Path, planish: &Path, wanted: Begin<'_>) -> Result<Plan, Error> {
    let place = directory.join(PLAN);
    if place.exists() {
        return Err(Error::of_file(
            &place,
            "a measurement was begun here; `planish kernel here step` goes on with it, another \
             needs another directory",
        ));
    }
    let mut identities = BTreeMap::<PathBuf, Identity>::new();
    let mut kernels = Vec::new();
    for (name, image) in wanted.kernels {
        let image = std::path::absolute(image).map_err(Error::io(image))?;
        let identity = Identity::of_image(&image)?;
        if let Some((other, _)) = identities.iter().find(|(_, known)| **known == identity) {
            return Err(Error::Wanted(format!(
                "{} and {} are both {identity}, so nobody could tell which has booted; build each \
                 with a CONFIG_LOCALVERSION of its own",
                other.display(),
                image.display()
            )));
        }
        wanted.boot_once.words(&image, &identity)?;
        identities.insert(image.clone(), identity);
        kernels.push((name.clone(), image));
    }
    let mut design = design(&kernels, &wanted.settings)?;
    design.ignore_output = true;
    let benchmark = |(name, command): &(String, Vec<String>)| Benchmark {
        name: name.clone(),
        command: told_the_kernel(command),
        metrics: wanted.metrics.clone(),
        ..Benchmark::default()
    };
    design.benchmarks = wanted.commands.iter().map(benchmark).collect();
    design.check()?;
    let plan = Plan {
        format: FORMAT.to_owned(),
        version: VERSION,
        identities,
        boot_once: wanted.boot_once,
        reboot: wanted.reboot,
        warm_ups: wanted.warm_ups,
        settle_s: wanted.settle_s,
    };
    std::fs::create_dir_all(directory).map_err(Error::io(directory))?;
    let raw = runs(directory);
    kept::replaceable(&raw, &design)?;
    kept::begin(&raw, &Recorded { design, ..Recorded::default() })?;
    let service = service(directory, planish)?;
    beside::write(&unit(directory), service).map_err(Error::io(unit(directory)))?;
    let text = serde_json::to_string_pretty(&plan).map_err(Error::doing("the plan"))? + "\n";
    // Last: what has a plan is whole.
    beside::write(&place, text).map_err(Error::io(&place))?;
    Ok(plan)
}

/// A command that is told by `KERNEL` which image runs: that is what differs between its runs.
fn told_the_kernel(command: &[String]) -> Vec<String> {
    let before = ["env", "KERNEL={bin}"].map(str::to_owned);
    before.into_iter().chain(command.iter().cloned()).collect()
}

/// A unit of systemd that goes on after each boot (systemd.service(5)).
///
/// # Errors
/// Where a name cannot be written there.
pub fn service(directory: &Path, planish: &Path) -> Result<String, Error> {
    let word = |path: &Path| {
        let path = std::path::absolute(path).map_err(Error::io(path))?;
        let name = path.to_str().filter(|name| !name.contains(|c: char| c.is_control()));
        let name = name.ok_or_else(|| {
            Error::of_file(&path, "the name is no plain text, which a unit of systemd needs")
        })?;
        let mut word = String::from("\"");
        for letter in name.chars() {
            match letter {
                '"' | '\\' => word.extend(['\\', letter]),
                '%' | '$' => word.extend([letter, letter]),
                _ => word.push(letter),
            }
        }
        word.push('"');
        Ok::<String, Error>(word)
    };
    Ok(format!(
        "[Unit]\n\
         Description=Measure the kernel that has booted, and boot the next one (planish kernel here)\n\
         After=multi-user.target\n\n\
         [Service]\n\
         Type=exec\n\
         ExecStart={} kernel here step --reboot {}\n\n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        word(planish)?,
        word(directory)?
    ))
}

impl Plan {
    /// What was begun in a directory.
    ///
    /// # Errors
    /// Where nothing was.
    pub fn read(directory: &Path) -> Result<Plan, Error> {
        let path = directory.join(PLAN);
        if !path.exists() {
            return Err(Error::of_file(
                &path,
                "there is no such file; `planish kernel here begin` makes it",
            ));
        }
        let text = beside::given::read_text(&path, beside::given::TEXT);
        let plan = serde_json::from_str::<Plan>(&text.map_err(Error::io(&path))?);
        let problem = format!("{}: not a plan; begin anew in another directory", path.display());
        let plan = plan.map_err(Error::doing(problem))?;
        if plan.format != FORMAT || plan.version != VERSION {
            let problem = format!(
                "expected {FORMAT} version {VERSION}, found {} version {}; begin anew with this \
                 planish",
                plan.format, plan.version
            );
            return Err(Error::of_file(&path, &problem));
        }
        Ok(plan)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    #[test]
    fn a_unit_keeps_names_together() {
        let unit = service(Path::new("/var/lib/a b%$\"c"), Path::new("/usr/bin/planish")).unwrap();
        let line = unit.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
        assert_eq!(
            line,
            "ExecStart=\"/usr/bin/planish\" kernel here step --reboot \"/var/lib/a b%%$$\\\"c\""
        );
        assert!(service(Path::new("/a\nb"), Path::new("/p")).is_err());
    }
}
