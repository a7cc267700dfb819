//! The costs of the CPUs during a run: [`Live`] owns them.

mod live;

pub use live::Live;
