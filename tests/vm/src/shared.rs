//! The host's view of the page that the plugin and the guest share.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ampvm_abi::Page;
use anyhow::{Context as _, Result};

/// The page of one running VM.
pub struct Shared {
    page: Page,
}

impl Shared {
    /// Size of the page's file in bytes.
    pub const SIZE: usize = ampvm_abi::PAGE_BYTES;

    /// Create the page, filled with zeros. The plugin sets it up.
    ///
    /// # Errors
    /// The file cannot be created or mapped.
    pub fn create(path: &Path) -> Result<Self> {
        let page = Page::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { page })
    }

    /// Return the virtual time since the start of the model.
    #[must_use]
    pub fn virtual_time(&self) -> Duration {
        Duration::from_nanos(self.page.header.virtual_ns.load(Ordering::Relaxed))
    }
}
