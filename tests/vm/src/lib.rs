//! The asymmetric VM: a machine with unequal cores that any x86-64 Linux host can run.
//!
//! This library prepares the host (packages, virtme-ng, kernels, the QEMU plugin, the guest module) and runs
//! commands in the VM. `cargo xtask` is its command line, `tests/` its scenarios.
//!
//! Everything it fetches or builds lies in one cache folder, keyed by content and renamed into place when complete,
//! so an interrupted run leaves nothing half done; see [`cache`]. Everything a run produces lies in the run's
//! output folder; see [`runner`].

pub mod apt;
pub mod build;
pub mod cache;
pub mod exit;
pub mod guest;
pub mod interrupt;
pub mod kernels;
pub mod packages;
pub mod ports;
pub mod prepare;
pub mod process;
pub mod progress;
pub mod qemu;
pub mod run_folder;
pub mod runner;
pub mod shared;
pub mod tools;
pub mod verdict;

pub use ampvm_abi::Machine;
pub use verdict::Verdict;
