// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the tree around the agent.

#![allow(missing_docs, clippy::unwrap_used)]

mod cores_page;
mod one_owner;
