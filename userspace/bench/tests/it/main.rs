// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the program `bias-bench` itself.

#![allow(missing_docs, clippy::unwrap_used)]

mod ab_host;
mod full_disk;
