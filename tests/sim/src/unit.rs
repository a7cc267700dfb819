// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A loaded copy of the scheduler.
//!
//! # Problem
//!
//! The BPF code keeps its state in globals. Each simulation needs its own, and several run in one
//! process.
//!
//! # Approach
//!
//! The shared object that the build script made is part of this program. Each simulation writes it
//! to a file in memory of its own and loads that: the loader sees another file each time and so
//! makes another copy with fresh globals. Nothing has to be reset.

use std::ffi::{CString, c_void};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::ffi;

static PLAIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plain.so"));
static TRACED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/traced.so"));

/// The compiled code to load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Image<'a> {
    /// `bpf/` as it is.
    Plain,
    /// The same, with a call to the engine at each access to shared memory.
    Traced,
    /// A shared object that a test compiled.
    File(&'a Path),
}

/// A copy of the scheduler, connected with an engine.
#[derive(Debug)]
pub struct Unit {
    table: *mut ffi::sim_unit,
    // Dropped last: the table is in it.
    _library: libloading::Library,
    // Open as long as the library: the loader knows it by its path, which has this number.
    _memory: std::fs::File,
}

impl Unit {
    /// Load a copy and connect it.
    ///
    /// # Errors
    /// Fail if the object cannot be loaded or was compiled with other types.
    ///
    /// # Safety
    /// `kernel` must be the address that every function of `host` expects, and valid until the unit
    /// is dropped. `host` must be as well.
    pub unsafe fn open(image: Image<'_>, host: *mut ffi::sim_host, kernel: *mut c_void) -> Result<Self> {
        let bytes = match image {
            Image::Plain => PLAIN.to_vec(),
            Image::Traced => TRACED.to_vec(),
            Image::File(path) => {
                std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?
            }
        };
        let name = CString::new("bias_sim").context("a constant without zeros")?;
        let memory =
            memfd_create(name.as_c_str(), MFdFlags::MFD_CLOEXEC).context("cannot create a file in memory")?;
        let mut memory = std::fs::File::from(memory);
        memory.write_all(&bytes).context("cannot write a file in memory")?;
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        // SAFETY: the object was compiled from this tree and has no constructors.
        let library = unsafe { libloading::Library::new(&path) }.context("cannot load the BPF code")?;
        // SAFETY: unit.h declares the function with this signature.
        let table = unsafe {
            let open = library
                .get::<unsafe extern "C" fn(*mut ffi::sim_host, *mut c_void) -> *mut ffi::sim_unit>(
                    b"sim_open\0",
                )
                .context("the object has no sim_open")?;
            open(host, kernel)
        };
        let unit = Self { table, _library: library, _memory: memory };
        let sizes = [
            (unit.get().host_size, size_of::<ffi::sim_host>()),
            (unit.get().unit_size, size_of::<ffi::sim_unit>()),
            (unit.get().task_size, size_of::<ffi::task_struct>()),
            (unit.get().cpu_ctx_size, size_of::<ffi::cpu_ctx>()),
            (unit.get().weight_at, std::mem::offset_of!(ffi::cpu_ctx, weight)),
            (unit.get().move_to_at, std::mem::offset_of!(ffi::cpu_ctx, move_to)),
        ];
        if sizes.iter().any(|(theirs, ours)| *theirs != *ours) {
            bail!("the object was compiled with other types {sizes:?}; build it again");
        }
        Ok(unit)
    }

    /// Return the table of callbacks and globals.
    #[must_use]
    pub fn get(&self) -> &ffi::sim_unit {
        // SAFETY: sim_open() returned the address of a static that lives as long as the library.
        unsafe { &*self.table }
    }
}
