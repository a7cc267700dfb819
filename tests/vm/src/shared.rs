//! The host's view of the page that the plugin and the guest share.

use std::path::Path;

use ampvm_abi::Page;
use anyhow::{Context as _, Result};

use crate::verdict::Overrun;

/// The page of one running VM.
pub struct Shared {
    page: Page,
}

impl Shared {
    /// Size of the page's file, in bytes.
    pub const SIZE: usize = ampvm_abi::PAGE_BYTES;

    /// Makes the page, all zero; the plugin sets it up.
    ///
    /// # Errors
    /// The file cannot be made or mapped.
    pub fn create(path: &Path) -> Result<Self> {
        let page = Page::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { page })
    }

    /// How late and how busy each of the first `vcpus` vCPUs is, since the emulation started. A vCPU that the page
    /// does not have yet was never late.
    #[must_use]
    pub fn lateness(&self, vcpus: usize) -> Vec<Overrun> {
        (0..vcpus)
            .map(|vcpu| match self.page.counters(vcpu) {
                Ok(counters) => {
                    Overrun { vcpu, behind_ns: counters.overrun_ns, busy_ns: counters.model_ns }
                }
                Err(_) => Overrun { vcpu, behind_ns: 0, busy_ns: 0 },
            })
            .collect()
    }

    /// Changes a vCPU's speed, in thousandths of a MIPS, at once.
    ///
    /// # Errors
    /// There is no such vCPU, or the speed is out of range.
    pub fn set_speed(&self, vcpu: usize, mips_milli: u32) -> Result<()> {
        self.page.set_speed(vcpu, mips_milli).with_context(|| format!("cannot change the speed of vCPU {vcpu}"))
    }
}
