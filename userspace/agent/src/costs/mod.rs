// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The costs of the CPUs during a run: [`Live`] owns them.

mod live;

pub use live::Live;
