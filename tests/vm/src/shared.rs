//! The host's view of the page that the plugin and the guest share.

use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::verdict::Overrun;

/// The page of one running VM.
pub struct Shared {}

impl Shared {
    /// Size of the page's file, in bytes.
    pub const SIZE: u64 = 1 << 20;

    /// Makes the page, all zero.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: &Path) -> Result<()> {
        let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        file.set_len(Self::SIZE).with_context(|| format!("cannot size {}", path.display()))
    }

    /// Opens the page.
    ///
    /// # Errors
    /// There is none.
    pub fn open(_path: &Path) -> Result<Self> {
        Ok(Self {})
    }

    /// How late and how busy each vCPU is, since the emulation started.
    #[must_use]
    pub fn lateness(&self) -> Vec<Overrun> {
        Vec::new()
    }

    /// Changes a vCPU's speed at once.
    pub fn set_speed(&self, _vcpu: usize, _mips_milli: u32) {}
}
