// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Holders of cache lines, and how often lines move between CPUs.
//!
//! # Problem
//! The number of lines that CPUs take from each other depends on the order of their accesses.
//! Within a quantum of virtual time the host decides that order.
//!
//! # Approach
//! An access to a line that one CPU holds alone is one lookup in a table. Accesses to any other
//! line are counted per vCPU, line and quantum. At the end of the quantum, the counts of all vCPUs
//! are combined as if the accesses had come in random order. Each vCPU is charged the expected
//! number of transfers.
//!
//! Take a vCPU with `r` reads and `w` writes of a line, to which the others made `a` accesses, `b`
//! of them writes:
//!
//!     transfers = r * b / (b + r + w)  +  w * a / (a + w)
//!
//! A read is a transfer if another CPU has written the line since this CPU's last access. A write
//! is a transfer if another CPU has copied the line since this CPU's last write. A read and a write
//! of the same line directly after it are one access: a write. In addition, the first access to a
//! line that others hold is a transfer.
//!
//! Accesses of two CPUs that conflict cause at least one transfer, in this quantum or at the next
//! access: `w * a / (a + w)` is at least 1 if neither is 0, and so is `r * b / (b + r)` of a CPU
//! that only reads.
//!
//! Accesses of a CPU that holds a line alone are not counted. When another CPU writes the line, the
//! former holder may still use it. Its accesses in the next quantum are therefore counted as well,
//! as those of a CPU without the line.
//!
//! # Invariants
//! All of these are tested, the first and the last as properties.
//!
//! * The result does not depend on the order in which vCPUs report.
//! * A line that one CPU uses never moves.
//! * No CPU is charged for more transfers than it made accesses.
//!
//! # Limits
//! Caches hold every line for ever here. Accesses that depend on each other within a quantum also
//! count as random ones.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

/// Entries of the table, which cover 4 GiB of memory. Other addresses share entries.
const TABLE: usize = 1 << 26;

/// Holders of each line, one bit per vCPU.
pub struct Lines {
    holders: Vec<AtomicU64>,
    /// New holders of lines that another CPU wrote in the last quantum while one CPU held them
    /// alone. Until the current quantum ends, the entries above also keep the former holder's bit.
    lost: Mutex<HashMap<u64, u64>>,
}

/// One vCPU's accesses to a line in a quantum.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// Reads without a write directly after them.
    pub reads: u64,
    pub writes: u64,
}

impl Use {
    fn add(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
    }
}

/// One vCPU's accesses in this quantum to lines that it does not hold alone.
#[derive(Debug, Default)]
pub struct Shared {
    uses: HashMap<u64, Use>,
    last_read: Option<u64>,
    /// Number of accesses to all lines. Its reader resets it.
    pub accesses: u64,
}

impl Shared {
    /// Take the counts.
    pub fn take(&mut self) -> Vec<(u64, Use)> {
        self.last_read = None;
        self.uses.drain().collect()
    }
}

impl Lines {
    /// Return a table without holders. It costs the host memory only for lines in use.
    pub fn new() -> Self {
        // One large zeroed allocation makes the host back each page only at its first use.
        let zeroes = std::mem::ManuallyDrop::new(vec![0_u64; TABLE]);
        // SAFETY: the vector is not used again. On x86-64 an AtomicU64 has the size and alignment
        // of a u64.
        let holders = unsafe { Vec::from_raw_parts(zeroes.as_ptr().cast_mut().cast(), TABLE, TABLE) };
        Self { holders, lost: Mutex::default() }
    }

    fn slot(&self, line: u64) -> Option<&AtomicU64> {
        self.holders.get(line as usize % TABLE)
    }

    /// Count an access of a vCPU to a line. Return true if other CPUs may have the line, too.
    #[inline]
    pub fn access(&self, cpu: usize, line: u64, is_write: bool, shared: &mut Shared) -> bool {
        let (Some(slot), own) = (self.slot(line), 1_u64 << (cpu % 64)) else { return false };
        let holders = slot.load(Relaxed);
        if holders == own || holders == 0 && slot.compare_exchange(0, own, Relaxed, Relaxed).is_ok() {
            return false;
        }
        let used = shared.uses.entry(line).or_default();
        shared.accesses += 1;
        if !is_write {
            used.reads += 1;
            shared.last_read = Some(line);
            return true;
        }
        used.writes += 1;
        if shared.last_read.take() == Some(line) {
            used.reads -= 1;
        }
        true
    }

    /// Settle a quantum in which the vCPUs made these accesses. A vCPU may report several times in
    /// a quantum. Return the transfers of each vCPU, in thousandths.
    pub fn settle(&self, uses: Vec<(usize, Vec<(u64, Use)>)>, cpus: usize) -> Vec<u64> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        for (line, holders) in &*lost {
            self.set(*line, *holders);
        }
        let before = std::mem::take(&mut *lost);
        let mut by_line: HashMap<u64, Vec<(usize, Use)>> = HashMap::new();
        for (cpu, list) in uses {
            for (line, used) in list {
                let users = by_line.entry(line).or_default();
                match users.iter_mut().find(|(user, _)| *user == cpu) {
                    Some((_, sum)) => sum.add(used),
                    None => users.push((cpu, used)),
                }
            }
        }
        let mut milli = vec![0; cpus];
        for (line, users) in by_line {
            let holders = self.slot(line).map_or(0, |slot| slot.load(Relaxed));
            for (cpu, transfers) in transfers(holders, &users) {
                if let Some(sum) = milli.get_mut(cpu) {
                    *sum += transfers;
                }
            }
            let users_bits = users.iter().fold(0, |bits, (cpu, _)| bits | 1_u64 << (cpu % 64));
            let written = users.iter().any(|(_, used)| used.writes > 0);
            let is_lost = written && holders.count_ones() == 1 && !before.contains_key(&line);
            if is_lost {
                lost.insert(line, users_bits);
            }
            self.set(line, if written && !is_lost { users_bits } else { holders | users_bits });
        }
        milli
    }

    fn set(&self, line: u64, holders: u64) {
        if let Some(slot) = self.slot(line) {
            slot.store(holders, Relaxed);
        }
    }
}

/// Return the transfers of each user of one line with these holders, in thousandths.
fn transfers(holders: u64, users: &[(usize, Use)]) -> Vec<(usize, u64)> {
    let all = users.iter().map(|(_, used)| used.reads + used.writes).sum::<u64>();
    let written = users.iter().map(|(_, used)| used.writes).sum::<u64>();
    let one = |(cpu, used): &(usize, Use)| {
        let (r, w) = (used.reads, used.writes);
        let (a, b) = (all - r - w, written - w);
        let share = |n: u64, of: u64, rest: u64| (n * of * 1000).checked_div(of + rest).unwrap_or(0);
        let own = 1_u64 << (cpu % 64);
        // The first access is certainly a transfer if this CPU has no copy or writes a line with
        // other holders.
        let first = holders & !own != 0 && (holders & own == 0 || w > 0 && a == 0);
        let at_least = |milli: u64, conflict: bool| milli.max(if conflict { 1000 } else { 0 });
        let reads = at_least(share(r, b, r + w), r > 0 && b > 0 && w == 0);
        let expected = reads + at_least(share(w, a, w), w > 0 && a > 0);
        (*cpu, at_least(expected, first).min((r + w) * 1000))
    };
    users.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    fn used(reads: u64, writes: u64) -> Use {
        Use { reads, writes }
    }

    proptest! {
        #[test]
        fn order_does_not_matter_and_accesses_bound_transfers(
            holders in 0_u64..16, counts in prop::collection::vec((0_u64..1000, 0_u64..1000), 1..4)) {
            let users: Vec<_> = counts.iter().enumerate().map(|(cpu, (r, w))| (cpu, used(*r, *w))).collect();
            let mut reversed = users.clone();
            reversed.reverse();
            let mut back = transfers(holders, &reversed);
            back.reverse();
            let list = transfers(holders, &users);
            prop_assert_eq!(&list, &back);
            for ((_, milli), (_, used)) in list.iter().zip(&users) {
                prop_assert!(*milli <= (used.reads + used.writes) * 1000);
            }
        }
    }

    #[test]
    fn counters_shared_by_n_cpus_move_at_all_writes_but_one_in_n() {
        for n in 2..=8_u64 {
            let users: Vec<_> = (0..n as usize).map(|cpu| (cpu, used(0, 1000))).collect();
            assert!(
                transfers((1 << n) - 1, &users).iter().all(|(_, milli)| *milli == 1_000_000 * (n - 1) / n)
            );
        }
    }

    /// The waiting CPU may have read the word any number of times before or after the write.
    #[test]
    fn a_handover_is_two_transfers_however_often_the_other_cpu_polls() {
        for looks in [1, 2, 10, 1000] {
            assert_eq!(transfers(3, &[(0, used(5, 1)), (1, used(looks, 0))]), [(0, 1000), (1, 1000)]);
        }
    }

    #[test]
    fn a_word_handed_back_and_forth_moves_twice_each_time() {
        // Each CPU spins until the other one has written, then writes once: 10 handovers each.
        let list = transfers(3, &[(0, used(100_000, 10)), (1, used(100_000, 10))]);
        for (_, milli) in list {
            assert!((19_900..=20_000).contains(&milli), "{milli}");
        }
    }

    /// The order in which the host runs the two CPUs must not matter.
    #[test]
    fn cpus_that_begin_to_share_a_line_are_counted_from_the_second_quantum_on() {
        let lines = Lines::new();
        let mut shared = [Shared::default(), Shared::default()];
        for quantum in 0..6 {
            let order = if quantum % 2 == 0 { [0, 1] } else { [1, 0] };
            for cpu in order {
                for _ in 0..100 {
                    lines.access(cpu, 5, true, &mut shared[cpu]);
                }
            }
            let uses = order.map(|cpu| (cpu, shared[cpu].take())).into();
            let wanted = if quantum == 0 { [0, 1000] } else { [50_000, 50_000] };
            assert_eq!(lines.settle(uses, 2), wanted, "quantum {quantum}");
        }
    }

    #[test]
    fn two_reports_of_one_cpu_do_not_conflict() {
        let whole = vec![(1, vec![(5, used(9, 1))]), (0, vec![(5, used(9, 0))])];
        let parts = vec![(1, vec![(5, used(4, 1))]), (1, vec![(5, used(5, 0))]), (0, vec![(5, used(9, 0))])];
        let settled = [whole, parts].map(|uses| {
            let lines = Lines::new();
            lines.set(5, 3);
            lines.settle(uses, 2)
        });
        assert_eq!(settled, [[1000, 1000], [1000, 1000]]);
    }

    #[test]
    fn a_line_is_private_again_when_one_cpu_has_written_it_alone() {
        let lines = Lines::new();
        let (mut a, mut b) = (Shared::default(), Shared::default());
        lines.access(0, 5, true, &mut a);
        assert!(a.take().is_empty(), "no other CPU has it");
        lines.access(1, 5, false, &mut b);
        assert_eq!(lines.settle(vec![(1, b.take())], 2), [0, 1000], "from the first");
        lines.access(0, 5, false, &mut a);
        lines.access(0, 5, true, &mut a);
        let list = a.take();
        assert_eq!(list, [(5, used(0, 1))], "a read and the write that follows are one access");
        assert_eq!(lines.settle(vec![(0, list)], 2), [1000, 0], "the copy is invalidated");
        lines.access(0, 5, true, &mut a);
        assert!(a.take().is_empty());
    }
}
