//! Campaigns: many random cases, and what to do with one that breaks a rule.

use crate::case::Case;
use crate::kernel::{Fault, Kernel};
use crate::random;
use crate::scenario::Scenario;
use crate::unit::Image;

/// Rules that known defects of `bpf/` break. Campaigns pass over them, and `tests/defects.rs` has a
/// case for each, ignored until it is repaired. Remove the entry with the repair.
pub const KNOWN: &[&str] = &["unmarked", "idle-unmarked", "idle-global", "queued"];

/// Return true if a known defect explains the fault.
#[must_use]
pub fn is_known(fault: &Fault) -> bool {
    KNOWN.contains(&fault.rule.as_str())
}

/// Run a case. Return the broken rule, if any.
///
/// # Errors
/// Fail if the case is impossible.
pub fn run(case: &Case, image: Image<'_>) -> anyhow::Result<Option<Fault>> {
    let kernel = Kernel::new(case.clone(), image)?;
    Ok(kernel.run().err())
}

/// Run the cases of `seeds`. Return the first that breaks a rule, unless a known defect does.
///
/// # Errors
/// Fail if a case is impossible.
pub fn find(seeds: impl IntoIterator<Item = u64>, image: Image<'_>) -> anyhow::Result<Option<(Case, Fault)>> {
    for seed in seeds {
        let case = random::case(seed);
        if let Some(fault) = run(&case, image)?.filter(|fault| !is_known(fault)) {
            return Ok(Some((case, fault)));
        }
    }
    Ok(None)
}

/// Describe a fault so that it can be repeated: shrink its case, and write the case and its traces
/// into the temporary directory.
///
/// # Errors
/// Fail if a file cannot be written.
pub fn describe(case: &Case, fault: &Fault, image: Image<'_>) -> anyhow::Result<String> {
    let mut small = crate::shrink::shrink(case, &fault.rule, image);
    small.trace = true;
    let kernel = Kernel::new(small.clone(), image)?;
    let fault = kernel.run().err().unwrap_or(fault.clone());
    let folder = std::env::temp_dir();
    let file = |end: &str| folder.join(format!("bias_sim-{}.{end}", case.seed));
    std::fs::write(file("case.json"), small.text())?;
    std::fs::write(file("txt"), kernel.trace_text())?;
    std::fs::write(file("perfetto.json"), kernel.perfetto())?;
    Ok(format!(
        "seed {} breaks a rule on {} under {:?}: {fault}\n  repeat: BIAS_SIM_CASE={} cargo nextest run -p bias_sim --run-ignored all --no-capture repeat\n  trace:  {}\n  for Perfetto: {}",
        case.seed,
        small.machine,
        small.release,
        file("case.json").display(),
        file("txt").display(),
        file("perfetto.json").display(),
    ))
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
