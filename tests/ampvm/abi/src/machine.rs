// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! An asymmetric VM: speeds and penalties of its CPUs, caches, cores and nodes.
//!
//! A *slot* is a hardware thread that the topology has room for. QEMU's cores all have the same
//! number of threads, and its sockets the same number of cores. A slot can be empty, so that fast
//! cores can have two threads and slow ones one, and one cache more cores than another. The guest
//! numbers the slots that are not empty.
//!
//! QEMU presents each last-level cache as a socket. Without KVM its CPUs have AMD's CPUID leaves,
//! but not those that describe several caches in a package. Every guest kernel therefore takes the
//! package as the last-level cache.

use std::fmt;

/// Size of a cache line in bytes.
pub const LINE_BYTES: usize = 64;

/// Sources of stalls. Each is an index into [`VcpuSpec::penalties`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stall {
    /// A PAUSE, in addition to its own cycle.
    Pause,
    /// A mispredicted branch.
    Branch,
    /// An L1 miss that hits L2.
    L2,
    /// An L2 miss that hits the last-level cache.
    Llc,
    /// A last-level miss.
    Mem,
    /// A last-level miss that another node's memory serves, in addition to [`Stall::Mem`].
    Remote,
    /// A line that comes from another CPU's cache.
    Transfer,
}

/// Number of sources of stalls.
pub const NR_STALLS: usize = Stall::Transfer as usize + 1;

/// Length of one stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Penalty {
    /// Cycles of the CPU's clock. A lower clock makes the penalty longer.
    Cycles {
        /// Thousandths of a cycle.
        milli: u32,
    },
    /// Nanoseconds, independent of the clock.
    Ns(u32),
}

/// Size and associativity of one cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Size in bytes.
    pub bytes: usize,
    /// Ways of each set.
    pub ways: usize,
}

impl Geometry {
    /// Return the number of sets, a power of two for every parsed geometry.
    #[must_use]
    pub fn sets(self) -> usize {
        self.bytes / LINE_BYTES / self.ways.max(1)
    }
}

/// Speed and penalties of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VcpuSpec {
    /// Speed in MIPS/1000.
    pub mips_milli: u32,
    /// Penalty of each source of stalls, indexed by [`Stall`].
    pub penalties: [Penalty; NR_STALLS],
}

/// A machine that the emulation can model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    pub(crate) text: String,
    /// One entry per slot; `None` where a core lacks this thread.
    pub slots: Vec<Option<VcpuSpec>>,
    /// First-level cache, one per core.
    pub l1: Geometry,
    /// Second-level cache, one per core.
    pub l2: Geometry,
    /// Last-level caches, one per group of slots. Each group has the same number of slots.
    pub llcs: Vec<Geometry>,
    /// Number of nodes with memory of their own.
    pub nodes: usize,
    /// Slots per core.
    pub threads: usize,
    /// Speed of a thread while its sibling is busy, in thousandths of its own.
    pub smt_share_permille: u32,
    /// Speed of the CPUs in thousandths of their own while 1, 2, ... of them are busy. With more
    /// busy CPUs than entries, each has its own speed.
    pub boost_permille: Vec<u32>,
    /// Bandwidth of each node's memory in million bytes per second; 0 for no limit.
    pub bandwidth_mb_s: u32,
    /// Whether every access is tracked to find lines that CPUs take from each other.
    pub transfers: bool,
    /// Length of a quantum of virtual time in ns.
    pub quantum_ns: u32,
}

impl Machine {
    /// Return the number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Return the sum of the CPUs' speeds in thousandths of a MIPS. The host executes this much for
    /// each virtual second of full load.
    #[must_use]
    pub fn total_mips_milli(&self) -> u64 {
        self.slots.iter().flatten().map(|cpu| u64::from(cpu.mips_milli)).sum()
    }

    /// Return the topology as the value of QEMU's `-smp`. If slots are empty, only the first CPU is
    /// present from the start; see [`Machine::cpu_devices`].
    #[must_use]
    pub fn smp_args(&self) -> String {
        let (slots, llcs) = (self.slots.len(), self.llcs.len());
        let cores = slots / (llcs * self.threads);
        let cpus = if self.cpus() == slots { format!("{slots}") } else { format!("1,maxcpus={slots}") };
        format!("{cpus},sockets={llcs},cores={cores},threads={}", self.threads)
    }

    /// Return QEMU's `-device` values for the CPUs that `-smp` does not create. These are all but
    /// the first if slots are empty, else none.
    #[must_use]
    pub fn cpu_devices(&self, model: &str) -> Vec<String> {
        if self.cpus() == self.slots.len() {
            return Vec::new();
        }
        let each = self.slots.len() / self.llcs.len();
        let device = |slot: usize| {
            let (socket, within) = (slot / each, slot % each);
            format!(
                "{model}-x86_64-cpu,socket-id={socket},core-id={},thread-id={}",
                within / self.threads,
                within % self.threads
            )
        };
        let present = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_some());
        present.skip(1).map(|(slot, _)| device(slot)).collect()
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
