// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The page that the asymmetric VM's plugin, its guest module and the host share.
//!
//! One file of [`PAGE_BYTES`] bytes is mapped three times:
//!
//! * The QEMU plugin writes the counters.
//! * The guest maps the page as BAR 2 of an ivshmem-plain PCI device and sets `enable`.
//! * The host side that runs the VM reads the virtual clock and may cap a vCPU's speed at any time.
//!
//! `guest/amp_shared.h` is the same layout in C. A test compiles it and compares every offset.
//!
//! Every field is atomic and accessed relaxed, because no reader needs two fields of the same
//! instant. Each field has one writer, except `mips_milli`: host and plugin may set it, and the
//! last store wins. Two cases have a stronger guarantee. The setup of the page stores `magic` last
//! (release). A guest that reads the counters of its own vCPU gets exact ones (see
//! [`PUBLISH_NOP`]).

mod layout;
mod machine;
mod page;
mod presets;
mod spec;
mod speed;

pub use layout::{
    COUNTERS, Header, MAGIC, MAX_MIPS_MILLI, MAX_VCPUS, MIN_MIPS_MILLI, NR_EVENTS, PAGE_BYTES, PCI_ID,
    PUBLISH_NOP, Shared, VERSION, Vcpu, state,
};
pub use machine::{Geometry, LINE_BYTES, Machine, NR_STALLS, Penalty, Stall, VcpuSpec};
pub use page::{Page, PageError};
pub use presets::{PRESETS, SPEC_HELP};
pub use speed::{SpecError, SpeedChange, parse_mips};
