// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the program `scx_bias` itself.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod client;
mod closed;
mod exec;
mod instance;
mod program;
mod schemas;
mod service;
mod top_screen;
