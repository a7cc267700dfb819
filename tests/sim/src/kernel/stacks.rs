// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Stacks of activities that are suspended.

use std::cell::{Cell, RefCell};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};

/// An activity of a CPU in the kernel, as a coroutine. It yields the time after which it resumes
/// [ns].
pub type Activity = Coroutine<(), u64, ()>;

/// Activities that are suspended.
#[derive(Default)]
pub struct Stacks {
    pub(crate) suspended: RefCell<Vec<Option<Activity>>>,
    pub(crate) free: RefCell<Vec<usize>>,
    pub(crate) unused: RefCell<Vec<DefaultStack>>,
    /// Yielder of the running activity; null outside of one.
    pub(crate) yielder: Cell<*const Yielder<(), u64>>,
}

impl Drop for Stacks {
    fn drop(&mut self) {
        // A run that ends at a broken rule leaves suspended activities. They cannot be unwound
        // through the scheduler's frames, so their stacks are freed without unwinding.
        for activity in self.suspended.get_mut().iter_mut().flatten() {
            if !activity.done() {
                // SAFETY: the frames own nothing that others refer to: the kernel's state is in
                // cells of the engine, which ends as well.
                unsafe { activity.force_reset() };
            }
        }
    }
}
