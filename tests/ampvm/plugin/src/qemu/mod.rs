// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The interface to QEMU: its plugin callbacks, and the functions of libc from which it takes its
//! clocks.

mod adapters;
mod api;
mod callbacks;
mod devices;
mod inline;
mod install;
mod interpose;
mod thread;
mod ticks;
