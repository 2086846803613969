//! What qemu calls: installation, translation, thread start, system calls, exit.

use crate::api::{self, Api, NO_REGISTERS, PluginId, QemuInfo, Tb};
use crate::block::{Block, Guest, describe};
use crate::calls::numbers;
use crate::settings::Settings;
use crate::{metrics, process, system, vcpu, watch};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

struct Hooks {
    api: Api,
    guest: Guest,
    count_only: bool,
    call_chains: bool,
}

static HOOKS: OnceLock<Hooks> = OnceLock::new();
/// A running system call maps, unmaps or protects code.
static CODE_CHANGES: AtomicBool = AtomicBool::new(false);

/// Called by qemu after it loaded the plugin; anything but 0 makes qemu stop.
///
/// # Safety
/// Only qemu calls this, with valid pointers to its description and to `argc` strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    info: *const QemuInfo,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: the contract of this function.
    let (info, arguments) = unsafe {
        let count = usize::try_from(argc).unwrap_or(0);
        let arguments: Vec<&[u8]> =
            (0..count).map(|at| CStr::from_ptr(*argv.add(at)).to_bytes()).collect();
        (&*info, arguments)
    };
    // SAFETY: qemu's description holds a string.
    let target = unsafe { CStr::from_ptr(info.target_name) };
    let machine = info.system_emulation.then_some(info.max_vcpus);
    match install(id, target, machine, &arguments) {
        Ok(()) => 0,
        Err(message) => {
            crate::say(&message);
            1
        }
    }
}

/// `machine` is the number of virtual CPUs when qemu emulates a machine and not a program.
fn install(
    id: PluginId,
    target: &CStr,
    machine: Option<c_int>,
    arguments: &[&[u8]],
) -> Result<(), String> {
    let guest = match target.to_bytes() {
        b"x86_64" => Guest::X86_64,
        b"aarch64" => Guest::Aarch64,
        _ => return Err(format!("guest {target:?} is not supported; x86_64 and aarch64 are")),
    };
    let settings = Settings::parse(arguments)?;
    match (settings.metrics.clone(), machine) {
        (Some(metrics), Some(max_vcpus)) => {
            return metrics::machine::install(id, guest, max_vcpus, metrics);
        }
        (None, Some(max_vcpus)) => return system::install(id, guest, max_vcpus, settings),
        (_, None) if settings.sections.is_some() => {
            return Err(
                "from=LO,to=HI name sections of a machine's run, and this is a program".into()
            );
        }
        (_, None) if settings.traces => {
            return Err(
                "traces=on counts branches of a machine's kernel, and this is a program".into()
            );
        }
        (Some(metrics), None) => return metrics::install(id, guest, metrics),
        (None, None) => {}
    }
    let api = api::load()
        .map_err(|name| format!("this qemu has no function {name:?}; 6.0 to 8.2 have"))?;
    let (count_only, call_chains) = (settings.count_only, settings.call_chains);
    let spool = settings.spool.clone();
    process::begin(settings)
        .map_err(|error| format!("cannot open the spool {}: {error}", spool.display()))?;
    let hooks = HOOKS.get_or_init(|| Hooks { api, guest, count_only, call_chains });
    // SAFETY: version 1 of the interface: registrations with the plugin's own id and functions that
    // live forever.
    unsafe {
        (hooks.api.on_translate)(id, translated);
        (hooks.api.on_vcpu_start)(id, vcpu_started);
        (hooks.api.on_syscall)(id, syscall);
        (hooks.api.on_syscall_return)(id, syscall_returned);
        (hooks.api.on_exit)(id, exiting, std::ptr::null_mut());
        libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork_in_child));
    }
    Ok(())
}

extern "C" fn vcpu_started(_id: PluginId, index: c_uint) {
    vcpu::start(index);
}

extern "C" fn translated(_id: PluginId, tb: *mut Tb) {
    let Some(hooks) = HOOKS.get() else { return };
    let api = &hooks.api;
    // SAFETY: `tb` is the block being translated.
    let Some((block, host)) = (unsafe { describe(api, hooks.guest, tb) }) else { return };
    if !hooks.count_only {
        watch::translating(block.start, host);
    }
    let block: *const Block = watch::intern(block);
    let callback = match (hooks.count_only, hooks.call_chains) {
        (true, _) => vcpu::count_block,
        (false, true) => vcpu::before_block_in_chain,
        (false, false) => vcpu::before_block,
    };
    // SAFETY: as above; the callback gets the pointer to a description that lives forever.
    unsafe { (api.on_block)(tb, callback, NO_REGISTERS, block.cast_mut().cast::<c_void>()) };
}

#[allow(clippy::too_many_arguments)] // qemu fixes the prototype.
extern "C" fn syscall(
    _id: PluginId,
    _vcpu: c_uint,
    number: i64,
    a1: u64,
    a2: u64,
    a3: u64,
    _a4: u64,
    _a5: u64,
    _a6: u64,
    _a7: u64,
    _a8: u64,
) {
    let (Some(hooks), Some(spool)) = (HOOKS.get(), process::spool()) else { return };
    let known = numbers(hooks.guest);
    if number == known.rt_sigaction && a2 != 0 {
        watch::handler_set(a2);
    } else if number == known.mmap || number == known.mprotect {
        const PROT_EXEC: u64 = 4;
        CODE_CHANGES.fetch_or(a3 & PROT_EXEC != 0, Ordering::Relaxed);
    } else if number == known.munmap {
        CODE_CHANGES.fetch_or(watch::is_code(a1, a2), Ordering::Relaxed);
    } else if number == known.execve || number == known.execveat {
        // Counted before, since a successful one does not return; a failed one is taken back.
        spool.header.native_programs.fetch_add(1, Ordering::Relaxed);
    }
}

extern "C" fn syscall_returned(_id: PluginId, _vcpu: c_uint, number: i64, _result: i64) {
    let (Some(hooks), Some(spool)) = (HOOKS.get(), process::spool()) else { return };
    let known = numbers(hooks.guest);
    if number == known.execve || number == known.execveat {
        spool.header.native_programs.fetch_sub(1, Ordering::Relaxed);
    } else if number == known.mmap || number == known.munmap || number == known.mprotect {
        // Only after the call do the maps show the change.
        if CODE_CHANGES.swap(false, Ordering::Relaxed) {
            watch::mappings_changed();
        }
    }
}

extern "C" fn exiting(_id: PluginId, _data: *mut c_void) {
    vcpu::publish_all();
    if HOOKS.get().is_some_and(|hooks| !hooks.count_only) {
        process::tell_exit();
    }
}

extern "C" fn before_fork() {
    watch::before_fork();
}

extern "C" fn after_fork() {
    watch::after_fork();
}

extern "C" fn after_fork_in_child() {
    watch::after_fork();
    vcpu::after_fork();
}
