// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Computation of a report's rows from samples.

use super::format::Change;
use super::{ALL_CELLS, Row, Series};
use crate::ab::metric::{self, Direction};
use crate::ab::sample::{Block, Run, Sample, valid_blocks};
use crate::ab::stats::pairs::{self, Pairs, Question};
use crate::ab::stats::{Judged, MIN_PAIRS, Verdict, judge_family, pairs_needed};
use crate::metrics::median;
use std::collections::BTreeSet;

/// All results computed from samples.
pub(super) struct Built {
    pub rows: Vec<Row>,
    pub means: Vec<Row>,
    pub series: Vec<Series>,
}

/// Names in a run. Cells and arms follow the order of `run.json`, then those that only the samples
/// name. Metrics follow the registry.
struct Names<'a> {
    cells: Vec<&'a str>,
    arms: Vec<&'a str>,
    metrics: Vec<&'a str>,
}

impl<'a> Names<'a> {
    fn of(run: &'a Run, samples: &[&'a Sample]) -> Self {
        let unique = |names: &mut dyn Iterator<Item = &'a str>| {
            let mut seen = BTreeSet::new();
            names.filter(|name| seen.insert(*name)).collect::<Vec<_>>()
        };
        let cells = run.cells.iter().map(|c| c.name.as_str()).chain(samples.iter().map(|s| s.cell.as_str()));
        let arms = run.arms.iter().map(String::as_str).chain(samples.iter().map(|s| s.arm.as_str()));
        let mut metrics = unique(&mut samples.iter().flat_map(|s| s.metrics.keys()).map(String::as_str));
        metrics.sort_by(|a, b| metric::order(a).cmp(&metric::order(b)));
        Names { cells: unique(&mut { cells }), arms: unique(&mut { arms }), metrics }
    }
}

/// A comparison that waits for its family to be judged.
struct Asked<'a> {
    question: Question<'a>,
    found: Pairs,
    medians: [Option<f64>; 2],
}

/// Judge all arms against the baseline.
pub(super) fn build(run: &Run, samples: &[Sample]) -> Built {
    let blocks = valid_blocks(samples);
    let used: Vec<&Sample> = blocks.iter().flat_map(|b| b.samples.iter().copied()).collect();
    let names = Names::of(run, &used);
    let series = series(&names, &used);
    let machines = machines(run, &names);
    let (mut rows, mut means) = (Vec::new(), Vec::new());
    for &arm in names.arms.iter().filter(|&&arm| arm != run.baseline) {
        let mut all = Vec::new();
        for &cell in &names.cells {
            let asked: Vec<Asked<'_>> = names
                .metrics
                .iter()
                .map(|&name| Question { cell, name, metric: metric::of(name), arm, baseline: &run.baseline })
                .filter_map(|question| ask(question, &blocks, &series))
                .collect();
            rows.extend(judge(&asked, run));
            all.extend(asked);
        }
        for (name, cells) in &machines {
            let here: Vec<&Asked<'_>> = all.iter().filter(|a| cells.contains(&a.question.cell)).collect();
            means.extend(judge(&over_cells(&here, name), run));
        }
    }
    Built { rows, means, series }
}

/// Return the cells of each machine, with the name of the mean over them. A block has cells of one
/// machine only.
fn machines<'a>(run: &Run, names: &Names<'a>) -> Vec<(String, Vec<&'a str>)> {
    let machine_of =
        |cell: &str| run.cells.iter().find(|c| c.name == cell).and_then(|c| c.machine.as_deref());
    let mut machines: Vec<(String, Vec<&str>)> = Vec::new();
    for &cell in &names.cells {
        let name = machine_of(cell).iter().map(|m| format!("{m} ")).collect::<String>() + ALL_CELLS;
        match machines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, cells)) => cells.push(cell),
            None => machines.push((name, vec![cell])),
        }
    }
    machines
}

fn series(names: &Names<'_>, samples: &[&Sample]) -> Vec<Series> {
    let mut series = Vec::new();
    for &cell in &names.cells {
        for &metric in &names.metrics {
            for &arm in &names.arms {
                let of = samples.iter().filter(|s| s.cell == cell && s.arm == arm);
                let values: Vec<f64> = of.filter_map(|s| s.metrics.get(metric).copied()).collect();
                if !values.is_empty() {
                    series.push(Series { cell: cell.into(), metric: metric.into(), arm: arm.into(), values });
                }
            }
        }
    }
    series
}

/// Return the pairs and medians of a question. None if neither arm has the metric.
fn ask<'a>(question: Question<'a>, blocks: &[Block<'_>], series: &[Series]) -> Option<Asked<'a>> {
    let of = |arm: &str| {
        let matches = |s: &&Series| s.arm == arm && s.cell == question.cell && s.metric == question.name;
        series.iter().find(matches).and_then(|s| median(&s.values))
    };
    let medians = [of(question.baseline), of(question.arm)];
    let found = pairs::of(blocks, &question);
    medians.iter().any(Option::is_some).then_some(Asked { question, found, medians })
}

/// Return the geometric means over a machine's cells of one arm, under `name`. Only metrics of at
/// least two cells get a mean.
fn over_cells<'a>(all: &[&Asked<'a>], name: &'a str) -> Vec<Asked<'a>> {
    let mut means = Vec::new();
    let mut seen = BTreeSet::new();
    for asked in all.iter().filter(|a| seen.insert(a.question.name)) {
        let same = all.iter().filter(|a| a.question.name == asked.question.name && !a.found.pairs.is_empty());
        let cells: Vec<_> = same.map(|a| a.found.pairs.as_slice()).collect();
        if cells.len() >= 2 {
            let pairs = pairs::mean_over_cells(&cells);
            let blocks = asked.found.pairs.len() + asked.found.missing;
            let missing = blocks - pairs.len().min(blocks);
            let question = Question { cell: name, ..asked.question };
            means.push(Asked { question, found: Pairs { pairs, missing }, medians: [None; 2] });
        }
    }
    means.sort_by(|a, b| metric::order(a.question.name).cmp(&metric::order(b.question.name)));
    means
}

/// Judge the comparisons of one arm and cell. Judged and neutral metrics are separate families.
fn judge(asked: &[Asked<'_>], run: &Run) -> Vec<Row> {
    let mut rows: Vec<Option<Row>> = asked.iter().map(|_| None).collect();
    for neutral in [false, true] {
        let is_member = |a: &&Asked<'_>| (a.question.metric.direction == Direction::Neutral) == neutral;
        let of = |a: &Asked<'_>| (a.question.metric.direction, a.found.pairs.clone());
        let members: Vec<_> = asked.iter().filter(is_member).map(of).collect();
        let judged = judge_family(&members, dead_zone(run), run.seed);
        let family = judged.iter().filter(|j| j.p.is_some()).count();
        let slots = rows.iter_mut().zip(asked).filter(|(_, a)| is_member(a));
        for ((slot, asked), judged) in slots.zip(&judged) {
            *slot = Some(row(asked, judged, family));
        }
    }
    rows.into_iter().flatten().collect()
}

/// Return the run's dead zone. 0 if the stored value is not a share.
pub(super) fn dead_zone(run: &Run) -> f64 {
    if run.dead_zone.is_finite() { run.dead_zone.max(0.0) } else { 0.0 }
}

fn row(asked: &Asked<'_>, judged: &Judged, family: usize) -> Row {
    let question = &asked.question;
    let [baseline_median, arm_median] = asked.medians;
    // Means have neither median.
    let one_sided = baseline_median.is_some() != arm_median.is_some();
    let verdict = if one_sided { Verdict::NotCompared } else { judged.verdict };
    Row {
        arm: question.arm.into(),
        cell: question.cell.into(),
        metric: question.name.into(),
        unit: question.metric.unit.into(),
        direction: question.metric.direction,
        baseline_median,
        arm_median,
        change: Change::of(judged.estimate, judged.interval),
        p: judged.p,
        p_holm: judged.p_holm,
        verdict,
        blocks: judged.pairs,
        missing: asked.found.missing,
        note: note(question, asked, judged, verdict, family),
    }
}

/// Return the reason why there is no verdict, if the interval does not show it.
fn note(
    q: &Question<'_>,
    asked: &Asked<'_>,
    judged: &Judged,
    verdict: Verdict,
    family: usize,
) -> Option<String> {
    let needed = pairs_needed(family);
    match verdict {
        Verdict::NotCompared => {
            let lacking = if asked.medians[0].is_none() { q.baseline } else { q.arm };
            Some(format!("not measured under {lacking}"))
        }
        Verdict::Inconclusive if judged.pairs < MIN_PAIRS => {
            Some(format!("{} blocks are too few; {MIN_PAIRS} give an interval", judged.pairs))
        }
        Verdict::Inconclusive if judged.pairs < needed => Some(format!(
            "{} blocks cannot be significant among {family} metrics; {needed} can",
            judged.pairs
        )),
        _ => None,
    }
}
