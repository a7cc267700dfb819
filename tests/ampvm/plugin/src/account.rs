//! From events to modelled time and perf counters.
//!
//! Problem: instructions and misses arrive in lumps, speeds may change between lumps, and nothing may be
//! lost to rounding or ever run backwards. Approach: each lump is priced at the speed in force and added
//! to accumulators in millionths of a cycle and in picoseconds, with the fractions carried over.
//!
//! Units: `ns * mips_milli` is a time in millionths of a cycle, exactly.
//! When a speed changes, stalls inside the core keep their length in cycles (they are clocked with the
//! core) and stalls outside keep theirs in ns. That is what a lower clock does.
//! Invariants (property-tested): every counter is monotonic; cycles = instructions + both stalls; at a
//! constant speed model time is the crate's formula to the picosecond, however the lumps fall.

use crate::args::{Config, VcpuSpec};

/// Cycles that a PAUSE takes besides its own, as on recent cores. QEMU leaves its execution loop at every
/// PAUSE, so at one cycle each a spinning vCPU could not keep up, and would take the host from the vCPU that
/// it waits for.
pub const PAUSE_CYCLES: u64 = 140;
/// Fractions of a cycle that are kept.
const MICRO: u64 = 1_000_000;

/// Events since the start; each only grows.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Events {
    /// Instructions, kernel and user.
    pub insns: u64,
    /// Mispredicted branches.
    pub branch_misses: u64,
    /// L1 misses that hit L2.
    pub l2_hits: u64,
    /// L2 misses that hit the last-level cache.
    pub llc_hits: u64,
    /// Last-level misses.
    pub llc_misses: u64,
    /// PAUSE instructions, kernel and user.
    pub pauses: u64,
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

/// One vCPU's account.
#[derive(Debug, Clone)]
pub struct Account {
    seen: Events,
    mips_milli: u64,
    branch_micro: u64,
    l2_micro: u64,
    llc_ns: u64,
    mem_ns: u64,
    internal: Cycles,
    external: Cycles,
    model_ps: u64,
    /// Remainder of the division that turned cycles into `model_ps`, in micro-cycles * 1000 % mips_milli.
    rest: u64,
}

impl Account {
    /// Nothing executed yet.
    pub fn new(spec: &VcpuSpec, config: &Config) -> Self {
        let mips_milli = u64::from(spec.mips_milli.max(1));
        Self {
            seen: Events::default(),
            mips_milli,
            branch_micro: u64::from(spec.branch_ns) * mips_milli,
            l2_micro: u64::from(spec.l2_ns) * mips_milli,
            llc_ns: config.llc_ns.into(),
            mem_ns: config.mem_ns.into(),
            internal: Cycles::default(),
            external: Cycles::default(),
            model_ps: 0,
            rest: 0,
        }
    }

    /// Takes in what happened since the last call. `now` must not be behind an earlier `now`; what is counts
    /// as nothing.
    pub fn settle(&mut self, now: &Events) {
        let insns = now.insns.saturating_sub(self.seen.insns);
        let branch = now.branch_misses.saturating_sub(self.seen.branch_misses);
        let l2 = now.l2_hits.saturating_sub(self.seen.l2_hits);
        let llc = now.llc_hits.saturating_sub(self.seen.llc_hits);
        let mem = now.llc_misses.saturating_sub(self.seen.llc_misses);
        let pauses = now.pauses.saturating_sub(self.seen.pauses);
        self.seen = *now;

        let internal = branch * self.branch_micro + l2 * self.l2_micro + pauses * PAUSE_CYCLES * MICRO;
        let external_ns = llc * self.llc_ns + mem * self.mem_ns;
        let external = external_ns * self.mips_milli;
        self.internal.add(internal);
        self.external.add(external);
        // Clocked time in ps = micro-cycles * 1000 / mips_milli; 128 bits because lumps may be long.
        let clocked =
            (u128::from(insns) * u128::from(MICRO) + u128::from(internal)) * 1000 + u128::from(self.rest);
        let rate = u128::from(self.mips_milli);
        self.model_ps += (clocked / rate) as u64 + external_ns * 1000;
        self.rest = (clocked % rate) as u64;
    }

    /// Modelled time starts at zero again; counters go on. For the end of the unpaced boot.
    pub fn restart_time(&mut self) {
        self.model_ps = 0;
        self.rest = 0;
    }

    /// Changes the speed for what is settled from now on. Zero is ignored.
    pub fn set_speed(&mut self, mips_milli: u32) {
        if mips_milli != 0 {
            self.mips_milli = mips_milli.into();
            self.rest = 0;
        }
    }

    /// The speed in force, MIPS/1000.
    pub fn speed(&self) -> u32 {
        self.mips_milli as u32
    }

    /// Modelled busy time in ns.
    pub fn model_ns(&self) -> u64 {
        self.model_ps / 1000
    }

    /// What was settled last.
    pub fn events(&self) -> &Events {
        &self.seen
    }

    /// The perf counters, in the order of [`ampvm_abi::Event`].
    pub fn counters(&self) -> [u64; ampvm_abi::NR_EVENTS] {
        let insns = self.seen.insns;
        let (internal, external) = (self.internal.whole, self.external.whole);
        [insns, insns + internal + external, external, internal, self.seen.llc_misses]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn config() -> Config {
        crate::args::parse(["mips=60:24", "shm=/x"], 2).unwrap()
    }

    fn account(cpu: usize) -> Account {
        let c = config();
        Account::new(c.vcpus.get(cpu).unwrap(), &c)
    }

    fn lump() -> impl Strategy<Value = Events> {
        (0_u64..5000, 0_u64..50, 0_u64..50, 0_u64..50, 0_u64..50).prop_map(|(insns, b, l2, llc, mem)| {
            Events { insns, branch_misses: b, l2_hits: l2, llc_hits: llc, llc_misses: mem, pauses: b % 3 }
        })
    }

    fn add(a: &mut Events, b: &Events) {
        a.insns += b.insns;
        a.branch_misses += b.branch_misses;
        a.l2_hits += b.l2_hits;
        a.llc_hits += b.llc_hits;
        a.llc_misses += b.llc_misses;
        a.pauses += b.pauses;
    }

    proptest! {
        #[test]
        fn counters_are_monotonic_through_speed_changes(lumps in proptest::collection::vec((lump(), 0_u32..200_000), 0..60)) {
            let mut a = account(0);
            let mut now = Events::default();
            let (mut before, mut time) = (a.counters(), a.model_ns());
            for (lump, mips_milli) in lumps {
                a.set_speed(mips_milli);
                add(&mut now, &lump);
                a.settle(&now);
                let c = a.counters();
                prop_assert!(c.iter().zip(&before).all(|(c, b)| c >= b));
                prop_assert!(a.model_ns() >= time);
                prop_assert_eq!(c[1], c[0] + c[2] + c[3]);
                (before, time) = (c, a.model_ns());
            }
        }

        #[test]
        fn lumps_do_not_matter(lumps in proptest::collection::vec(lump(), 0..60), cpu in 0_usize..2) {
            let (mut many, mut once) = (account(cpu), account(cpu));
            let mut now = Events::default();
            for lump in &lumps {
                add(&mut now, lump);
                many.settle(&now);
            }
            once.settle(&now);
            prop_assert_eq!(many.counters(), once.counters());
            prop_assert_eq!(many.model_ps, once.model_ps);
        }

        #[test]
        fn model_time_is_the_documented_formula(lump in lump(), cpu in 0_usize..2) {
            let mut a = account(cpu);
            a.settle(&lump);
            let c = config();
            let v = c.vcpus.get(cpu).unwrap();
            let clocked = lump.insns + lump.pauses * PAUSE_CYCLES;
            let ns = clocked as f64 * 1e6 / f64::from(v.mips_milli)
                + (lump.branch_misses * u64::from(v.branch_ns) + lump.l2_hits * u64::from(v.l2_ns)) as f64
                + (lump.llc_hits * 150 + lump.llc_misses * 600) as f64;
            prop_assert!((a.model_ns() as f64 - ns).abs() <= 1.0);
            let cycles = ns * f64::from(v.mips_milli) / 1e6;
            prop_assert!((a.counters()[1] as f64 - cycles).abs() <= 2.0);
        }
    }

    #[test]
    fn a_lower_clock_stretches_what_is_inside_the_core_only() {
        let lump =
            Events { insns: 600, branch_misses: 10, l2_hits: 10, llc_hits: 10, llc_misses: 10, pauses: 0 };
        let (mut full, mut half) = (account(0), account(0));
        half.set_speed(30_000);
        full.settle(&lump);
        half.settle(&lump);
        let outside = 10 * 150 + 10 * 600;
        assert_eq!(full.model_ns(), 10_000 + 10 * 250 + 10 * 50 + outside);
        assert_eq!(half.model_ns(), 2 * (10_000 + 10 * 250 + 10 * 50) + outside);
        assert_eq!(full.counters()[3], half.counters()[3], "the same cycles inside");
        assert_eq!(full.counters()[2], 2 * half.counters()[2], "half the cycles outside");
    }

    #[test]
    fn time_going_backwards_counts_as_nothing() {
        let mut a = account(0);
        a.settle(&Events { insns: 1000, ..Default::default() });
        let before = a.model_ns();
        a.settle(&Events { insns: 400, ..Default::default() });
        assert_eq!(a.model_ns(), before);
    }
}
