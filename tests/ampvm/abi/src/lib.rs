//! The page that the asymmetric VM's plugin, its guest module and the host share.
//!
//! One file of [`PAGE_BYTES`] bytes is mapped three times: by the QEMU plugin, which writes the counters;
//! by the guest, which sees it as BAR 2 of an ivshmem-plain PCI device and sets `enable`; and by the host
//! side that runs the VM, which reads the virtual clock and may cap a vCPU's speed at any time.
//! `guest/amp_shared.h` is the same layout in C; a test compiles it and compares every offset.
//!
//! Every field is atomic and accessed relaxed: each has exactly one writer, and no reader needs two fields
//! to be of the same instant. The exceptions are `magic`, stored last (release) when the page is set up,
//! and a guest that reads the counters of the vCPU it runs on, which are exact (see [`PUBLISH_NOP`]).
//!
//! ```
//! use ampvm_abi::Page;
//! let folder = std::env::temp_dir().join(format!("ampvm-doc-{}", std::process::id()));
//! let page = Page::create(&folder)?;       // before QEMU starts
//! page.init(&[60_000, 24_000]);            // the plugin does this
//! page.set_speed(1, 12_000)?;              // throttle vCPU 1 to 12 MIPS
//! assert_eq!(page.counters(1)?.mips_milli, 12_000);
//! # std::fs::remove_file(&folder).ok();
//! # Ok::<(), ampvm_abi::PageError>(())
//! ```

mod json;
mod machine;
mod map;
mod presets;

pub use json::counters_json;
pub use machine::{Geometry, LINE_BYTES, MAX_WAYS, Machine, Penalty, SpecError, VcpuSpec};
pub use map::{Page, PageError};
pub use presets::{PRESETS, SPEC_HELP};

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Size of the shared file and of the PCI BAR, in bytes.
pub const PAGE_BYTES: usize = 1 << 20;
/// First eight bytes of a page that the plugin has set up: "biasampv" in memory order.
pub const MAGIC: u64 = u64::from_le_bytes(*b"biasampv");
/// Layout version; a reader refuses every other.
pub const VERSION: u32 = 2;
/// Most vCPUs a page has room for.
pub const MAX_VCPUS: usize = 64;
/// Slowest speed accepted, in MIPS/1000 (0.1 MIPS).
pub const MIN_MIPS_MILLI: u32 = 100;
/// Fastest speed accepted, in MIPS/1000.
pub const MAX_MIPS_MILLI: u32 = 10_000_000;
/// PCI vendor and device id of ivshmem-plain.
pub const PCI_ID: (u16, u16) = (0x1af4, 0x1110);

/// `nopl 0x73616962(%rax,%rax,1)`: an instruction without effect that asks the plugin to bring the
/// counters of the executing vCPU up to date, exactly to this instruction, in the shared page.
pub const PUBLISH_NOP: [u8; 8] = [0x0f, 0x1f, 0x84, 0x00, 0x62, 0x69, 0x61, 0x73];

/// Values of [`Header::state`].
pub mod state {
    /// Booting: instructions are counted, nothing is modelled, clocks are the host's.
    pub const LIGHT: u32 = 0;
    /// The guest has set `enable`; translations are being renewed.
    pub const STARTING: u32 = 1;
    /// Caches and branches are modelled. Clocks are the model's while [`super::Header::enable`] is set.
    pub const MODELLING: u32 = 2;
}

/// Index into [`Vcpu::events`], and `config` of the guest's perf event of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Event {
    /// Instructions executed, kernel and user.
    Instructions = 0,
    /// Cycles of modelled time: instructions plus both kinds of stall.
    Cycles = 1,
    /// Cycles waiting for the last-level cache or memory.
    StallExternal = 2,
    /// Cycles waiting inside the core: branch misses and L1 misses that hit L2.
    StallInternal = 3,
    /// Accesses that missed the last-level cache (a count, not cycles).
    LlcMisses = 4,
    /// Cache lines that came from another CPU (a count); zero unless the machine tracks transfers.
    Transfers = 5,
}

/// Number of perf events.
pub const NR_EVENTS: usize = 6;

/// Start of the page.
#[repr(C, align(256))]
pub struct Header {
    /// [`MAGIC`], stored last.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// vCPUs in use, 1 to [`MAX_VCPUS`].
    pub nr_vcpus: AtomicU32,
    /// Written by the guest: 1 starts the model and virtual time, 0 gives the clocks back to the host.
    pub enable: AtomicU32,
    /// Written by the plugin: one of [`state`].
    pub state: AtomicU32,
    /// Written by the plugin: virtual time in ns since the model started. Stands still while `enable` is 0.
    pub virtual_ns: AtomicU64,
    reserved: [u64; 28],
}

/// One vCPU's part of the page. All but `mips_milli` is written by the plugin and only ever grows.
#[repr(C, align(256))]
pub struct Vcpu {
    /// The counters that perf shows, indexed by [`Event`]. Cycles are this vCPU's own.
    pub events: [AtomicU64; NR_EVENTS],
    /// Mispredicted user-space branches.
    pub branch_misses: AtomicU64,
    /// Accesses that missed L1 and hit L2.
    pub l2_hits: AtomicU64,
    /// Accesses that missed L2 and hit the last-level cache.
    pub llc_hits: AtomicU64,
    /// Modelled busy time in ns since the model started; idle time is not in it.
    pub model_ns: AtomicU64,
    /// Last-level misses that another node's memory served.
    pub remote_misses: AtomicU64,
    /// Time in ns that last-level misses waited for their node's bandwidth; part of the external stalls.
    pub queued_ns: AtomicU64,
    reserved: [u64; 4],
    /// Speed in MIPS/1000 that the machine allows: its nominal speed, or what the host (or `ampctl speed`) has
    /// capped it to, as heat would. Holds from the next quantum on. Values outside
    /// [`MIN_MIPS_MILLI`]..=[`MAX_MIPS_MILLI`] are ignored.
    pub mips_milli: AtomicU32,
    /// Speed in MIPS/1000 that the guest's cpufreq driver asks for; 0 while there is none. The vCPU runs at the
    /// lower of the two.
    pub wanted_mips_milli: AtomicU32,
    reserved2: [u32; 30],
}

/// The whole layout; the rest of the file up to [`PAGE_BYTES`] is reserved and zero.
#[repr(C)]
pub struct Shared {
    /// What concerns the machine.
    pub header: Header,
    /// What concerns each vCPU; the first `nr_vcpus` are in use.
    pub vcpus: [Vcpu; MAX_VCPUS],
}

/// A copy of one vCPU's part of the page. Fields as in [`Vcpu`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counters {
    pub instructions: u64,
    pub cycles: u64,
    pub stall_external: u64,
    pub stall_internal: u64,
    pub llc_misses: u64,
    pub transfers: u64,
    pub branch_misses: u64,
    pub l2_hits: u64,
    pub llc_hits: u64,
    pub model_ns: u64,
    pub remote_misses: u64,
    pub queued_ns: u64,
    pub mips_milli: u32,
    pub wanted_mips_milli: u32,
}

const _: () = assert!(size_of::<Header>() == 256 && size_of::<Vcpu>() == 256);
const _: () = assert!(size_of::<Shared>() <= PAGE_BYTES);
