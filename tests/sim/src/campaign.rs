// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Campaigns: many random cases, and what to do with one that breaks a rule.

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

/// Run the cases of `seeds`. Return the first that breaks a rule, unless that is a known
/// finding.
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

/// Run a scenario. Return what it does not reach.
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
