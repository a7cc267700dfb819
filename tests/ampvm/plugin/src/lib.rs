//! QEMU TCG plugin that gives every vCPU its own speed and stalls.
//!
//! Problem: to test a scheduler for unequal cores one needs unequal cores. Approach: a vCPU's *modelled*
//! time is computed from what it executes,
//!
//! ```text
//! model_ns = instructions * 1000 / mips  +  branch_misses * branch_ns  +  l2_hits * l2_ns
//!          + llc_hits * llc_ns  +  llc_misses * mem_ns  +  pauses * 140 cycles
//! ```
//!
//! and the vCPU's thread sleeps whenever modelled time is ahead of real time, so the guest's clocks stay
//! ordinary wall clocks. Speed and internal stalls are per vCPU; memory is equally far from all of them.
//!
//! Modules: [`args`] what `-plugin` accepts; [`cache`] and [`branch`] the two predictors of stalls;
//! [`account`] events to time and counters; [`pacing`] time to sleeps and the overrun account; [`decode`]
//! the few x86 instructions that matter. All these are pure. `ffi` and `install` talk to QEMU, `host` to
//! the host's scheduler.
//!
//! Invariants: counters only grow, also when a speed changes; idle time earns no credit; time the host
//! could not deliver is either caught up within [`pacing::CATCH_UP_NS`] or shown as overrun; nothing here
//! panics once installed (a panic would take QEMU down), so lookups on hot paths are total.
//!
//! Limits: one instruction takes one cycle, stalls do not overlap, only user-space accesses and branches
//! are modelled, no prefetching, no TLB, no SMT, no bandwidth. `../README.md` has the figures.

// The users of some items, `ffi` and `vcpu`, are not in the test binary.
#![cfg_attr(test, allow(dead_code))]

mod account;
mod args;
mod branch;
mod cache;
mod decode;
// The test binary is not loaded by QEMU, so it must not refer to QEMU's symbols.
#[cfg(not(test))]
mod ffi;
#[cfg(not(test))]
mod host;
#[cfg(not(test))]
mod install;
mod pacing;
#[cfg(not(test))]
mod vcpu;
