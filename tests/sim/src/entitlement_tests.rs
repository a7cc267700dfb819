// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of weighted max-min fairness.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

const ROOT: [Divided; 1] = [Divided { parent: 0, weight: 100.0 }];

fn claim(weight: f64, most: f64, cpus: impl IntoIterator<Item = usize>) -> Claim {
    Claim { weight, most, cpus: cpus.into_iter().collect(), group: 0 }
}

fn near(rates: &[f64], due: &[f64]) -> bool {
    rates.len() == due.len() && rates.iter().zip(due).all(|(rate, due)| (rate - due).abs() < 1e-6)
}

#[test]
fn weights_divide_a_cpu() {
    let claims = [claim(100.0, 1.0, 0..1), claim(300.0, 1.0, 0..1)];
    assert!(near(&entitlements(&claims, &ROOT, 1).unwrap(), &[0.25, 0.75]));
}

/// A heavy task uses one CPU at most, and a sleeper what it asks for. The rest goes to the others.
#[test]
fn limits_leave_the_rest_to_others() {
    let claims = [claim(1000.0, 1.0, 0..2), claim(100.0, 0.1, 0..2), claim(100.0, 1.0, 0..2)];
    assert!(near(&entitlements(&claims, &ROOT, 2).unwrap(), &[1.0, 0.1, 0.9]));
}

/// 60 tasks share two CPUs, and four free ones the other two.
#[test]
fn a_confined_crowd_leaves_the_other_cpus() {
    let mut claims = vec![claim(100.0, 1.0, 0..4); 4];
    claims.extend(vec![claim(100.0, 1.0, 0..2); 60]);
    let rates = entitlements(&claims, &ROOT, 4).unwrap();
    assert!(near(&rates[..4], &[0.5; 4]) && near(&rates[4..], &[1.0 / 30.0; 60]));
}

/// A chain of overlaps: what one set leaves goes to the next.
#[test]
fn overlapping_affinities_share_their_common_cpus() {
    let mut claims = vec![claim(100.0, 1.0, 0..1); 3];
    claims.push(claim(100.0, 1.0, 0..2));
    claims.push(claim(100.0, 1.0, 1..2));
    let third = 1.0 / 3.0;
    assert!(near(&entitlements(&claims, &ROOT, 2).unwrap(), &[third, third, third, 0.5, 0.5]));
}

#[test]
fn groups_divide_level_by_level() {
    let groups = [ROOT[0], Divided { parent: 0, weight: 100.0 }, Divided { parent: 1, weight: 300.0 }];
    let of = |group| Claim { group, ..claim(100.0, 1.0, 0..1) };
    let rates = entitlements(&[of(0), of(1), of(2)], &groups, 1).unwrap();
    assert!(near(&rates, &[0.5, 0.125, 0.375]));
}

#[test]
fn groups_of_many_and_of_few_get_equal_time() {
    let groups = [ROOT[0], Divided { parent: 0, weight: 100.0 }, Divided { parent: 0, weight: 100.0 }];
    let of = |group| Claim { group, ..claim(100.0, 1.0, 0..2) };
    let mut claims = vec![of(1); 2];
    claims.extend(vec![of(2); 100]);
    let rates = entitlements(&claims, &groups, 2).unwrap();
    assert!(near(&rates[..2], &[0.5; 2]) && near(&rates[2..], &[0.01; 100]));
}

proptest! {
    /// No CPU is overused, and none idles while a task needs it. A task below its demand shares no
    /// CPU with one that has more per weight.
    #[test]
    fn rates_are_fair(tasks in proptest::collection::vec((1u32..1000, 1u32..=100, 1usize..16), 1..12)) {
        let claims: Vec<Claim> = tasks.iter().map(|(weight, most, cpus)| {
            claim(f64::from(*weight), f64::from(*most) / 100.0, (0..4).filter(|cpu| cpus >> cpu & 1 != 0))
        }).collect();
        let rates = by_affinity(&claims).unwrap_or_default();
        if rates.is_empty() {
            return Ok(());
        }
        for set in 1usize..16 {
            let mask: Mask = (0..4).filter(|cpu| set >> cpu & 1 != 0).collect();
            let inside = claims.iter().zip(&rates).filter(|(claim, _)| claim.cpus.and_not(&mask).is_empty());
            let used: f64 = inside.map(|(_, rate)| rate).sum();
            prop_assert!(used <= mask.count() as f64 + 1e-6, "{used} of {set:#b}");
        }
        for (claim, rate) in claims.iter().zip(&rates) {
            prop_assert!(*rate > 0.0 && *rate <= claim.most + 1e-9);
            // A task that lacks CPU time shares no CPU set with one that has more per weight.
            for (other, more) in claims.iter().zip(&rates) {
                if rate + 1e-6 < claim.most && other.cpus == claim.cpus {
                    prop_assert!(more / other.weight <= rate / claim.weight + 1e-6);
                }
            }
        }
    }
}
