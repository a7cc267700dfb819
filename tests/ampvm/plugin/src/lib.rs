//! QEMU TCG plugin of the asymmetric VM. It gives every vCPU a speed, caches, a branch predictor
//! and stalls, and the machine its own virtual time.
//!
//! # Problem
//!
//! Schedulers need tests on unequal cores with stall counters, on any host, without KVM or a
//! hardware PMU. The figures must be the same on every host.
//!
//! # Approach
//!
//! Count the events of each vCPU, convert them to time, and drive the guest's clocks from the sum.
//! The host only affects how long a run takes. QEMU loads the library twice: as a preloaded
//! library, so that it takes its clocks from here, and as a plugin.
//!
//! | module | content |
//! |---|---|
//! | [`args`] | the arguments of `-plugin` |
//! | [`cache`], [`branch`], [`numa`], [`lines`] | the sources of stalls |
//! | [`account`] | events to time and counters |
//! | [`clock`] | virtual time |
//! | [`times`] | the guest's clocks |
//! | [`decode`] | the few x86 instructions that matter |
//! | [`settlement`] | what vCPUs owe for the resources that they share |
//! | `gate` | where vCPUs wait for each other |
//! | `vcpu` | state of each vCPU and of the machine |
//! | `host` | the interface to the host |
//! | `qemu` | the interface to QEMU |
//!
//! The modules before `gate` are pure.
//!
//! # Invariants
//!
//! * Counters only grow, also when a speed changes.
//! * No clock goes back.
//! * No code here panics once the plugin is installed, because a panic would end QEMU. Lookups on
//!   hot paths are therefore total.
//!
//! # Limits
//!
//! One instruction takes one cycle, and stalls do not overlap. Caches and branches are modelled for
//! user space only. There is no prefetching and no TLB. `../README.md` has the figures.

// Some items are used only by `qemu`, which the test binary lacks.
#![cfg_attr(test, allow(dead_code))]

mod account;
mod args;
mod branch;
mod cache;
mod clock;
mod decode;
mod gate;
mod host;
mod lines;
mod numa;
// QEMU does not load the test binary, so it must not refer to QEMU's symbols.
#[cfg(not(test))]
mod qemu;
mod settlement;
mod times;
mod vcpu;
