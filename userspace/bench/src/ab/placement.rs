//! Best and worst static placement: the bounds of a scheduler's throughput.
//!
//! # Problem
//! "Better than default" says little without the possible gain and loss. The best and the worst
//! fixed assignment of tasks to classes of CPUs show both. [Koufaty10] compares with the best
//! assignment, and [Werling18] asks for an equivalent.
//!
//! # Approach
//! Exhaustive search. The STP of every assignment is predicted from the speed of each kind of task,
//! alone on a fast and on a slow CPU. The tasks assigned to a class share its CPUs evenly. Tasks of
//! one kind are interchangeable, so only their number on fast CPUs matters. Even large mixes
//! therefore have few assignments.
//!
//! # Invariants
//! * In both placements, no CPU idles while another has two tasks of the mix. The worst placement
//!   is a wrong choice, not a refusal to work.
//! * best >= worst.
//!
//! # Limits
//! * Contention for caches and memory is not predicted.
//! * A kind without a speed on slow CPUs counts as equally fast there.
//! * Mixes with more than [`MAX_ASSIGNMENTS`] assignments are refused.

use crate::spec::Kind;
use std::collections::BTreeMap;

/// Maximum number of assignments to search.
const MAX_ASSIGNMENTS: usize = 1_000_000;

/// The two classes of CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classes {
    /// CPUs of the fast class. Not empty.
    pub fast: Vec<usize>,
    /// CPUs of the slow class. May be empty.
    pub slow: Vec<usize>,
}

/// A placement of every task, with its predicted throughput.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// The CPU of each task, in the order of the mix.
    pub pins: Vec<usize>,
    /// Predicted sum of the tasks' progress.
    pub stp: f64,
}

/// Return the best and the worst placement of `tasks`. `slow_progress` is the progress of each kind
/// alone on a slow CPU, where 1 is the speed on a fast one.
pub fn extremes(
    tasks: &[Kind],
    classes: &Classes,
    slow_progress: &BTreeMap<Kind, f64>,
) -> Result<(Placement, Placement), String> {
    let mut kinds: Vec<(Kind, usize)> = Vec::new();
    for kind in tasks {
        match kinds.iter_mut().find(|(known, _)| known == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((*kind, 1)),
        }
    }
    let assignments = kinds.iter().try_fold(1usize, |n, (_, count)| n.checked_mul(count + 1));
    if assignments.is_none_or(|n| n > MAX_ASSIGNMENTS) {
        return Err(format!(
            "a mix of {} kinds has too many placements to search; use fewer kinds or tasks",
            kinds.len()
        ));
    }
    let slow_of = |kind: &Kind| slow_progress.get(kind).copied().unwrap_or(1.0);
    let mut best: Option<(f64, Vec<usize>)> = None;
    let mut worst: Option<(f64, Vec<usize>)> = None;
    let mut on_fast = vec![0; kinds.len()];
    loop {
        if works_everywhere(on_fast.iter().sum(), tasks.len(), classes) {
            let stp = predict(&kinds, &on_fast, classes, slow_of);
            if best.as_ref().is_none_or(|(value, _)| stp > *value) {
                best = Some((stp, on_fast.clone()));
            }
            if worst.as_ref().is_none_or(|(value, _)| stp < *value) {
                worst = Some((stp, on_fast.clone()));
            }
        }
        if !next(&mut on_fast, &kinds) {
            break;
        }
    }
    let place = |found: Option<(f64, Vec<usize>)>| {
        let (stp, on_fast) = found.ok_or("there is no CPU to place tasks on")?;
        Ok::<_, String>(Placement { pins: pins(tasks, &kinds, on_fast, classes), stp })
    };
    Ok((place(best)?, place(worst)?))
}

/// Advance to the next assignment. Return false after the last one.
fn next(on_fast: &mut [usize], kinds: &[(Kind, usize)]) -> bool {
    for (value, (_, count)) in on_fast.iter_mut().zip(kinds) {
        if *value < *count {
            *value += 1;
            return true;
        }
        *value = 0;
    }
    false
}

/// Return true if no CPU idles while another has two tasks.
fn works_everywhere(fast_tasks: usize, tasks: usize, classes: &Classes) -> bool {
    let slow_tasks = tasks - fast_tasks;
    let (fast, slow) = (classes.fast.len(), classes.slow.len());
    let fits = |tasks: usize, cpus: usize| tasks <= cpus;
    let full = |tasks: usize, cpus: usize| tasks >= cpus;
    if slow == 0 {
        return slow_tasks == 0;
    }
    (fits(fast_tasks, fast) && fits(slow_tasks, slow)) || (full(fast_tasks, fast) && full(slow_tasks, slow))
}

fn predict(
    kinds: &[(Kind, usize)],
    on_fast: &[usize],
    classes: &Classes,
    slow_of: impl Fn(&Kind) -> f64,
) -> f64 {
    let total: usize = kinds.iter().map(|(_, count)| count).sum();
    let fast_tasks: usize = on_fast.iter().sum();
    let share = |cpus: usize, tasks: usize| (cpus as f64 / tasks.max(1) as f64).min(1.0);
    let (fast, slow) = (share(classes.fast.len(), fast_tasks), share(classes.slow.len(), total - fast_tasks));
    let each = kinds.iter().zip(on_fast);
    each.map(|((kind, count), &n)| n as f64 * fast + (count - n) as f64 * slow * slow_of(kind)).sum()
}

/// Return a CPU for each task. The tasks of a class get its CPUs round-robin.
fn pins(tasks: &[Kind], kinds: &[(Kind, usize)], mut on_fast: Vec<usize>, classes: &Classes) -> Vec<usize> {
    let (mut fast, mut slow) = (classes.fast.iter().cycle(), classes.slow.iter().cycle());
    let place = |kind: &Kind| {
        let index = kinds.iter().position(|(known, _)| known == kind)?;
        let class = if on_fast[index] > 0 { &mut fast } else { &mut slow };
        on_fast[index] = on_fast[index].saturating_sub(1);
        class.next().copied()
    };
    tasks.iter().filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn classes(fast: usize, slow: usize) -> Classes {
        Classes { fast: (0..fast).collect(), slow: (fast..fast + slow).collect() }
    }

    fn kinds() -> (Kind, Kind, BTreeMap<Kind, f64>) {
        let chase: Kind = "chase".parse().unwrap();
        (Kind::Compute, chase, BTreeMap::from([(Kind::Compute, 0.4), (chase, 0.86)]))
    }

    #[test]
    fn compute_belongs_on_fast_cpus() {
        let (compute, chase, slow) = kinds();
        let (best, worst) = extremes(&[compute, chase, compute, chase], &classes(2, 2), &slow).unwrap();
        assert_eq!(best.pins, [0, 2, 1, 3]);
        assert!((best.stp - 3.72).abs() < 1e-12);
        assert_eq!(worst.pins, [2, 0, 3, 1]);
        assert!((worst.stp - 2.8).abs() < 1e-12);
    }

    #[test]
    fn the_worst_placement_still_uses_every_cpu() {
        let (compute, _, slow) = kinds();
        let (best, worst) = extremes(&[compute; 4], &classes(2, 2), &slow).unwrap();
        assert_eq!(best, worst, "with one kind there is only one placement");
        let (_, one) = extremes(&[compute], &classes(1, 3), &slow).unwrap();
        assert_eq!(one.pins, [1], "one task on a slow CPU leaves no CPU with two");
    }

    #[test]
    fn equal_cpus_and_huge_mixes() {
        let (compute, chase, slow) = kinds();
        let (best, _) = extremes(&[compute, chase], &classes(2, 0), &slow).unwrap();
        assert_eq!(best.pins, [0, 1]);
        let huge: Vec<Kind> = (0..1000u32).map(|multiplies| Kind::Stalled { multiplies }).collect();
        assert!(extremes(&huge, &classes(2, 2), &slow).unwrap_err().contains("too many placements"));
    }

    proptest! {
        #[test]
        fn the_best_is_no_worse_and_everybody_has_a_place(a in 0usize..7, b in 0usize..7, fast in 1usize..5, slow in 0usize..5, pa in 0.1f64..1.0, pb in 0.1f64..1.0) {
            prop_assume!(a + b > 0);
            let (compute, chase, _) = kinds();
            let tasks: Vec<Kind> = std::iter::repeat_n(compute, a).chain(std::iter::repeat_n(chase, b)).collect();
            let progress = BTreeMap::from([(compute, pa), (chase, pb)]);
            let (best, worst) = extremes(&tasks, &classes(fast, slow), &progress).unwrap();
            prop_assert!(best.stp >= worst.stp);
            for placement in [best, worst] {
                prop_assert_eq!(placement.pins.len(), tasks.len());
                let load = |cpu: usize| placement.pins.iter().filter(|&&pin| pin == cpu).count();
                let loads: Vec<usize> = (0..fast + slow).map(load).collect();
                prop_assert!(!(loads.contains(&0) && loads.iter().any(|&n| n > 1)), "{:?}", loads);
            }
        }
    }
}
