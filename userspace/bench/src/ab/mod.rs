//! The A/B comparison of schedulers: `bias-bench ab`.
//!
//! Problem: a claim about a scheduler is worth what its measurement is worth. Differences of a few percent drown in
//! drift, in luck of placement and in whoever ran first.
//!
//! Approach: every arm runs the same cells in counterbalanced blocks on the same boot, raw samples are kept, and only
//! paired differences with an interval are called anything. One module per concern, each using only those above it:
//!
//! * pure: [`arms`] (what is compared), [`order`] (in which order), [`metric`] (what is measured, and which direction is
//!   better), [`stats`] (estimates, intervals, verdicts), [`placement`] (best and worst static placement);
//! * files: [`sample`] (what is stored of a run, and which of it counts), [`store`], [`plan`] and [`suites`] (what to run);
//! * the machine: [`workload`] (what a cell does), [`knobs`], [`eaters`], [`hybrid`], [`usage`], [`energy`], [`stage`] (one machine, one arm at a time);
//! * the run: [`runner`] (order of events, tested without a machine), [`boot`] (inside the machine), [`vm`] and
//!   [`session`] (from the host);
//! * the result: [`report`], [`compare`].

pub mod arms;
pub mod boot;
pub mod compare;
pub mod eaters;
pub mod energy;
pub mod hybrid;
pub mod knobs;
pub mod metric;
pub mod order;
pub mod placement;
pub mod plan;
pub mod report;
pub mod runner;
pub mod sample;
pub mod session;
pub mod stage;
pub mod stats;
pub mod store;
pub mod suites;
pub mod usage;
pub mod vm;
pub mod workload;
