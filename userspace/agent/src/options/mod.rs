//! Options of a run: the knobs, all other options, and what a reload changes.

pub mod knobs;
pub mod reload;
mod run_options;

pub use reload::{Config, ReloadReport};
pub use run_options::RunOptions;
