//! What the plugin keeps for each vCPU, and for the machine.

use std::cell::UnsafeCell;

use ampvm_abi::{MAX_MIPS_MILLI, MIN_MIPS_MILLI, Page};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use crate::account::{Account, Events};
use crate::args::{Config, Priority};
use crate::branch::Predictor;
use crate::cache::Cache;
use crate::pacing::Pacer;

/// State that only the vCPU's own thread touches.
pub struct Local {
    /// Line of the last access: the commonest hit needs nothing else.
    pub last_line: u64,
    /// First-level cache, by virtual address.
    pub l1: Cache,
    /// Second-level cache, indexed by virtual and tagged by physical address.
    pub l2: Cache,
    /// Branch predictor.
    pub predictor: Predictor,
    /// Events so far. `insns` lags: QEMU's inline counter holds the rest.
    pub events: Events,
    /// What was added to the inline counter besides instructions, to shorten the quantum.
    pub hurry: u64,
    /// Pricing.
    pub account: Account,
    /// Waiting.
    pub pacer: Pacer,
    /// Time spent in sleeps, ns.
    pub slept_ns: u64,
    /// Host thread is set up (timer slack, priority).
    pub thread_ready: bool,
    /// Pacing is suspended, and the host thread no more prepared for it.
    pub resting: bool,
    /// It gave its real-time priority back.
    pub demoted: bool,
}

/// One vCPU, in its own cache lines.
#[repr(align(128))]
pub struct Vcpu(UnsafeCell<Local>);

// SAFETY: `Local` is reached through `Machine::local` only, whose caller promises to be on the vCPU's thread.
unsafe impl Sync for Vcpu {}

/// Everything modelled.
pub struct Machine {
    /// Shared with guest and host.
    pub page: Page,
    /// One per guest vCPU.
    vcpus: Vec<Vcpu>,
    /// Host thread of each vCPU; 0 until it exists.
    pub threads: Vec<AtomicI32>,
    /// Last-level cache, shared by all threads.
    pub llc: Cache,
    /// Added to the quantum by an access that hits the last-level cache.
    pub llc_hurry: u64,
    /// Added to the quantum by an access that goes to memory.
    pub mem_hurry: u64,
    /// For the vCPUs' host threads.
    pub priority: Priority,
}

impl Machine {
    /// A machine at rest. `quantum` is in instructions; misses shorten it so that a stalled vCPU is paced
    /// about as finely in time as an executing one.
    pub fn new(config: &Config, page: Page, quantum: u64) -> Self {
        let hurry = |ns: u32| (quantum * u64::from(ns) / crate::pacing::MIN_SLEEP_NS as u64).min(quantum);
        let vcpu = |spec| {
            Vcpu(UnsafeCell::new(Local {
                last_line: u64::MAX,
                l1: Cache::new(config.l1),
                l2: Cache::new(config.l2),
                predictor: Predictor::new(),
                events: Events::default(),
                hurry: 0,
                account: Account::new(spec, config),
                pacer: Pacer::default(),
                slept_ns: 0,
                thread_ready: false,
                resting: false,
                demoted: false,
            }))
        };
        Self {
            page,
            vcpus: config.vcpus.iter().map(vcpu).collect(),
            threads: config.vcpus.iter().map(|_| AtomicI32::new(0)).collect(),
            llc: Cache::new(config.llc),
            llc_hurry: hurry(config.llc_ns),
            mem_hurry: hurry(config.mem_ns),
            priority: config.priority,
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
        self.vcpus.get(index as usize).map(|v| unsafe { &mut *v.0.get() })
    }

    /// Writes a vCPU's counters to the page.
    pub fn publish(&self, index: u32, v: &Local) {
        let Some(out) = self.page.vcpus.get(index as usize) else { return };
        for (to, value) in out.events.iter().zip(v.account.counters()) {
            to.store(value, Relaxed);
        }
        let events = v.account.events();
        out.branch_misses.store(events.branch_misses, Relaxed);
        out.l2_hits.store(events.l2_hits, Relaxed);
        out.llc_hits.store(events.llc_hits, Relaxed);
        out.model_ns.store(v.account.model_ns(), Relaxed);
        out.overrun_ns.store(v.pacer.overrun_ns(), Relaxed);
        out.translate_ns.store(v.pacer.translate_ns(), Relaxed);
        out.slept_ns.store(v.slept_ns, Relaxed);
    }

    /// Takes over a speed that the host has written, if it is a possible one.
    pub fn adopt_speed(&self, index: u32, v: &mut Local) {
        let Some(page) = self.page.vcpus.get(index as usize) else { return };
        let wanted = page.mips_milli.load(Relaxed);
        if wanted != v.account.speed() && (MIN_MIPS_MILLI..=MAX_MIPS_MILLI).contains(&wanted) {
            v.account.set_speed(wanted);
        }
    }
}
