//! What qemu calls: installation, translation, thread start, system calls, exit.

use crate::api::{self, Api, Insn, NO_REGISTERS, PluginId, QemuInfo, Tb};
use crate::block::{Block, Guest};
use crate::process::{self, Settings};
use crate::{metrics, sections, system, vcpu, watch};
use std::ffi::{CStr, OsString, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStringExt;
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
    let settings = parse(arguments)?;
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
        libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork));
    }
    Ok(())
}

/// Reads `name=value` arguments.
fn parse(arguments: &[&[u8]]) -> Result<Settings, String> {
    let mut settings = Settings { period: 1000, ..Settings::default() };
    let (mut from, mut to) = (None, None);
    for argument in arguments {
        let mut parts = argument.splitn(2, |byte| *byte == b'=');
        let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        match name {
            b"spool" => settings.spool = OsString::from_vec(value.to_vec()).into(),
            b"metrics" => {
                let result = OsString::from_vec(value.to_vec()).into();
                settings.metrics = Some(metrics::Settings { result, geometry: settings.geometry });
            }
            b"l1i" | b"l2" | b"itlb4k" | b"itlb2m" => {
                settings
                    .geometry
                    .set(&String::from_utf8_lossy(name), &String::from_utf8_lossy(value))?;
            }
            b"comm" => settings.comm = value.to_vec(),
            b"count" => settings.count_only = value == b"on",
            b"traces" => settings.traces = value == b"on",
            b"chains" => settings.call_chains = value == b"on",
            b"from" | b"to" => {
                let text = String::from_utf8_lossy(value);
                let number =
                    text.parse().map_err(|_| format!("{text:?} is no section from 0 to 255"))?;
                *(if name == b"from" { &mut from } else { &mut to }) = Some(number);
            }
            b"period" => {
                let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                settings.period =
                    number.filter(|period| (1..1 << 40).contains(period)).ok_or_else(|| {
                        format!(
                            "period {:?} is not a positive number",
                            String::from_utf8_lossy(value)
                        )
                    })?;
            }
            _ => return Err(format!("unknown argument {:?}", String::from_utf8_lossy(argument))),
        }
    }
    settings.sections = sections::range(from, to)?;
    if let Some(metrics) = &mut settings.metrics {
        if settings.sections.is_some() {
            return Err(
                "metrics are counted in every section; from=LO,to=HI are for recording".into()
            );
        }
        metrics.geometry = settings.geometry;
        return Ok(settings);
    }
    if !settings.spool.is_absolute() {
        return Err("spool=FILE is missing or not absolute; `planish record --branches=emulated` \
                    sets it"
            .into());
    }
    Ok(settings)
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

/// The block being translated, and where its first instruction lies in this process.
///
/// # Safety
/// `tb` must be the block that qemu called a translation callback with, during that call.
pub unsafe fn describe(api: &Api, guest: Guest, tb: *mut Tb) -> Option<(Block, Option<u64>)> {
    // SAFETY: the contract of this function; the block's instructions live as long as the callback,
    // and an instruction's bytes are `insn_len` long.
    unsafe {
        let count = (api.tb_instructions)(tb);
        let last_index = count.checked_sub(1)?;
        let (first, last): (*mut Insn, *mut Insn) =
            ((api.tb_instruction)(tb, 0), (api.tb_instruction)(tb, last_index));
        let start = (api.tb_address)(tb);
        let bytes = std::slice::from_raw_parts((api.insn_bytes)(last), (api.insn_len)(last));
        let block = Block::new(guest, start, (api.insn_address)(last), bytes, count as u32);
        let host = (api.insn_host)(first);
        Some((block, (!host.is_null()).then_some(host as u64)))
    }
}

/// Numbers of the system calls that matter, by guest.
pub struct Numbers {
    mmap: i64,
    munmap: i64,
    mprotect: i64,
    pub rt_sigaction: i64,
    pub execve: i64,
    pub execveat: i64,
}

const X86_64: Numbers =
    Numbers { mmap: 9, munmap: 11, mprotect: 10, rt_sigaction: 13, execve: 59, execveat: 322 };
const AARCH64: Numbers = Numbers {
    mmap: 222,
    munmap: 215,
    mprotect: 226,
    rt_sigaction: 134,
    execve: 221,
    execveat: 281,
};

/// The numbers of a guest's system calls.
pub fn numbers(guest: Guest) -> &'static Numbers {
    match guest {
        Guest::X86_64 => &X86_64,
        Guest::Aarch64 => &AARCH64,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_and_wrong_ones_refused() {
        let settings =
            parse(&[b"spool=/a=b", b"period=50", b"comm=x", b"count=on", b"chains=on"]).unwrap();
        assert_eq!((settings.spool.to_str(), settings.period), (Some("/a=b"), 50));
        assert!(settings.count_only && settings.call_chains);
        assert!(parse(&[b"spool=relative"]).is_err());
        assert!(parse(&[b"spool=/a", b"period=0"]).is_err());
        assert!(parse(&[b"spool=/a", b"other=1"]).is_err());
        let metrics = parse(&[b"metrics=/r", b"l1i=16K:4:64"]).unwrap().metrics.unwrap();
        assert_eq!((metrics.result.to_str(), metrics.geometry.l1i.ways), (Some("/r"), 4));
        assert!(parse(&[b"metrics=/r", b"l1i=17K"]).is_err());
        let sections = parse(&[b"spool=/a", b"from=1", b"to=99"]).unwrap().sections;
        assert_eq!(sections, Some(1..=99));
        assert!(parse(&[b"spool=/a", b"from=1", b"to=256"]).is_err());
        assert!(parse(&[b"spool=/a", b"from=1"]).is_err());
        assert!(parse(&[b"metrics=/r", b"from=1", b"to=99"]).is_err());
        assert!(parse(&[b"spool=/a", b"traces=on"]).unwrap().traces);
    }
}
