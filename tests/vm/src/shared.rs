//! The host's view of the page that the plugin and the guest share.

use std::path::Path;

use ampvm_abi::Page;
use anyhow::{Context as _, Result};

use crate::verdict::Account;

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

    /// What each of the first `vcpus` vCPUs did since the emulation started. One that the page does not have yet
    /// did nothing.
    #[must_use]
    pub fn accounts(&self, vcpus: usize) -> Vec<Account> {
        (0..vcpus)
            .map(|vcpu| match self.page.counters(vcpu) {
                Ok(counters) => Account {
                    vcpu,
                    instructions: counters.instructions,
                    behind_ns: counters.overrun_ns,
                    busy_ns: counters.model_ns,
                },
                Err(_) => Account { vcpu, ..Account::default() },
            })
            .collect()
    }

    /// Changes a vCPU's speed, in thousandths of a MIPS, at once.
    ///
    /// # Errors
    /// There is no such vCPU, or the speed is out of range.
    pub fn set_speed(&self, vcpu: usize, mips_milli: u32) -> Result<()> {
        self.page
            .set_speed(vcpu, mips_milli)
            .with_context(|| format!("cannot change the speed of vCPU {vcpu}"))
    }
}
