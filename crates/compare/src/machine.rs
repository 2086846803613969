//! On what machine is this?

use crate::result::MeasuredMachine;

/// The machine, under the name given or the host's.
pub fn this_machine(name: Option<&str>) -> MeasuredMachine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let field = |key: &str| {
        let line =
            info.lines().find(|line| line.split(':').next().is_some_and(|k| k.trim() == key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let cpu =
        field("model name").or_else(|| field("CPU part")).unwrap_or_else(|| "unknown CPU".into());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get) as u32;
    let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
    let host = read("/proc/sys/kernel/hostname").trim().to_owned();
    let name = name.map_or(host, str::to_owned);
    let fingerprint = format!("{cpu} | {cores} CPUs | {kernel} | {}", std::env::consts::ARCH);
    MeasuredMachine { name, fingerprint, cpu, cores, kernel, calibration: None }
}
