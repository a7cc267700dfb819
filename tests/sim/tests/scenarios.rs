// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Fixed cases and the figures that they reach.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use bias_sim::unit::Image;
use bias_sim::{campaign, scenario};

#[test]
fn every_scenario_reaches_its_figures() {
    let mut missed = Vec::new();
    for scenario in scenario::all() {
        for seed in 1..=3 {
            let mut scenario = scenario.clone();
            scenario.case.seed = seed;
            if let Some(fault) = campaign::reach(&scenario, Image::Plain).unwrap() {
                missed.push(format!("{} with seed {seed}: {fault}", scenario.name));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
