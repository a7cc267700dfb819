// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Scenarios of the guest program `tests/vm/loads`: first under the default scheduler, then under
//! scx_bias in the same boot.

use super::{Expectations, Results, Scenario, compile};
use bias_vm::build;

impl Scenario {
    /// Run `before` under the default scheduler, then `under` under scx_bias. Both have the usual
    /// definitions and `loads NAME ARGS...`, which leaves the document of that load in NAME.json.
    pub fn loads(&self, before: &str, under: &str) -> Results {
        let sources = build::workspace().join("tests/vm/loads");
        compile(
            &sources,
            &[
                "clocks.c",
                "hotplug.c",
                "loads.c",
                "local.c",
                "messengers.c",
                "samples.c",
                "starts.c",
                "timed.c",
            ],
            &self.vm.out.join("loads"),
        );
        let results = self.run("loads", &[before, under]);
        results.print_documents();
        results
    }

    /// Run the same commands under both schedulers. `measure` gets "default" and "bias", for the
    /// names of the documents.
    pub fn compared(&self, measure: impl Fn(&str) -> String) -> Results {
        self.loads(&measure("default"), &measure("bias"))
    }
}

/// Runs of a load whose figures vary.
pub const RUNS: u32 = 3;

/// Return one command for each of several runs. `command` gets the number of the run.
pub fn repeated(runs: u32, command: impl Fn(u32) -> String) -> String {
    (1..=runs).map(command).collect()
}

/// Return the median of sorted figures.
pub fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Results {
    /// Return the numbers at `pointer` in the documents LOAD1, LOAD2 and so on, sorted.
    pub fn of_runs(&self, load: &str, pointer: &str) -> Vec<f64> {
        let names = (1..).map(|run| format!("{load}{run}"));
        let names = names.take_while(|name| self.out.join(format!("{name}.json")).exists());
        let mut values: Vec<f64> = names.map(|name| self.number(&name, pointer)).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// Print the documents of all loads and the changes of the table, from which the cause of a
    /// missed expectation may show.
    fn print_documents(&self) {
        self.changes_of_costs().iter().for_each(|line| eprintln!("{line}"));
        let entries = std::fs::read_dir(&self.out).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        for path in paths {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            eprint!("{name}: {}", std::fs::read_to_string(&path).unwrap_or_default());
        }
    }

    /// Return the lines of the log in which a CPU has other costs than before.
    fn changes_of_costs(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.out.join("bias.log")).unwrap_or_default();
        log.lines().filter(|line| line.contains(" became ")).map(str::to_owned).collect()
    }
}

/// Return true if this line of the log tells of another class, or of a cost that differs by a
/// twentieth. The agent measures a CPU that came online once more.
fn is_real_change(line: &str) -> bool {
    let Some((before, after)) = line.split_once(" became ") else { return false };
    let class = |text: &str| ["fast", "slow"].map(|class| text.contains(class));
    let costs = |text: &str| -> Vec<f64> {
        let words = text.split(' ').find(|word| word.matches('/').count() == 2);
        words.into_iter().flat_map(|costs| costs.split('/')).filter_map(|cost| cost.parse().ok()).collect()
    };
    let (old, new) = (costs(before), costs(after));
    let differs = old.iter().zip(&new).any(|(old, new)| (new / old - 1.0).abs() > 0.05);
    !line.ends_with(" after it came online") && (class(before) != class(after) || differs)
}

#[test]
fn changes_of_costs_are_found_in_the_log() {
    let line = |old: &str, new: &str, cause: &str| {
        format!(" INFO CPU 2: {old} became {new} (execute/internal/external), by {cause}")
    };
    let fast = "fast 1.00/1.00/1.00";
    for (new, is_real) in [
        ("fast 1.00/1.01/1.00", false),
        ("fast 1.13/1.00/1.00", true),
        ("fast 1.00/1.00/1.21", true),
        ("slow 1.04/1.04/1.00", true),
    ] {
        assert_eq!(is_real_change(&line(fast, new, "counted cycles")), is_real, "{new}");
        assert!(!is_real_change(&line(fast, new, "a spot check after it came online")), "{new}");
    }
    assert!(!is_real_change(" INFO scx_bias became ready"));
}

impl Expectations {
    /// Expect that the table kept each CPU's costs. The speeds of the machine are constant, so a
    /// change comes from the measurement.
    pub fn keeps_costs(&mut self, results: &Results) {
        let changes = results.changes_of_costs();
        let real: Vec<&String> = changes.iter().filter(|line| is_real_change(line)).collect();
        self.holds(&format!("the table keeps all costs: {real:?}"), real.is_empty());
    }

    /// Expect that the kernel has not ended the scheduler, and that the table kept its costs.
    pub fn lasts(&mut self, results: &Results) {
        self.keeps_costs(results);
        let state = results.text("lasted");
        self.holds(
            &format!("scheduler still loaded: {:?} {:?}", state.trim(), results.text("complaints")),
            state.trim() == "enabled",
        );
    }

    /// Expect that the number at `pointer` in bias-NAME is at least `share` of that in
    /// default-NAME.
    pub fn at_least_default(&mut self, results: &Results, name: &str, pointer: &str, share: f64) {
        let number = |under: &str| results.number(&format!("{under}-{name}"), pointer);
        self.at_least(&format!("{name}{pointer} against default"), number("bias") / number("default"), share);
    }
}
