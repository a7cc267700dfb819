// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests that all readers of the costs agree with the kernel side, for all writers.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::control::Machine;
use crate::daemon::event_loop::describe;
use crate::swaps::fake::{FakeKernel, table, taught};
use bias_policy::costs::{Costs, corrected};
use bias_policy::table::CapacityTable;
use proptest::prelude::*;

/// Assert that the status shows the costs and classes of `table`.
fn assert_shown(table: &CapacityTable, live: &Live) {
    let report = Recalibrator::start(table, Vec::new(), false).report(live);
    let shown: Vec<_> = report.cpus.iter().map(|cpu| (cpu.cpu, cpu.class, cpu.cost_permille)).collect();
    let given: Vec<_> =
        table.cpus.iter().map(|entry| (entry.cpu, entry.class, entry.cost_permille)).collect();
    assert_eq!(shown, given);
    assert_eq!(Machine::of(live.table()), Machine::of(table));
}

#[test]
fn after_a_correction_by_swaps_the_status_shows_the_table_in_force() {
    let (swaps, fake) = taught([2000, 1580, 1000]);
    let given = fake.published.last().unwrap();
    assert_ne!(*given, table());
    assert_shown(given, &swaps.live);
    let recal = Recalibrator::start(&table(), Vec::new(), false);
    let cpu = recal.report(&swaps.live).cpus[3];
    assert_eq!((cpu.calibrated_permille, cpu.clock_permille), (Some([2500, 1580, 1000]), Some(1000)));
    let product = corrected([2500, 1580, 1000], cpu.learned_permille.unwrap());
    assert_eq!(cpu.cost_permille, product);
}

#[test]
fn the_service_manager_gets_the_present_classes() {
    let (options, mut live, mut fake) = (RunOptions::default(), Live::new(table()), FakeKernel::worst());
    assert_eq!(describe(&options, live.table()), "2 fast and 2 slow CPUs");
    live.costs.set_clocks(vec![3000, 1000, 1000, 1000]);
    assert_eq!(describe(&options, live.table()), "2 fast and 2 slow CPUs", "not in force yet");
    assert!(live.publish(|table| fake.publish(table)));
    assert_eq!(describe(&options, live.table()), "1 fast and 3 slow CPUs");
    live.costs.set_clocks(vec![2500, 2500, 1000, 1000]);
    assert!(live.publish(|table| fake.publish(table)) && !live.publish(|table| fake.publish(table)));
    assert!(describe(&options, live.table()).ends_with("fast and 2 slow CPUs"));
}

/// A kernel side that refuses some tables.
struct Moody {
    refuses: bool,
    published: CapacityTable,
}

impl Moody {
    fn publish(&mut self, table: &CapacityTable) -> Result<()> {
        anyhow::ensure!(!self.refuses, "no program");
        self.published = table.clone();
        Ok(())
    }
}

fn any_change() -> impl Strategy<Value = (bool, Vec<u32>, bool)> {
    (any::<bool>(), prop::collection::vec(500u32..4000, 4), any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_status_is_what_was_published(changes in prop::collection::vec(any_change(), 1..20)) {
        let mut live = Live::new(table());
        let mut moody = Moody { refuses: false, published: table() };
        let set = |costs: &mut Costs, clock: bool, values: Vec<u32>| match (clock, values.as_slice()) {
            (false, [a, b, c, _]) => costs.set_learned([*a, *b, *c]),
            _ => costs.set_clocks(values),
        };
        for (clock, values, refuses) in changes {
            moody.refuses = refuses;
            set(&mut live.costs, clock, values);
            live.publish(|table| moody.publish(table));
            assert_shown(&moody.published, &live);
            prop_assert!(refuses || live.failure().is_none());
        }
        moody.refuses = false;
        live.publish(|table| moody.publish(table));
        prop_assert_eq!(&moody.published, &live.costs.effective(), "a refused table is published later");
    }
}
