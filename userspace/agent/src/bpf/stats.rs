//! Statistics of the scheduler, as a structure and as a line of text.

use scx_stats_derive::{Stats as StatsMacro, stat_doc};
use serde::{Deserialize, Serialize};

use crate::swaps::SwapSummary;
use bias_policy::ffi;

/// Number of counters of the kernel side.
const NR: usize = ffi::BIAS_NR_STATS as usize;

macro_rules! stats {
    ({ $($name:ident $text:tt;)+ } $($own:ident $own_text:tt;)+) => {
        /// Counters since the start, summed over the CPUs. Those of the kernel side come first, in
        /// the order of `enum bias_stat` in `bias/abi.h`, which declares them.
        #[stat_doc]
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, StatsMacro)]
        #[serde(default)]
        #[stat(top)]
        pub struct Stats {
            $(#[stat(desc = $text)] pub $name: u64,)+
            $(#[stat(desc = $own_text)] pub $own: u64,)+
        }

        /// Names of all counters.
        const NAMES: &[&str] = &[$(stringify!($name),)+ $(stringify!($own)),+];

        impl Stats {
            /// Return all counters, those of the kernel side first.
            fn fields_mut(&mut self) -> [&mut u64; NAMES.len()] {
                [$(&mut self.$name,)+ $(&mut self.$own),+]
            }
        }
    };
}

bias_policy::with_kernel_stats! { stats:
    swaps_paid "planned swaps that paid";
    swaps_neutral "planned swaps that neither paid nor lost";
    swaps_regretted "planned swaps that lost";
}

impl Stats {
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

    /// Format the statistics as one line of text: the run time, and each counter above zero.
    #[must_use]
    pub fn line(&self) -> String {
        let run_ns = self.run_fast_ns + self.run_slow_ns;
        let fast = (self.run_fast_ns * 100).checked_div(run_ns).unwrap_or(0);
        let mut counters = self.clone();
        let counters = NAMES.iter().zip(counters.fields_mut());
        let shown = counters.filter(|(name, count)| **count > 0 && !name.ends_with("_ns"));
        let shown: Vec<String> = shown.map(|(name, count)| format!(", {name} {count}")).collect();
        format!("run {} ms, {fast} % on fast CPUs{}", run_ns / 1_000_000, shown.concat())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_statistic_of_the_header_has_a_name_a_text_and_a_place_in_the_line() {
        assert_eq!(NAMES.len(), NR + 3);
        let meta = serde_json::to_value(<Stats as scx_stats::Meta>::meta()).unwrap();
        let stats = |at: usize| {
            let mut stats = Stats::default();
            *stats.fields_mut()[at] = 5_000_000;
            stats
        };
        for (at, name) in NAMES.iter().enumerate() {
            let text = meta["fields"][name]["desc"].as_str().unwrap_or_default();
            assert!(text.len() > 10, "{name} has no text: {meta}");
            let (line, shown) = (stats(at).line(), format!("{name} 5000000"));
            assert!(line.contains(&shown) || (name.ends_with("_ns") && line.contains("run 5 ms")), "{line}");
        }
        assert_eq!(NAMES[ffi::BIAS_STAT_COUNT_INVALID as usize], "count_invalid");
    }

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
