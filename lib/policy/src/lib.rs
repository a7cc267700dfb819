//! Pure policy of scx_bias: the C headers bound, and what only the agent decides.
//!
//! Nothing here reads a clock, a file or the kernel: plain data in, plain data out, so that every rule can be
//! property-tested. Formulas that the BPF programs use too live in `lib/include/bias/*.h`; [`ffi`] calls them.

pub mod audit;
pub mod classes;
pub mod ffi;
pub mod model;
pub mod pick;
pub mod ranktest;
pub mod recal;
pub mod samples;
pub mod sharing;
pub mod swap;
pub mod table;
