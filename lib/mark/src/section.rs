// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A place in the code where a section begins.

use std::ffi::{CStr, c_char};
use std::sync::atomic::AtomicU32;

/// A place in the code: `struct bias_section` of `bias_mark.h`.
#[repr(C)]
pub struct Section {
    name: *const c_char,
    /// What a mode keeps of the section, 0 before its first mark.
    pub(crate) set: AtomicU32,
}

// SAFETY: the name is never written, and the other field is atomic.
unsafe impl Sync for Section {}

impl Section {
    /// Return a section of that name.
    pub const fn new(name: &'static CStr) -> Self {
        Section { name: name.as_ptr(), set: AtomicU32::new(0) }
    }

    /// Return the name.
    pub(crate) fn name(&self) -> &'static str {
        if self.name.is_null() {
            return "(null)";
        }
        // SAFETY: the name is a string that lives until the process ends, as the header demands.
        unsafe { CStr::from_ptr(self.name) }.to_str().unwrap_or("(not UTF-8)")
    }
}
