//! Built-in plans.
//!
//! Each plan answers one question and states its duration. The windows suit the asymmetric VM: they
//! hold at least twenty slices of the stretched default, so that fairness has time to show.
//!
//! *Diversity* of a mix of n tasks is 1 - |c - s| / n, with c compute and s chase tasks. It is 0
//! when all tasks are alike, and 1 when half are compute-bound and half are stalled. The gain of
//! bias scheduling grows with diversity [Koufaty10].

use super::plan::{Cell, Plan};

/// A built-in plan.
pub struct Suite {
    /// Name on the command line.
    pub name: &'static str,
    /// The question that the plan answers.
    pub about: &'static str,
    /// Approximate duration for two arms, in minutes of the VM's own time.
    pub minutes: u32,
    /// Machines that the suite is meant for. Cells that name no machine run on the first, unless
    /// the command line names another.
    pub machines: &'static [&'static str],
    /// Function that returns the plan.
    pub plan: fn() -> Plan,
}

/// All built-in plans.
pub const SUITES: [Suite; 6] = [
    Suite {
        name: "quick",
        about: "Is anything broken, or clearly better? Throughput and fairness of two mixes, one from every start",
        minutes: 5,
        machines: &["2F2S"],
        plan: quick,
    },
    Suite {
        name: "diversity",
        about: "How does the gain grow with the difference between tasks? Mixes from all alike to half and half (seed 001)",
        minutes: 30,
        machines: &["2F2S", "1F2S", "1F3S"],
        plan: diversity,
    },
    Suite {
        name: "homogeneous",
        about: "Is nothing lost where there is nothing to gain? Equal tasks, as many as CPUs, fewer and more",
        minutes: 12,
        machines: &["2F2S"],
        plan: homogeneous,
    },
    Suite {
        name: "latency",
        about: "How long until a woken task runs? Request and response, message passing, a person next to a batch",
        minutes: 12,
        machines: &["2F2S"],
        plan: latency,
    },
    Suite {
        name: "overhead",
        about: "What do a switch and a wakeup cost, in guest instructions?",
        minutes: 6,
        machines: &["2F2S"],
        plan: overhead,
    },
    Suite {
        name: "openmp",
        about: "Do parallel loops with barriers suffer from unequal cores, and how much do runs vary? (seed 004)",
        minutes: 15,
        machines: &["2F2S"],
        plan: openmp,
    },
];

/// Return the suite of this name.
pub fn find(name: &str) -> Result<&'static Suite, String> {
    SUITES.iter().find(|suite| suite.name == name).ok_or_else(|| {
        let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        format!("unknown suite '{name}'; known are {}", names.join(", "))
    })
}

/// Stretch factor. Slices five times as long as on hardware are long compared with a switch at 60
/// MIPS, and short compared with a window.
const STRETCH: f64 = 5.0;

fn cells(list: &[&str]) -> Vec<Cell> {
    list.iter().map(|text| Cell { diversity: diversity_of(text), ..Cell::of(text) }).collect()
}

/// Return the diversity of a mix of compute and chase tasks. None for other workloads.
fn diversity_of(text: &str) -> Option<f64> {
    let mix: crate::spec::Mix = text.parse().ok()?;
    let tasks = mix.tasks();
    let named = |name: &str| tasks.iter().filter(|kind| kind.to_string() == name).count();
    let (compute, chase) = (named("compute"), named("chase"));
    (compute + chase == tasks.len()).then(|| 1.0 - compute.abs_diff(chase) as f64 / tasks.len() as f64)
}

fn base(name: &str, list: &[&str]) -> Plan {
    Plan { name: name.into(), cells: cells(list), stretch: STRETCH, ..Plan::default() }
}

fn quick() -> Plan {
    Plan { boots: 1, blocks: 12, ..base("quick", &["shuffled+2compute+2chase", "4compute"]) }
}

fn diversity() -> Plan {
    let four = ["4compute", "3compute+1chase", "2compute+2chase", "1compute+3chase", "4chase"];
    let three = ["3compute", "2compute+1chase", "1compute+2chase", "3chase"];
    let on = |machine: &str, mixes: &[&str]| {
        let own = |cell| Cell { machine: Some(machine.into()), ..cell };
        cells(mixes).into_iter().map(own).collect::<Vec<_>>()
    };
    let all = [on("2F2S", &four), on("1F2S", &three), on("1F3S", &four)].concat();
    // Eight pairs are the fewest that can be significant among five judged metrics.
    Plan { boots: 2, blocks: 4, window_s: 1.5, cells: all, ..base("diversity", &[]) }
}

fn homogeneous() -> Plan {
    let mixes = ["1compute", "2compute", "4compute", "8compute", "4chase", "4branchy"];
    Plan { boots: 1, blocks: 8, window_s: 1.5, ..base("homogeneous", &mixes) }
}

fn latency() -> Plan {
    Plan {
        boots: 1,
        blocks: 8,
        window_s: 2.0,
        ..base("latency", &["wakeup", "interactive+4compute", "groups:2"])
    }
}

fn overhead() -> Plan {
    Plan { boots: 1, blocks: 6, ..base("overhead", &["pingpong@0", "pingpong", "pingpong:4", "forks"]) }
}

fn openmp() -> Plan {
    Plan {
        boots: 1,
        blocks: 8,
        window_s: 2.0,
        ..base("openmp", &["barrier:4:static", "barrier:4:dynamic", "triad:4"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_is_a_valid_plan() {
        for suite in &SUITES {
            let plan = (suite.plan)();
            assert_eq!(plan.check(), Ok(()), "{}", suite.name);
            assert_eq!(plan.name, suite.name);
        }
        assert!(find("nothing").err().unwrap().contains("known are quick"));
    }

    #[test]
    fn diversity_runs_from_alike_to_half_and_half() {
        let of: Vec<_> = ["4compute", "3compute+1chase", "2compute+2chase", "4chase", "4branchy", "pingpong"]
            .map(diversity_of)
            .into();
        assert_eq!(of, [Some(0.0), Some(0.5), Some(1.0), Some(0.0), None, None]);
    }
}
