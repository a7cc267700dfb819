// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Owners of words: which CPU may store to a `cpu_ctx`.
//!
//! # Problem
//!
//! `bpf/` takes no locks. A word with several writers needs an argument why a lost store does no
//! harm. Most words of a `cpu_ctx` have one writer instead, its own CPU. A store by another CPU
//! would be a data race that no result shows for long.
//!
//! # Approach
//!
//! Traced code reports each store. One to the `cpu_ctx` of another CPU is legal in the cache line
//! that any CPU writes (`move_to` up to `resident_pid`). It is also legal while the storing CPU
//! holds the other one's runqueue lock, because callbacks of that CPU run under it.
//!
//! # Limits
//!
//! Atomic operations are not stores here. Loads are not checked: other CPUs may see any store late.

use std::mem::{offset_of, size_of};

use crate::ffi::cpu_ctx;
use crate::kernel::Kernel;

/// Offsets of the words that any CPU may write.
const SHARED: std::ops::Range<usize> = offset_of!(cpu_ctx, move_to)..offset_of!(cpu_ctx, resident_pid);

impl Kernel {
    /// Check a store of the present CPU to a global of `bpf/`.
    pub(crate) fn check_writer(&self, address: usize) {
        let at = address.wrapping_sub(self.unit().cpu_ctxs as usize);
        let (owner, field) = (at / size_of::<cpu_ctx>(), at % size_of::<cpu_ctx>());
        let here = self.here.get();
        if owner != here || SHARED.contains(&field) {
            self.counters.shared_stores.set(self.counters.shared_stores.get() + 1);
        }
        let Some(cpu) = self.cpus.get(owner) else { return };
        if owner != here && !SHARED.contains(&field) && cpu.locked_by.get() != Some(here) {
            self.broken("writer", format!("CPU {here} writes byte {field} of CPU {owner}'s cpu_ctx"));
        }
    }
}
