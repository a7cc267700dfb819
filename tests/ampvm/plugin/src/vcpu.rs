// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! State of each vCPU and of the machine.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;

use ampvm_abi::{MAX_MIPS_MILLI, MIN_MIPS_MILLI, Page, SpeedChange, Stall};

use crate::account::{Account, Events};
use crate::args::Config;
use crate::branch::Predictor;
use crate::cache::Cache;
use crate::gate::Gate;
use crate::lines::{Lines, Shared};
use crate::numa::{Map, Nodes};
use crate::settlement::{Deeds, Owed};

/// State that only the vCPU's own thread accesses.
pub struct Local {
    /// Counters that generated code updates, where `qemu::inline` found them; null before that.
    pub slots: *mut c_void,
    /// Line of the last access. Another access to it, the most common hit, needs no lookup.
    pub last_line: u64,
    pub predictor: Predictor,
    /// Events so far. `insns` lags, because QEMU's inline counter holds the rest.
    pub events: Events,
    /// Value of the inline counter at the quantum's start, plus all later additions other than
    /// instructions.
    pub not_insns: u64,
    /// [`Machine::pause_insns`].
    pub pause_insns: u64,
    /// Lines requested from memory in this quantum; see [`Nodes::request`].
    pub requests: u64,
    pub shared: Shared,
    /// Transfers due but not charged yet, in thousandths; negative if more were charged than were
    /// due.
    balance_milli: i64,
    /// Transfers due for the last quantum, in thousandths.
    owed_milli: u64,
    /// Expected transfers per access in this quantum, and their sum so far, in millionths.
    rate_micro: i64,
    ahead_micro: i64,
    /// Transfers that may still be charged before they are due, in thousandths.
    allowance_milli: i64,
    /// Conversion of events to time and counters.
    pub account: Account,
    /// Local time minus modelled busy time, which is the idle time [ns].
    pub idle_ns: i64,
    /// [`Gate::epoch`] that `idle_ns` belongs to.
    pub epoch: u32,
}

/// One vCPU, in its own cache lines.
#[repr(align(128))]
pub struct Vcpu {
    local: UnsafeCell<Local>,
    /// The guest's number of this CPU.
    pub cpu: usize,
    /// Index of the caches of its core.
    pub core: usize,
    pub llc: usize,
    pub node: usize,
}

// SAFETY: `Local` is accessible through `Machine::local` only, and its caller promises to be on the
// vCPU's thread.
unsafe impl Sync for Vcpu {}

pub struct Machine {
    pub page: Page,
    /// One per slot. The entry of an empty slot is never used.
    pub vcpus: Vec<Vcpu>,
    /// Condition on which each halted vCPU's thread sleeps in QEMU; null until its first sleep.
    pub halt_conds: Vec<AtomicPtr<c_void>>,
    /// First-level caches by virtual address, one per core.
    pub l1: Vec<Cache>,
    /// Second-level caches, indexed by virtual and tagged by physical address, one per core.
    pub l2: Vec<Cache>,
    pub llc: Vec<Cache>,
    /// Assignment of addresses to nodes.
    pub map: Map,
    pub gate: Gate,
    /// Speed changes to come, soonest last.
    throttles: Mutex<Vec<SpeedChange>>,
    /// Length of a quantum [ns].
    pub quantum_ns: i64,
    /// Share of its speed that a thread keeps while its sibling is busy [permille].
    smt_share_permille: u32,
    /// Speeds by the number of busy CPUs, relative to each CPU's own [permille].
    boost_permille: Vec<u32>,
    /// Instructions for which a PAUSE counts in the inline counter: the longest one of all vCPUs,
    /// which share translated code. Each vCPU is charged its own when it settles.
    pub pause_insns: u64,
}

impl Machine {
    /// Return a machine at rest.
    pub fn new(config: &Config, page: Page) -> Self {
        let machine = &config.machine;
        let slots = machine.slots.len();
        let cores = slots / machine.threads;
        let per = |groups: usize| (slots / groups).max(1);
        let nodes = Nodes::new(machine.nodes, slots, machine.bandwidth_mb_s.into());
        let spec = |slot: usize| {
            // An empty slot gets the spec of the machine's first CPU, so that all lists have one
            // entry per slot.
            let own = machine.slots.get(slot).copied().flatten();
            own.or_else(|| machine.slots.iter().flatten().next().copied())
        };
        let accounts: Vec<_> = (0..slots).filter_map(|slot| Some(Account::new(&spec(slot)?))).collect();
        let pause_insns =
            accounts.iter().map(|account| account.insns_for(Stall::Pause)).max().unwrap_or_default();
        let cpu_of = |slot: usize| machine.slots.iter().take(slot).flatten().count();
        let vcpu = |(slot, account): (usize, Account)| Vcpu {
            local: UnsafeCell::new(Local::new(account, pause_insns)),
            cpu: cpu_of(slot),
            core: slot / machine.threads,
            llc: slot / per(machine.llcs.len()),
            node: slot / per(machine.nodes),
        };
        let caches = |count, geometry| (0..count).map(|_| Cache::new(geometry)).collect();
        let gate = Gate::new(
            slots,
            machine.quantum_ns.into(),
            machine.threads,
            nodes,
            machine.transfers.then(Lines::new),
        );
        let mut throttles = config.throttles.clone();
        throttles.sort_unstable_by(|a, b| b.cmp(a));
        Self {
            page,
            vcpus: accounts.into_iter().enumerate().map(vcpu).collect(),
            halt_conds: (0..slots).map(|_| AtomicPtr::default()).collect(),
            l1: caches(cores, machine.l1),
            l2: caches(cores, machine.l2),
            llc: machine.llcs.iter().map(|geometry| Cache::new(*geometry)).collect(),
            map: Map::new(machine.nodes, config.node_bytes),
            gate,
            throttles: Mutex::new(throttles),
            quantum_ns: machine.quantum_ns.into(),
            smt_share_permille: machine.smt_share_permille,
            boost_permille: machine.boost_permille.clone(),
            pause_insns,
        }
    }

    /// Return the state of vCPU `index`.
    ///
    /// # Safety
    /// The caller must be on that vCPU's thread and must not use an earlier result any more.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn local(&self, index: u32) -> Option<&mut Local> {
        // SAFETY: the caller promises one thread and one reference at a time.
        self.vcpus.get(index as usize).map(|v| unsafe { &mut *v.local.get() })
    }

    fn page_of(&self, index: u32) -> Option<&ampvm_abi::Vcpu> {
        self.page.vcpus.get(self.vcpus.get(index as usize)?.cpu)
    }

    /// Write a vCPU's counters to the page.
    pub fn publish(&self, index: u32, v: &Local) {
        let Some(out) = self.page_of(index) else { return };
        for (to, value) in out.counters.iter().zip(v.account.counters()) {
            to.store(value, Relaxed);
        }
        self.page.header.virtual_ns.store(self.gate.now() as u64, Relaxed);
    }

    /// Adopt the lower of the speeds that host and guest request, boosted if neither is below the
    /// nominal one, and the share that the core's other threads leave. Apply a speed change that is
    /// due first.
    pub fn adopt_speed(&self, index: u32, v: &mut Local) {
        let Some(page) = self.page_of(index) else { return };
        // If the lock is taken, another vCPU makes the changes that are due.
        if let Ok(mut throttles) = self.throttles.try_lock() {
            let now_ms = self.gate.now() / 1_000_000;
            while let Some(change) = throttles.pop_if(|change| i64::from(change.at_ms) <= now_ms) {
                // The numbers are the guest's, as in the page. `args` has checked them.
                let _ = self.page.set_speed(change.cpu, change.mips_milli);
            }
        }
        let wanted = match page.wanted_mips_milli.load(Relaxed) {
            0 => u32::MAX,
            wanted => wanted,
        };
        let asked = page.mips_milli.load(Relaxed).min(wanted);
        let speed = match asked < v.account.nominal_speed() {
            true => asked,
            false => boosted(asked, self.gate.busy_permille(), &self.boost_permille),
        };
        if speed != v.account.speed() && (MIN_MIPS_MILLI..=MAX_MIPS_MILLI).contains(&speed) {
            v.account.set_speed(speed);
        }
        v.account.set_share(share(self.gate.rivals_permille(index as usize), self.smt_share_permille));
    }
}

impl Local {
    fn new(account: Account, pause_insns: u64) -> Self {
        Self {
            slots: null_mut(),
            last_line: u64::MAX,
            predictor: Predictor::new(),
            events: Events::default(),
            not_insns: 0,
            pause_insns,
            requests: 0,
            shared: Shared::default(),
            balance_milli: 0,
            owed_milli: 0,
            rate_micro: 0,
            ahead_micro: 0,
            allowance_milli: 0,
            account,
            idle_ns: 0,
            epoch: 0,
        }
    }

    /// Take the actions since the last call.
    pub fn take_deeds(&mut self) -> Deeds {
        Deeds { requests: std::mem::take(&mut self.requests), uses: self.shared.take() }
    }

    /// Charge the vCPU for waits and transfers that other vCPUs caused.
    pub fn pay(&mut self, owed: Owed) {
        self.account.wait_outside(owed.wait_ns);
        self.owed_milli += owed.transfers_milli;
        self.balance_milli += owed.transfers_milli as i64;
        let due = (self.balance_milli / 1000).max(0);
        self.balance_milli -= due * 1000;
        self.events.stalls[Stall::Transfer as usize] += due as u64;
        let mut now = *self.account.events();
        now.stalls[Stall::Transfer as usize] = self.events.stalls[Stall::Transfer as usize];
        self.account.settle(&now);
    }

    /// Start a quantum. Its accesses to shared lines are expected to cause as many transfers as
    /// those of the last one, per access and in total.
    ///
    /// A vCPU that is charged only afterwards would sit out whole quanta, in which no other vCPU
    /// competes with it for lines.
    pub fn foresee(&mut self) {
        let accesses = std::mem::take(&mut self.shared.accesses).max(1);
        let owed_milli = std::mem::take(&mut self.owed_milli);
        self.allowance_milli = owed_milli as i64;
        self.rate_micro = (owed_milli * 1000 / accesses) as i64;
        self.ahead_micro = self.balance_milli.min(0) * 1000;
    }

    /// Count an access to a shared line. Return true if the caller must charge a transfer now.
    pub fn expect_transfer(&mut self) -> bool {
        self.ahead_micro += self.rate_micro;
        let is_due = self.ahead_micro >= 1_000_000 && self.allowance_milli >= 1000;
        if is_due {
            self.allowance_milli -= 1000;
            self.ahead_micro -= 1_000_000;
            self.balance_milli -= 1000;
        }
        is_due
    }

    /// Return the vCPU's local time [ns].
    pub fn local_ns(&self) -> i64 {
        self.idle_ns + self.account.model_ns() as i64
    }

    /// Set the vCPU's local time [ns].
    pub fn set_local_ns(&mut self, local_ns: i64) {
        self.idle_ns = local_ns - self.account.model_ns() as i64;
    }
}

/// Return the speed of a CPU of `mips_milli` if the CPUs together ran for `busy_permille`
/// thousandths of one CPU. A CPU that only ticks does not count.
fn boosted(mips_milli: u32, busy_permille: u32, boost_permille: &[u32]) -> u32 {
    let busy = ((busy_permille + 500) / 1000).max(1) as usize;
    let boost = boost_permille.get(busy - 1).copied().unwrap_or(1000);
    (u64::from(mips_milli) * u64::from(boost) / 1000) as u32
}

/// Return a thread's share of its core [permille] if its siblings ran for `rivals` thousandths of
/// one sibling.
fn share(rivals: u32, share_permille: u32) -> u32 {
    let (rivals, share) = (u64::from(rivals), u64::from(share_permille));
    if rivals <= 1000 {
        return (1000 - rivals * (1000 - share) / 1000) as u32;
    }
    // Each further sibling takes as much as the first.
    (1_000_000 * share / (1000 * share + rivals * (1000 - share))) as u32
}

#[cfg(test)]
mod tests {
    use super::{boosted, share};

    #[test]
    fn the_number_of_busy_cpus_decides_the_boost() {
        let at = |busy_permille| boosted(60_000, busy_permille, &[1500, 1250]);
        assert_eq!([0, 30, 1000, 1400].map(at), [90_000; 4], "one CPU is busy at most");
        assert_eq!([1600, 2000, 2490].map(at), [75_000; 3]);
        assert_eq!([2500, 4000].map(at), [60_000; 2], "beyond the list");
        assert_eq!(boosted(60_000, 1000, &[]), 60_000);
    }

    #[test]
    fn a_busy_sibling_leaves_the_declared_share() {
        assert_eq!((share(0, 620), share(1000, 620), share(500, 620)), (1000, 620, 810));
        assert_eq!(share(1000, 1000), 1000);
        assert!(share(3000, 620) < 400 && share(3000, 620) > 300);
    }
}
