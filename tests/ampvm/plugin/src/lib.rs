//! QEMU TCG plugin of the asymmetric VM: gives every vCPU a speed, caches, a branch predictor and stalls, and the
//! machine a time of its own.
//!
//! Problem: test schedulers on unequal cores with stall counters on any host, without KVM or a hardware PMU, and get the
//! same figures on each. Approach: count what each vCPU executes, price it, and drive the guest's clocks from the sum.
//! The host only decides how long that takes. The library is loaded twice: preloaded, so that QEMU takes its clocks from
//! `interpose`, and as a plugin.
//!
//! Modules: [`args`] what `-plugin` accepts; [`cache`], [`branch`], [`memory`] and [`lines`] the sources of stalls;
//! [`account`] events to time and counters; [`clock`] virtual time; [`times`] the guest's clocks; [`decode`] the few
//! x86 instructions that matter. All these are pure. `gate` makes vCPUs wait for each other; `ffi`, `install` and
//! `interpose` talk to QEMU, `host` to the host.
//!
//! Invariants: counters only grow, also when a speed changes; no clock goes back; nothing here panics once installed (a
//! panic would take QEMU down), so lookups on hot paths are total.
//!
//! Limits: one instruction takes one cycle, stalls do not overlap, only user-space accesses and branches are modelled,
//! no prefetching, no TLB. `../README.md` has the figures.

// The users of some items, `ffi` and others, are not in the test binary.
#![cfg_attr(test, allow(dead_code))]

mod account;
mod args;
mod branch;
mod cache;
mod clock;
mod decode;
// The test binary is not loaded by QEMU, so it must not refer to QEMU's symbols.
#[cfg(not(test))]
mod ffi;
mod gate;
mod host;
#[cfg(not(test))]
mod install;
#[cfg(not(test))]
mod interpose;
mod lines;
mod memory;
mod times;
mod vcpu;
