// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Plans: the cells, arms, repetitions and times of a run.
//!
//! # Problem
//! One file or one command line must suffice to repeat a comparison. A mistake in it must be found
//! before the first minute of measuring, not after the last.
//!
//! # Approach
//! A plan is a small TOML document or one of the built-in [`super::suites`]. Options of the command
//! line override it. [`Plan::check`] checks all that can be checked without a machine: arms,
//! workloads, numbers.
//!
//! # Invariants
//! A checked plan runs as written. Nothing is adjusted silently.

use super::arms::{self, Arm};
use super::store;
use super::workload::command::{AnyCommand, Around, Printed};
use super::workload::{self, Workload};
use crate::{Error, Result, files};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// Maximum size of a plan file.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum number of cells, of boots and of blocks of a plan.
const MAX_COUNT: usize = 10_000;

/// One workload of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// The workload with its parameters, in the syntax that `bias-bench list` shows.
    pub workload: String,
    /// Machine of the VM for this cell, or None for the run's machine. One plan can thus cover
    /// several machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Diversity of the tasks, for the plot of gain against diversity: 0 if all are alike, 1 if
    /// half are compute and half are chase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diversity: Option<f64>,
    /// Length of the measured window [s], or None for the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_s: Option<f64>,
    /// Surroundings of the command, if the workload is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub around: Option<Around>,
}

impl Cell {
    /// Return a cell with this workload on the run's machine.
    pub fn of(workload: &str) -> Self {
        Cell { workload: workload.into(), machine: None, diversity: None, window_s: None, around: None }
    }

    /// Return the parsed workload.
    pub fn parse(&self) -> std::result::Result<Box<dyn Workload>, String> {
        match (&self.around, self.workload.strip_prefix("command:")) {
            (None, _) => workload::parse(&self.workload),
            (Some(around), Some(line)) => Ok(Box::new(AnyCommand::new(line, around.clone()))),
            (Some(_), None) => Err(format!("'{}' has 'around', but is not a command", self.workload)),
        }
    }

    /// Return the name for samples and reports: the name of the workload, preceded by the cell's
    /// own machine if it has one.
    pub fn name(&self, workload: &dyn Workload) -> String {
        self.machine.iter().map(|machine| format!("{machine} ")).collect::<String>() + &workload.name()
    }
}

/// A complete comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// Name, shown in reports.
    pub name: String,
    /// The arms, in the syntax of the command line. The first is the baseline.
    pub arms: Vec<String>,
    /// The cells. Every arm runs all of them in this order.
    pub cells: Vec<Cell>,
    /// Debian packages with the programs of commands, for the VM.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// Boots of the VM for each machine: the outer level of the statistics. 1 on a host.
    pub boots: u32,
    /// Blocks in each boot. Each block visits every arm twice.
    pub blocks: u32,
    /// Unmeasured time at the start of a cell [s].
    pub warmup_s: f64,
    /// Measured time of a cell [s].
    pub window_s: f64,
    /// Factor on the time constants of every arm that has a knob, and on the workloads' periods.
    pub stretch: f64,
    /// Dead zone: differences up to this share count as the same, e.g. 0.01.
    pub dead_zone: f64,
    /// True to count the run time of BPF programs. This costs two clock reads per call of a
    /// program.
    pub bpf_stats: bool,
    /// True to report the energy of each visit, see [`super::energy`]. This adds two judged
    /// metrics.
    pub energy: bool,
    /// Conditions that the run must meet, e.g. `stp:no-worse`; see `bias-bench ab --help`.
    pub gate: Option<String>,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            name: "custom".into(),
            arms: vec!["default".into(), "scx_bias".into()],
            cells: Vec::new(),
            packages: Vec::new(),
            boots: 1,
            blocks: 5,
            warmup_s: 0.3,
            window_s: 1.0,
            stretch: 1.0,
            dead_zone: 0.01,
            bpf_stats: false,
            energy: false,
            gate: None,
        }
    }
}

impl Plan {
    /// Read and check a plan file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = files::read_small_file(path, MAX_FILE_BYTES)?;
        Self::parse(&text).map_err(|e| Error::Usage(format!("plan {}: {e}", path.display())))
    }

    /// Write a plan file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = toml::to_string(self).map_err(|e| Error::failed("writing the plan", e))?;
        store::write_whole(path, text.as_bytes())
    }

    /// Parse and check the text of a plan.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let plan: Plan = toml::from_str(text).map_err(|e| e.message().trim().replace('\n', "; "))?;
        plan.check()?;
        Ok(plan)
    }

    /// Check all that can be checked without a machine.
    pub fn check(&self) -> std::result::Result<(), String> {
        let arms = self.arms()?;
        let workloads = self.workloads()?;
        let count = |what: &str, n: usize| match n {
            1..=MAX_COUNT => Ok(()),
            _ => Err(format!("{what} = {n}: must be 1 to {MAX_COUNT}")),
        };
        count("cells", self.cells.len())?;
        count("boots", self.boots as usize)?;
        count("blocks", self.blocks as usize)?;
        let number = |what: &str, value: f64, min: f64, max: f64| {
            let ok = value.is_finite() && (min..=max).contains(&value);
            ok.then_some(()).ok_or_else(|| format!("{what} = {value}: must be {min} to {max}"))
        };
        number("warmup_s", self.warmup_s, 0.0, 3600.0)?;
        number("window_s", self.window_s, 0.01, 3600.0)?;
        number("stretch", self.stretch, 0.1, 1000.0)?;
        number("dead_zone", self.dead_zone, 0.0, 0.5)?;
        for cell in &self.cells {
            number("window_s", cell.window_s.unwrap_or(1.0), 0.01, 3600.0)?;
            number("diversity", cell.diversity.unwrap_or(0.0), 0.0, 1.0)?;
            let names: Vec<String> =
                cell.around.iter().flat_map(|around| around.metrics.iter().map(Printed::name)).collect();
            if let Some(twice) = (1..names.len()).find(|&at| names[..at].contains(&names[at])) {
                return Err(format!("two metrics are '{}'; name them with (?<NAME>...)", names[twice]));
            }
        }
        let statics = arms.iter().find(|arm| arm.is_static());
        if let (Some(arm), Some(own)) = (statics, workloads.iter().find(|w| w.batch().is_none())) {
            return Err(format!(
                "arm '{}' pins the tasks of a mix, but '{}' is not a mix; drop one of them",
                arm.name,
                own.name()
            ));
        }
        for (i, cell) in self.cells.iter().enumerate() {
            let same = |other: &Cell| {
                (&other.workload, &other.machine, &other.around)
                    == (&cell.workload, &cell.machine, &cell.around)
            };
            if self.cells[..i].iter().any(same) {
                return Err(format!("the workload '{}' is in the plan twice", cell.workload));
            }
            if cell.machine.as_deref().is_some_and(|machine| machine.trim().is_empty()) {
                return Err(format!("the workload '{}' has a machine without a name", cell.workload));
            }
        }
        Ok(())
    }

    /// Return the parsed arms.
    pub fn arms(&self) -> std::result::Result<Vec<Arm>, String> {
        arms::parse_all(&self.arms)
    }

    /// Return the parsed workloads, one for each cell.
    pub fn workloads(&self) -> std::result::Result<Vec<Box<dyn Workload>>, String> {
        self.cells.iter().map(Cell::parse).collect()
    }

    /// Return the machines that the cells name, in order. None stands for the run's machine.
    pub fn machines(&self) -> Vec<Option<&str>> {
        let mut machines = Vec::new();
        for machine in self.cells.iter().map(|cell| cell.machine.as_deref()) {
            if !machines.contains(&machine) {
                machines.push(machine);
            }
        }
        machines
    }

    /// Return the number of boots of all machines. The machines alternate, so that a run that ends
    /// early has samples of each.
    pub fn all_boots(&self) -> u32 {
        self.boots * self.machines().len().max(1) as u32
    }

    /// Return the plan of one boot: the cells of the machine of that boot.
    pub fn of_boot(&self, boot: u32) -> Plan {
        let machines = self.machines();
        let machine = machines.get(boot as usize % machines.len().max(1)).copied().flatten();
        let cells = self.cells.iter().filter(|cell| cell.machine.as_deref() == machine).cloned().collect();
        Plan { cells, ..self.clone() }
    }

    /// Return the plan for one machine, without the cells of other machines. No cell of the result
    /// names a machine.
    ///
    /// Without `machine`, the result has the cells of all machines, each workload once.
    pub fn on_one_machine(mut self, machine: Option<&str>) -> Plan {
        let fits = |cell: &Cell| match (&cell.machine, machine) {
            (Some(own), Some(wanted)) => own == wanted,
            _ => true,
        };
        let mut kept: Vec<Cell> = Vec::new();
        for cell in self.cells.drain(..).filter(fits) {
            if !kept.iter().any(|other| (&other.workload, &other.around) == (&cell.workload, &cell.around)) {
                kept.push(Cell { machine: None, ..cell });
            }
        }
        Plan { cells: kept, ..self }
    }

    /// Return the unmeasured time at the start of a cell.
    pub fn warmup(&self) -> Duration {
        Duration::from_secs_f64(self.warmup_s)
    }

    /// Return the measured time of the cell with index `cell`.
    pub fn window(&self, cell: usize) -> Duration {
        let own = self.cells.get(cell).and_then(|cell| cell.window_s);
        Duration::from_secs_f64(own.unwrap_or(self.window_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str =
        "name = 'x'\narms = ['default', 'scx_bias']\nblocks = 3\n[[cells]]\nworkload = '2compute+2chase'\n";

    #[test]
    fn a_plan_survives_writing() {
        let plan = Plan::parse(GOOD).unwrap();
        assert_eq!(plan.blocks, 3);
        assert_eq!(Plan::parse(&toml::to_string(&plan).unwrap()).unwrap(), plan);
    }

    #[test]
    fn mistakes_are_found_before_anything_runs() {
        for (change, remedy) in [
            ("blocks = 3 => blocks = 0", "must be 1 to"),
            ("2compute+2chase => 2computer", "computer"),
            ("'scx_bias' => 'scx_nothing'", "unknown arm"),
            ("blocks = 3 => block = 3", "unknown field"),
            ("blocks = 3 => stretch = -1.0", "must be 0.1"),
            ("blocks = 3 => stretch = nan", "must be 0.1"),
            ("'scx_bias' => 'default'", "two arms are named"),
        ] {
            let (from, to) = change.split_once(" => ").unwrap();
            let error = Plan::parse(&GOOD.replace(from, to)).unwrap_err();
            assert!(error.contains(remedy) && !error.contains('\n'), "{change}: {error}");
        }
        let twice = format!("{GOOD}[[cells]]\nworkload = '2compute+2chase'\n");
        assert!(Plan::parse(&twice).unwrap_err().contains("twice"));
        let metrics = "[cells.around]\nmetrics = ['a([0-9]):better=lower', 'b([0-9]):better=lower']\n";
        let command = GOOD.replace("2compute+2chase", "command:true") + metrics;
        assert!(Plan::parse(&command).unwrap_err().contains("name them"));
        let pinned = GOOD.replace("scx_bias", "best-static").replace("2compute+2chase", "pingpong");
        assert!(Plan::parse(&pinned).unwrap_err().contains("pins the tasks of a mix"));
        let shuffled = GOOD.replace("scx_bias", "golden-run").replace("2compute", "shuffled+2compute");
        assert!(Plan::parse(&shuffled).is_ok());
    }

    #[test]
    fn machines_take_turns_and_each_runs_its_own_cells() {
        let text = "boots = 2\n[[cells]]\nworkload = '4chase'\nmachine = 'A'\n\
                    [[cells]]\nworkload = '4chase'\nmachine = 'B'\n[[cells]]\nworkload = '2chase'\nmachine = 'A'\n";
        let plan = Plan::parse(text).unwrap();
        assert_eq!(plan.all_boots(), 4);
        let of = |boot| {
            let plan = plan.of_boot(boot);
            let workloads = plan.workloads().unwrap();
            plan.cells.iter().zip(&workloads).map(|(c, w)| c.name(w.as_ref())).collect::<Vec<_>>()
        };
        assert_eq!(
            (of(0), of(1), of(2)),
            (vec!["A 4chase".into(), "A 2chase".into()], vec!["B 4chase".into()], of(0))
        );
        let one = |machine| {
            let plan = plan.clone().on_one_machine(machine);
            assert_eq!(plan.machines(), [None]);
            plan.cells.iter().map(|c| c.workload.clone()).collect::<Vec<_>>()
        };
        assert_eq!(
            (one(None), one(Some("B"))),
            (vec!["4chase".into(), "2chase".into()], vec!["4chase".to_string()])
        );
        let lost = plan.on_one_machine(Some("C"));
        assert!(lost.check().unwrap_err().contains("cells = 0"));
    }

    proptest! {
        #[test]
        fn any_text_parses_or_gives_a_one_line_error(text in "\\PC{0,60}") {
            if let Err(error) = Plan::parse(&text) {
                prop_assert!(!error.contains('\n'));
            }
        }
    }
}
