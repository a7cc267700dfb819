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
}

/// Index into [`Vcpu::events`], and `config` of the guest's perf event of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Event {
    /// Instructions executed, kernel and user.
    Instructions = 0,
    /// Cycles of modelled time: instructions, both kinds of stall, and the cycles that siblings
    /// took.
    Cycles = 1,
    /// Stall cycles outside the core: last-level cache, memory, transfers and queues.
    StallExternal = 2,
    /// Stall cycles inside the core: branch misses, L1 misses that hit L2, PAUSE and RDTSC.
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
    /// Written by the guest: 1 starts the model and virtual time, 0 returns the clocks to the host.
    pub enable: AtomicU32,
    /// Written by the plugin: one of [`state`].
    pub state: AtomicU32,
    /// Written by the plugin: virtual time in ns since the model started. It does not advance while
    /// `enable` is 0.
    pub virtual_ns: AtomicU64,
    reserved: [u64; 28],
}

/// Part of the page for one vCPU. The plugin writes all fields except the speeds, and its counters
/// only grow.
#[repr(C, align(256))]
pub struct Vcpu {
    /// Counters for perf, indexed by [`Event`]. Cycles are those of this vCPU's own clock.
    pub events: [AtomicU64; NR_EVENTS],
    /// Mispredicted user-space branches.
    pub branch_misses: AtomicU64,
    /// Accesses that missed L1 and hit L2.
    pub l2_hits: AtomicU64,
    /// Accesses that missed L2 and hit the last-level cache.
    pub llc_hits: AtomicU64,
    /// Modelled busy time in ns since the model started, without idle time.
    pub model_ns: AtomicU64,
    /// Last-level misses that another node's memory served.
    pub remote_misses: AtomicU64,
    /// Time in ns that last-level misses waited for their node's bandwidth, a part of the external
    /// stalls.
    pub queued_ns: AtomicU64,
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

/// A copy of one vCPU's part of the page. The fields are those of [`Vcpu`].
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
