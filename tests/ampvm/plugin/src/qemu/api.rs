// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The parts of QEMU's plugin interface that differ between its versions.
//!
//! From plugin API 7 on (QEMU 11.1), a registration takes a pointer and passes it to its callback
//! as the last argument. The plugin's id, the first argument before API 7, is gone. See
//! [`Callback`].

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

use nix::libc;
use qemu_plugin_sys as q;

/// Plugin APIs that this plugin supports.
pub const APIS: std::ops::RangeInclusive<c_int> = 4..=7;
/// Environment variable that holds the plugin API of the QEMU that will load the plugin.
const API_VARIABLE: &CStr = c"AMPVM_PLUGIN_API";
/// Plugin API version. QEMU reads it before it installs the plugin and refuses a version
/// that it does not know.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: AtomicI32 = AtomicI32::new(*APIS.start());

/// Constructor that the loader runs.
#[used]
#[unsafe(link_section = ".init_array")]
static CHOOSE_API: extern "C" fn() = choose_api;

/// Take the API version from the environment. QEMU reads the plugin's version before it reports its
/// own, so the plugin cannot adapt later.
extern "C" fn choose_api() {
    // SAFETY: the name ends in NUL, and no other thread runs yet.
    let value = unsafe { libc::getenv(API_VARIABLE.as_ptr()) };
    if !value.is_null() {
        // SAFETY: `value` is a C string, and no thread changes it.
        qemu_plugin_version.store(unsafe { libc::atoi(value) }, Relaxed);
    }
}

/// A registered callback: (plugin, X) up to API 6, and (X, pointer) from API 7 on. If X is a vCPU's
/// index, only its low half is defined.
pub type Callback = unsafe extern "C" fn(usize, usize);
/// First plugin API that passes a pointer to every callback.
const POINTER_API: c_int = 7;

// These are the prototypes of API 7. Older APIs lack the last argument and do not read its
// register.
#[allow(missing_docs)]
unsafe extern "C" {
    pub fn qemu_plugin_reset(id: q::qemu_plugin_id_t, call: Callback, pointer: *mut c_void);
    pub fn qemu_plugin_register_vcpu_init_cb(id: q::qemu_plugin_id_t, call: Callback, pointer: *mut c_void);
    pub fn qemu_plugin_register_vcpu_idle_cb(id: q::qemu_plugin_id_t, call: Callback, pointer: *mut c_void);
    pub fn qemu_plugin_register_vcpu_resume_cb(id: q::qemu_plugin_id_t, call: Callback, pointer: *mut c_void);
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(
        id: q::qemu_plugin_id_t,
        call: Callback,
        pointer: *mut c_void,
    );
}

/// Return X of a [`Callback`].
pub fn subject(first: usize, second: usize) -> usize {
    if qemu_plugin_version.load(Relaxed) < POINTER_API { second } else { first }
}
