// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The engine: what sched_ext promises, as discrete events in virtual time.
//!
//! # Problem
//!
//! The scheduler's callbacks are correct only in the order, and under the locks, in which the
//! kernel calls them. So each rule here follows a function of `kernel/sched/ext.c` (in 7.x
//! `kernel/sched/ext/ext.c`) or of `kernel/sched/core.c`, which its comment names.
//!
//! # Approach
//!
//! Time advances from event to event. An event runs an *activity*: what one CPU does in the kernel
//! with interrupts off, such as a tick or a switch. All state is in cells, so that a callback can
//! come back into the engine through a kfunc while the engine waits for it.
//!
//! An activity takes no virtual time by itself. With [`crate::case::Case::interleave`], it runs on
//! a stack of its own and may be suspended at each kfunc (and, with traced code, at each access to
//! shared memory). Other CPUs run meanwhile. Runqueue locks then keep out what the kernel's locks
//! keep out.
//!
//! # Invariants
//!
//! Equal cases give equal traces: nothing depends on addresses, time or hash seeds. A task is in at
//! most one queue. A broken rule stops the run with a [`crate::case::Fault`] and is never repaired
//! silently.

pub mod activity;
pub mod callbacks;
pub mod change;
pub mod cpu;
pub mod cpufreq;
pub mod dispatch;
pub mod dsq;
pub mod enqueue;
pub mod events;
pub mod groups;
pub mod hotplug;
pub mod idle;
pub mod kick;
pub mod memory;
pub mod perform;
pub mod progress;
pub mod schedule;
pub mod stacks;
pub mod state;
pub mod task;
pub mod tick;
pub mod timer;
pub mod trace;
pub mod wake;
pub mod watch;

pub use state::Kernel;
