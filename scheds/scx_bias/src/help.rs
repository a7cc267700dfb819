// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Ends of the `--help` texts and man pages of the commands. They explain the statistics, the
//! figures of `status`, `top` and `swaps`, and the choice of `exec`.

use crate::explain::words::wrap;
use bias_agent::bpf::Stats;
use bias_agent::failure::Exit;
use bias_agent::options::reload;

/// Width of the texts [columns].
const WIDTH: usize = 80;

/// Return the exit codes of scheduling and of commands that need no instance.
pub fn exit_codes() -> String {
    let codes = [Exit::Clean, Exit::Runtime, Exit::Usage, Exit::Kernel, Exit::OtherScheduler, Exit::Ejected];
    format!("Exit codes: {}.", Exit::list(&codes))
}

/// Return the end of a long help: `text`, then the exit codes.
pub fn long(text: &str) -> String {
    format!("{text}\n\n{}", exit_codes())
}

/// Usage line of `exec`.
pub const EXEC_USAGE: &str = "scx_bias exec [OPTIONS] <-n N|--class CLASS> [--] CMD [ARGS]...";

/// Return the exit codes of `exec`. Those above 125 are the same as for env(1) and nice(1).
pub fn exec_exit_codes() -> String {
    let codes = [Exit::Runtime, Exit::Usage, Exit::Kernel, Exit::NotExecutable, Exit::NotFound];
    format!("Exit codes: that of CMD once it runs; before, {}.", Exit::list(&codes))
}

/// Return the end of `exec --help`.
pub fn exec() -> String {
    format!("{EXEC}\n\n{}", exec_exit_codes())
}

/// Explains the statistics.
const STATISTICS: &str = "\
Statistics, which --stats and --monitor print per interval and status --json
since the start:";

/// Explains the output of `status`, in lines of at most 80 columns. clap would break longer lines
/// without regard to their indents. The same width holds for the other texts.
pub const STATUS: &str = "\
What it shows, and what to conclude:
  CPUs      What a CPU of each class takes for one unit of work. If all are
            alike, tasks are only shared out fairly. If the classes are wrong,
            measure again on an idle machine: scx_bias calibrate --force.
  Counters  full: tasks that run there are distinguished by internal and
            external stalls. degraded: by a part of them, or by misses.
            unknown: a task that runs there keeps the bias that it got on other
            CPUs, or has none. The reason and the remedy follow.
  Speedup   A task's predicted time on a slow CPU over that on a fast one. The
            band around the average decides the bias of a task.
  Tasks     fast-biased: gain more than the average, so they belong on fast
            CPUs. slow-biased: gain less. unbiased: within the band. unknown:
            not counted yet, or only on CPUs without counters. Many of these:
            see Counters.
  Moves     Running tasks that migrated. Far fewer moved than asked: tasks are
            shorter than a tick, or restricted to some CPUs. Very many for
            rotation: raise --rotate-gap-us.";

/// Explains the columns of `top`.
pub const TOP: &str = "\
Tasks that ran in the interval, by their share of a CPU, then by gain. On a
terminal they are below the load of each CPU, and keys work (see below). A
narrow terminal shows fewer columns.
  SHARE        Time it ran in the interval, of one CPU.
  BIAS         fast: fast-biased, it belongs on fast CPUs. slow: slow-biased,
               on slow ones, because it gains little. -: unbiased. ?: not
               counted yet, or outside the cgroups that bias is limited to
               (--limit-bias).
  GAIN         Predicted time on a slow CPU over that on a fast one. 1.00x: it
               does not matter where it runs.
  EXE INT EXT  What its time on the best CPU consists of [%]: execution, stalls
               inside the core (branches, TLB), stalls outside it (shared
               caches, memory). Much EXT makes a small GAIN; much EXE makes a
               gain as large as the CPUs differ.
  FAST         Part of SHARE on fast CPUs. A fast-biased task far below 100%
               shares fast CPUs: there are more such tasks than fast CPUs. A
               slow-biased task near 100% runs where no task gains more.
  MOVED        Why it last migrated while it ran. idle fast CPU: a fast CPU had
               nothing to do. rotation: each of several equal tasks gets fast
               CPUs for a while. gains more: it took the CPU of a task that
               gains less. gave way: it was the task that gains less. swapped:
               the agent swapped it with another task, see scx_bias swaps.
  CPU          Where it runs, or ran last.

On a terminal:
  CPUs         A bar for the load of each CPU, by class, with tasks of all
               policies. Many CPUs have a mark each, from \".\" for idle to a full
               block. Very many share marks, which show the mean.
  arrows, PgUp, PgDn, Home, End
               Select a task.
  Enter        Open the history of the selected task since top began: its gain,
               its CPI stack, its SHARE and FAST over time, and its migrations.
               Those between two answers count as one. The reason is that of
               MOVED. Esc closes it.
  s, S         Sort by the next column, whose title is underlined; reverse.
  /            Filter by words: a part of the name, the start of the pid or of
               the bias (fast-biased, slow-biased, unbiased, unknown). Enter
               keeps the filter, Esc clears it.
  p, space     Pause, or go on.
  ?            Show the keys.
  q, Esc, Ctrl-C
               Quit.
NO_COLOR with any value turns colours off. A locale without UTF-8 gets digits
for marks.";

/// Explains the output of `swaps`.
pub const SWAPS: &str = "\
Swaps that the agent planned, the oldest first. For each swap:
  predicted    What both tasks together should gain in progress.
  measured     What they gained: instructions in a time of running, after it
               over before, each by its own measure.
  with migrations
               The same with the time that the moves took from them. More than
               +2% is paid, less than -2% regretted, neutral between.
  The tasks    The one that went to a fast CPU, then the other: old and new
               CPU; execution/internal/external stalls [% of its time on the
               best CPU]; its speed after over before, predicted and measured.

What to conclude:
  none         The CPUs' own searches have done it, or tasks wait for CPUs, and
               each dispatch decides again. Usual, and good.
  refused      Tasks ended, slept or moved before they could be swapped: they
               are short. Came to nothing: the same a moment later.
  regretted    Tasks change their nature faster than they are moved, or disturb
               each other's caches. They wait longer each time; if it goes on,
               --no-swap.
  learnt       Far from 1.00: the table is wrong for these tasks; measure again
               on an idle machine: scx_bias calibrate --force.";

/// Explains the choice of CPUs by `exec`, with trade-offs and examples.
const EXEC: &str = "\
Which CPUs:
  Of those that are online and that this process may use (affinity, cpuset),
  the N whose cost is least in the stored table: see scx_bias calibrate and
  table. Costs within 1 % are ties. Of these a CPU of a core not in use goes
  before an SMT sibling, then one that shares the last-level cache with those
  already chosen before others, then the better one in the mean of all costs.
  With --class slow the other way round: the slowest first, siblings first.
  --class slow -n 1 is the CPU that others miss least, for backups, indexing,
  logging.

Trade-offs:
  The cost is that of starting scx_bias once: CMD takes its place. CMD and what
  it starts stay on these CPUs even where others are idle, so give it as many
  as it has busy threads.
  Nothing is reserved: what runs there already stays, unless the kernel finds
  it a place elsewhere.
  A program that is no faster on a fast CPU takes it from one that would be.
  Compare its time with --class slow -n 1; scx_bias top shows it as GAIN 1.00x.
  While scx_bias schedules, it looks for the best CPU of each task itself, and
  exec can only take choices from it.

Examples:
  scx_bias exec -n 1 -- gzip -9 dump.sql
  scx_bias exec -n 4 --whole-cores -- make -j4
  scx_bias exec --class slow -- backup.sh
  taskset -pc $(scx_bias exec -n 2 --dry-run --json | jq -r .list) PID";

/// Explains the file of `trace`.
pub const TRACE: &str = "\
The file has the JSON trace format: open it in ui.perfetto.dev, which keeps it
on your machine, or in another viewer of that format.
  Tracks       One for each CPU, fast ones first. A slice is the time that a
               task ran in a tenth of a second. It has the pid, the bias, the
               gain and the CPI stack.
  Events       A task runs on another CPU than a tenth of a second before. The
               name has the reason, as in scx_bias top.
  Counters     The average gain, and the number of tasks that ran.
Within a tenth of a second the order of slices is not that of the tasks, and a
task's whole time is on its last CPU. scxtop and perf record each switch.";

/// Explains the effects of `cgroup`.
pub const CGROUP: &str = "\
Each prints the opted-in cgroups as they are then. Real-time threads keep their
policy. What threads had before comes back when their cgroup is let go, when
they leave it, when scx_bias ends, and when it is started again after it was
killed; `scx_bias cgroup restore` does that without starting it. cpu.weight
counts among opted-in threads only.";

const RELOAD: &str = "\
Reads the file that it was started with, or /etc/scx_bias.toml. Options of its
command line still take precedence. If anything in the file is wrong, nothing
changes. SIGHUP does the same for a scx_bias without a terminal;
`systemctl reload scx_bias` calls this.";

/// Return the list of all statistics, with their descriptions.
pub fn statistics() -> String {
    let width = Stats::ALL.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = Stats::ALL
        .iter()
        .flat_map(|(name, text)| wrap(&format!("  {name:width$}  {text}"), WIDTH, width + 4));
    [STATISTICS.to_owned()].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

/// Return the end of `reload --help` without the exit codes. It lists every option.
pub fn reload() -> String {
    let list = |title: &str, keys: Vec<&str>| {
        format!("{title}\n{}", wrap(&format!("  {}", keys.join(", ")), WIDTH, 2).join("\n"))
    };
    let at_once = list("Changed at once:", reload::keys(true).collect());
    let restart = list("Changed by a restart only:", reload::keys(false).collect());
    let scope = "  cgroups, where they change from none to some or back";
    format!("{RELOAD}\n\n{at_once}\n{restart}\n{scope}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::cli::{Cli, RunSettings};
    use clap::{Args, Command, CommandFactory};

    #[test]
    fn the_tables_fit_the_width() {
        let (statistics, reload) = (statistics(), reload());
        for text in [STATUS, TOP, TRACE, EXEC, CGROUP, &reload, SWAPS, &statistics] {
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        }
    }

    #[test]
    fn the_help_describes_every_statistic() {
        let help = Cli::command().render_long_help().to_string();
        let words: Vec<&str> = help.split_whitespace().collect();
        let mut man = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut man).unwrap();
        let man = String::from_utf8(man).unwrap();
        for (name, text) in Stats::ALL {
            let entry: Vec<&str> = [*name].into_iter().chain(text.split(' ')).collect();
            assert!(words.windows(entry.len()).any(|found| found == entry), "{name} is not in\n{help}");
            assert!(man.contains(&format!("  {name} ")), "{name} is not in\n{man}");
        }
    }

    #[test]
    fn the_help_of_reload_lists_every_option() {
        let text = reload();
        let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c == ',').collect();
        let options = RunSettings::augment_args(Command::new("keys"));
        for option in options.get_arguments().filter(|option| !option.is_hide_set()) {
            let key = option.get_id().as_str();
            assert!(words.contains(&key), "{key} is not in\n{text}");
        }
        let restart = text.find("restart only").unwrap_or_default();
        for key in ["no_recalibrate", "no_swap", "swap_interval_ms", "no_moves"] {
            assert!(text.find(&format!(" {key},")).is_some_and(|at| at > restart), "{key}");
        }
    }
}
