// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The state of recalibration as text.

use bias_agent::cpulist;
use bias_agent::failure::REPORT_TO;
use bias_agent::figures::duration;
use bias_agent::recal::{Follows, RecalReport, line};
use bias_policy::recal::Cause;

/// Most changes that are shown.
const SHOWN: usize = 8;

/// Return the lines of the report, at `now_ms` [ms since 1970].
pub(super) fn lines(report: &RecalReport, now_ms: u64) -> Vec<String> {
    let unmeasured = |until: &str| {
        let cpus = cpulist::format(&report.unmeasured);
        (!cpus.is_empty())
            .then(|| format!("CPU {cpus}: came online later, not measured: counts as fast {until}"))
    };
    if !report.on {
        let off = "off: the table stays as it was at the start".to_owned();
        return [off].into_iter().chain(unmeasured("until scx_bias is restarted")).collect();
    }
    let mut lines = Vec::new();
    let mut group = |follows, text: &str| {
        let of_group = report.cpus.iter().filter(|cpu| cpu.follows == follows);
        let cpus: Vec<u32> = of_group.map(|cpu| cpu.cpu).collect();
        if !cpus.is_empty() {
            lines.push(format!("CPU {}: {text}", cpulist::format(&cpus)));
        }
    };
    group(Follows::Cycles, "followed by the cycles counted while tasks run");
    group(Follows::SpotChecks, "followed by spot checks while they idle");
    group(
        Follows::Nothing,
        "not followed: nothing is counted there, and they have not been idle while others were busy",
    );
    lines.extend(unmeasured("until a check succeeds"));
    if let Some(failure) = &report.failure {
        lines.push(format!(
            "the last table could not be put in force ({failure}); please report this{REPORT_TO}"
        ));
    }
    if let Some(why) = &report.no_events {
        lines.push(format!("heat shows within seconds, not at once: {why}"));
    }
    lines.push(match report.changed {
        0 => "no entry has changed".to_owned(),
        1 => "one entry has changed:".to_owned(),
        changed => format!("{changed} entries have changed; the last:"),
    });
    // Changes that only follow from another CPU's change are left out.
    let own: Vec<_> = report.changes.iter().filter(|change| change.cause != Cause::Others).collect();
    for change in own.iter().skip(own.len().saturating_sub(SHOWN)) {
        lines.push(format!("{} ago: {}", duration(now_ms.saturating_sub(change.at_ms) / 1000), line(change)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use bias_agent::recal::CpuRecal;
    use bias_policy::recal::{Change, Entry, Trigger};
    use bias_policy::table::Class;

    fn cpu(cpu: u32, follows: Follows) -> CpuRecal {
        let (class, cost_permille) = (Class::Fast, [1000; 3]);
        CpuRecal {
            cpu,
            class,
            cost_permille,
            calibrated_permille: None,
            clock_permille: None,
            learned_permille: None,
            speed_permille: 1000,
            follows,
            seen_ms_ago: None,
        }
    }

    #[test]
    fn what_is_followed_how_and_what_came_of_it() {
        let entry = |class, cost_permille| Entry { class, cost_permille };
        let change = Change {
            at_ms: 1_000,
            cpu: 0,
            old: entry(Class::Fast, [1000; 3]),
            new: entry(Class::Slow, [3000, 3000, 1000]),
            cause: Cause::Cycles,
            trigger: Some(Trigger::Thermal),
        };
        let report = RecalReport {
            on: true,
            cpus: vec![
                cpu(0, Follows::Cycles),
                cpu(1, Follows::Cycles),
                cpu(2, Follows::Nothing),
                cpu(3, Follows::SpotChecks),
            ],
            changed: 1,
            changes: vec![change],
            ..RecalReport::default()
        };
        let expected = [
            "CPU 0-1: followed by the cycles counted while tasks run",
            "CPU 3: followed by spot checks while they idle",
            "CPU 2: not followed: nothing is counted there, and they have not been idle while others were busy",
            "one entry has changed:",
            "12 s ago: CPU 0: fast 1.00/1.00/1.00 became slow 3.00/3.00/1.00 (execute/internal/external), by counted cycles after thermal throttling",
        ];
        assert_eq!(lines(&report, 13_500), expected);
        let quiet = RecalReport {
            changed: 0,
            changes: Vec::new(),
            failure: Some("why".into()),
            no_events: Some("because".into()),
            ..report
        };
        assert!(
            lines(&quiet, 0).iter().any(|line| line == "heat shows within seconds, not at once: because")
        );
        assert!(lines(&quiet, 0).iter().any(|line| line.contains("(why)")));
        assert_eq!(lines(&quiet, 0).last().map(String::as_str), Some("no entry has changed"));
        let late = RecalReport { unmeasured: vec![4, 5], ..quiet };
        let wanted = "CPU 4-5: came online later, not measured: counts as fast until";
        assert!(lines(&late, 0).iter().any(|line| *line == format!("{wanted} a check succeeds")));
        let off = RecalReport { on: false, ..late };
        assert!(lines(&off, 0).contains(&format!("{wanted} scx_bias is restarted")));
        assert_eq!(lines(&RecalReport::default(), 0), ["off: the table stays as it was at the start"]);
    }
}
