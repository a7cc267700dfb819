//! Check of a snapshot for possible swaps. It costs almost nothing, so that tasks are queried only
//! when a swap may pay. The check takes every core as whole. The plan counts shared cores.

use std::collections::BTreeMap;

use bias_policy::table::{CapacityTable, Class};

use super::kernel::Seat;

/// Result of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    /// On some node, a task on a slow CPU gains enough more than one on a fast CPU.
    Promising,
    /// Every task is placed well, or its speedup is unknown, or CPUs are idle.
    Settled,
    /// Tasks wait for a CPU on every node: each dispatch places them again.
    Queued,
}

/// The extremes of a node's tasks.
#[derive(Debug, Clone, Copy, Default)]
struct Node {
    /// Highest speedup on a slow CPU.
    up_permille: Option<u32>,
    /// Lowest speedup on a fast CPU.
    down_permille: Option<u32>,
    waiting: bool,
}

/// Check `seats` at `now_ns`. A swap must gain `least_permille`, and a wait shorter than
/// `passing_ns` does not count.
pub(super) fn sight(
    table: &CapacityTable,
    seats: &[Seat],
    now_ns: u64,
    passing_ns: u64,
    least_permille: u32,
) -> Sight {
    let mut nodes: BTreeMap<u32, Node> = BTreeMap::new();
    for seat in seats {
        let Some(cpu) = table.get(seat.cpu) else { continue };
        let node = nodes.entry(cpu.node).or_default();
        node.waiting |= waits(seat, now_ns, passing_ns);
        if seat.pid == 0 || seat.speedup_permille == 0 {
            continue;
        }
        let speedup = seat.speedup_permille;
        match cpu.class {
            Class::Slow => node.up_permille = node.up_permille.max(Some(speedup)),
            Class::Fast => {
                node.down_permille = Some(node.down_permille.map_or(speedup, |least| least.min(speedup)));
            }
        }
    }
    let promising = |node: &Node| {
        let pair = node.up_permille.zip(node.down_permille);
        !node.waiting && pair.is_some_and(|(up, down)| gain_permille(up, down) >= f64::from(least_permille))
    };
    if nodes.values().any(promising) {
        Sight::Promising
    } else if !nodes.is_empty() && nodes.values().all(|node| node.waiting) {
        Sight::Queued
    } else {
        Sight::Settled
    }
}

/// Return true if tasks have waited for this CPU for `passing_ns` or longer.
pub(super) fn waits(seat: &Seat, now_ns: u64, passing_ns: u64) -> bool {
    seat.waiting_since_ns != 0 && now_ns.saturating_sub(seat.waiting_since_ns) >= passing_ns
}

/// Return the gain of swapping two tasks of these speedups, where progress on a fast CPU is one:
/// `(1/down - 1/up) / (1/up + 1)` [permille].
fn gain_permille(up_permille: u32, down_permille: u32) -> f64 {
    let slow = |speedup: u32| 1000.0 / f64::from(speedup.max(1));
    (slow(down_permille) - slow(up_permille)) / (slow(up_permille) + 1.0) * 1000.0
}

#[cfg(test)]
mod tests {
    use super::super::fake::table;
    use super::*;

    const MS: u64 = 1_000_000;

    fn seat(cpu: u32, speedup_permille: u32) -> Seat {
        Seat { cpu, pid: 100 + cpu, speedup_permille, waiting_since_ns: 0 }
    }

    fn seen(seats: &[Seat]) -> Sight {
        sight(&table(), seats, 1000 * MS, 10 * MS, 50)
    }

    #[test]
    fn only_the_wrong_way_round_is_promising() {
        assert_eq!(seen(&[seat(0, 1070), seat(1, 2500), seat(2, 2500), seat(3, 1070)]), Sight::Promising);
        assert_eq!(seen(&[seat(0, 2500), seat(1, 2500), seat(2, 1070), seat(3, 1070)]), Sight::Settled);
        assert_eq!(seen(&[seat(0, 2450), seat(1, 2500), seat(2, 2500), seat(3, 2480)]), Sight::Settled);
        assert_eq!(seen(&[]), Sight::Settled);
    }

    #[test]
    fn who_is_unknown_or_alone_promises_nothing() {
        assert_eq!(seen(&[seat(0, 0), seat(2, 2500)]), Sight::Settled);
        assert_eq!(seen(&[seat(2, 2500), seat(3, 1070)]), Sight::Settled);
        assert_eq!(seen(&[Seat { pid: 0, ..seat(0, 1070) }, seat(2, 2500)]), Sight::Settled);
        assert_eq!(
            seen(&[seat(0, 1070), seat(999, 2500)]),
            Sight::Settled,
            "a CPU that the table does not know"
        );
    }

    #[test]
    fn where_tasks_wait_nothing_is_planned_but_for_who_just_passes() {
        let waiting =
            |since_ns| [seat(0, 1070), seat(2, 2500)].map(|seat| Seat { waiting_since_ns: since_ns, ..seat });
        assert_eq!(seen(&waiting(900 * MS)), Sight::Queued);
        assert_eq!(seen(&waiting(995 * MS)), Sight::Promising);
        assert_eq!(seen(&waiting(2000 * MS)), Sight::Promising, "a clock that lags behind is no wait");
    }

    #[test]
    fn the_gain_is_that_of_the_planner() {
        // 2.5x and 1.07x: from 0.4 + 1 to 1 + 0.935.
        assert!((gain_permille(2500, 1070) - 382.0).abs() < 1.0);
        assert!(gain_permille(1070, 2500) < 0.0 && gain_permille(0, 0).is_finite());
    }
}
