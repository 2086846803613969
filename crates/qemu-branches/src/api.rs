//! Which functions of qemu's plugin interface (version 1) the plugin calls, looked up when qemu
//! loads it.
//!
//! Looked up by name rather than linked, so that the crate's own tests link without qemu, and a
//! qemu that lacks a function gives a sentence instead of a loader error. Source:
//! `docs/devel/tcg-plugins.rst` of qemu 7.2.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// The plugin's handle, given at installation and handed back in every registration.
pub type PluginId = u64;

/// qemu checks this number before it calls `qemu_plugin_install`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = 1;

/// What qemu tells a plugin about itself.
#[repr(C)]
pub struct QemuInfo {
    pub target_name: *const c_char,
    pub version_min: c_int,
    pub version_current: c_int,
    pub system_emulation: bool,
    pub smp_vcpus: c_int,
    pub max_vcpus: c_int,
}

/// A translation block while it is translated.
pub enum Tb {}
/// An instruction of such a block.
pub enum Insn {}

pub type TranslateCallback = extern "C" fn(PluginId, *mut Tb);
/// Virtual CPU, what access it is, its address.
pub type MemoryCallback = extern "C" fn(c_uint, u32, u64, *mut c_void);
/// Also of single instructions.
pub type BlockCallback = extern "C" fn(c_uint, *mut c_void);
pub type VcpuCallback = extern "C" fn(PluginId, c_uint);
pub type AtExitCallback = extern "C" fn(PluginId, *mut c_void);
#[rustfmt::skip]
pub type SyscallCallback = extern "C" fn(PluginId, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
pub type SyscallReturnCallback = extern "C" fn(PluginId, c_uint, i64, i64);

/// The callback does not touch guest registers.
pub const NO_REGISTERS: c_int = 0;

/// Loads and stores.
pub const LOADS_AND_STORES: c_int = 3;

/// The functions of qemu that the plugin uses.
#[derive(Clone, Copy)]
pub struct Api {
    pub on_translate: unsafe extern "C" fn(PluginId, TranslateCallback),
    pub on_block: unsafe extern "C" fn(*mut Tb, BlockCallback, c_int, *mut c_void),
    pub on_insn: unsafe extern "C" fn(*mut Insn, BlockCallback, c_int, *mut c_void),
    pub on_memory: unsafe extern "C" fn(*mut Insn, MemoryCallback, c_int, c_int, *mut c_void),
    pub access_size_shift: unsafe extern "C" fn(u32) -> c_uint,
    pub on_vcpu_start: unsafe extern "C" fn(PluginId, VcpuCallback),
    pub on_exit: unsafe extern "C" fn(PluginId, AtExitCallback, *mut c_void),
    pub on_syscall: unsafe extern "C" fn(PluginId, SyscallCallback),
    pub on_syscall_return: unsafe extern "C" fn(PluginId, SyscallReturnCallback),
    pub tb_instructions: unsafe extern "C" fn(*const Tb) -> usize,
    pub tb_address: unsafe extern "C" fn(*const Tb) -> u64,
    pub tb_instruction: unsafe extern "C" fn(*const Tb, usize) -> *mut Insn,
    pub insn_bytes: unsafe extern "C" fn(*const Insn) -> *const u8,
    pub insn_len: unsafe extern "C" fn(*const Insn) -> usize,
    pub insn_address: unsafe extern "C" fn(*const Insn) -> u64,
    pub insn_host: unsafe extern "C" fn(*const Insn) -> *const u8,
}

/// Looks one function up in the running qemu; its name is the error.
fn find(name: &'static CStr) -> Result<*mut c_void, &'static CStr> {
    // SAFETY: the name is a NUL-terminated string, and RTLD_DEFAULT is always a valid handle.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() { Err(name) } else { Ok(found) }
}

// The types stand in the fields; writing them twice would only allow them to differ.
#[allow(clippy::missing_transmute_annotations)]
/// Looks all functions up; the error is the name of one that this qemu does not have.
pub fn load() -> Result<Api, &'static CStr> {
    macro_rules! function {
        ($name:literal) => {
            // SAFETY: version 1 of the interface fixes the prototype that the field's type repeats.
            unsafe { std::mem::transmute(find($name)?) }
        };
    }
    Ok(Api {
        on_translate: function!(c"qemu_plugin_register_vcpu_tb_trans_cb"),
        on_block: function!(c"qemu_plugin_register_vcpu_tb_exec_cb"),
        on_insn: function!(c"qemu_plugin_register_vcpu_insn_exec_cb"),
        on_memory: function!(c"qemu_plugin_register_vcpu_mem_cb"),
        access_size_shift: function!(c"qemu_plugin_mem_size_shift"),
        on_vcpu_start: function!(c"qemu_plugin_register_vcpu_init_cb"),
        on_exit: function!(c"qemu_plugin_register_atexit_cb"),
        on_syscall: function!(c"qemu_plugin_register_vcpu_syscall_cb"),
        on_syscall_return: function!(c"qemu_plugin_register_vcpu_syscall_ret_cb"),
        tb_instructions: function!(c"qemu_plugin_tb_n_insns"),
        tb_address: function!(c"qemu_plugin_tb_vaddr"),
        tb_instruction: function!(c"qemu_plugin_tb_get_insn"),
        insn_bytes: function!(c"qemu_plugin_insn_data"),
        insn_len: function!(c"qemu_plugin_insn_size"),
        insn_address: function!(c"qemu_plugin_insn_vaddr"),
        insn_host: function!(c"qemu_plugin_insn_haddr"),
    })
}
