//! Statistics of the scheduler, as a structure and as a line of text.

use scx_stats_derive::{Stats as StatsMacro, stat_doc};
use serde::{Deserialize, Serialize};

use crate::swaps::SwapSummary;

/// Counters since the start, summed over the CPUs. Those of the kernel side come first, in the
/// order of `enum bias_stat`.
#[stat_doc]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, StatsMacro)]
#[stat(top)]
pub struct Stats {
    #[stat(desc = "Wakeups placed on the previous CPU")]
    pub select_prev: u64,
    #[stat(desc = "Wakeups placed on another idle fast CPU")]
    pub select_fast: u64,
    #[stat(desc = "Wakeups placed on another idle slow CPU")]
    pub select_slow: u64,
    #[stat(desc = "Wakeups placed behind their waker")]
    pub select_sync: u64,
    #[stat(desc = "Tasks queued in a (LLC, class) queue")]
    pub enq_shared: u64,
    #[stat(desc = "Tasks queued for their only CPU")]
    pub enq_pinned: u64,
    #[stat(desc = "Tasks sent straight to a CPU")]
    pub enq_local: u64,
    #[stat(desc = "Wakeups that preempted a task ahead of them")]
    pub wake_preempt: u64,
    #[stat(desc = "Tasks taken from the CPU's own class")]
    pub dispatch_own: u64,
    #[stat(desc = "Tasks taken from the other class")]
    pub dispatch_other: u64,
    #[stat(desc = "Tasks taken from another LLC")]
    pub dispatch_remote: u64,
    #[stat(desc = "Tasks taken from the CPU's own pinned queue")]
    pub dispatch_pinned: u64,
    #[stat(desc = "Slices renewed because nothing else waited")]
    pub keep: u64,
    #[stat(desc = "Running tasks asked to move from a slow CPU to an idle fast one")]
    pub pull: u64,
    #[stat(desc = "Running tasks asked to rotate for equal progress")]
    pub rotate: u64,
    #[stat(desc = "Such requests carried out")]
    pub moved: u64,
    #[stat(desc = "Time tasks ran on fast CPUs [ns]")]
    pub run_fast_ns: u64,
    #[stat(desc = "Time tasks ran on slow CPUs [ns]")]
    pub run_slow_ns: u64,
    #[stat(desc = "Running tasks asked to swap because one gains more")]
    pub swap_gain: u64,
    #[stat(desc = "Tasks taken from the other class though the own one waited")]
    #[serde(alias = "borrowed")]
    pub stolen: u64,
    #[stat(desc = "Intervals of running that were counted")]
    pub counted: u64,
    #[stat(desc = "Of these, dropped: not counted in full, backwards, or wrapped")]
    pub count_invalid: u64,
    #[stat(desc = "Counters that could not be read")]
    pub count_failed: u64,
    #[stat(desc = "Windows closed")]
    pub windows: u64,
    #[stat(desc = "Tasks whose bias changed")]
    #[serde(alias = "kind_changes")]
    pub bias_changes: u64,
    #[stat(desc = "Tasks in cgroups beyond the table, scheduled by their own weight")]
    pub groups_ignored: u64,
    #[serde(default)]
    #[stat(desc = "Swaps that the agent planned and that were asked for")]
    pub swap_asked: u64,
    #[serde(default)]
    #[stat(desc = "Swaps that it planned and that no longer held when checked")]
    pub swap_refused: u64,
    #[serde(default)]
    #[stat(desc = "Swaps asked for that no longer held when they were to be carried out")]
    pub swap_late: u64,
    #[stat(desc = "Times a higher scheduling class took a CPU and its tasks were put back")]
    pub released: u64,
    #[serde(default)]
    #[stat(desc = "The agent's swaps that paid")]
    pub swaps_paid: u64,
    #[serde(default)]
    #[stat(desc = "The agent's swaps that neither paid nor lost")]
    pub swaps_neutral: u64,
    #[serde(default)]
    #[stat(desc = "The agent's swaps that lost")]
    pub swaps_regretted: u64,
}

/// Number of counters of the kernel side.
const NR: usize = bias_policy::ffi::BIAS_NR_STATS as usize;
/// Number of all counters. The agent adds three.
const ALL: usize = NR + 3;

impl Stats {
    /// Return all fields, those of the kernel side first.
    fn fields_mut(&mut self) -> [&mut u64; ALL] {
        [
            &mut self.select_prev,
            &mut self.select_fast,
            &mut self.select_slow,
            &mut self.select_sync,
            &mut self.enq_shared,
            &mut self.enq_pinned,
            &mut self.enq_local,
            &mut self.wake_preempt,
            &mut self.dispatch_own,
            &mut self.dispatch_other,
            &mut self.dispatch_remote,
            &mut self.dispatch_pinned,
            &mut self.keep,
            &mut self.pull,
            &mut self.rotate,
            &mut self.moved,
            &mut self.run_fast_ns,
            &mut self.run_slow_ns,
            &mut self.swap_gain,
            &mut self.stolen,
            &mut self.counted,
            &mut self.count_invalid,
            &mut self.count_failed,
            &mut self.windows,
            &mut self.bias_changes,
            &mut self.groups_ignored,
            &mut self.swap_asked,
            &mut self.swap_refused,
            &mut self.swap_late,
            &mut self.released,
            &mut self.swaps_paid,
            &mut self.swaps_neutral,
            &mut self.swaps_regretted,
        ]
    }

    /// Add the counters of one CPU.
    pub(crate) fn add(&mut self, counters: &[u64; NR]) {
        for (field, counter) in self.fields_mut().into_iter().zip(counters) {
            // The kernel side writes meanwhile, so a counter may be one event old.
            *field = field.wrapping_add(*counter);
        }
    }

    /// Return the statistics with the verdicts of the planned swaps.
    #[must_use]
    pub(crate) fn with(self, swaps: &SwapSummary) -> Self {
        let verdicts = &swaps.verdicts;
        Self {
            swaps_paid: verdicts.paid,
            swaps_neutral: verdicts.neutral,
            swaps_regretted: verdicts.regretted,
            ..self
        }
    }

    /// Return the difference to `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let (mut now, mut earlier) = (self.clone(), earlier.clone());
        for (now, earlier) in now.fields_mut().into_iter().zip(earlier.fields_mut()) {
            *now = now.saturating_sub(*earlier);
        }
        now
    }

    /// Format the statistics as one line of text.
    #[must_use]
    pub fn line(&self) -> String {
        let run_ms = (self.run_fast_ns + self.run_slow_ns) / 1_000_000;
        let fast = (self.run_fast_ns * 100).checked_div(self.run_fast_ns + self.run_slow_ns).unwrap_or(0);
        format!(
            "run {run_ms} ms, {fast} % on fast CPUs; wakeups prev/fast/slow/sync {}/{}/{}/{}; queued {} (pinned {}); kept {}; pulled {}, rotated {}, for gain {}, moved {}, stolen {}; swaps asked {}, paid/neutral/regretted {}/{}/{}; preempted {}; counted {} ({} invalid, {} failed), windows {}, bias changed {}",
            self.select_prev,
            self.select_fast,
            self.select_slow,
            self.select_sync,
            self.enq_shared,
            self.enq_pinned,
            self.keep,
            self.pull,
            self.rotate,
            self.swap_gain,
            self.moved,
            self.stolen,
            self.swap_asked,
            self.swaps_paid,
            self.swaps_neutral,
            self.swaps_regretted,
            self.wake_preempt,
            self.counted,
            self.count_invalid,
            self.count_failed,
            self.windows,
            self.bias_changes,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_keep_their_order() {
        let counters: [u64; NR] = std::array::from_fn(|at| at as u64 + 1);
        let mut stats = Stats::default();
        stats.add(&counters);
        stats.add(&counters);
        assert_eq!((stats.select_prev, stats.keep, stats.groups_ignored, stats.released), (2, 26, 52, 60));
        assert_eq!(stats.since(&stats), Stats::default());
        assert_eq!((stats.swaps_paid, stats.swaps_regretted), (0, 0), "the agent counts these");
        let mut summary = SwapSummary::default();
        (summary.verdicts.paid, summary.verdicts.neutral, summary.verdicts.regretted) = (3, 2, 1);
        let before = Stats { swaps_paid: 1, ..stats.clone() };
        let since = stats.with(&summary).since(&before);
        assert_eq!((since.keep, since.swaps_paid, since.swaps_neutral, since.swaps_regretted), (0, 2, 2, 1));
    }
}
