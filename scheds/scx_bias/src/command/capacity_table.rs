// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `scx_bias table`: the capacity table, with the evidence for its classes, groups of alike CPUs,
//! the scales of the counters and the quality of the predictions.

use crate::cli::one_of;
use crate::help;
use crate::output::{WIDTH, print};
use anyhow::Result;
use bias_agent::capacity::{self, Capacity};
use bias_agent::counter_model::{CounterModel, CounterSet};
use bias_agent::cpulist;
use bias_agent::failure::{Exit, Failure};
use bias_agent::figures::{self, ratio};
use bias_agent::topology::Topology;
use bias_policy::classes::{CpuSamples, similarity};
use bias_policy::model::{CpuModel, Errors, Scale};
use bias_policy::samples::median;
use bias_policy::table::{CapacityTable, Class, Component, CpuCapacity};
use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Most CPUs of a matrix that fits the width.
const MATRIX_CPUS: usize = 14;

const COMPONENT_NAMES: [(&str, &str, Component); 3] = [
    ("execute", "Integer work in registers", Component::Execute),
    ("internal", "Stalls inside the core", Component::Internal),
    ("external", "Stalls outside the core", Component::External),
];

/// Show the table: cost and class of every CPU, and groups of similar CPUs
#[derive(Debug, Args)]
#[command(after_help = help::exit_codes())]
pub struct TableArgs {
    /// Show the table in this file instead of the stored one
    #[arg(long, value_name = "FILE")]
    capacity_file: Option<PathBuf>,

    /// Print JSON for machines
    #[arg(long)]
    json: bool,

    /// Show the similarity of each pair of CPUs in one component: a dot for equal CPUs, else the
    /// distance between their distributions
    #[arg(long, value_name = "COMPONENT", conflicts_with = "json", value_parser = one_of(&COMPONENT_NAMES))]
    matrix: Option<Component>,
}

impl TableArgs {
    pub fn run(self) -> Result<Exit> {
        let capacity = capacity::stored(&Topology::read()?, self.capacity_file.as_deref())?;
        match self.matrix {
            Some(component) => print(&matrix(&capacity, component)?),
            None => show(&capacity, self.json),
        }
    }
}

/// Print the table.
///
/// # Errors
/// The table cannot be written.
pub fn show(capacity: &Capacity, json: bool) -> Result<Exit> {
    print(&if json { document(capacity)? } else { text(capacity) })
}

/// Return the table for a terminal: a line per CPU, the evidence for the classes, groups of alike
/// CPUs, and scales of the counters.
fn text(capacity: &Capacity) -> String {
    let mut table =
        plain(["CPU", "class", "execute", "±%", "internal", "±%", "external", "±%", "core", "LLC", "node"]);
    for entry in &capacity.table.cpus {
        table.add_row(row(entry));
    }
    align(&mut table);
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    let mut out = format!(
        "Time per unit of work, relative to the best CPU (1.00); ±% is the spread of one sample.\n{table}\n"
    );
    out.push_str(&classes(capacity));
    out.push_str(&siblings(&capacity.table));
    out.push_str(&alike(capacity));
    if let Some(model) = &capacity.file.model {
        out.push_str(&scales(model, &capacity.table));
    }
    out
}

fn row(entry: &CpuCapacity) -> Vec<String> {
    let mut row = vec![entry.cpu.to_string(), entry.class.name().to_owned()];
    for (cost, spread) in entry.cost_permille.iter().zip(entry.spread_permille) {
        row.push(ratio(*cost));
        row.push(format!("{:.1}", f64::from(spread) / 10.0));
    }
    row.extend([entry.core, entry.llc, entry.node].map(|id| id.to_string()));
    row
}

/// Describe the evidence for the classes.
fn classes(capacity: &Capacity) -> String {
    let of = |class| {
        let cpus: Vec<u32> = capacity.table.cpus.iter().filter(|e| e.class == class).map(|e| e.cpu).collect();
        cpulist::format(&cpus)
    };
    if capacity.table.nr_classes() == 1 {
        return "One class: no split is both large enough and significant.\n".to_owned();
    }
    let why = capacity.file.split.map_or(String::new(), |split| {
        let p = split.p_value.map_or(String::new(), |p| format!(", p = {p:.3}"));
        format!(
            " ({} differs by {:.1} %{p})",
            split.component.name(),
            f64::from(split.effect_permille) / 10.0
        )
    });
    format!("Fast: CPU {}; slow: CPU {}{why}.\n", of(Class::Fast), of(Class::Slow))
}

/// Describe the cost of busy SMT siblings, one line per class with siblings; nothing without any.
fn siblings(table: &CapacityTable) -> String {
    let mut out = String::new();
    for class in [Class::Fast, Class::Slow] {
        let with = |entry: &&CpuCapacity| entry.class == class && table.has_sibling(entry);
        let Some(entry) = table.cpus.iter().find(with) else { continue };
        let [execute, internal, external] = entry.shared_permille.map(|factor| f64::from(factor) / 1000.0);
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "While siblings are busy ({}): execute ×{execute:.2}, internal ×{internal:.2}, external ×{external:.2}.",
            class.name()
        );
    }
    out
}

/// List the groups of CPUs with alike samples, one line per component.
fn alike(capacity: &Capacity) -> String {
    let samples = capacity.file.samples();
    let mut out = String::new();
    for component in Component::ALL {
        let groups: Vec<String> = groups(&samples, component)
            .iter()
            .map(|group| format!("{{{}}}", cpulist::format(group)))
            .collect();
        if !groups.is_empty() {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "Alike in {}: {}", component.name(), groups.join(" "));
        }
    }
    out
}

/// Group alike CPUs, fastest group first. In the order of medians, neighbours without a significant
/// difference share a group.
fn groups(samples: &[CpuSamples], component: Component) -> Vec<Vec<u32>> {
    let at = component.index();
    let mut order: Vec<(f64, &CpuSamples)> =
        samples.iter().filter_map(|cpu| Some((median(&cpu.times[at])?, cpu))).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut groups: Vec<Vec<u32>> = Vec::new();
    let mut last: Option<&CpuSamples> = None;
    for (_, cpu) in order {
        let joins =
            last.and_then(|last| similarity(&last.times[at], &cpu.times[at])).is_some_and(|s| s.alike());
        match groups.last_mut() {
            Some(group) if joins => group.push(cpu.cpu),
            _ => groups.push(vec![cpu.cpu]),
        }
        last = Some(cpu);
    }
    groups.iter_mut().for_each(|group| group.sort_unstable());
    groups
}

/// Return the similarity of every pair in one component, as in \[Reif20\]: `●` for alike, else the
/// Kolmogorov-Smirnov distance.
///
/// # Errors
/// Usage failure when there are no samples or more CPUs than fit.
fn matrix(capacity: &Capacity, component: Component) -> Result<String, Failure> {
    let samples = capacity.file.samples();
    if samples.is_empty() {
        return Err(Failure::usage(
            "this table has no samples to compare; measure with `scx_bias calibrate`",
        ));
    }
    if samples.len() > MATRIX_CPUS {
        return Err(Failure::usage(format!(
            "a matrix of {} CPUs does not fit {WIDTH} columns (most {MATRIX_CPUS}); use `scx_bias table --json`",
            samples.len()
        )));
    }
    let at = component.index();
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(std::iter::once(String::new()).chain(samples.iter().map(|cpu| cpu.cpu.to_string())));
    for one in &samples {
        let cells = samples.iter().map(|other| match similarity(&one.times[at], &other.times[at]) {
            Some(similarity) if similarity.alike() => "●".to_owned(),
            Some(similarity) => format!("{:.2}", similarity.distance).trim_start_matches('0').to_owned(),
            None => "?".to_owned(),
        });
        table.add_row(std::iter::once(one.cpu.to_string()).chain(cells));
    }
    Ok(format!(
        "Similarity in {}: ● alike, else distance of the distributions (1.00: disjoint).\n{table}\n",
        component.name()
    ))
}

/// Return the table as JSON: CPUs with costs and classes, the evidence for the classes, groups of
/// alike CPUs, and scales of the counters. Samples stay in the file.
fn document(capacity: &Capacity) -> Result<String, Failure> {
    let samples = capacity.file.samples();
    let alike = Component::ALL.map(|component| groups(&samples, component));
    let document = json!({
        "version": 1,
        "cpus": capacity.table.cpus,
        "split": capacity.file.split,
        "alike": alike,
        "model": capacity.file.model,
    });
    figures::json(&document, "table")
}

/// Return the scales, one line per class of CPUs and set of events, and predicted against measured
/// speedups, one line per loop.
fn scales(model: &CounterModel, table: &CapacityTable) -> String {
    let mut table_of_scales = plain(["class", "CPU", "external", "internal", "error"]);
    for set in &model.sets {
        for class in [Class::Fast, Class::Slow] {
            let of_class =
                |scales: &&CpuModel| table.get(scales.cpu).is_some_and(|entry| entry.class == class);
            let cpus: Vec<CpuModel> = set.cpus.iter().filter(of_class).copied().collect();
            if !cpus.is_empty() {
                table_of_scales.add_row(scale_line(class.name(), set, &cpus));
            }
        }
    }
    align(&mut table_of_scales);
    let mut out = format!("Scales of the stall counters: cycles per count.\n{table_of_scales}\n");
    if let Some(errors) = model.errors {
        out.push_str(&speedups(model, errors));
    }
    out
}

/// Return the line of CPUs of a class that count the same events.
fn scale_line(class: &str, set: &CounterSet, cpus: &[CpuModel]) -> [String; 5] {
    let numbers: Vec<u32> = cpus.iter().map(|scales| scales.cpu).collect();
    let column = |event: &Option<String>, scale: fn(&CpuModel) -> Option<Scale>| match event {
        Some(_) => range(&cpus.iter().filter_map(scale).collect::<Vec<_>>()),
        None => "none".to_owned(),
    };
    let errors: Vec<u32> = cpus.iter().filter_map(|scales| scales.error_permille).collect();
    let error = match errors.len() as u32 {
        0 => "?".to_owned(),
        count => percent(errors.iter().sum::<u32>() / count),
    };
    [
        class.to_owned(),
        cpulist::format(&numbers),
        column(&set.external, |scales| scales.external),
        column(&set.internal, |scales| scales.internal),
        error,
    ]
}

/// Describe the scales of several CPUs: a figure, a range, or the reason why there is none, with
/// the number of its CPUs.
fn range(scales: &[Scale]) -> String {
    let fitted = |scale: &Scale| if let Scale::Fitted(permille) = scale { Some(*permille) } else { None };
    let figures = scales.iter().filter_map(fitted);
    let mut parts = Vec::new();
    if let Some((least, most)) = figures.clone().min().zip(figures.max()) {
        let (least, most) = (ratio(least), ratio(most));
        parts.push(if least == most { least } else { format!("{least} to {most}") });
    }
    for (kind, name) in [
        (Scale::Unclear, "not found (nominal)"),
        (Scale::Unrelated, "does not follow (unused)"),
        (Scale::Still, "never moves (unused)"),
    ] {
        match scales.iter().filter(|scale| **scale == kind).count() {
            0 => {}
            count if count == scales.len() => parts.push(name.to_owned()),
            count => parts.push(format!("{name} on {count}")),
        }
    }
    parts.join(", ")
}

fn speedups(model: &CounterModel, errors: Errors) -> String {
    let mut table = plain(["loop", "measured", "from fast", "from slow"]);
    for speedup in &model.loops {
        let predicted = |permille: Option<u32>| permille.map_or("?".to_owned(), ratio);
        table.add_row([
            speedup.name.name().to_owned(),
            ratio(speedup.measured_permille),
            predicted(speedup.from_fast_permille),
            predicted(speedup.from_slow_permille),
        ]);
    }
    align(&mut table);
    format!(
        "Speedup from slow to fast CPUs, measured and predicted from each class's counts.\n{table}\n\
         Error of the predictions: mean {}, worst {}.\n",
        percent(errors.mean_permille),
        percent(errors.worst_permille)
    )
}

fn plain<const COLUMNS: usize>(header: [&str; COLUMNS]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(WIDTH as u16);
    table.set_header(header);
    table
}

fn align(table: &mut Table) {
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

fn percent(permille: u32) -> String {
    format!("{:.1} %", f64::from(permille) / 10.0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use bias_agent::store::CapacityFile;
    use bias_agent::topology::Cpu;

    fn capacity(count: u32) -> Capacity {
        let samples =
            |factor: u64| format!("{:?}", (0..40).map(|i| factor * (1000 + i % 9)).collect::<Vec<_>>());
        let cpu = |cpu: u32| {
            let factor = if cpu < 2 { 4 } else { 10 };
            let execute = factor * 250;
            let (own, same) = (samples(factor), samples(1));
            format!(
                "{{\"cpu\":{cpu},\"cost_permille\":[{execute},1000,1000],\"samples_ps\":[{own},{same},{same}]}}"
            )
        };
        let cpus: Vec<String> = (0..count).map(cpu).collect();
        let file: CapacityFile =
            serde_json::from_str(&format!("{{\"version\":1,\"cpus\":[{}]}}", cpus.join(","))).unwrap();
        let places = (0..count).map(|cpu| Cpu { cpu, core: cpu, llc: 0, node: 0 });
        let topology = Topology { cpus: places.collect(), possible: (0..count).collect(), llc_bytes: 0 };
        Capacity { table: file.table(&topology).unwrap(), file, seen: Vec::new() }
    }

    #[test]
    fn the_text_fits_the_width_and_names_classes_and_groups() {
        let text = text(&capacity(4));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH + 10), "{text}");
        assert!(text.contains("Fast: CPU 0-1; slow: CPU 2-3"), "{text}");
        assert!(text.contains("Alike in execute: {0-1} {2-3}"), "{text}");
        assert!(text.contains("Alike in external: {0-3}"), "{text}");
        assert!(text.contains("2.50"), "{text}");
    }

    #[test]
    fn the_cost_of_busy_siblings_is_shown() {
        let mut capacity = capacity(4);
        assert!(!text(&capacity).contains("siblings"));
        for entry in &mut capacity.table.cpus {
            (entry.core, entry.shared_permille) = (entry.cpu.min(2), [1620, 1150, 1000]);
        }
        let text = text(&capacity);
        let line = "While siblings are busy (slow): execute ×1.62, internal ×1.15, external ×1.00.";
        assert!(text.contains(line) && !text.contains("busy (fast)"), "{text}");
        let value: serde_json::Value = serde_json::from_str(&document(&capacity).unwrap()).unwrap();
        assert_eq!(value["cpus"][3]["shared_permille"], json!([1620, 1150, 1000]));
    }

    #[test]
    fn the_matrix_marks_alike_pairs() {
        let matrix = matrix(&capacity(4), Component::Execute).unwrap();
        assert_eq!(matrix.matches('●').count(), 1 + 8, "{matrix}");
        assert!(super::matrix(&capacity(15), Component::Execute).is_err());
    }

    /// A model as in a file: three CPUs with counters, one of which cannot be used.
    const MODEL: &str = r#"{"errors": {"mean_permille": 21, "worst_permille": 64},
        "loops": [{"loop": "far-chase", "measured_permille": 1072, "from_fast_permille": 1080},
                  {"loop": "execute", "measured_permille": 2500, "from_fast_permille": 2490, "from_slow_permille": 2510}],
        "sets": [{"external": "STALLS (0xa3)", "internal": "SLOTS (0x71)", "cpus": [
            {"cpu": 0, "external": {"fitted": 1010}, "internal": {"fitted": 210}, "error_permille": 20},
            {"cpu": 1, "external": {"fitted": 1030}, "internal": "unclear", "error_permille": 24},
            {"cpu": 2, "external": "still", "internal": {"fitted": 333}}]}]}"#;

    #[test]
    fn the_counters_are_shown_by_class_with_their_errors() {
        let mut capacity = capacity(4);
        assert!(!text(&capacity).contains("Scales of the"));
        capacity.file.model = Some(serde_json::from_str(MODEL).unwrap());
        let text = text(&capacity);
        for says in
            ["1.01 to 1.03", "never moves (unused)", "not found (nominal) on 1", "mean 2.1 %, worst 6.4 %"]
        {
            assert!(text.contains(says), "{says}: {text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH + 10), "{text}");
        let line =
            |start: &str| text.lines().find(|line| line.trim_start().starts_with(start)).unwrap().to_owned();
        assert!(line("far chase").contains("1.07") && line("far chase").contains('?'), "{text}");
        let value: serde_json::Value = serde_json::from_str(&document(&capacity).unwrap()).unwrap();
        assert_eq!(value["model"]["sets"][0]["cpus"][2]["external"], "still");
        assert_eq!(value["model"]["errors"]["worst_permille"], 64);
    }

    #[test]
    fn the_json_is_complete() {
        let value: serde_json::Value = serde_json::from_str(&document(&capacity(4)).unwrap()).unwrap();
        assert_eq!(value["cpus"][3]["class"], "slow");
        assert_eq!(value["alike"][0], json!([[0, 1], [2, 3]]));
    }

    #[test]
    fn scales_are_a_figure_a_range_or_a_reason() {
        assert_eq!(range(&[Scale::Fitted(980), Scale::Fitted(981)]), "0.98");
        assert_eq!(
            range(&[Scale::Fitted(980), Scale::Fitted(1200), Scale::Still]),
            "0.98 to 1.20, never moves (unused) on 1"
        );
        assert_eq!(range(&[Scale::Unclear, Scale::Unclear]), "not found (nominal)");
        assert_eq!(range(&[Scale::Unrelated]), "does not follow (unused)");
    }
}
