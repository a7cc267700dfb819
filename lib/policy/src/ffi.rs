// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Bindgen's bindings to the C policy headers. `lib/include/bias/*.h` documents names and meanings.

#![allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals, dead_code)]
#![allow(unsafe_op_in_unsafe_fn, clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
