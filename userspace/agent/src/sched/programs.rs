//! What the kernel's verifier had to do for each program: a figure that grows unnoticed until a kernel refuses to load.

use libbpf_rs::query::ProgInfoIter;
use tracing::debug;

/// What the names of this scheduler's programs begin with; the kernel keeps 15 letters of a name.
const PREFIX: &str = "bias_";

/// Logs the instructions that the verifier processed for each program, for `scx_bias -v` and the test of the budget.
pub(super) fn log_verified() {
    for program in ProgInfoIter::default() {
        let name = program.name.to_string_lossy();
        if name.starts_with(PREFIX) {
            debug!("program {name}: {} instructions verified", program.verified_insns);
        }
    }
}
