//! Workloads with known behaviour, and what is measured on them: speed ratios of CPUs, progress of
//! mixes of tasks, the cost of a context switch, and whether a scheduler survives a storm of changes.
//!
//! The library has three layers, each of which uses only the ones above it:
//!
//! * pure: [`metrics`] (formulas), [`work`] (workloads), [`spec`] (what the command line may name);
//! * the machine: [`cpus`] (which CPUs, pinning), [`counters`] (stall counters), [`shared`] and [`task`]
//!   (processes that work side by side and publish their progress), [`sched`] (loading a scheduler),
//!   [`cgroup`], [`files`];
//! * measurements: [`measure`], [`solo`], [`mix`], [`once`], [`ratio`], [`pingpong`], [`cost`], [`demo`], [`storm`], [`survive`], each with
//!   plain options in and a serialisable report out. [`cli`] binds them to the command line.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod ab;
pub mod cgroup;
pub mod cli;
pub mod control;
pub mod cost;
mod counters;
pub mod cpus;
pub mod demo;
pub mod emulation;
pub mod error;
pub mod files;
pub mod measure;
pub mod metrics;
pub mod mix;
pub mod once;
pub mod pingpong;
pub mod progress;
pub mod ratio;
pub mod sched;
pub mod shared;
pub mod solo;
pub mod spec;
pub mod storm;
pub mod survive;
pub mod task;
pub mod work;

pub use error::{Error, Result};
