// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The CPUs: the load of each from `/proc/stat`, and a bar for it, or less where many share little
//! room.
//!
//! # Approach
//! The instance reports tasks. A task may migrate within an interval, so the sum of the tasks does
//! not give the load of a CPU. The kernel counts it exactly, for tasks of all policies.
//!
//! The first of three forms that fits the rows is used: a bar with a number for each CPU, a mark
//! for each CPU, a mark for the mean of several CPUs. A class begins on a row of its own, so that
//! the class of every bar and mark is visible without colour.
//!
//! # Invariants
//! No line is wider than the width, and there are at most the given number of lines. Every CPU
//! counts in a bar or mark if there is a row for each class.

use std::collections::BTreeMap;
use std::ops::Range;

use bias_agent::control::{CpuClass, Machine};
use bias_agent::figures::percent;
use bias_policy::table::Class;
use ratatui::text::{Line, Span};

use super::style::Look;

const PATH: &str = "/proc/stat";
/// Columns that sum to the whole time: user, nice, system, idle, iowait, irq, softirq, steal. The
/// columns for guests after them are parts of user and nice.
const TIMES: usize = 8;
/// Columns in which the CPU idles: idle and iowait.
const IDLE: Range<usize> = 3..5;

/// Columns of the class at the start of a line.
const CLASS: usize = 5;
/// Columns of the number of a line's first CPU, with a blank.
const FIRST: usize = 5;
/// Columns of a bar's cell without the bar: CPU, blanks and percent.
const FIGURES: usize = 13;
/// Fewest and most columns of a cell.
const CELL_MIN: usize = FIGURES + 3;
const CELL_MAX: usize = 40;
/// Most CPUs for which one mark stands, more than the CPUs that scx_bias supports.
const FOLD_MAX: usize = 2048;

/// Load of each CPU [permille], without CPUs whose load is unknown.
pub type Loads = BTreeMap<u32, u32>;

/// Times of a CPU since boot, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CpuTime {
    idle: u64,
    all: u64,
}

/// Reader of the loads, which remembers the last reading.
#[derive(Debug, Default)]
pub struct LoadReader(BTreeMap<u32, CpuTime>);

impl LoadReader {
    /// Return the loads since the last call. A file that cannot be read gives none.
    pub fn read(&mut self) -> Loads {
        self.next(&std::fs::read_to_string(PATH).unwrap_or_default())
    }

    /// Return the loads since the text before. The first text gives none.
    fn next(&mut self, text: &str) -> Loads {
        let now: BTreeMap<u32, CpuTime> = text.lines().filter_map(times).collect();
        let load = |(cpu, now): (&u32, &CpuTime)| Some((*cpu, load(*self.0.get(cpu)?, *now)?));
        let loads = now.iter().filter_map(load).collect();
        self.0 = now;
        loads
    }
}

/// Parse a line of one CPU, such as `cpu3 10 0 20 900 1 0 2 0 0 0`.
fn times(line: &str) -> Option<(u32, CpuTime)> {
    let mut words = line.strip_prefix("cpu")?.split(' ');
    let cpu = words.next()?.parse().ok()?;
    let columns: Vec<u64> = words.take(TIMES).map_while(|word| word.parse().ok()).collect();
    let sum = |sum: u64, column: &u64| sum.checked_add(*column);
    let all = columns.iter().try_fold(0, sum)?;
    let idle = columns.get(IDLE)?.iter().try_fold(0, sum)?;
    Some((cpu, CpuTime { idle, all }))
}

/// Return the load between two readings [permille], None if no time has passed between them.
fn load(before: CpuTime, now: CpuTime) -> Option<u32> {
    let all = now.all.checked_sub(before.all).filter(|all| *all > 0)?;
    // iowait may shrink.
    let idle = now.idle.saturating_sub(before.idle).min(all);
    u32::try_from((all - idle).saturating_mul(1000) / all).ok()
}

/// Lines of CPUs.
#[derive(Debug, Default)]
pub struct CpuLines {
    /// The lines.
    pub lines: Vec<Line<'static>>,
    /// CPUs for which one mark stands.
    pub fold: usize,
}

/// Return the CPUs in at most `rows` lines of `width` columns.
pub fn cpu_lines(machine: &Machine, loads: &Loads, width: usize, rows: usize, look: Look) -> CpuLines {
    let room = width.saturating_sub(CLASS);
    let fits = |per_line: usize| lines_of(machine, per_line) <= rows;
    if let Some(per_line) =
        (room.div_ceil(CELL_MAX).max(1)..=room / CELL_MIN).find(|per_line| fits(*per_line))
    {
        let cell = room / per_line;
        let line = |class: &CpuClass, cpus: &[u32]| {
            let bars = cpus.iter().map(|cpu| bar(*cpu, loads.get(cpu).copied(), cell, class.class, look));
            bars.flatten().collect()
        };
        return CpuLines { lines: lines(machine, per_line, line), fold: 1 };
    }
    let marks = room.saturating_sub(FIRST).max(1);
    let fold = (1..=FOLD_MAX).find(|fold| fits(marks * fold));
    let Some(fold) = fold.filter(|_| room > FIRST) else { return CpuLines::default() };
    let line = |class: &CpuClass, cpus: &[u32]| {
        let first = cpus.first().copied().unwrap_or(0);
        let marks: String =
            cpus.chunks(fold).map(|cpus| mean(cpus, loads).map_or("?", |load| look.mark(load))).collect();
        vec![Span::raw(format!("{first:>4} ")), Span::styled(marks, look.class(class.class))]
    };
    CpuLines { lines: lines(machine, marks * fold, line), fold }
}

/// Return the number of lines with this many CPUs in each.
fn lines_of(machine: &Machine, per_line: usize) -> usize {
    machine.classes.iter().map(|class| class.cpus.len().div_ceil(per_line)).sum()
}

/// Return a line for each `per_line` CPUs of a class. The first of a class names it.
fn lines(
    machine: &Machine,
    per_line: usize,
    line: impl Fn(&CpuClass, &[u32]) -> Vec<Span<'static>>,
) -> Vec<Line<'static>> {
    let of_class = |class: &CpuClass| {
        // CPUs of the only class are neither fast nor slow.
        let name = if machine.classes.len() < 2 { "CPU" } else { class.class.name() };
        let chunks = class.cpus.chunks(per_line).enumerate();
        let named = chunks.map(|(at, cpus)| {
            let name = if at == 0 { name } else { "" };
            let mut spans = vec![Span::raw(format!("{name:<CLASS$}"))];
            spans.extend(line(class, cpus));
            Line::from(spans)
        });
        named.collect::<Vec<_>>()
    };
    machine.classes.iter().flat_map(of_class).collect()
}

/// Return a CPU's number, bar and load in `cell` columns.
fn bar(cpu: u32, load: Option<u32>, cell: usize, class: Class, look: Look) -> [Span<'static>; 3] {
    let columns = cell.saturating_sub(FIGURES);
    let filled = load.map_or(0, |load| (load as usize * columns + 500) / 1000);
    let figure = load.map_or_else(|| "?".to_owned(), percent);
    [
        Span::raw(format!("{cpu:>4} [")),
        Span::styled(format!("{:<columns$}", "|".repeat(filled)), look.class(class)),
        Span::raw(format!("]{figure:>5} ")),
    ]
}

/// Return the mean load of CPUs, None if no load is known.
fn mean(cpus: &[u32], loads: &Loads) -> Option<u32> {
    let known: Vec<u32> = cpus.iter().filter_map(|cpu| loads.get(cpu).copied()).collect();
    let count = u32::try_from(known.len()).ok().filter(|count| *count > 0)?;
    Some(known.iter().sum::<u32>() / count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn machine(fast: u32, slow: u32) -> Machine {
        let class = |class, cpus: Vec<u32>| CpuClass { class, cpus, cost_permille: [1000; 3] };
        let classes =
            [class(Class::Fast, (0..fast).collect()), class(Class::Slow, (fast..fast + slow).collect())];
        Machine { classes: classes.into_iter().filter(|class| !class.cpus.is_empty()).collect() }
    }

    fn text(machine: &Machine, loads: &Loads, width: usize, rows: usize) -> (String, usize) {
        let look = Look { has_colour: false, has_blocks: false };
        let shown = cpu_lines(machine, loads, width, rows, look);
        let lines: Vec<String> =
            shown.lines.iter().map(|line| line.to_string().trim_end().to_owned()).collect();
        (lines.join("\n"), shown.fold)
    }

    #[test]
    fn few_cpus_have_bars() {
        let loads = Loads::from([(0, 1000), (1, 4), (2, 500)]);
        let expected = "\
fast    0 [||||||||||||||] 100%    1 [              ]  <1%
slow    2 [|||||||       ]  50%    3 [              ]    ?";
        assert_eq!(text(&machine(2, 2), &loads, 60, 4), (expected.to_owned(), 1));
    }

    #[test]
    fn many_cpus_have_marks_and_very_many_share_them() {
        let loads: Loads = (0..256).map(|cpu| (cpu, cpu * 1000 / 255)).collect();
        let (marks, fold) = text(&machine(64, 192), &loads, 80, 6);
        assert_eq!((marks.lines().count(), fold), (4, 1), "{marks}");
        assert!(marks.starts_with("fast    0 .1111"), "{marks}");
        assert!(marks.contains("\nslow   64 2222") && marks.contains("\n      134 44"), "{marks}");
        let (marks, fold) = text(&machine(64, 192), &loads, 40, 2);
        assert_eq!((marks.lines().count(), fold), (2, 7), "{marks}");
        assert_eq!(text(&machine(64, 192), &loads, 80, 1).0, "", "a row for each class or none");
        assert!(text(&machine(512, 512), &loads, 80, 6).1 > 1);
    }

    proptest! {
        /// Lines keep to the room, and all CPUs are in them if each class has a row.
        #[test]
        fn lines_keep_to_their_room(fast in 1u32..600, slow in 0u32..600, width in 0usize..200, rows in 0usize..20) {
            let machine = machine(fast, slow);
            let look = Look { has_colour: true, has_blocks: true };
            let shown = cpu_lines(&machine, &Loads::new(), width, rows, look);
            prop_assert!(shown.lines.len() <= rows);
            prop_assert!(shown.lines.iter().all(|line| line.width() <= width));
            let marks: usize = shown.lines.iter().map(|line| line.to_string().matches('?').count()).sum();
            let expected: usize = match shown.fold {
                0 => 0,
                fold => machine.classes.iter().map(|class| class.cpus.len().div_ceil(fold)).sum(),
            };
            prop_assert_eq!(marks, expected);
            prop_assert!(shown.fold > 0 || rows < machine.classes.len() || width < 21);
        }
    }

    #[test]
    fn loads_are_growth_between_two_readings() {
        let mut reader = LoadReader::default();
        let first = "cpu  9 9 9 9\ncpu0 100 0 0 900 0 0 0 0 0 0\ncpu1 5 0 0 5 0 0 0 0\nintr 1 2\n";
        assert_eq!(reader.next(first), Loads::new());
        let second = "cpu0 120 0 10 960 10 0 0 0 77 0\ncpu1 5 0 0 5 0 0 0 0\ncpu2 1 1 1 1 1 1 1 1\n";
        // CPU 1 has not changed, CPU 2 is new.
        assert_eq!(reader.next(second), Loads::from([(0, 300)]));
        assert_eq!(reader.next(""), Loads::new());
    }

    proptest! {
        #[test]
        fn no_text_makes_an_impossible_load(lines in prop::collection::vec("cpu[0-3]( [0-9]{1,20}){0,10}", 0..8), other in ".*") {
            let mut reader = LoadReader::default();
            for line in lines.iter().chain([&other]) {
                prop_assert!(reader.next(line).values().all(|load| *load <= 1000));
            }
        }
    }
}
