//! One run of a workload, in its order: set up, start, wait, drive, stop, tear down.

use crate::family::{Family, GRACE};
use crate::scene::Scene;
use crate::server::Running;
use crate::used::Used;
use crate::{Error, Workload};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// How a run went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Exit code of the command, or 128 + the number of the signal that ended it; 0 where its exit
    /// code is among those allowed.
    pub code: i32,
    /// What the program used.
    pub used: Used,
    /// What the server printed last, where the command failed.
    pub said: Option<String>,
}

/// Runs a workload once. Where `stop` is set meanwhile, the command is ended, what was started is
/// stopped and torn down, and the run is an error.
///
/// Takes the ends of all children of this process, and ends all processes below it at the end: a
/// process should run one workload and nothing else.
///
/// # Errors
/// Where a command cannot be started, set-up or tear-down fails, or the server does not get ready
/// or ends badly.
pub fn run(workload: &Workload, stop: &AtomicBool) -> Result<Ran, Error> {
    let scene = Scene::of(workload)?;
    let mut family = Family::begin()?;
    let ran = set_up_and_drive(workload, &scene, &mut family, stop);
    let torn_down = match &workload.tear_down {
        Some(text) => scene.run_line("tear_down", text, &mut family, None),
        None => Ok(()),
    };
    family.kill_rest();
    // The first thing that went wrong is the cause of the others.
    let ran = ran?;
    torn_down?;
    Ok(ran)
}

fn set_up_and_drive(
    workload: &Workload,
    scene: &Scene,
    family: &mut Family,
    stop: &AtomicBool,
) -> Result<Ran, Error> {
    if let Some(text) = &workload.set_up {
        scene.run_line("set_up", text, family, Some(stop))?;
    }
    let Some(server) = &workload.server else {
        return drive(workload, scene, family, None, stop);
    };
    let server = Running::start(server, scene, family, stop)?;
    let ran = drive(workload, scene, family, Some(&server), stop);
    // A server may end when it is told so by its client, but not badly.
    let failure = server.failure(family);
    let stopped = server.stop(scene, family);
    let ran = match (ran, failure) {
        (Err(error), _) => return Err(error),
        (_, Some(failure)) => return Err(failure),
        (Ok(ran), None) => ran,
    };
    stopped?;
    Ok(ran)
}

/// Runs the command, and the server's client where there is a server.
fn drive(
    workload: &Workload,
    scene: &Scene,
    family: &mut Family,
    server: Option<&Running>,
    stop: &AtomicBool,
) -> Result<Ran, Error> {
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    let mut command = scene.command(&workload.command)?;
    let before = server.map(|server| server.used(family));
    let began = Instant::now();
    let child = command.spawn().map_err(|source| Error::Start {
        command: command.get_program().to_string_lossy().into_owned(),
        source,
    })?;
    let pid = child.id() as i32;
    family.watch(pid);
    // A client that waits for a server that is gone may wait for ever.
    let mut gone: Option<Instant> = None;
    let done = family.wait(pid, &mut |family| {
        if server.is_some_and(|server| server.failure_seen(family)) {
            gone.get_or_insert_with(Instant::now);
        }
        stop.load(Ordering::Relaxed) || gone.is_some_and(|since| since.elapsed() > GRACE)
    });
    let wall_ns = began.elapsed().as_nanos() as u64;
    let Some((code, used)) = done else {
        family.end(pid);
        let failure = server.and_then(|server| server.failure(family));
        return Err(failure.filter(|_| gone.is_some()).unwrap_or(Error::Interrupted));
    };
    let used = match (server, before) {
        (Some(server), Some(before)) => since(&before, server.used(family)),
        _ => used,
    };
    let code = if workload.exit_codes.contains(&code) { 0 } else { code };
    let said = server.filter(|_| code != 0).map(Running::last_lines);
    Ok(Ran { code, used: Used { wall_ns, ..used }.named(), said })
}

/// The sum of both times is known better than how it divides.
fn since(before: &Used, after: Used) -> Used {
    let all = (after.user_ns + after.system_ns).saturating_sub(before.user_ns + before.system_ns);
    let system_ns = after.system_ns.saturating_sub(before.system_ns).min(all);
    Used {
        user_ns: all - system_ns,
        system_ns,
        minor_faults: after.minor_faults.saturating_sub(before.minor_faults),
        major_faults: after.major_faults.saturating_sub(before.major_faults),
        ..after
    }
}
