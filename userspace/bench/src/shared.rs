// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Memory shared between a measurement and the processes that it starts.
//!
//! This is anonymous shared memory, inherited across fork. It contains only atomics, so no process
//! can see a torn value, and a task that dies leaves nothing locked.

use crate::{Error, Result};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::num::NonZeroUsize;
use std::ptr::NonNull;

/// Types that may live in shared memory.
///
/// # Safety
/// All-zero bytes must be a valid value. Every field must be an atomic, because several processes
/// access it at the same time, and must not be a pointer.
pub unsafe trait SharedZero: Sync {}

// SAFETY: an atomic integer is valid when zero.
unsafe impl SharedZero for std::sync::atomic::AtomicU64 {}

/// An array of `T`, zeroed at first, shared by this process and every process forked from it later.
pub struct Shared<T: SharedZero> {
    base: NonNull<T>,
    len: usize,
}

// SAFETY: shared access gives out only `&T`, and T is Sync. The mapping changes neither place nor
// size.
unsafe impl<T: SharedZero> Sync for Shared<T> {}

impl<T: SharedZero> Shared<T> {
    /// Map `len` zeroed elements. A `len` of 0 counts as 1.
    pub fn new(len: usize) -> Result<Self> {
        let len = len.max(1);
        let bytes = size_of::<T>().checked_mul(len).and_then(NonZeroUsize::new);
        let bytes = bytes.ok_or_else(|| Error::failed("sharing memory", "impossible size"))?;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let base =
            unsafe { mmap_anonymous(None, bytes, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags) };
        let base = base.map_err(|e| Error::failed(format!("sharing {bytes} bytes of memory"), e))?;
        Ok(Shared { base: base.cast(), len })
    }

    /// Return all elements.
    pub fn all(&self) -> &[T] {
        // SAFETY: the mapping holds `len` elements, page-aligned and zeroed (valid by SharedZero).
        // It lives as long as `self`. Only shared access is given out, and T's fields are atomics.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl<T: SharedZero> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: this is exactly the mapping made in `new`, and no reference outlives `self`.
        let _ = unsafe { munmap(self.base.cast(), size_of::<T>() * self.len) };
    }
}
