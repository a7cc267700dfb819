//! What the plugin keeps for each vCPU, and for the machine.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;

use ampvm_abi::{MAX_MIPS_MILLI, MIN_MIPS_MILLI, Page};

use crate::account::{Account, Events};
use crate::args::Config;
use crate::branch::Predictor;
use crate::cache::Cache;
use crate::gate::{Deeds, Gate, Owed};
use crate::lines::{Lines, Shared};
use crate::memory::{Map, Nodes};

/// State that only the vCPU's own thread touches.
pub struct Local {
    /// Line of the last access: the commonest hit needs nothing else.
    pub last_line: u64,
    /// Branch predictor.
    pub predictor: Predictor,
    /// Events so far. `insns` lags: QEMU's inline counter holds the rest.
    pub events: Events,
    /// What the inline counter held at the quantum's start, and what was added to it besides instructions.
    pub not_insns: u64,
    /// Lines asked of memory in this quantum; see [`Nodes::request`].
    pub requests: u64,
    /// Accesses to shared lines in this quantum.
    pub shared: Shared,
    /// Transfers owed and not charged yet, in thousandths; negative if more were charged than came.
    balance_milli: i64,
    /// Transfers owed for the last quantum, in thousandths.
    owed_milli: u64,
    /// Expected transfers of an access in this quantum, and what they have come to, in millionths.
    rate_micro: i64,
    ahead_micro: i64,
    /// Transfers that may yet be charged before they are owed, in thousandths.
    allowance_milli: i64,
    /// Pricing.
    pub account: Account,
    /// Local time less modelled busy time, in ns: the time it was idle.
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
    /// Index of its core's caches.
    pub core: usize,
    /// Index of its last-level cache.
    pub llc: usize,
    /// Its node.
    pub node: usize,
}

// SAFETY: `Local` is reached through `Machine::local` only, whose caller promises to be on the vCPU's thread.
unsafe impl Sync for Vcpu {}

/// Everything modelled.
pub struct Machine {
    /// Shared with guest and host.
    pub page: Page,
    /// One per slot; an empty slot's is never used.
    pub vcpus: Vec<Vcpu>,
    /// Condition on which each halted vCPU's thread sleeps in QEMU; null until it has slept.
    pub halt_conds: Vec<AtomicPtr<c_void>>,
    /// First-level caches, by virtual address; one per core.
    pub l1: Vec<Cache>,
    /// Second-level caches, indexed by virtual and tagged by physical address; one per core.
    pub l2: Vec<Cache>,
    /// Last-level caches.
    pub llc: Vec<Cache>,
    /// Which node an address belongs to.
    pub map: Map,
    /// Where vCPUs wait for each other.
    pub gate: Gate,
    /// Length of a quantum in ns.
    pub quantum_ns: i64,
    /// Share of its speed that a thread has whose sibling is busy, thousandths.
    smt_share_permille: u32,
}

impl Machine {
    /// A machine at rest.
    pub fn new(config: &Config, page: Page) -> Self {
        let machine = &config.machine;
        let slots = machine.slots.len();
        let cores = slots / machine.threads;
        let per = |groups: usize| (slots / groups).max(1);
        let nodes = Nodes::new(machine.nodes, slots, machine.bandwidth_mb_s.into());
        let spec = |slot: usize| {
            // An empty slot borrows its core's CPU, so that all lists have one entry per slot.
            let own = machine.slots.get(slot).copied().flatten();
            own.or_else(|| machine.slots.iter().flatten().next().copied())
        };
        let cpu_of = |slot: usize| machine.slots.iter().take(slot).flatten().count();
        let vcpu = |slot: usize| {
            Some(Vcpu {
                local: UnsafeCell::new(Local::new(Account::new(&spec(slot)?))),
                cpu: cpu_of(slot),
                core: slot / machine.threads,
                llc: slot / per(machine.llcs),
                node: slot / per(machine.nodes),
            })
        };
        let caches = |count, geometry| (0..count).map(|_| Cache::new(geometry)).collect();
        let gate = Gate::new(
            slots,
            machine.quantum_ns.into(),
            machine.threads,
            nodes,
            machine.transfers.then(Lines::new),
        );
        // The user names CPUs as the guest does.
        let slot_of = |cpu: usize| {
            (0..slots).find(|s| machine.slots.get(*s).is_some_and(Option::is_some) && cpu_of(*s) == cpu)
        };
        let throttles = config.throttles.iter();
        gate.set_throttles(
            throttles.filter_map(|(at, cpu, mips)| Some((*at, slot_of(*cpu)?, *mips))).collect(),
        );
        Self {
            page,
            vcpus: (0..slots).filter_map(vcpu).collect(),
            halt_conds: (0..slots).map(|_| AtomicPtr::default()).collect(),
            l1: caches(cores, machine.l1),
            l2: caches(cores, machine.l2),
            llc: caches(machine.llcs, machine.llc),
            map: Map::new(machine.nodes, config.node_bytes),
            gate,
            quantum_ns: machine.quantum_ns.into(),
            smt_share_permille: machine.smt_share_permille,
        }
    }

    /// The state of vCPU `index`.
    ///
    /// # Safety
    /// To be called on that vCPU's thread, and the last result must not be used any more.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn local(&self, index: u32) -> Option<&mut Local> {
        // SAFETY: one thread, one reference at a time, as the caller promises.
        self.vcpus.get(index as usize).map(|v| unsafe { &mut *v.local.get() })
    }

    fn page_of(&self, index: u32) -> Option<&ampvm_abi::Vcpu> {
        self.page.vcpus.get(self.vcpus.get(index as usize)?.cpu)
    }

    /// Writes a vCPU's counters to the page.
    pub fn publish(&self, index: u32, v: &Local) {
        let Some(out) = self.page_of(index) else { return };
        for (to, value) in out.events.iter().zip(v.account.counters()) {
            to.store(value, Relaxed);
        }
        let events = v.account.events();
        out.branch_misses.store(events.branch_misses, Relaxed);
        out.l2_hits.store(events.l2_hits, Relaxed);
        out.llc_hits.store(events.llc_hits, Relaxed);
        out.remote_misses.store(events.remote_misses, Relaxed);
        out.queued_ns.store(v.account.queued_ns(), Relaxed);
        out.model_ns.store(v.account.model_ns(), Relaxed);
        self.page.header.virtual_ns.store(self.gate.now() as u64, Relaxed);
    }

    /// Takes over the speed that host and guest ask for, and what the core's other threads leave of it.
    pub fn adopt_speed(&self, index: u32, v: &mut Local) {
        let Some(page) = self.page_of(index) else { return };
        if let Some((slot, mips_milli)) = self.gate.due_throttle()
            && let Some(throttled) = self.page_of(slot as u32)
        {
            throttled.mips_milli.store(mips_milli, Relaxed);
        }
        let wanted = match page.wanted_mips_milli.load(Relaxed) {
            0 => u32::MAX,
            wanted => wanted,
        };
        let speed = page.mips_milli.load(Relaxed).min(wanted);
        if speed != v.account.speed() && (MIN_MIPS_MILLI..=MAX_MIPS_MILLI).contains(&speed) {
            v.account.set_speed(speed);
        }
        v.account.set_share(share(self.gate.rivals_permille(index as usize), self.smt_share_permille));
    }
}

impl Local {
    fn new(account: Account) -> Self {
        Self {
            last_line: u64::MAX,
            predictor: Predictor::new(),
            events: Events::default(),
            not_insns: 0,
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

    /// What it did since the last time it was asked.
    pub fn take_deeds(&mut self) -> Deeds {
        Deeds { requests: std::mem::take(&mut self.requests), uses: self.shared.take() }
    }

    /// Charges it for what others did to it.
    pub fn pay(&mut self, owed: Owed) {
        self.account.wait_outside(owed.wait_ns);
        self.owed_milli += owed.transfers_milli;
        self.balance_milli += owed.transfers_milli as i64;
        let due = (self.balance_milli / 1000).max(0);
        self.balance_milli -= due * 1000;
        self.events.transfers += due as u64;
        let mut now = *self.account.events();
        now.transfers = self.events.transfers;
        self.account.settle(&now);
    }

    /// A quantum begins: its accesses to shared lines are expected to cost what those of the last one did, each and
    /// together.
    ///
    /// A vCPU that paid only afterwards would sit out whole quanta, and in them the others would not find it there.
    pub fn foresee(&mut self) {
        let accesses = std::mem::take(&mut self.shared.accesses).max(1);
        let owed_milli = std::mem::take(&mut self.owed_milli);
        self.allowance_milli = owed_milli as i64;
        self.rate_micro = (owed_milli * 1000 / accesses) as i64;
        self.ahead_micro = self.balance_milli.min(0) * 1000;
    }

    /// It accesses a shared line. Return true if a transfer is charged at once.
    pub fn expect_transfer(&mut self) -> bool {
        self.ahead_micro += self.rate_micro;
        let is_due = self.ahead_micro >= 1_000_000 && self.allowance_milli >= 1000;
        if is_due {
            self.allowance_milli -= 1000;
            self.ahead_micro -= 1_000_000;
            self.balance_milli -= 1000;
            self.events.transfers += 1;
        }
        is_due
    }

    /// Its place in time, in ns.
    pub fn local_ns(&self) -> i64 {
        self.idle_ns + self.account.model_ns() as i64
    }

    /// Puts it at this place in time.
    pub fn set_local_ns(&mut self, local_ns: i64) {
        self.idle_ns = local_ns - self.account.model_ns() as i64;
    }
}

/// A thread's share of its core in thousandths, where its siblings ran for `rivals` thousandths of one of them.
fn share(rivals: u32, share_permille: u32) -> u32 {
    let (rivals, share) = (u64::from(rivals), u64::from(share_permille));
    if rivals <= 1000 {
        return (1000 - rivals * (1000 - share) / 1000) as u32;
    }
    // Several siblings: each takes as much again as the first.
    (1_000_000 * share / (1000 * share + rivals * (1000 - share))) as u32
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn a_busy_sibling_leaves_the_declared_share() {
        assert_eq!((share(0, 620), share(1000, 620), share(500, 620)), (1000, 620, 810));
        assert_eq!(share(1000, 1000), 1000);
        assert!(share(3000, 620) < 400 && share(3000, 620) > 300);
    }
}
