//! `cargo xtask demo`.

use anyhow::Result;
use bias_vm::packages::Consent;

use crate::args::DemoArgs;

/// To come.
pub fn run(_args: &DemoArgs, _consent: Consent) -> Result<i32> {
    Ok(1)
}
