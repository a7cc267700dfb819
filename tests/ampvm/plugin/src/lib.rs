// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! QEMU TCG plugin of the asymmetric VM. It gives every vCPU a speed, caches, a branch predictor
//! and stalls, and the machine its own virtual time.
//!
//! # Problem
//! Schedulers need tests on unequal cores with stall counters, on any host, without KVM or a
//! hardware PMU. The figures must be the same on every host.
//!
//! # Approach
//! Count the events of each vCPU, convert them to time, and drive the guest's clocks from the sum.
//! The host only affects how long a run takes. QEMU loads the library twice: as a preloaded
//! library, so that it takes its clocks from here, and as a plugin.
//!
//! All modules but `gate`, `host`, `qemu` and `vcpu` are pure. The sources of stalls are in
//! `cache`, `branch`, `numa` and `lines`.
//!
//! # Invariants
//! * Counters only grow, also when a speed changes.
//! * No clock goes back.
//! * No code here panics once the plugin is installed, because a panic would end QEMU. Lookups on
//!   hot paths are therefore total.
//!
//! # Limits
//! `../README.md` lists what is not modelled, and has the figures.

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
