// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The scales of the counters and the quality of the predictions, as text.

use bias_agent::counter_model::{CounterModel, CounterSet};
use bias_agent::cpulist;
use bias_agent::figures::ratio;
use bias_policy::model::{CpuModel, Errors, Scale};
use bias_policy::table::{CapacityTable, Class};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Width of the output [columns].
pub(super) const WIDTH: u16 = 80;

/// Return the scales, one line per class of CPUs and set of events, and predicted against measured
/// speedups, one line per loop.
#[must_use]
pub fn text(model: &CounterModel, table: &CapacityTable) -> String {
    let mut scales = plain(["class", "CPU", "external", "internal", "error"]);
    for set in &model.sets {
        for class in [Class::Fast, Class::Slow] {
            let of_class =
                |scales: &&CpuModel| table.get(scales.cpu).is_some_and(|entry| entry.class == class);
            let cpus: Vec<CpuModel> = set.cpus.iter().filter(of_class).copied().collect();
            if !cpus.is_empty() {
                scales.add_row(line(class.name(), set, &cpus));
            }
        }
    }
    align(&mut scales);
    let mut out = format!("Stalls counted: cycles that one count stands for.\n{scales}\n");
    if let Some(errors) = model.errors {
        out.push_str(&speedups(model, errors));
    }
    out
}

/// Return the line of CPUs of a class that count the same events.
fn line(class: &str, set: &CounterSet, cpus: &[CpuModel]) -> [String; 5] {
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
        "Speedup from slow to fast CPUs, measured, and predicted from what either counts.\n{table}\n\
         Error of the predictions: mean {}, worst {}.\n",
        percent(errors.mean_permille),
        percent(errors.worst_permille)
    )
}

pub(super) fn plain<const COLUMNS: usize>(header: [&str; COLUMNS]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(WIDTH);
    table.set_header(header);
    table
}

pub(super) fn align(table: &mut Table) {
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
