// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Maps, task storage and masks that BPF code allocates.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;

use crate::ffi;

/// A map of the scheduler, found by the address of its definition.
#[derive(Debug)]
struct Map {
    definition: usize,
    /// Values, of 8-byte words so that they are aligned.
    values: Vec<u64>,
    words: usize,
    entries: usize,
}

/// Allocations of BPF code. They do not move, because BPF code holds their addresses.
#[derive(Debug)]
pub struct Memory {
    nr_cpus: usize,
    maps: RefCell<Vec<Map>>,
    storages: RefCell<Vec<Box<[u64]>>>,
    storage_map: Cell<usize>,
    masks: RefCell<Vec<*mut ffi::bpf_cpumask>>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        for mask in self.masks.get_mut().drain(..) {
            // SAFETY: mask_create() made it with Box, and mask_release() has not freed it.
            drop(unsafe { Box::from_raw(mask) });
        }
    }
}

impl Memory {
    /// Return an empty memory.
    #[must_use]
    pub fn new(nr_cpus: usize) -> Self {
        Self {
            nr_cpus,
            maps: RefCell::default(),
            storages: RefCell::default(),
            storage_map: Cell::new(0),
            masks: RefCell::default(),
        }
    }

    /// Look up `key` in an array, or in an array per CPU at `cpu`. Return null if it is out of
    /// range.
    pub fn lookup(
        &self,
        definition: *const c_void,
        entries: usize,
        value_size: usize,
        per_cpu: bool,
        key: usize,
        cpu: usize,
    ) -> *mut c_void {
        let mut maps = self.maps.borrow_mut();
        let at = maps.iter().position(|map| map.definition == definition as usize).unwrap_or_else(|| {
            let words = value_size.div_ceil(8);
            let copies = if per_cpu { self.nr_cpus } else { 1 };
            maps.push(Map {
                definition: definition as usize,
                values: vec![0; entries * copies * words],
                words,
                entries,
            });
            maps.len() - 1
        });
        let map = &mut maps[at];
        if key >= map.entries || (per_cpu && cpu >= self.nr_cpus) {
            return std::ptr::null_mut();
        }
        let index = if per_cpu { cpu * map.entries + key } else { key };
        map.values
            .get_mut(index * map.words)
            .map_or(std::ptr::null_mut(), |word| std::ptr::from_mut(word).cast())
    }

    /// Return true if `map` is the only map of task storage seen so far.
    pub fn is_storage(&self, map: *const c_void) -> bool {
        if self.storage_map.get() == 0 {
            self.storage_map.set(map as usize);
        }
        self.storage_map.get() == map as usize
    }

    /// Allocate zeroed storage for a task.
    pub fn storage(&self, size: usize) -> *mut c_void {
        let mut storage = vec![0u64; size.div_ceil(8)].into_boxed_slice();
        let address = storage.as_mut_ptr();
        self.storages.borrow_mut().push(storage);
        address.cast()
    }

    /// Allocate an empty mask.
    pub fn mask_create(&self) -> *mut ffi::bpf_cpumask {
        // SAFETY: a mask has integers only.
        let mask = Box::into_raw(Box::new(unsafe { std::mem::zeroed() }));
        self.masks.borrow_mut().push(mask);
        mask
    }

    /// Free a mask. Return false if it does not exist.
    pub fn mask_release(&self, mask: *mut ffi::bpf_cpumask) -> bool {
        let mut masks = self.masks.borrow_mut();
        let Some(at) = masks.iter().position(|other| *other == mask) else { return false };
        // SAFETY: it is one that mask_create() made and that was not freed.
        drop(unsafe { Box::from_raw(masks.swap_remove(at)) });
        true
    }
}
