// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Statistics of the scheduler, as a structure and as a line of text.

use scx_stats_derive::{Stats as StatsMacro, stat_doc};
use serde::{Deserialize, Serialize};

use crate::figures;
use crate::swaps::SwapSummary;
use bias_policy::ffi;

/// Number of counters of the kernel side.
const NR: usize = ffi::BIAS_NR_STATS as usize;

macro_rules! stats {
    ({ $($name:ident $text:tt;)+ } $($own:ident $own_text:tt is $verdict:ident;)+) => {
        /// Counters since the start, summed over the CPUs. Those of the kernel side come first, in
        /// the order of `enum bias_stat` in `bias/abi.h`, which declares them.
        #[stat_doc]
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, StatsMacro)]
        #[serde(default)]
        #[stat(top, _om_prefix = "scx_bias_")]
        pub struct Stats {
            $(#[stat(desc = $text)] pub $name: u64,)+
            $(#[stat(desc = $own_text)] pub $own: u64,)+
        }

        impl Stats {
            /// Name and description of each counter.
            pub const ALL: &[(&str, &str)] =
                &[$((stringify!($name), $text),)+ $((stringify!($own), $own_text)),+];

            /// Return all counters, in the order of [`Self::ALL`].
            fn fields_mut(&mut self) -> [&mut u64; Self::ALL.len()] {
                [$(&mut self.$name,)+ $(&mut self.$own),+]
            }

            /// Return the statistics with the verdicts of the planned swaps.
            #[must_use]
            pub(crate) fn with(self, swaps: &SwapSummary) -> Self {
                Self { $($own: swaps.verdicts.$verdict,)+ ..self }
            }
        }
    };
}

bias_policy::with_kernel_stats! { stats:
    swaps_paid "planned swaps that paid" is paid;
    swaps_neutral "planned swaps that neither paid nor lost" is neutral;
    swaps_regretted "planned swaps that lost" is regretted;
}

impl Stats {
    /// Add the counters of one CPU.
    pub(crate) fn add(&mut self, counters: &[u64; NR]) {
        for (field, counter) in self.fields_mut().into_iter().zip(counters) {
            // The kernel side writes meanwhile, so a counter may be one event old.
            *field = field.wrapping_add(*counter);
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

    /// Format the statistics as one line: text, or a JSON object with every counter.
    #[must_use]
    pub fn shown(&self, json: bool) -> String {
        // Numbers under fixed keys are always JSON.
        let object = || figures::json_line(self, "stats").unwrap_or_default();
        if json { object() } else { self.line() }
    }

    /// Format the statistics as one line of text: the run time, and each counter above zero.
    #[must_use]
    pub fn line(&self) -> String {
        let run_ns = self.run_fast_ns + self.run_slow_ns;
        let fast = (self.run_fast_ns * 100).checked_div(run_ns).unwrap_or(0);
        let mut counters = self.clone();
        let counters = Self::ALL.iter().zip(counters.fields_mut());
        let shown = counters.filter(|((name, _), count)| **count > 0 && !name.ends_with("_ns"));
        let shown: Vec<String> = shown.map(|((name, _), count)| format!(", {name} {count}")).collect();
        format!("run {} ms, {fast} % on fast CPUs{}", run_ns / 1_000_000, shown.concat())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_statistic_is_named_described_and_in_each_output() {
        let meta = serde_json::to_value(<Stats as scx_stats::Meta>::meta()).unwrap();
        // Exporters of scx put it before each name.
        assert_eq!(meta["user"]["_om_prefix"], "scx_bias_", "{meta}");
        for (at, (name, text)) in Stats::ALL.iter().enumerate() {
            assert!(text.len() > 10, "{name} has no text");
            assert_eq!(meta["fields"][name]["desc"], *text, "{meta}");
            let mut stats = Stats::default();
            *stats.fields_mut()[at] = 5_000_000;
            assert_eq!(serde_json::to_value(&stats).unwrap()[name], 5_000_000);
            let (line, shown) = (stats.line(), format!("{name} 5000000"));
            assert!(line.contains(&shown) || (name.ends_with("_ns") && line.contains("run 5 ms")), "{line}");
        }
        assert_eq!(Stats::ALL[ffi::BIAS_STAT_COUNT_INVALID as usize].0, "count_invalid");
        assert!(Stats::ALL[NR..].iter().all(|(name, _)| name.starts_with("swaps_")));
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
