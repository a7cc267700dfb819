// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Installation: the function that QEMU calls first.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::Ordering::{Relaxed, Release};

use ampvm_abi::Page;
use nix::libc;
use qemu_plugin_sys as q;

use super::adapters::{PLUGIN_ID, register, register_first};
use super::api::{APIS, qemu_plugin_version};
use super::inline::{Inline, MACHINE, SCOREBOARD};
use super::interpose;
use super::thread::{ROLE, Role, TIMES};
use super::ticks;
use crate::times::{Instant, Times};
use crate::vcpu::Machine;
use crate::{args, host};

/// Install the plugin. QEMU calls this once, before the machine starts. Return 0, or -1 after one
/// line on stderr.
///
/// # Safety
/// QEMU's contract: `info` is valid, and `argv` holds `argc` C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: q::qemu_plugin_id_t,
    info: *const q::qemu_info_t,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller keeps the same contract.
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
    // SAFETY: the caller passes a valid `info`.
    let info = unsafe { info.as_ref() }.ok_or("QEMU gave no machine description")?;
    let (min, cur) = (info.version.min, info.version.cur);
    let api = qemu_plugin_version.load(Relaxed);
    if !(min..=cur).contains(&api) || !APIS.contains(&api) {
        return Err(format!("this QEMU's plugin API is {min} to {cur}, not {api}; use QEMU 10.0 to 11.1"));
    }
    // SAFETY: QEMU passes a C string.
    let target = unsafe { CStr::from_ptr(info.target_name) }.to_string_lossy();
    if !info.system_emulation || target != "x86_64" {
        return Err(format!("{target} is not supported; use qemu-system-x86_64"));
    }
    // SAFETY: this is system emulation, so this member of the union is the valid one.
    let cpus = unsafe { info.__bindgen_anon_1.system };
    let mut words = Vec::new();
    for k in 0..usize::try_from(argc).unwrap_or(0) {
        // SAFETY: the caller passes `argc` C strings.
        let word = unsafe { CStr::from_ptr(*argv.add(k)) };
        words.push(word.to_str().map_err(|_| format!("argument {word:?} is not UTF-8"))?);
    }
    let config = args::parse(words, usize::try_from(cpus.max_vcpus).unwrap_or(0))?;
    if !is_preloaded() {
        return Err("the plugin keeps the machine's time only if it is also preloaded; start QEMU with LD_PRELOAD=PLUGIN".into());
    }
    if host::main_event().is_none() {
        return Err("this host has no event file left; raise the limit on open files".into());
    }
    ticks::replace()?;
    let page = Page::open(&config.shm).map_err(|e| e.to_string())?;
    page.init(&config.machine.slots.iter().flatten().map(|v| v.mips_milli).collect::<Vec<_>>());
    let now = Instant { real_ns: host::real_ns(), tsc: ticks::host_tsc() };
    let _ = TIMES.set(Times::new(now));
    // QEMU installs plugins on the thread that becomes its main loop.
    ROLE.set(Role::Main);
    // SAFETY: the function only allocates a scoreboard.
    SCOREBOARD.store(unsafe { q::qemu_plugin_scoreboard_new(size_of::<Inline>()) }, Release);
    PLUGIN_ID.store(id, Relaxed);
    MACHINE.store(Box::leak(Box::new(Machine::new(&config, page))), Release);
    register_first(id);
    register(id);
    Ok(())
}

/// Return true if QEMU finds this library's functions before libc's.
fn is_preloaded() -> bool {
    // SAFETY: the name ends in NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"clock_gettime".as_ptr()) };
    found == interpose::clock_gettime as *mut c_void
}
