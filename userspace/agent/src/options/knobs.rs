// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Knobs: the numeric options of a run, each defined once.
//!
//! # Problem
//!
//! A knob has a name, a unit, a range, a default and an explanation. The flags, `--help`, the man
//! page, the configuration file, the range check, the reload and the kernel side all need them.
//!
//! # Approach
//!
//! All knobs are in one list. A macro turns the list into the structure that the agent uses.
//! Another turns it into settings, which all other code walks.
//!
//! # Invariants
//!
//! A knob may change while the scheduler runs, because the kernel side reads it at each use (`KNOB`
//! in `bpf/state.bpf.h`). Only `bpf/prepare.rs` names all knobs again: it writes them, one
//! per line.

/// Pass the list of knobs to a macro.
macro_rules! with_knobs {
    ($macro:ident) => {
        $macro! {
            /// Longest time that a task runs before others may run. Longer slices mean fewer
            /// switches and better throughput. Shorter slices mean less waiting
            slice_us: "MICROSECONDS", 100 to 100_000, 10_000;

            /// Slice when many tasks wait, at most slice_us. Longer favours throughput under load.
            /// Shorter favours response under load
            slice_min_us: "MICROSECONDS", 10 to 100_000, 1_000;

            /// Difference in vtime at which a task on a fast CPU and one on a slow CPU migrate to
            /// each other's CPU. Larger means fewer migrations. Smaller means more equal progress
            rotate_gap_us: "MICROSECONDS", 1_000 to 10_000_000, 40_000;

            /// A CPU whose tasks sleep sooner than this keeps a wakee on its waker's CPU. Larger
            /// keeps more tasks that communicate in one cache. Smaller spreads them, and 0 always
            /// spreads
            sync_burst_us: "MICROSECONDS", 0 to 1_000_000, 500;

            /// Instructions of a window, after which a task's stalls enter its profile. A window
            /// also lasts at least 16 ns per instruction, or 8 ms if that is less. Larger ignores
            /// short phases. Smaller follows them sooner
            window_instructions: "N", 10_000 to 1_000_000_000, 500_000;

            /// Count one run in N slices of a task's run time while its profile is stable. Larger
            /// makes switches cheaper. Smaller detects changes of tasks that never run into a tick
            /// sooner
            sample_every: "N", 1 to 1_000, 8;

            /// Difference in predicted speedup that is worth a migration. Larger means fewer
            /// migrations. Smaller acts on smaller gains
            gain_permille: "PERMILLE", 10 to 10_000, 100;

            /// Lag at which a task of the other class goes before the tasks of a CPU's own class.
            /// Larger favours throughput. Smaller favours equal progress
            steal_lag_us: "MICROSECONDS", 1_000 to 10_000_000, 40_000, formerly "borrow_gap_us";

            /// Lag at which a running task takes the fast CPU of a task that gains more. Larger
            /// favours throughput. Smaller favours equal progress
            unfair_gap_us: "MICROSECONDS", 1_000 to 100_000_000, 320_000;

            /// Most by which the progress of equal tasks may differ while more tasks want CPUs of
            /// one class than of the other. Larger favours throughput: with six computing and two
            /// memory-bound tasks on two fast and two slow CPUs, 1000 to 1250 to 2000 to no bound
            /// give 3.28, 3.38, 3.64, 3.79 times the throughput of one fast CPU (simulated). Smaller
            /// favours equal progress
            max_unfairness_permille: "PERMILLE", 1_000 to 1_000_000, 1_250;
        }
    };
}
pub(super) use with_knobs;

macro_rules! values {
    ($(
        $(#[doc = $help:literal])+
        $name:ident: $unit:literal, $min:literal to $max:literal, $default:literal $(, formerly $old:literal)?;
    )+) => {
        /// Value of each knob, a whole number in the unit of its name.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Knobs {
            $($(#[doc = $help])+ pub $name: u64,)+
        }

        impl Default for Knobs {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }
    };
}
with_knobs!(values);

impl Knobs {
    /// Check that the values are consistent.
    ///
    /// # Errors
    /// Fail with the cause and the remedy of the first contradiction.
    pub fn check(&self) -> Result<(), String> {
        if self.slice_min_us > self.slice_us {
            return Err(format!(
                "slice_min_us is {} and slice_us {}: give a shorter least slice or a longer slice",
                self.slice_min_us, self.slice_us
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_go_together_and_a_least_slice_above_the_slice_does_not() {
        assert_eq!(Knobs::default().check(), Ok(()));
        let knobs = Knobs { slice_us: 500, ..Knobs::default() };
        assert!(knobs.check().is_err_and(|why| why.contains("shorter least slice")));
    }
}
