// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Placements with and without siblings.

use super::*;
use proptest::prelude::*;

/// Return cores of these numbers of CPUs, with consecutive CPU numbers.
fn classes(fast: &[usize], slow: &[usize]) -> Classes {
    let mut cpus = 0..;
    let mut cores = |sizes: &[usize]| sizes.iter().map(|&n| cpus.by_ref().take(n).collect()).collect();
    Classes { fast: cores(fast), slow: cores(slow) }
}

fn kinds() -> (WorkKind, WorkKind, KindProgress) {
    let chase: WorkKind = "chase".parse().unwrap();
    let slow = BTreeMap::from([(WorkKind::Compute, 0.4), (chase, 0.86)]);
    let shared = BTreeMap::from([((Class::Fast, WorkKind::Compute), 0.62), ((Class::Fast, chase), 0.95)]);
    (WorkKind::Compute, chase, KindProgress { slow, shared })
}

fn best(tasks: &[WorkKind], fast: &[usize], slow: &[usize]) -> Placement {
    extremes(tasks, &classes(fast, slow), &kinds().2).unwrap().0
}

#[test]
fn compute_belongs_on_fast_cpus() {
    let (compute, chase, progress) = kinds();
    let tasks = [compute, chase, compute, chase];
    let (best, worst) = extremes(&tasks, &classes(&[1, 1], &[1, 1]), &progress).unwrap();
    assert_eq!(best.pins, [0, 2, 1, 3]);
    assert!((best.stp - 3.72).abs() < 1e-12);
    assert_eq!(worst.pins, [2, 0, 3, 1]);
    assert!((worst.stp - 2.8).abs() < 1e-12);
}

#[test]
fn the_worst_placement_still_uses_every_cpu() {
    let (compute, _, progress) = kinds();
    let (best, worst) = extremes(&[compute; 4], &classes(&[1, 1], &[1, 1]), &progress).unwrap();
    assert_eq!(best, worst, "with one kind there is only one placement");
    let (_, one) = extremes(&[compute], &classes(&[1], &[1, 1, 1]), &progress).unwrap();
    assert_eq!(one.pins, [1], "one task on a slow CPU leaves no CPU with two");
}

#[test]
fn equal_cpus_and_huge_mixes() {
    let (compute, chase, progress) = kinds();
    assert_eq!(best(&[compute, chase], &[1, 1], &[]).pins, [0, 1]);
    let huge: Vec<WorkKind> = (0..1000u32).map(|multiplies| WorkKind::Stalled { multiplies }).collect();
    let error = extremes(&huge, &classes(&[1, 1], &[1, 1]), &progress).unwrap_err();
    assert!(error.contains("too many placements"));
}

/// The machine P2E4: two fast cores of two threads, four slow cores.
#[test]
fn whole_cores_come_first_then_the_better_of_sibling_and_slow_core() {
    let (compute, chase, _) = kinds();
    let p2e4 = |tasks: &[WorkKind]| best(tasks, &[2, 2], &[1; 4]);
    assert_eq!(p2e4(&[compute, chase]).pins, [0, 2], "a core each");
    let three = p2e4(&[compute, compute, chase]);
    assert_eq!(three.pins, [0, 2, 4], "the chase does more on a slow core than it takes as a sibling");
    assert!((three.stp - 2.86).abs() < 1e-12);
    // A sibling adds 2 * 0.62 - 1 and a slow core 0.4.
    assert_eq!(p2e4(&[compute; 3]).pins.iter().filter(|&&cpu| cpu < 4).count(), 2);
}

#[test]
fn a_sibling_goes_first_where_it_adds_more_than_a_slow_core() {
    let (compute, _, mut progress) = kinds();
    progress.shared.insert((Class::Fast, compute), 0.9);
    let (best, worst) = extremes(&[compute; 3], &classes(&[2, 2], &[1; 4]), &progress).unwrap();
    assert_eq!(best.pins, [2, 0, 1]);
    assert!((best.stp - 2.8).abs() < 1e-12);
    assert_eq!(worst.pins, [4, 5, 6]);
}

#[test]
fn the_core_that_stays_whole_goes_to_the_task_that_loses_most() {
    let (compute, chase, progress) = kinds();
    let (best, worst) = extremes(&[chase, compute, chase], &classes(&[2, 2], &[]), &progress).unwrap();
    assert_eq!(best.pins, [0, 2, 1]);
    assert!((best.stp - 2.9).abs() < 1e-12);
    assert_eq!(worst.pins, [2, 0, 1]);
    assert!((worst.stp - 2.57).abs() < 1e-12);
}

#[test]
fn kinds_that_were_not_measured_prefer_whole_cores() {
    let (compute, chase, _) = kinds();
    let (best, worst) =
        extremes(&[compute, chase], &classes(&[2, 2], &[]), &KindProgress::default()).unwrap();
    assert_eq!((best.pins, best.stp), (vec![0, 2], 2.0));
    assert_eq!((worst.pins, worst.stp), (vec![0, 1], 2.0 * SHARED_DEFAULT));
}

#[test]
fn a_core_is_of_one_class() {
    let of = Classes::of(vec![vec![0, 1], vec![2], vec![3]], &[1, 3]);
    assert_eq!(of, Classes { fast: vec![vec![0, 1], vec![3]], slow: vec![vec![2]] });
}

/// Predict the progress of a placement with at most one task per CPU, from its CPUs alone.
fn predicted(tasks: &[WorkKind], pins: &[usize], classes: &Classes, progress: &KindProgress) -> f64 {
    let of = |(kind, cpu): (&WorkKind, &usize)| {
        let class = if classes.fast.concat().contains(cpu) { Class::Fast } else { Class::Slow };
        let core = classes.cores(class).iter().find(|core| core.contains(cpu)).unwrap();
        let busy = core.iter().filter(|cpu| pins.contains(cpu)).count();
        if busy > 1 { progress.shared(class, kind) } else { progress.alone(class, kind) }
    };
    tasks.iter().zip(pins).map(of).sum()
}

/// Return the best and the worst placement of a machine without siblings, by the plain formula.
fn without_siblings(
    a: usize,
    b: usize,
    fast: usize,
    slow: usize,
    progress: [f64; 2],
) -> [(f64, usize, usize); 2] {
    let share = |cpus: usize, tasks: usize| (cpus as f64 / tasks.max(1) as f64).min(1.0);
    let (mut best, mut worst) = ((f64::MIN, 0, 0), (f64::MAX, 0, 0));
    for on_b in 0..=b {
        for on_a in 0..=a {
            let (up, down) = (on_a + on_b, a + b - on_a - on_b);
            let fits = up <= fast && down <= slow;
            if !(fits || (up >= fast && down >= slow)) || (slow == 0 && down > 0) {
                continue;
            }
            let (up, down) = (share(fast, up), share(slow, down));
            let of = |n: usize, count: usize, p: f64| n as f64 * up + (count - n) as f64 * down * p;
            let stp = [of(on_a, a, progress[0]), of(on_b, b, progress[1])].iter().sum();
            best = if stp > best.0 { (stp, on_a, on_b) } else { best };
            worst = if stp < worst.0 { (stp, on_a, on_b) } else { worst };
        }
    }
    [best, worst]
}

fn mix(a: usize, b: usize) -> Vec<WorkKind> {
    let (compute, chase, _) = kinds();
    std::iter::repeat_n(compute, a).chain(std::iter::repeat_n(chase, b)).collect()
}

fn any_progress() -> impl Strategy<Value = KindProgress> {
    prop::array::uniform6(0.1f64..1.0).prop_map(|p| {
        let (compute, chase, _) = kinds();
        let slow = BTreeMap::from([(compute, p[0]), (chase, p[1])]);
        let keys =
            [Class::Fast, Class::Slow].into_iter().flat_map(|class| [(class, compute), (class, chase)]);
        KindProgress { slow, shared: keys.zip(p[2..].iter().copied()).collect() }
    })
}

proptest! {
    #[test]
    fn every_task_has_a_place_and_no_cpu_idles_next_to_a_full_one(
        a in 0usize..7, b in 0usize..7,
        fast in prop::collection::vec(1usize..4, 1..4), slow in prop::collection::vec(1usize..4, 0..4),
        progress in any_progress(),
    ) {
        prop_assume!(a + b > 0);
        let (tasks, classes) = (mix(a, b), classes(&fast, &slow));
        let (best, worst) = extremes(&tasks, &classes, &progress).unwrap();
        prop_assert!(best.stp >= worst.stp - 1e-9);
        let cpus: usize = fast.iter().chain(&slow).sum();
        for placement in [best, worst] {
            prop_assert_eq!(placement.pins.len(), tasks.len());
            let load = |cpu: usize| placement.pins.iter().filter(|&&pin| pin == cpu).count();
            let loads: Vec<usize> = (0..cpus).map(load).collect();
            prop_assert!(!(loads.contains(&0) && loads.iter().any(|&n| n > 1)), "{:?}", loads);
        }
    }

    #[test]
    fn no_blind_placement_is_better_or_worse(
        fast in prop::collection::vec(1usize..4, 1..4), slow in prop::collection::vec(1usize..4, 0..4),
        progress in any_progress(), a in 0usize..6, b in 0usize..6, seed in any::<prop::sample::Index>(),
        shuffles in prop::collection::vec(Just((0usize..18).collect::<Vec<_>>()).prop_shuffle(), 8),
    ) {
        let cpus: usize = fast.iter().chain(&slow).sum();
        let tasks = mix(a, b);
        prop_assume!(!tasks.is_empty() && tasks.len() <= cpus);
        let classes = classes(&fast, &slow);
        let (best, worst) = extremes(&tasks, &classes, &progress).unwrap();
        for placement in [&best, &worst] {
            let own = predicted(&tasks, &placement.pins, &classes, &progress);
            prop_assert!((own - placement.stp).abs() < 1e-9, "{placement:?}: {own}");
        }
        // The placement in order of CPU numbers from any CPU ignores siblings.
        let from = seed.index(cpus);
        let in_order: Vec<usize> = (0..tasks.len()).map(|at| (from + at) % cpus).collect();
        let random = shuffles.iter().map(|order| order.iter().copied().filter(|&cpu| cpu < cpus).take(tasks.len()).collect());
        for blind in random.chain([in_order]) {
            let stp = predicted(&tasks, &blind, &classes, &progress);
            prop_assert!(best.stp >= stp - 1e-9, "{stp} by {blind:?} against {best:?}");
            prop_assert!(worst.stp <= stp + 1e-9, "{stp} by {blind:?} against {worst:?}");
        }
    }

    #[test]
    fn without_siblings_nothing_depends_on_the_shared_progress(
        a in 0usize..7, b in 0usize..7, fast in 1usize..5, slow in 0usize..5, progress in any_progress(),
    ) {
        prop_assume!(a + b > 0);
        let (compute, chase, _) = kinds();
        let of = [progress.alone(Class::Slow, &compute), progress.alone(Class::Slow, &chase)];
        let (best, worst) = extremes(&mix(a, b), &classes(&vec![1; fast], &vec![1; slow]), &progress).unwrap();
        for (found, (stp, on_a, on_b)) in [best, worst].iter().zip(without_siblings(a, b, fast, slow, of)) {
            prop_assert_eq!(found.stp, stp);
            let (mut up, mut down) = ((0..fast).cycle(), (fast..fast + slow).cycle());
            let mut pins = Vec::new();
            for (on, count) in [(on_a, a), (on_b, b)] {
                pins.extend(up.by_ref().take(on));
                pins.extend(down.by_ref().take(count - on));
            }
            prop_assert_eq!(&found.pins, &pins);
        }
    }
}
