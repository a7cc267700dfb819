//! What recalibration tells of itself.

use super::{Cause, Change, Class, Recalibrator, Trigger};
use bias_policy::table::COMPONENTS;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// How a CPU's entry is kept true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Follows {
    /// By the cycles counted while tasks run there.
    Cycles,
    /// By spot checks while it idles.
    SpotChecks,
    /// Not: nothing is counted there and it was never seen idle.
    Nothing,
}

/// One CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuRecal {
    /// Its number.
    pub cpu: u32,
    /// Its class now.
    pub class: Class,
    /// Its costs now [permille of the best CPU of each component].
    pub cost_permille: [u32; COMPONENTS],
    /// Its clock relative to when it was calibrated [permille].
    pub speed_permille: u32,
    /// How that is known.
    pub follows: Follows,
    /// How long ago it was last confirmed or changed [ms]; None if it never was.
    pub seen_ms_ago: Option<u64>,
}

/// The state of recalibration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Is the table followed at all?
    pub on: bool,
    /// Why the last new table could not be put in force; None if it could.
    pub failure: Option<String>,
    /// CPUs that came online later and are not measured yet: they count as fast, with the best costs.
    #[serde(default)]
    pub unmeasured: Vec<u32>,
    /// The CPUs of the table.
    pub cpus: Vec<CpuRecal>,
    /// Entries changed since the start.
    pub changed: u64,
    /// Spot checks made since the start.
    pub spot_checks: u64,
    /// Why events of heat and of the hardware feedback interface are not heard of; None if they are.
    #[serde(default)]
    pub deaf: Option<String>,
    /// The last changes, the newest last; their time is in ms since 1970.
    pub changes: Vec<Change>,
}

impl Recalibrator {
    /// The state now.
    #[must_use]
    pub fn report(&self) -> Report {
        let now_ms = self.clock_ms(Instant::now());
        let cpus = self.table().cpus.iter().map(|entry| {
            let counted = self.before.as_ref().is_some_and(|(_, readings)| {
                readings.iter().any(|reading| reading.cpu == entry.cpu && reading.counted)
            });
            let seen = self.recal.seen(entry.cpu);
            CpuRecal {
                cpu: entry.cpu,
                class: entry.class,
                cost_permille: entry.cost_permille,
                speed_permille: self.recal.speed_permille(entry.cpu).unwrap_or(1000),
                follows: match (counted, seen) {
                    (true, _) => Follows::Cycles,
                    (false, Some(_)) => Follows::SpotChecks,
                    (false, None) => Follows::Nothing,
                },
                seen_ms_ago: seen.map(|seen| now_ms.saturating_sub(seen)),
            }
        });
        Report {
            on: self.on,
            failure: self.failure.clone(),
            unmeasured: self.late.cpus.clone(),
            cpus: cpus.collect(),
            changed: self.changed,
            spot_checks: self.spot_checks,
            deaf: self.deaf.clone(),
            changes: self.changes.iter().cloned().collect(),
        }
    }
}

/// A change in words.
#[must_use]
pub fn line(change: &Change) -> String {
    let costs = |costs: [u32; COMPONENTS]| {
        costs.map(|cost| format!("{}.{:02}", cost / 1000, cost % 1000 / 10)).join("/")
    };
    let class = |class| if class == Class::Fast { "fast" } else { "slow" };
    let cause = match change.cause {
        Cause::Cycles => "counted cycles",
        Cause::SpotCheck => "a spot check",
        Cause::Limit => "the limit of its clock",
        Cause::Class => "the other CPUs of its class",
        Cause::Others => "another CPU's change",
    };
    let trigger = match change.trigger {
        None => "",
        Some(Trigger::Hotplug) => " after it came online",
        Some(Trigger::FrequencyPolicy) => " after its frequency limits changed",
        Some(Trigger::Thermal) => " after thermal throttling",
        Some(Trigger::Feedback) => " after the hardware announced it",
    };
    format!(
        "CPU {}: {} {} became {} {} (execute/internal/external), by {cause}{trigger}",
        change.cpu,
        class(change.old.class),
        costs(change.old.cost_permille),
        class(change.new.class),
        costs(change.new.cost_permille),
    )
}
