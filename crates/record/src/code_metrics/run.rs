//! Running the program under the emulator with the plugin, in surroundings that are the same each
//! time.

use super::{CodeMetrics, Environment, Error, Geometry, MetricsOptions, result};
use crate::{Architecture, Program, sys};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How much of a program's standard error an error quotes, in bytes.
const QUOTED: usize = 2000;

pub(super) fn measure(command: &[String], options: &MetricsOptions) -> Result<CodeMetrics, Error> {
    options.geometry.check().map_err(Error::Geometry)?;
    let program = program(command, options)?;
    let emulator = crate::emulator(program.machine)?;
    let plugin = crate::plugin(options.plugin.as_deref())?;
    // The length of the program's path shifts its stack, so it runs by a link whose path is always
    // as long.
    let dir = tempfile::Builder::new().prefix("planish-metrics-").tempdir();
    let dir = dir.map_err(Error::io(&std::env::temp_dir(), "make a temporary directory"))?;
    let place = Place::make(dir.path(), &program)?;
    let mut run = Command::new(&emulator);
    arguments(&mut run, command, options, &plugin, &place);
    surroundings(&mut run, options, &place)?;
    sys::prepare(&mut run, true);
    sys::fix_addresses(&mut run);
    let name = command.first().cloned().unwrap_or_default();
    let mut child = run.spawn().map_err(Error::io(&emulator, "start"))?;
    let status = wait(&mut child, options.timeout).map_err(Error::io(&emulator, "wait for"))?;
    let Some(status) = status else {
        let limit = options.timeout.unwrap_or_default();
        return Err(Error::TimedOut { program: name, limit });
    };
    let text = std::fs::read_to_string(&place.result).map_err(Error::io(&place.result, "read"))?;
    let stderr = || place.stderr_end();
    if !result::begun(&text) {
        return Err(Error::PluginNotLoaded {
            emulator,
            plugin,
            status: status.to_string(),
            stderr: stderr(),
        });
    }
    if !status.success() {
        return Err(Error::Failed { program: name, status: status.to_string(), stderr: stderr() });
    }
    let sums = result::read(&text, options.geometry.l1i.line)?;
    if sums.processes == 0 {
        return Err(Error::NoResult { program: name, stderr: stderr() });
    }
    Ok(metrics(sums, options, program.machine, version(&emulator)))
}

/// The program that the command names, if there can be metrics of it.
fn program(command: &[String], options: &MetricsOptions) -> Result<Program, Error> {
    let words: Vec<OsString> = command.iter().map(OsString::from).collect();
    let program = match crate::program(&words, options.directory.as_deref()) {
        Err(crate::Error::NotEmulatable { path, found }) => {
            return Err(Error::NotElf { path, found });
        }
        found => found?,
    };
    if program.argv != words {
        let script = command.first().cloned().unwrap_or_default();
        return Err(Error::Script { script, interpreter: program.path });
    }
    Ok(program)
}

/// The files around a run.
struct Place {
    program: PathBuf,
    result: PathBuf,
    stderr: PathBuf,
}

impl Place {
    fn make(dir: &Path, program: &Program) -> Result<Place, Error> {
        let place = Place {
            program: dir.join("program"),
            result: dir.join("result"),
            stderr: dir.join("stderr"),
        };
        std::os::unix::fs::symlink(&program.path, &place.program)
            .map_err(Error::io(&place.program, "link"))?;
        beside::fresh(&place.result).map_err(Error::io(&place.result, "create"))?;
        Ok(place)
    }

    fn stderr_end(&self) -> String {
        let bytes = std::fs::read(&self.stderr).unwrap_or_default();
        let end = bytes.get(bytes.len().saturating_sub(QUOTED)..).unwrap_or_default();
        String::from_utf8_lossy(end).into_owned()
    }
}

/// The emulator's arguments and the program's.
fn arguments(
    run: &mut Command,
    command: &[String],
    options: &MetricsOptions,
    plugin: &Path,
    place: &Place,
) {
    let first = command.first().map(String::as_str).unwrap_or_default();
    let file_name = Path::new(first).file_name().unwrap_or(OsStr::new(first));
    let name = options.name.as_ref().map_or(file_name, OsStr::new);
    let geometry = &options.geometry;
    let mut setting = crate::emulate::escaped(plugin.as_os_str().as_bytes());
    setting.extend_from_slice(b",metrics=");
    setting.extend(crate::emulate::escaped(place.result.as_os_str().as_bytes()));
    for (name, shape) in shapes(geometry) {
        setting.extend(format!(",{name}={shape}").into_bytes());
    }
    // The seed fixes what the program gets as AT_RANDOM and from the random number instructions.
    run.args(["-seed", "1", "-cpu", &options.cpu, "-0"]).arg(name);
    if let Some(sysroot) = &options.sysroot {
        run.arg("-L").arg(sysroot);
    }
    run.arg("-plugin")
        .arg(OsString::from_vec(setting))
        .arg(&place.program)
        .args(command.iter().skip(1));
}

/// The plugin's settings of the caches.
pub(super) fn shapes(geometry: &Geometry) -> [(&'static str, String); 4] {
    [
        ("l1i", geometry.l1i.to_string()),
        ("l2", geometry.l2.to_string()),
        ("itlb4k", geometry.itlb_4k.to_string()),
        ("itlb2m", geometry.itlb_2m.to_string()),
    ]
}

/// Environment, directory and standard streams.
fn surroundings(run: &mut Command, options: &MetricsOptions, place: &Place) -> Result<(), Error> {
    match &options.environment {
        Environment::Fixed(variables) => {
            run.env_clear().envs(variables);
        }
        Environment::Inherited => {
            for (name, _) in
                std::env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(b"QEMU_"))
            {
                run.env_remove(name);
            }
        }
    }
    if let Some(directory) = &options.directory {
        run.current_dir(directory);
    }
    match &options.stdin {
        Some(path) => {
            run.stdin(File::open(path).map_err(Error::io(path, "open as standard input"))?)
        }
        None => run.stdin(Stdio::null()),
    };
    let stderr = beside::fresh(&place.stderr).map_err(Error::io(&place.stderr, "create"))?;
    run.stdout(Stdio::null()).stderr(stderr);
    Ok(())
}

/// Waits for the child; none when it was stopped for taking too long.
fn wait(child: &mut Child, timeout: Option<Duration>) -> std::io::Result<Option<ExitStatus>> {
    let Some(timeout) = timeout else { return child.wait().map(Some) };
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= timeout {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// The emulator's name and version, as it prints them.
pub fn version(emulator: &Path) -> String {
    let output = Command::new(emulator).arg("--version").stdin(Stdio::null()).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned()
}

fn metrics(
    sums: result::Sums,
    options: &MetricsOptions,
    machine: Architecture,
    emulator: String,
) -> CodeMetrics {
    CodeMetrics {
        counters: sums.counters,
        threads: sums.threads,
        processes: sums.processes,
        native_programs: sums.native_programs,
        deterministic: sums.processes == 1 && sums.threads == 1 && sums.counters.interruptions == 0,
        geometry: options.geometry,
        architecture: machine.name().to_owned(),
        cpu: options.cpu.clone(),
        emulator,
    }
}
