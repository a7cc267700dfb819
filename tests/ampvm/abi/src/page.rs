// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Mapping of the page into this process, and access to it without undefined behaviour.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use serde_json::{Map, Value, json};

use crate::layout::{COUNTERS, MAGIC, MAX_VCPUS, PAGE_BYTES, Shared, VERSION, Vcpu, state};

/// Reason why a page cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The file cannot be opened, sized or mapped.
    #[error("cannot map the shared page {path}: {1}", path = .0.display())]
    Map(PathBuf, #[source] io::Error),
    /// The file is shorter than [`PAGE_BYTES`]; the second field is its length.
    #[error("shared page {path} has {1} bytes; it needs {PAGE_BYTES}", path = .0.display())]
    TooShort(PathBuf, u64),
    /// No plugin has set the page up (yet).
    #[error("the shared page is not set up; is QEMU running with the ampvm plugin and this page?")]
    NotReady,
    /// A plugin of this other layout version has set the page up.
    #[error(
        "the shared page has layout version {0}, this program needs {VERSION}; rebuild both from one tree"
    )]
    WrongVersion(u32),
    /// The machine has no vCPU with the first number. The second is its number of vCPUs.
    #[error("no vCPU {0}; this machine has 0 to {max}", max = .1.saturating_sub(1))]
    NoSuchVcpu(usize, usize),
}

/// The page, mapped shared, and unmapped on drop.
pub struct Page {
    at: NonNull<Shared>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and every field in it is atomic.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// Create (or empty) the file at `path`, fill it with zeros, and map it. The caller must do
    /// this before QEMU starts.
    ///
    /// # Errors
    /// [`PageError::Map`] if the file cannot be created, sized or mapped.
    pub fn create(path: &Path) -> Result<Self, PageError> {
        let err = |e| PageError::Map(path.to_owned(), e);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).map_err(err)?;
        // Allocate the blocks now. On a full disk, a sparse page would later kill its writer.
        file.write_all(&[0; PAGE_BYTES]).map_err(err)?;
        Self::map(path, &file)
    }

    /// Map an existing file or PCI resource.
    ///
    /// # Errors
    /// [`PageError::Map`] or [`PageError::TooShort`]. [`Page::check`] verifies separately that a
    /// plugin has set the page up.
    pub fn open(path: &Path) -> Result<Self, PageError> {
        let err = |e| PageError::Map(path.to_owned(), e);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(err)?;
        let meta = file.metadata().map_err(err)?;
        if !meta.is_file() {
            return Err(err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
        }
        if meta.len() < PAGE_BYTES as u64 {
            return Err(PageError::TooShort(path.to_owned(), meta.len()));
        }
        Self::map(path, &file)
    }

    fn map(path: &Path, file: &File) -> Result<Self, PageError> {
        let Some(len) = NonZeroUsize::new(PAGE_BYTES) else { return Err(PageError::NotReady) };
        // SAFETY: the kernel chooses an unused address for the mapping, and the file has at least
        // `len` bytes.
        let at = unsafe {
            mmap(None, len, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED, file, 0)
        }
        .map_err(|e| PageError::Map(path.to_owned(), e.into()))?;
        Ok(Self { at: at.cast() })
    }

    /// Set the page up for vCPUs of these speeds (MIPS/1000), with all counters at zero. The plugin
    /// calls this. Speeds after the first [`MAX_VCPUS`] are ignored.
    pub fn init(&self, mips_milli: &[u32]) {
        let header = &self.header;
        header.magic.store(0, Ordering::Relaxed);
        for (vcpu, mips) in self.vcpus.iter().zip(mips_milli) {
            vcpu.counters.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
            vcpu.mips_milli.store(*mips, Ordering::Relaxed);
            vcpu.wanted_mips_milli.store(0, Ordering::Relaxed);
        }
        header.version.store(VERSION, Ordering::Relaxed);
        header.nr_vcpus.store(mips_milli.len().min(MAX_VCPUS) as u32, Ordering::Relaxed);
        header.enable.store(0, Ordering::Relaxed);
        header.state.store(crate::state::LIGHT, Ordering::Relaxed);
        header.virtual_ns.store(0, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
    }

    /// Check that a plugin of this layout version has set the page up.
    ///
    /// # Errors
    /// [`PageError::NotReady`] or [`PageError::WrongVersion`].
    pub fn check(&self) -> Result<(), PageError> {
        if self.header.magic.load(Ordering::Acquire) != MAGIC {
            return Err(PageError::NotReady);
        }
        match self.header.version.load(Ordering::Relaxed) {
            VERSION => Ok(()),
            other => Err(PageError::WrongVersion(other)),
        }
    }

    /// Return the number of vCPUs in use.
    fn nr_vcpus(&self) -> usize {
        (self.header.nr_vcpus.load(Ordering::Relaxed) as usize).min(MAX_VCPUS)
    }

    /// Cap the speed of vCPU `cpu` in MIPS/1000 from its next quantum on.
    ///
    /// # Errors
    /// [`PageError::NoSuchVcpu`].
    pub fn set_speed(&self, cpu: usize, mips_milli: u32) -> Result<(), PageError> {
        let n = self.nr_vcpus();
        let vcpu = self.vcpus.iter().take(n).nth(cpu).ok_or(PageError::NoSuchVcpu(cpu, n))?;
        vcpu.mips_milli.store(mips_milli, Ordering::Relaxed);
        Ok(())
    }

    /// Return the whole page as one JSON object with these keys:
    ///
    /// * `state`: "light", "starting" or "modelling".
    /// * `enabled`: whether the guest has virtual time enabled.
    /// * `virtual_ns`: the virtual clock.
    /// * `vcpus`: an array of objects with `cpu`, the names of [`COUNTERS`], and the two speeds of
    ///   [`Vcpu`] as keys. The counters are about a quantum old at most.
    pub fn json(&self) -> serde_json::Value {
        let speed = |speed: &AtomicU32| Value::from(speed.load(Ordering::Relaxed));
        let vcpu = |(cpu, vcpu): (usize, &Vcpu)| {
            let counters = vcpu.counters.iter().map(|counter| counter.load(Ordering::Relaxed).into());
            let mut fields: Map<_, _> = COUNTERS.iter().map(ToString::to_string).zip(counters).collect();
            fields.insert("cpu".into(), cpu.into());
            fields.insert("mips_milli".into(), speed(&vcpu.mips_milli));
            fields.insert("wanted_mips_milli".into(), speed(&vcpu.wanted_mips_milli));
            Value::from(fields)
        };
        let state = self.header.state.load(Ordering::Relaxed) as usize;
        json!({
            "state": state::NAMES.get(state),
            "enabled": self.header.enable.load(Ordering::Relaxed) != 0,
            "virtual_ns": self.header.virtual_ns.load(Ordering::Relaxed),
            "vcpus": self.vcpus.iter().take(self.nr_vcpus()).enumerate().map(vcpu).collect::<Vec<_>>(),
        })
    }
}

impl Deref for Page {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        // SAFETY: the page stays mapped as long as self lives, is aligned to a host page, and holds
        // only atomics.
        unsafe { self.at.as_ref() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: `map` made this mapping, and all references to it end with self. A failure leaves
        // it mapped.
        let _ = unsafe { munmap(self.at.cast(), PAGE_BYTES) };
    }
}
