// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Timers of BPF code (bpf_timer_start()).

use std::cell::{Cell, RefCell};
use std::ffi::c_void;

use crate::ffi;

/// A timer, its map, its callback, and the number of its last start.
#[derive(Debug, Clone, Copy)]
pub struct BpfTimer {
    /// Its address.
    pub timer: *mut ffi::bpf_timer,
    /// The map that it is in.
    pub map: *mut c_void,
    /// Its callback.
    pub callback: ffi::bpf_timer_callback,
    start: u64,
}

/// All timers. A later start of one replaces an earlier one.
#[derive(Debug, Default)]
pub struct BpfTimers {
    all: RefCell<Vec<BpfTimer>>,
    starts: Cell<u64>,
}

impl BpfTimers {
    /// Add a timer. Return false if it exists.
    pub fn init(&self, timer: *mut ffi::bpf_timer, map: *mut c_void) -> bool {
        let mut all = self.all.borrow_mut();
        let new = all.iter().all(|known| known.timer != timer);
        if new {
            all.push(BpfTimer { timer, map, callback: None, start: 0 });
        }
        new
    }

    /// Set the callback. Return false for an unknown timer.
    pub fn set(&self, timer: *mut ffi::bpf_timer, callback: ffi::bpf_timer_callback) -> bool {
        let mut all = self.all.borrow_mut();
        let known = all.iter_mut().find(|known| known.timer == timer);
        known.map(|known| known.callback = callback).is_some()
    }

    /// Return the number of this start, None if `timer` has no callback.
    pub fn start(&self, timer: *mut ffi::bpf_timer) -> Option<u64> {
        let mut all = self.all.borrow_mut();
        let known = all.iter_mut().find(|known| known.timer == timer && known.callback.is_some())?;
        self.starts.set(self.starts.get() + 1);
        known.start = self.starts.get();
        Some(known.start)
    }

    /// Return the timer whose last start is the one of this number.
    pub fn expired(&self, start: u64) -> Option<BpfTimer> {
        self.all.borrow().iter().find(|known| known.start == start).copied()
    }

    /// Return the number of starts so far.
    pub fn starts(&self) -> u64 {
        self.starts.get()
    }
}
