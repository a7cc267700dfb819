// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Campaigns of random cases, and the search for broken rules.

use std::collections::BTreeMap;
use std::ops::Range;
use std::thread;

use crate::case::Case;
use crate::case::Fault;
use crate::findings::is_known;
use crate::kernel::Kernel;
use crate::random;
use crate::scenario::Scenario;
use crate::unit::Image;

/// Run a case. Return the broken rule, if any.
///
/// # Errors
/// Fail if the case is impossible.
pub fn run(case: &Case, image: Image<'_>) -> anyhow::Result<Option<Fault>> {
    let kernel = Kernel::new(case.clone(), image)?;
    Ok(kernel.run().err())
}

/// Run the cases of `seeds`. Return the first that breaks a rule, unless that is a known finding.
///
/// # Errors
/// Fail if a case is impossible.
pub fn find(seeds: impl IntoIterator<Item = u64>, image: Image<'_>) -> anyhow::Result<Option<(Case, Fault)>> {
    for seed in seeds {
        let case = random::case(seed);
        if let Some(fault) = run(&case, image)?
            && !is_known(&fault)
        {
            return Ok(Some((case, fault)));
        }
    }
    Ok(None)
}

/// Faults by rule, in the order of seeds.
pub type Faults = BTreeMap<String, Vec<(u64, Fault)>>;

/// Run the cases of `seeds` on all CPUs of the host. Return all faults, known findings included.
///
/// # Errors
/// Fail if a case is impossible.
pub fn survey(seeds: Range<u64>, image: Image<'_>) -> anyhow::Result<Faults> {
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let part = |first: u64| -> anyhow::Result<Vec<(u64, Fault)>> {
        let mut faults = Vec::new();
        for seed in (seeds.start + first..seeds.end).step_by(threads) {
            faults.extend(run(&random::case(seed), image)?.map(|fault| (seed, fault)));
        }
        Ok(faults)
    };
    let parts: Vec<anyhow::Result<Vec<(u64, Fault)>>> = thread::scope(|scope| {
        let started: Vec<_> = (0..threads as u64).map(|first| scope.spawn(move || part(first))).collect();
        started
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a case panicked"))))
            .collect()
    });
    let mut faults = Faults::new();
    for part in parts {
        for (seed, fault) in part? {
            faults.entry(fault.rule.clone()).or_default().push((seed, fault));
        }
    }
    faults.values_mut().for_each(|list| list.sort_by_key(|(seed, _)| *seed));
    Ok(faults)
}

/// Run a scenario. Return the rule that it breaks or the figure that it misses.
///
/// # Errors
/// Fail if the case is impossible.
pub fn reach(scenario: &Scenario, image: Image<'_>) -> anyhow::Result<Option<Fault>> {
    let kernel = Kernel::new(scenario.case.clone(), image)?;
    if let Err(fault) = kernel.run() {
        return Ok(Some(fault));
    }
    let missed = (scenario.check)(&kernel).err();
    Ok(missed.map(|what| Fault { rule: scenario.name.into(), what, at_ns: kernel.now() }))
}
