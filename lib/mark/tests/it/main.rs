// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the library, most of them with a C program.

#![allow(missing_docs, clippy::unwrap_used)]

mod c_program;
mod hints;
mod program;
