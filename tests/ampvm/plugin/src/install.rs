//! Installation: what QEMU looks up and calls first.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::Ordering::{Relaxed, Release};

use ampvm_abi::Page;
use qemu_plugin_sys as q;

use crate::args::{self, Priority};
use crate::ffi::{Inline, MACHINE, PLUGIN_ID, QUANTUM, SCOREBOARD, register, vcpu_created};
use crate::host;
use crate::vcpu::Machine;

/// Plugin API this was written for; QEMU refuses to load a plugin whose version it does not know.
const API: c_int = 4;
/// Looked up by QEMU before it calls [`qemu_plugin_install`].
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = API;

/// Called by QEMU once, before the machine starts. Returns 0, or -1 after one line on stderr.
///
/// # Safety
/// QEMU's contract: `info` is valid, `argv` holds `argc` C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: q::qemu_plugin_id_t,
    info: *const q::qemu_info_t,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    // SAFETY: passed on from the caller.
    match unsafe { install(id, info, argc, argv) } {
        Ok(()) => 0,
        Err(message) => {
            eprintln!("ampvm: {message}");
            -1
        }
    }
}

unsafe fn install(
    id: q::qemu_plugin_id_t,
    info: *const q::qemu_info_t,
    argc: c_int,
    argv: *mut *mut c_char,
) -> Result<(), String> {
    // SAFETY: the caller's contract.
    let info = unsafe { info.as_ref() }.ok_or("QEMU gave no machine description")?;
    let (min, cur) = (info.version.min, info.version.cur);
    if !(min..=cur).contains(&API) {
        return Err(format!("this QEMU's plugin API is {min} to {cur}, API {API} is needed; use QEMU 10.0"));
    }
    // SAFETY: a C string from QEMU.
    let target = unsafe { CStr::from_ptr(info.target_name) }.to_string_lossy();
    if !info.system_emulation || target != "x86_64" {
        return Err(format!("{target} is not supported; use qemu-system-x86_64"));
    }
    // SAFETY: system emulation, so this member of the union is the valid one.
    let cpus = unsafe { info.__bindgen_anon_1.system };
    if cpus.max_vcpus != cpus.smp_vcpus {
        return Err(
            "vCPUs cannot be added later; use -smp N without maxcpus (the guest can still offline them)"
                .into(),
        );
    }
    let mut words = Vec::new();
    for k in 0..usize::try_from(argc).unwrap_or(0) {
        // SAFETY: the caller's contract.
        let word = unsafe { CStr::from_ptr(*argv.add(k)) };
        words.push(word.to_str().map_err(|_| format!("argument {word:?} is not UTF-8"))?);
    }
    let config = args::parse(words, usize::try_from(cpus.smp_vcpus).unwrap_or(0))?;
    let page = Page::open(&config.shm).map_err(|e| e.to_string())?;
    let speeds: Vec<u32> = config.vcpus.iter().map(|v| v.mips_milli).collect();
    page.init(&speeds);
    let machine = Box::leak(Box::new(Machine::new(&config, page, QUANTUM)));
    MACHINE.store(machine, Release);
    // SAFETY: a plain constructor.
    SCOREBOARD.store(unsafe { q::qemu_plugin_scoreboard_new(size_of::<Inline>()) }, Release);
    PLUGIN_ID.store(id, Relaxed);
    if config.priority == Priority::Realtime {
        // QEMU installs plugins on the thread that becomes its main loop. vCPUs follow when they are paced.
        host::realtime(0, host::MAIN_LOOP_RT_PRIORITY);
    } else if config.priority == Priority::High {
        host::short_slices();
    }
    // SAFETY: as in `register`.
    unsafe { q::qemu_plugin_register_vcpu_init_cb(id, Some(vcpu_created)) };
    register(id);
    Ok(())
}
