// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the tree: its names, sizes, links, licences, and of the command line of xtask.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod circles;
mod cli;
mod licences;
mod links;
mod names;
mod sizes;
