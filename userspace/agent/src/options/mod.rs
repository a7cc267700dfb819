//! Options of a run: their definitions (settings and knobs), their values, and what a reload
//! changes.

mod definition;
pub mod knobs;
pub mod reload;
mod run_options;
pub mod setting;

pub use definition::Definition;
pub use reload::{Config, ReloadReport};
pub use run_options::RunOptions;
