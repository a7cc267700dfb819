// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Cost of the agent in instructions, on eight CPUs with 200 tasks. In one part all but three tasks
//! sleep, so that idle CPUs are checked, all are listed five times, and `top` watches those that
//! run. In the other, all are busy.

use crate::common::{Expectations, Scenario};

/// Limit of the agent's work [instructions per second]: 0.2 % of a real core.
const MOST_PER_S: f64 = 5e6;
/// Limit for each task of a list, spot checks and the rest of the answers included [instructions].
const MOST_PER_LISTED: f64 = 25e3;
/// Tasks that are listed, at least.
const LISTED: f64 = 5.0 * 200.0;
/// Limit for each task in each answer to `top`; the first answer lists all [instructions].
const MOST_PER_WATCHED: f64 = 8e3;
/// Tasks in these answers, most of them asleep.
const WATCHED: f64 = 9.0 * 200.0;

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn the_agent_costs_next_to_nothing() {
        let results = Scenario::emulated("6.12", "30:30:30:30:12:12:12:12", 9).run("cost", &[]);
        let mut expect = Expectations::default();
        for name in ["asleep", "busy"] {
            let threads = results.number(name, "/threads");
            let what = format!("200 tasks, {name}: instructions a second of the agent | {threads} threads");
            expect.at_most(&what, results.number(name, "/instructions_per_s"), MOST_PER_S);
            // An agent that counts nothing is cheap, too.
            expect.at_least("of which there are some", results.number(name, "/instructions"), 1.0);
        }
        let per_task = results.number("listed", "/instructions") / LISTED;
        expect.at_most("instructions for each task that is listed", per_task, MOST_PER_LISTED);
        let metrics = results.text("metrics");
        let counts = metrics.lines().filter_map(|line| line.strip_prefix("scx_bias_tasks{"));
        let listed = counts.filter_map(|count| count.split(' ').next_back()?.parse::<f64>().ok()).sum();
        expect.at_least("tasks listed", listed, 200.0);
        let per_task = results.number("watched", "/instructions") / WATCHED;
        expect.at_most("instructions for each task that top watches", per_task, MOST_PER_WATCHED);
        let top = results.json("top");
        let rows = top["tasks"].as_array().map_or(&[][..], Vec::as_slice);
        let busy = rows.iter().filter(|row| row["share_permille"].as_u64() > Some(500)).count();
        expect.at_least("busy tasks in top's last answer", busy as f64, 3.0);
        let checks = results.number("asleep.status", "/recalibration/spot_checks");
        expect.at_least("idle CPUs were checked meanwhile", checks, 1.0);
        expect.holds("the scheduler ends with 0", results.text("code").trim() == "0");
        expect.judge();
    }
}
