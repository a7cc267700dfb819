// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The timer of BPF code (bpf_timer_start()).

use std::cell::Cell;
use std::ffi::c_void;

use crate::ffi;

/// A timer: where it is, its map, its callback, and how often it was started. A later start
/// replaces an earlier one.
#[derive(Debug, Default)]
pub struct BpfTimer {
    what: Cell<Option<(*mut ffi::bpf_timer, *mut c_void, ffi::bpf_timer_callback)>>,
    starts: Cell<u64>,
}

impl BpfTimer {
    /// Set the callback.
    pub fn set(&self, timer: *mut ffi::bpf_timer, map: *mut c_void, callback: ffi::bpf_timer_callback) {
        self.what.set(Some((timer, map, callback)));
    }

    /// Return the number of this start, None if `timer` has no callback.
    pub fn start(&self, timer: *mut ffi::bpf_timer) -> Option<u64> {
        self.what.get().filter(|(known, ..)| *known == timer)?;
        self.starts.set(self.starts.get() + 1);
        Some(self.starts.get())
    }

    /// Return the timer, its map and its callback if no start came after the one of this number.
    pub fn expired(&self, start: u64) -> Option<(*mut ffi::bpf_timer, *mut c_void, ffi::bpf_timer_callback)> {
        self.what.get().filter(|_| self.starts.get() == start)
    }
}
