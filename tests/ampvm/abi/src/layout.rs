// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The layout of the page.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Size of the shared file and of the PCI BAR in bytes.
pub const PAGE_BYTES: usize = 1 << 20;
/// First eight bytes of a page that the plugin has set up: "biasampv" in memory order.
pub const MAGIC: u64 = u64::from_le_bytes(*b"biasampv");
/// Layout version. A reader refuses every other one.
pub const VERSION: u32 = 2;
/// Maximum number of vCPUs in a page.
pub const MAX_VCPUS: usize = 64;
/// Lowest accepted speed in MIPS/1000 (0.1 MIPS).
pub const MIN_MIPS_MILLI: u32 = 100;
/// Highest accepted speed in MIPS/1000.
pub const MAX_MIPS_MILLI: u32 = 10_000_000;
/// PCI vendor and device id of ivshmem-plain.
pub const PCI_ID: (u16, u16) = (0x1af4, 0x1110);

/// `nopl 0x73616962(%rax,%rax,1)`: an instruction without effect. It requests that the plugin
/// update the counters of the executing vCPU in the page, exactly up to this instruction.
pub const PUBLISH_NOP: [u8; 8] = [0x0f, 0x1f, 0x84, 0x00, 0x62, 0x69, 0x61, 0x73];

/// Values of [`Header::state`].
pub mod state {
    /// Booting: instructions are counted, nothing is modelled, and clocks are the host's.
    pub const LIGHT: u32 = 0;
    /// The guest has set `enable`, and QEMU is about to drop its translations.
    pub const STARTING: u32 = 1;
    /// Caches and branches are modelled. Clocks are the model's while [`super::Header::enable`] is
    /// set.
    pub const MODELLING: u32 = 2;
    /// Names of the values.
    pub const NAMES: [&str; 3] = ["light", "starting", "modelling"];
}

/// Number of perf events of the guest. Each is the counter of the same index.
pub const NR_EVENTS: usize = 6;
/// Names of the counters, in the order of [`Vcpu::counters`]. Cycles are those of the vCPU's own
/// clock.
pub const COUNTERS: [&str; 12] = [
    "instructions",   // kernel and user
    "cycles",         // instructions, both kinds of stall, and the cycles that siblings took
    "stall_external", // cycles outside the core: last-level cache, memory, transfers, queues
    "stall_internal", // cycles inside it: branch misses, L1 misses that hit L2, PAUSE, RDTSC
    "llc_misses",     // accesses that missed the last-level cache
    "transfers",      // lines that came from another CPU; 0 unless the machine tracks them
    "branch_misses",  // mispredicted user-space branches
    "l2_hits",        // accesses that missed L1 and hit L2
    "llc_hits",       // accesses that missed L2 and hit the last-level cache
    "model_ns",       // modelled busy time since the model started, without idle time
    "remote_misses",  // last-level misses that another node's memory served
    "queued_ns",      // wait of last-level misses for bandwidth, a part of the external stalls
];

/// Start of the page.
#[repr(C, align(256))]
pub struct Header {
    /// [`MAGIC`], stored last.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// vCPUs in use, 1 to [`MAX_VCPUS`].
    pub nr_vcpus: AtomicU32,
    /// Written by the guest: 1 starts the model and virtual time, 0 returns the clocks to the host.
    pub enable: AtomicU32,
    /// Written by the plugin: one of [`state`].
    pub state: AtomicU32,
    /// Written by the plugin: virtual time in ns since the model started. It does not advance while
    /// `enable` is 0.
    pub virtual_ns: AtomicU64,
    reserved: [u64; 28],
}

/// Part of the page for one vCPU.
#[repr(C, align(256))]
pub struct Vcpu {
    /// Counters, which only grow; see [`COUNTERS`]. The plugin writes them.
    pub counters: [AtomicU64; COUNTERS.len()],
    reserved: [u64; 4],
    /// Speed in MIPS/1000 that the machine allows. It is the nominal speed, or a cap that the host
    /// (or `ampctl speed`) has set, as heat would. A change takes effect at the next quantum.
    /// Values outside [`MIN_MIPS_MILLI`]..=[`MAX_MIPS_MILLI`] are ignored.
    pub mips_milli: AtomicU32,
    /// Speed in MIPS/1000 that the guest's cpufreq driver requests; 0 without one. The vCPU runs at
    /// the lower of the two speeds.
    pub wanted_mips_milli: AtomicU32,
    reserved2: [u32; 30],
}

/// The whole layout. The rest of the file up to [`PAGE_BYTES`] is reserved and zero.
#[repr(C)]
pub struct Shared {
    /// State of the machine.
    pub header: Header,
    /// State of each vCPU. The first `nr_vcpus` are in use.
    pub vcpus: [Vcpu; MAX_VCPUS],
}

const _: () = assert!(size_of::<Header>() == 256 && size_of::<Vcpu>() == 256);
const _: () = assert!(size_of::<Shared>() <= PAGE_BYTES);
