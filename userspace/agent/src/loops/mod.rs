//! Loops with a known stall, and the placement of the threads that run them. Calibration times
//! them, spot checks repeat them, and the probe of the counters runs them.

pub mod chase;
pub mod kernels;
pub(crate) mod thread;
