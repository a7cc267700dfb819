// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Conversion of events to modelled time and perf counters.
//!
//! # Problem
//! Instructions and misses arrive in lumps, and speeds may change between two lumps. No event may
//! be lost to rounding, and no counter may go back.
//!
//! # Approach
//! Each lump is charged at the speed in force. The charges go to accumulators in millionths of a
//! cycle and in picoseconds, and fractions are carried over. `ns * mips_milli` is a time in
//! millionths of a cycle, exactly.
//!
//! A vCPU whose SMT siblings run executes at a share of its speed, while penalties in ns keep their
//! length. Its cycles are those of the core's clock while it runs, as hardware counts them for each
//! thread.
//!
//! # Invariants
//! All of these are property-tested.
//!
//! * Every counter is monotonic.
//! * Cycles are the sum of instructions, both stalls and the cycles that siblings took.
//! * At a constant speed, model time equals the documented formula, to the picosecond and for any
//!   division into lumps.

use ampvm_abi::{COUNTERS, NR_STALLS, Penalty, Stall, VcpuSpec};

/// Additional cycles of a read of the time stamp counter, as on recent cores. The trap costs the
/// host far more.
pub const RDTSC_CYCLES: u64 = 25;
/// Fractions of a cycle in the accumulators.
const MICRO: u64 = 1_000_000;

/// Events since the start. Each count only grows.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Events {
    /// Instructions, kernel and user.
    pub insns: u64,
    /// Additional cycles of RDTSC, kernel and user.
    pub waits: u64,
    /// PAUSE counts in kernel and user code.
    pub stalls: [u64; NR_STALLS],
}

/// A counter of whole cycles with a fraction.
#[derive(Debug, Default, Clone, Copy)]
struct Cycles {
    whole: u64,
    micro: u64,
}

impl Cycles {
    fn add(&mut self, micro: u64) {
        let sum = self.micro + micro;
        self.whole += sum / MICRO;
        self.micro = sum % MICRO;
    }
}

/// The accumulated events, cycles and time of one vCPU.
#[derive(Debug, Clone)]
pub struct Account {
    seen: Events,
    mips_milli: u64,
    /// The vCPU's share of its core's speed [permille].
    share_permille: u64,
    spec: VcpuSpec,
    internal: Cycles,
    external: Cycles,
    /// Cycles in which a sibling had the core.
    lent: Cycles,
    /// Remainder of the division that yields `lent`.
    lent_rest: u64,
    model_ps: u64,
    queued_ns: u64,
    /// Remainder of the division that yields `model_ps`.
    rest: u64,
}

impl Account {
    pub fn new(spec: &VcpuSpec) -> Self {
        Self {
            seen: Events::default(),
            mips_milli: u64::from(spec.mips_milli.max(1)),
            share_permille: 1000,
            spec: *spec,
            internal: Cycles::default(),
            external: Cycles::default(),
            lent: Cycles::default(),
            lent_rest: 0,
            model_ps: 0,
            queued_ns: 0,
            rest: 0,
        }
    }

    /// Charge the events since the last call. A count in `now` must not be below that of an earlier
    /// call; a lower one adds nothing.
    pub fn settle(&mut self, now: &Events) {
        let since = |f: fn(&Events) -> u64| f(now).saturating_sub(f(&self.seen));
        let (insns, waits) = (since(|e| e.insns), since(|e| e.waits));
        // The work that follows the core's clock, in millionths of a cycle, and the rest, in ps.
        let (mut clocked, mut fixed_ps) = ((insns + waits) * MICRO, 0);
        self.internal.add(waits * MICRO);
        for (source, (now, seen)) in now.stalls.iter().zip(&self.seen.stalls).enumerate() {
            let (count, penalty) = (now.saturating_sub(*seen), self.spec.penalties[source]);
            let micro = charge(count, penalty, self.mips_milli, &mut clocked, &mut fixed_ps);
            let is_internal = source <= Stall::L2 as usize;
            if is_internal { self.internal.add(micro) } else { self.external.add(micro) }
        }
        self.seen = *now;
        let lent = u128::from(clocked) * u128::from(1000 - self.share_permille) + u128::from(self.lent_rest);
        self.lent.add((lent / u128::from(self.share_permille)) as u64);
        self.lent_rest = (lent % u128::from(self.share_permille)) as u64;
        // Time in ps = micro-cycles * 1000 / mips_milli. It takes 128 bits because lumps may be
        // long.
        let work = u128::from(clocked) * 1_000_000 + u128::from(self.rest);
        let rate = u128::from(self.mips_milli * self.share_permille);
        self.model_ps += (work / rate) as u64 + fixed_ps;
        self.rest = (work % rate) as u64;
    }

    /// Charge a wait for a resource outside the core.
    pub fn wait_outside(&mut self, ns: u64) {
        self.external.add(ns * self.mips_milli);
        self.model_ps += ns * 1000;
        self.queued_ns += ns;
    }

    /// Reset the modelled time to zero and keep the counters. This happens at the end of the boot.
    pub fn restart_time(&mut self) {
        self.model_ps = 0;
        self.rest = 0;
    }

    /// Set the speed for events charged from now on. Zero is ignored.
    pub fn set_speed(&mut self, mips_milli: u32) {
        if mips_milli != 0 {
            self.mips_milli = mips_milli.into();
            self.rest = 0;
        }
    }

    /// Set the vCPU's share of its core [permille]. Zero is ignored.
    pub fn set_share(&mut self, share_permille: u32) {
        if share_permille != 0 && u64::from(share_permille) != self.share_permille {
            self.share_permille = share_permille.min(1000).into();
            (self.rest, self.lent_rest) = (0, 0);
        }
    }

    /// Return the instructions that take this long at the speed and share in force.
    pub fn insns_in(&self, ns: i64) -> u64 {
        let rate = i128::from(self.mips_milli * self.share_permille);
        (i128::from(ns.max(0)) * rate / 1_000_000_000) as u64
    }

    /// Return the instructions that take as long as one stall.
    pub fn insns_for(&self, stall: Stall) -> u64 {
        match self.spec.penalties[stall as usize] {
            Penalty::Cycles { milli } => u64::from(milli) / 1000,
            Penalty::Ns(ns) => self.insns_in(ns.into()),
        }
    }

    /// Return the speed that the machine's text gives this vCPU [MIPS/1000].
    pub fn nominal_speed(&self) -> u32 {
        self.spec.mips_milli
    }

    /// Return the speed in force [MIPS/1000].
    pub fn speed(&self) -> u32 {
        self.mips_milli as u32
    }

    /// Return the modelled busy time [ns].
    pub fn model_ns(&self) -> u64 {
        self.model_ps / 1000
    }

    pub fn events(&self) -> &Events {
        &self.seen
    }

    /// Return the counters of the page, in the order of [`ampvm_abi::COUNTERS`].
    pub fn counters(&self) -> [u64; COUNTERS.len()] {
        let (insns, internal, external) = (self.seen.insns, self.internal.whole, self.external.whole);
        let cycles = insns + internal + external + self.lent.whole;
        let [_pauses, branch_misses, l2_hits, llc_hits, llc_misses, remote_misses, transfers] =
            self.seen.stalls;
        let (model_ns, queued_ns) = (self.model_ns(), self.queued_ns);
        [
            insns,
            cycles,
            external,
            internal,
            llc_misses,
            transfers,
            branch_misses,
            l2_hits,
            llc_hits,
            model_ns,
            remote_misses,
            queued_ns,
        ]
    }
}

/// Add the penalties of `count` events to the clocked or to the fixed time. Return their sum in
/// millionths of a cycle.
fn charge(count: u64, penalty: Penalty, mips_milli: u64, clocked: &mut u64, fixed_ps: &mut u64) -> u64 {
    match penalty {
        Penalty::Cycles { milli } => {
            let micro = count * u64::from(milli) * (MICRO / 1000);
            *clocked += micro;
            micro
        }
        Penalty::Ns(ns) => {
            *fixed_ps += count * u64::from(ns) * 1000;
            count * u64::from(ns) * mips_milli
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use ampvm_abi::Machine;
    use proptest::prelude::*;

    const SPEC: &str = "60:24,pause_cycles=140:43,branch_ns=250:395,l2_cycles=3,remote_ns=100,transfer_ns=80";

    fn account(cpu: usize) -> Account {
        Account::new(&Machine::parse(SPEC).unwrap().slots[cpu].unwrap())
    }

    fn lump() -> impl Strategy<Value = Events> {
        (0_u64..5000, 0_u64..500, [(); NR_STALLS].map(|()| 0_u64..50))
            .prop_map(|(insns, waits, stalls)| Events { insns, waits, stalls })
    }

    fn add(a: &mut Events, b: &Events) {
        a.insns += b.insns;
        a.waits += b.waits;
        a.stalls.iter_mut().zip(b.stalls).for_each(|(a, b)| *a += b);
    }

    proptest! {
        #[test]
        fn counters_are_monotonic_through_speed_changes(
            lumps in prop::collection::vec((lump(), 0_u32..200_000, 0_u32..=1000, 0_u64..100_000), 0..60)) {
            let mut a = account(0);
            let mut now = Events::default();
            let (mut before, mut time) = (a.counters(), a.model_ns());
            for (lump, mips_milli, share, queue_ns) in lumps {
                a.set_speed(mips_milli);
                a.set_share(share);
                add(&mut now, &lump);
                a.settle(&now);
                a.wait_outside(queue_ns);
                let c = a.counters();
                prop_assert!(c.iter().zip(&before).all(|(c, b)| c >= b));
                prop_assert!(a.model_ns() >= time + queue_ns);
                prop_assert_eq!(c[1], c[0] + c[2] + c[3] + a.lent.whole);
                (before, time) = (c, a.model_ns());
            }
        }

        #[test]
        fn lumps_do_not_matter(lumps in prop::collection::vec(lump(), 0..60), cpu in 0_usize..2, share in 1_u32..=1000) {
            let (mut many, mut once) = (account(cpu), account(cpu));
            let mut now = Events::default();
            for a in [&mut many, &mut once] {
                a.set_share(share);
            }
            for lump in &lumps {
                add(&mut now, lump);
                many.settle(&now);
            }
            once.settle(&now);
            prop_assert_eq!(many.counters(), once.counters());
            prop_assert_eq!(many.model_ps, once.model_ps);
        }

        #[test]
        fn model_time_is_the_documented_formula(lump in lump(), cpu in 0_usize..2, share in 100_u32..=1000) {
            let mut a = account(cpu);
            a.set_share(share);
            a.settle(&lump);
            let (mips, pause, branch_ns) = [(60.0, 140, 250), (24.0, 43, 395)][cpu];
            let [pauses, branches, l2, llc, mem, remote, transfers] = lump.stalls;
            let cycles = (lump.insns + lump.waits + pause * pauses + 3 * l2) as f64;
            let fixed = branches * branch_ns + llc * 150 + mem * 600 + remote * 100 + transfers * 80;
            let ns = cycles * 1000.0 / mips * 1000.0 / f64::from(share) + fixed as f64;
            prop_assert!((a.model_ns() as f64 - ns).abs() <= 1.0, "{} for {}", a.model_ns(), ns);
            let clock = ns * mips / 1000.0;
            prop_assert!((a.counters()[1] as f64 - clock).abs() <= 3.0, "the core's clock, whatever siblings take");
        }

        /// A budget in instructions lasts as long as requested.
        #[test]
        fn a_budget_lasts_as_long_as_requested(ns in 0_i64..10_000_000, cpu in 0_usize..2, share in 1_u32..=1000) {
            let mut a = account(cpu);
            a.set_share(share);
            let insns = a.insns_in(ns);
            a.settle(&Events { insns, ..Events::default() });
            let one = 1000.0 / [60.0, 24.0][cpu] * 1000.0 / f64::from(share);
            prop_assert!(a.model_ns() as i64 <= ns && ns as f64 - a.model_ns() as f64 <= one + 1.0);
        }
    }

    #[test]
    fn a_lower_clock_stretches_cycles_and_not_nanoseconds() {
        let lump = Events { insns: 600, waits: 0, stalls: [0, 10, 10, 10, 10, 0, 0] };
        let (mut full, mut half) = (account(0), account(0));
        half.set_speed(30_000);
        full.settle(&lump);
        half.settle(&lump);
        let fixed = 10 * 250 + 10 * 150 + 10 * 600;
        assert_eq!(full.model_ns(), 10_000 + 10 * 50 + fixed);
        assert_eq!(half.model_ns(), 2 * (10_000 + 10 * 50) + fixed);
        assert_eq!(full.counters()[2], 2 * half.counters()[2], "half the cycles outside the core");
    }

    #[test]
    fn time_going_backwards_adds_nothing() {
        let mut a = account(0);
        a.settle(&Events { insns: 1000, ..Default::default() });
        let before = a.model_ns();
        a.settle(&Events { insns: 400, ..Default::default() });
        assert_eq!(a.model_ns(), before);
    }
}
