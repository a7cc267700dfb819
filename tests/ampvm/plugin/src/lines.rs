//! Which CPUs hold which cache line, and how often lines move between them.
//!
//! Problem: how many lines CPUs take from each other depends on the order of their accesses, and within a quantum of
//! virtual time the host chooses that order. Approach: a line that one CPU alone holds is a look in a table. Accesses
//! to any other line are counted per vCPU, line and quantum. When the quantum ends, the counts of all vCPUs are taken
//! together, as if they had come in random order, and the expected number of transfers is charged to each.
//!
//! For a vCPU with `r` reads and `w` writes of a line, to which the others made `a` accesses, `b` of them writes:
//!
//!     transfers = r * b / (b + r + w)  +  w * a / (a + w)
//!
//! A read needs the line anew if another CPU wrote since this one's last access; a write does if another CPU has taken a
//! copy since this one's last write. A read that a write of the same line follows at once is one access: a write.
//! Besides, the first access to a line that others hold is a transfer.
//!
//! Nobody counts the accesses of a CPU that holds a line alone. When another CPU writes the line, the former holder
//! may still be at it. So its accesses in the next quantum are counted, too, as those of a CPU without the line.
//!
//! Invariants (property-tested): the result does not depend on the order in which vCPUs report; a line that one CPU
//! uses never moves; nobody is charged for more transfers than it made accesses.
//!
//! Limits: caches hold every line for ever here; accesses that depend on each other within a quantum count as random
//! ones, too.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

/// Lines of the table: 4 GiB of memory. Other addresses share entries.
const TABLE: usize = 1 << 26;

/// Holders of each line, a bit per vCPU.
pub struct Lines {
    holders: Vec<AtomicU64>,
    /// Holders of lines whose entry above still has the bit of the one that held it alone a quantum ago.
    lost: Mutex<HashMap<u64, u64>>,
}

/// One vCPU's accesses to a line in a quantum.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// Reads that no write follows at once.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// One vCPU's accesses to lines that it does not hold alone, in this quantum.
#[derive(Debug, Default)]
pub struct Shared {
    uses: HashMap<u64, Use>,
    last_read: Option<u64>,
    /// How many, over all lines; whoever reads it starts it afresh.
    pub accesses: u64,
}

impl Shared {
    /// Takes what was counted.
    pub fn take(&mut self) -> Vec<(u64, Use)> {
        self.last_read = None;
        self.uses.drain().collect()
    }
}

impl Lines {
    /// Nobody holds anything. Costs the host memory only for lines that are used.
    pub fn new() -> Self {
        // Zeroed as a whole, so that the host hands out no page before its first use.
        let zeroes = std::mem::ManuallyDrop::new(vec![0_u64; TABLE]);
        // SAFETY: the vector is not used again, and an AtomicU64 has the size and, on x86-64, the alignment of a u64.
        let holders = unsafe { Vec::from_raw_parts(zeroes.as_ptr().cast_mut().cast(), TABLE, TABLE) };
        Self { holders, lost: Mutex::default() }
    }

    fn slot(&self, line: u64) -> Option<&AtomicU64> {
        self.holders.get(line as usize % TABLE)
    }

    /// A vCPU accesses a line. Return true if others may have it, too.
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

    /// A quantum ended in which the vCPUs made these accesses: the transfers of each, in thousandths.
    pub fn settle(&self, uses: Vec<(usize, Vec<(u64, Use)>)>, cpus: usize) -> Vec<u64> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        for (line, holders) in &*lost {
            self.set(*line, *holders);
        }
        let before = std::mem::take(&mut *lost);
        let mut by_line: HashMap<u64, Vec<(usize, Use)>> = HashMap::new();
        for (cpu, list) in uses {
            for (line, used) in list {
                by_line.entry(line).or_default().push((cpu, used));
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

/// Transfers of each user of one line that these held before, in thousandths.
fn transfers(holders: u64, users: &[(usize, Use)]) -> Vec<(usize, u64)> {
    let all = users.iter().map(|(_, used)| used.reads + used.writes).sum::<u64>();
    let written = users.iter().map(|(_, used)| used.writes).sum::<u64>();
    let one = |(cpu, used): &(usize, Use)| {
        let (r, w) = (used.reads, used.writes);
        let (a, b) = (all - r - w, written - w);
        let share = |n: u64, of: u64, rest: u64| (n * of * 1000).checked_div(of + rest).unwrap_or(0);
        let own = 1_u64 << (cpu % 64);
        // Holding no copy, or writing where others hold one, the first access is a transfer for certain.
        let first = holders & !own != 0 && (holders & own == 0 || w > 0 && a == 0);
        let expected = share(r, b, r + w) + share(w, a, w);
        (*cpu, expected.max(if first { 1000 } else { 0 }).min((r + w) * 1000))
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
        fn order_does_not_matter_and_nobody_pays_for_more_than_it_did(
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

    #[test]
    fn a_word_handed_back_and_forth_moves_twice_each_time() {
        // Each spins until the other has written, and writes once: 10 handovers each.
        let list = transfers(3, &[(0, used(100_000, 10)), (1, used(100_000, 10))]);
        for (_, milli) in list {
            assert!((19_900..=20_000).contains(&milli), "{milli}");
        }
    }

    /// Which of the two the host runs first must not matter.
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
    fn a_line_is_private_again_when_one_cpu_has_written_it_alone() {
        let lines = Lines::new();
        let (mut a, mut b) = (Shared::default(), Shared::default());
        lines.access(0, 5, true, &mut a);
        assert!(a.take().is_empty(), "nobody else has it");
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
