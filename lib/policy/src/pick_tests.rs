// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;
use proptest::sample::subsequence;

fn entry(cpu: u32, cost: [u32; COMPONENTS]) -> CpuCapacity {
    let class = Class::Fast;
    CpuCapacity::alone(cpu, class, cost)
}

const EXECUTE: Rule = Rule {
    by: RankBy::Component(Component::Execute),
    order: Order::Fastest,
    class: None,
    whole_cores: false,
};

fn numbers(table: &CapacityTable, allowed: &[u32], rule: &Rule, count: usize) -> Vec<u32> {
    let picked = pick(table, allowed, rule, NonZeroUsize::new(count)).unwrap();
    picked.into_iter().map(|entry| entry.cpu).collect()
}

/// Return CPUs of these execute costs, with two siblings per core and `per_llc` CPUs per cache.
fn smt(costs: &[u32], per_llc: u32) -> CapacityTable {
    let cpus = (0..).zip(costs).map(|(cpu, cost)| CpuCapacity {
        core: cpu / 2 * 2,
        llc: cpu / per_llc * per_llc,
        ..entry(cpu, [*cost, 1000, 1000])
    });
    CapacityTable { cpus: cpus.collect() }
}

#[test]
fn the_requested_component_decides_which_cpus_are_fastest() {
    let cpus = vec![entry(0, [1500, 1000, 1200]), entry(1, [1000, 1900, 1100]), entry(2, [1200, 1600, 1000])];
    let table = CapacityTable { cpus };
    let by = |by| numbers(&table, &[0, 1, 2], &Rule { by, ..EXECUTE }, 3);
    assert_eq!(by(RankBy::Component(Component::Execute)), [1, 2, 0]);
    assert_eq!(by(RankBy::Component(Component::Internal)), [0, 2, 1]);
    assert_eq!(by(RankBy::Component(Component::External)), [2, 1, 0]);
    assert_eq!(by(RankBy::Mean), [0, 2, 1]);
    assert_eq!(numbers(&table, &[2, 0, 7], &EXECUTE, 2), [2, 0]);
}

#[test]
fn noise_does_not_put_two_threads_on_one_core() {
    // Four equal cores as measured: CPU 5 seems the fastest, its sibling 4 the next.
    let table = smt(&[1004, 1006, 1007, 1005, 1001, 1000, 1003, 1002], 4);
    // The mean decides among whole cores: CPU 5 first, then another core of its cache.
    assert_eq!(numbers(&table, &[0, 1, 2, 3, 4, 5, 6, 7], &EXECUTE, 5), [5, 7, 0, 3, 4]);
}

/// Return `table` with this execute factor of siblings.
fn sharing(mut table: CapacityTable, factor: u32) -> CapacityTable {
    table.cpus.iter_mut().for_each(|cpu| cpu.shared_permille[0] = factor);
    table
}

#[test]
fn a_sibling_ranks_by_the_work_that_it_adds_to_its_core() {
    // A further thread adds 2/1.6 - 1 = a quarter of a core.
    let table = |slow| sharing(smt(&[1000, 1000, slow, slow], 4), 1600);
    assert_eq!(numbers(&table(1100), &[0, 1, 2, 3], &EXECUTE, 4), [0, 2, 1, 3]);
    assert_eq!(numbers(&table(3900), &[0, 1, 2, 3], &EXECUTE, 3), [0, 2, 1]);
    assert_eq!(numbers(&table(4100), &[0, 1, 2, 3], &EXECUTE, 3), [0, 1, 2]);
    // Memory latency does not change with a busy sibling.
    let external = Rule { by: RankBy::Component(Component::External), ..EXECUTE };
    let mut far = table(1000);
    far.cpus[2..].iter_mut().for_each(|cpu| cpu.cost_permille[2] = 1100);
    assert_eq!(numbers(&far, &[0, 1, 2, 3], &external, 3), [0, 1, 2]);
    // A sibling that adds nothing ranks last, and a whole core of any cost before it.
    let useless = sharing(smt(&[1000, 1000, 64_000, 64_000], 4), 2000);
    assert_eq!(numbers(&useless, &[0, 1, 2, 3], &EXECUTE, 4), [0, 2, 1, 3]);
}

#[test]
fn a_thread_of_a_shared_core_is_the_least_useful() {
    // Other programs fill the machine: a thread does 1/1.6 of the work of a whole core.
    let mut table = sharing(smt(&[1500, 1500, 2000, 2000], 4), 1600);
    (table.cpus[3].core, table.cpus[2].shared_permille, table.cpus[3].shared_permille) =
        (3, [1000; 3], [1000; 3]);
    let rule = Rule { order: Order::LeastUseful, ..EXECUTE };
    assert_eq!(numbers(&table, &[0, 1, 2, 3], &rule, 4), [0, 1, 2, 3]);
}

#[test]
fn a_slower_core_ranks_after_a_lossless_sibling_unless_cores_are_whole() {
    let table = smt(&[1000, 1000, 1100, 1100], 4);
    let all = [0, 1, 2, 3];
    assert_eq!(numbers(&table, &all, &EXECUTE, 3), [0, 1, 2]);
    let rule = Rule { whole_cores: true, ..EXECUTE };
    assert_eq!(numbers(&table, &all, &rule, 2), [0, 2]);
    assert_eq!(pick(&table, &all, &rule, NonZeroUsize::new(3)), Err(TooFew { wanted: 3, available: 2 }));
}

#[test]
fn the_least_useful_are_the_slowest_and_share_a_core() {
    let table = smt(&[1000, 1000, 1500, 1500, 1502, 1500], 6);
    let rule = Rule { order: Order::LeastUseful, ..EXECUTE };
    assert_eq!(numbers(&table, &[0, 1, 2, 3, 4, 5], &rule, 6), [4, 5, 2, 3, 0, 1]);
}

#[test]
fn without_fitting_cpus_a_pick_fails() {
    let table = CapacityTable { cpus: vec![entry(0, [1000; 3])] };
    let none = Err(TooFew { wanted: 1, available: 0 });
    assert_eq!(pick(&table, &[], &EXECUTE, None), none);
    assert_eq!(pick(&table, &[0], &Rule { class: Some(Class::Slow), ..EXECUTE }, None), none);
    assert_eq!(pick(&CapacityTable::default(), &[0], &EXECUTE, None), none);
    // This table fails its check, but `pick` must not hang on it.
    let broken = CapacityTable { cpus: vec![entry(0, [0; 3]), entry(1, [0; 3])] };
    assert_eq!(numbers(&broken, &[0, 1], &EXECUTE, 2), [0, 1]);
}

/// Generate costs that are near to and far from each other.
fn costs() -> impl Strategy<Value = u32> {
    prop_oneof![
        3 => 1000u32..1030,
        1 => prop::sample::select(vec![1000u32, 1009, 1010, 1019, 2500, 2510, 2526, 64_000]),
    ]
}

/// Generate a machine with 1 to 3 CPUs per core, 1 to 4 cores per cache, and 1 or 2 caches per
/// node.
fn machine(cost: impl Strategy<Value = u32>) -> impl Strategy<Value = CapacityTable> {
    let factor = prop_oneof![Just(1000u32), 1000u32..2500];
    let cpu = (prop::array::uniform3(cost), prop::array::uniform3(factor), any::<bool>());
    (prop::collection::vec(cpu, 1..25), 1u32..4, 1u32..5, 1u32..3).prop_map(|(cpus, smt, cores, llcs)| {
        let first = |cpu: u32, size: u32| cpu / size * size;
        let cpus = (0..).zip(cpus).map(|(cpu, (cost, shared, slow))| CpuCapacity {
            core: first(cpu, smt),
            llc: first(cpu, smt * cores),
            node: cpu / (smt * cores * llcs),
            class: if slow { Class::Slow } else { Class::Fast },
            shared_permille: if smt == 1 { [1000; 3] } else { shared },
            ..entry(cpu, cost)
        });
        CapacityTable { cpus: cpus.collect() }
    })
}

fn rules() -> impl Strategy<Value = Rule> {
    let by = prop::sample::select(vec![
        RankBy::Component(Component::Execute),
        RankBy::Component(Component::Internal),
        RankBy::Component(Component::External),
        RankBy::Mean,
    ]);
    let order = prop::sample::select(vec![Order::Fastest, Order::LeastUseful]);
    let class = prop::sample::select(vec![None, Some(Class::Fast), Some(Class::Slow)]);
    (by, order, class, any::<bool>()).prop_map(|(by, order, class, whole_cores)| Rule {
        by,
        order,
        class,
        whole_cores,
    })
}

/// Generate a machine and some of its CPUs, shuffled.
fn choice(cost: impl Strategy<Value = u32>) -> impl Strategy<Value = (CapacityTable, Vec<u32>)> {
    machine(cost).prop_flat_map(|table| {
        let all: Vec<u32> = table.cpus.iter().map(|entry| entry.cpu).collect();
        let some = subsequence(all.clone(), 1..=all.len()).prop_shuffle();
        (Just(table), some)
    })
}

/// Return the cost of `entry` by `rule` while these CPUs are in use [permille].
fn cost_beside(table: &CapacityTable, rule: &Rule, entry: &CpuCapacity, used: &[&CpuCapacity]) -> u32 {
    let threads = table.core(entry.core).count() as u32;
    let begun = used.iter().any(|other| other.core == entry.core && other.cpu != entry.cpu);
    rule.by.cost_permille(match rule.order {
        Order::LeastUseful if threads > 1 => entry.shared_cost_permille(),
        Order::Fastest if begun => entry.added_cost_permille(threads),
        _ => entry.cost_permille,
    })
}

/// Return true if `worse` does not exceed `better` by the resolution.
fn tied(better: u32, worse: u32) -> bool {
    better == worse || u64::from(worse) * 100 < u64::from(better) * 101
}

fn fitting<'a>(table: &'a CapacityTable, allowed: &[u32], rule: &Rule) -> Vec<&'a CpuCapacity> {
    let fits = |e: &&CpuCapacity| allowed.contains(&e.cpu) && rule.class.is_none_or(|class| class == e.class);
    table.cpus.iter().filter(fits).collect()
}

proptest! {
    #[test]
    fn the_pick_has_the_requested_number_of_distinct_allowed_cpus(
        (table, allowed) in choice(costs()), rule in rules(), count in 1usize..30,
    ) {
        let fitting = fitting(&table, &allowed, &rule);
        let cores: BTreeSet<u32> = fitting.iter().map(|entry| entry.core).collect();
        let available = if rule.whole_cores { cores.len() } else { fitting.len() };
        match pick(&table, &allowed, &rule, NonZeroUsize::new(count)) {
            Ok(picked) => {
                prop_assert_eq!(picked.len(), count);
                let distinct: BTreeSet<u32> = picked.iter().map(|entry| entry.cpu).collect();
                prop_assert_eq!(distinct.len(), count);
                prop_assert!(picked.iter().all(|entry| fitting.contains(entry)));
                let of_cores: BTreeSet<u32> = picked.iter().map(|entry| entry.core).collect();
                prop_assert!(!rule.whole_cores || of_cores.len() == count);
            }
            Err(few) => {
                prop_assert!(count > available);
                prop_assert_eq!(few, TooFew { wanted: count, available });
            }
        }
        let all = pick(&table, &allowed, &rule, None).map(|picked| picked.len());
        prop_assert_eq!(all.ok(), Some(available).filter(|available| *available > 0));
    }

    #[test]
    fn nothing_clearly_better_is_left_out((table, allowed) in choice(costs()), rule in rules(), count in 1usize..25) {
        let Ok(picked) = pick(&table, &allowed, &rule, NonZeroUsize::new(count)) else { return Ok(()) };
        let cores: Vec<u32> = picked.iter().map(|entry| entry.core).collect();
        for out in fitting(&table, &allowed, &rule) {
            if picked.contains(&out) || rule.whole_cores && cores.contains(&out.core) {
                continue;
            }
            let out = cost_beside(&table, &rule, out, &picked);
            for (at, taken) in picked.iter().enumerate() {
                let taken = cost_beside(&table, &rule, taken, &picked[..at]);
                let (better, worse) = if rule.order == Order::Fastest { (out, taken) } else { (taken, out) };
                prop_assert!(tied(better, worse), "{better} left out for {worse}");
            }
        }
    }

    /// Every other set of `count` CPUs has less throughput, or more by less than the resolution.
    #[test]
    fn no_other_cpus_do_more_work(
        cores in prop::collection::vec((1000u32..5000, 1000u32..2500), 1..6), count in 1usize..10,
    ) {
        let cpus = (0..).zip(cores.iter().flat_map(|core| [core, core])).map(|(cpu, (cost, factor))| CpuCapacity {
            core: cpu / 2 * 2,
            shared_permille: [*factor, 1000, 1000],
            ..entry(cpu, [*cost, 1000, 1000])
        });
        let table = CapacityTable { cpus: cpus.collect() };
        let all: Vec<u32> = (0..table.cpus.len() as u32).collect();
        let Ok(picked) = pick(&table, &all, &EXECUTE, NonZeroUsize::new(count)) else { return Ok(()) };
        let throughput = |cpus: u32| -> f64 {
            (0..cores.len() as u32).map(|core| {
                let (cost, factor) = cores[core as usize];
                match (cpus >> (core * 2) & 3).count_ones() {
                    0 => 0.0,
                    1 => 1e3 / f64::from(cost),
                    _ => 2e6 / f64::from(cost) / f64::from(factor),
                }
            }).sum()
        };
        let mine = throughput(picked.iter().map(|entry| 1 << entry.cpu).sum());
        let sets = (0u32..1 << table.cpus.len()).filter(|set| set.count_ones() as usize == count);
        // Factors above two lose throughput; the rule does not tell one such core from another.
        let losing = cores.iter().any(|(_, factor)| *factor > 1980);
        let best = sets.map(throughput).fold(0.0, f64::max);
        prop_assert!(losing || best < mine * 1.0101, "{best} {mine} {picked:?}");
    }

    #[test]
    fn the_better_sibling_of_a_whole_core_is_picked((table, allowed) in choice(costs()), rule in rules()) {
        let rule = Rule { whole_cores: true, ..rule };
        for taken in pick(&table, &allowed, &rule, None).unwrap_or_default() {
            for sibling in fitting(&table, &allowed, &rule).into_iter().filter(|entry| entry.core == taken.core) {
                let [sibling, taken] = [sibling, taken].map(|entry| cost_beside(&table, &rule, entry, &[]));
                let (better, worse) = if rule.order == Order::Fastest { (sibling, taken) } else { (taken, sibling) };
                prop_assert!(tied(better, worse), "{better} left out for {worse}");
            }
        }
    }

    #[test]
    fn more_cpus_do_not_change_the_first_ones((table, allowed) in choice(costs()), rule in rules(), count in 1usize..24) {
        let of = |count| pick(&table, &allowed, &rule, NonZeroUsize::new(count));
        if let Ok(more) = of(count + 1) {
            prop_assert_eq!(of(count).unwrap(), &more[..count]);
        }
    }

    #[test]
    fn order_and_repeats_of_the_allowed_do_not_matter((table, allowed) in choice(costs()), rule in rules()) {
        let mut twice = [allowed.clone(), allowed.clone()].concat();
        twice.sort_unstable();
        prop_assert_eq!(pick(&table, &allowed, &rule, None), pick(&table, &twice, &rule, None));
    }

    #[test]
    fn of_equal_cpus_whole_cores_come_first_and_caches_are_filled((table, allowed) in choice(1000u32..1010), factor in 1000u32..2500) {
        let table = sharing(table, factor);
        let ranked = pick(&table, &allowed, &EXECUTE, None).unwrap();
        let (mut used, mut siblings) = (Used::of(&table), false);
        for (at, entry) in ranked.iter().enumerate() {
            let sibling = used.cores.contains(&entry.core);
            prop_assert!(sibling || !siblings, "a whole core after a sibling: {ranked:?}");
            siblings |= sibling;
            let waits = |later: &&CpuCapacity| used.llcs.contains(&later.llc) && !used.cores.contains(&later.core);
            let new_cache = !used.llcs.contains(&entry.llc);
            prop_assert!(!(new_cache && ranked[at..].iter().any(waits)), "a cache left half used: {ranked:?}");
            used.add(entry);
        }
    }

    #[test]
    fn from_the_other_end_a_core_is_filled_before_another_is_begun((table, allowed) in choice(1000u32..1010)) {
        let table = sharing(table, 1000);
        let ranked = pick(&table, &allowed, &Rule { order: Order::LeastUseful, ..EXECUTE }, None).unwrap();
        let mut used = Used::of(&table);
        for (at, entry) in ranked.iter().enumerate() {
            let begins = !used.cores.contains(&entry.core);
            let waits = |later: &&CpuCapacity| used.cores.contains(&later.core);
            prop_assert!(!(begins && ranked[at..].iter().any(waits)), "a core left half used: {ranked:?}");
            used.add(entry);
        }
    }
}
