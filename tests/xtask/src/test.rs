//! `cargo xtask test`.

use anyhow::Result;
use bias_vm::packages::Consent;

use crate::args::TestArgs;

/// To come.
pub fn run(_args: &TestArgs, _consent: Consent) -> Result<i32> {
    Ok(1)
}
