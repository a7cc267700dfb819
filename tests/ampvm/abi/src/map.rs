//! Mapping of the page into this process, and access to it without undefined behaviour.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::{
    Counters, Event, MAGIC, MAX_MIPS_MILLI, MAX_VCPUS, MIN_MIPS_MILLI, PAGE_BYTES, Shared, VERSION, Vcpu,
};

/// Reason why a page cannot be used.
#[derive(Debug)]
pub enum PageError {
    /// The file cannot be opened, sized or mapped.
    Map(PathBuf, io::Error),
    /// The file is shorter than [`PAGE_BYTES`]; the second field is its length.
    TooShort(PathBuf, u64),
    /// No plugin has set the page up (yet).
    NotReady,
    /// A plugin of this other layout version has set the page up.
    WrongVersion(u32),
    /// The machine has no vCPU with the first number; it has as many as the second.
    NoSuchVcpu(usize, usize),
    /// The speed in MIPS/1000 is outside the accepted range.
    BadSpeed(u32),
}

impl std::fmt::Display for PageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Map(path, e) => write!(f, "cannot map the shared page {}: {e}", path.display()),
            Self::TooShort(path, len) => {
                write!(f, "shared page {} has {len} bytes; it needs {PAGE_BYTES}", path.display())
            }
            Self::NotReady => {
                write!(
                    f,
                    "the shared page is not set up; is QEMU running with the ampvm plugin and this page?"
                )
            }
            Self::WrongVersion(v) => write!(
                f,
                "the shared page has layout version {v}, this program needs {VERSION}; rebuild both from one tree"
            ),
            Self::NoSuchVcpu(cpu, n) => {
                write!(f, "no vCPU {cpu}; this machine has 0 to {}", n.saturating_sub(1))
            }
            Self::BadSpeed(mips_milli) => write!(
                f,
                "speed {} MIPS is outside {} to {} MIPS",
                f64::from(*mips_milli) / 1e3,
                f64::from(MIN_MIPS_MILLI) / 1e3,
                MAX_MIPS_MILLI / 1000
            ),
        }
    }
}

impl std::error::Error for PageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Map(_, e) => Some(e),
            _ => None,
        }
    }
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
    ///
    /// [`PageError::Map`] if the file cannot be created, sized or mapped.
    pub fn create(path: &Path) -> Result<Self, PageError> {
        let err = |e| PageError::Map(path.to_owned(), e);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).map_err(err)?;
        // A page without blocks would kill its writer later if the disk is full.
        file.write_all(&[0; PAGE_BYTES]).map_err(err)?;
        Self::map(path, &file)
    }

    /// Map an existing file or PCI resource.
    ///
    /// # Errors
    ///
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
            for counter in vcpu.counters() {
                counter.store(0, Ordering::Relaxed);
            }
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
    ///
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
    pub fn nr_vcpus(&self) -> usize {
        (self.header.nr_vcpus.load(Ordering::Relaxed) as usize).min(MAX_VCPUS)
    }

    fn vcpu(&self, cpu: usize) -> Result<&Vcpu, PageError> {
        let n = self.nr_vcpus();
        self.vcpus.iter().take(n).nth(cpu).ok_or(PageError::NoSuchVcpu(cpu, n))
    }

    /// Return the counters of vCPU `cpu`, which are about a quantum old at most.
    ///
    /// # Errors
    ///
    /// [`PageError::NoSuchVcpu`].
    pub fn counters(&self, cpu: usize) -> Result<Counters, PageError> {
        Ok(self.vcpu(cpu)?.snapshot())
    }

    /// Cap the speed of vCPU `cpu` in MIPS/1000 from its next quantum on. As under thermal
    /// throttling, penalties in cycles take longer and those in nanoseconds do not change.
    ///
    /// # Errors
    ///
    /// [`PageError::NoSuchVcpu`] or [`PageError::BadSpeed`].
    pub fn set_speed(&self, cpu: usize, mips_milli: u32) -> Result<(), PageError> {
        if !(MIN_MIPS_MILLI..=MAX_MIPS_MILLI).contains(&mips_milli) {
            return Err(PageError::BadSpeed(mips_milli));
        }
        self.vcpu(cpu)?.mips_milli.store(mips_milli, Ordering::Relaxed);
        Ok(())
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

impl Vcpu {
    fn counters(&self) -> impl Iterator<Item = &AtomicU64> {
        self.events.iter().chain([
            &self.branch_misses,
            &self.l2_hits,
            &self.llc_hits,
            &self.model_ns,
            &self.remote_misses,
            &self.queued_ns,
        ])
    }

    /// Return a copy of all fields.
    pub fn snapshot(&self) -> Counters {
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        let event = |e: Event| self.events.get(e as usize).map_or(0, get);
        Counters {
            instructions: event(Event::Instructions),
            cycles: event(Event::Cycles),
            stall_external: event(Event::StallExternal),
            stall_internal: event(Event::StallInternal),
            llc_misses: event(Event::LlcMisses),
            transfers: event(Event::Transfers),
            branch_misses: get(&self.branch_misses),
            l2_hits: get(&self.l2_hits),
            llc_hits: get(&self.llc_hits),
            model_ns: get(&self.model_ns),
            remote_misses: get(&self.remote_misses),
            queued_ns: get(&self.queued_ns),
            mips_milli: self.mips_milli.load(Ordering::Relaxed),
            wanted_mips_milli: self.wanted_mips_milli.load(Ordering::Relaxed),
        }
    }
}
