//! Knobs: the numeric options of a run, each defined once.
//!
//! # Problem
//!
//! A knob has a name, a unit, a range, a default and an explanation. The flags, `--help`, the man
//! page, the configuration file, the range check, the reload and the kernel side all need them.
//!
//! # Approach
//!
//! All knobs are in one list. A macro turns the list into the structure that the agent uses and
//! into a table that all other code walks.
//!
//! # Invariants
//!
//! A knob may change while the scheduler runs, because the kernel side reads it at each use (`KNOB`
//! in `bpf/state.bpf.h`). Only `bpf/prepare.rs` names all knobs again: it writes them, one
//! per line.

use serde_json::Value;

/// Definition of a knob.
#[derive(Debug, Clone, Copy)]
pub struct Knob {
    /// Key in the configuration file. The flag has dashes for underscores.
    pub key: &'static str,
    /// Earlier key, which this release still accepts; empty without one.
    pub formerly: &'static str,
    /// Unit, shown in `--help` as the name of the value.
    pub unit: &'static str,
    /// Meaning of the knob, and the effect of raising or lowering it.
    pub help: &'static str,
    /// Smallest valid value.
    pub min: u64,
    /// Largest valid value.
    pub max: u64,
    /// Value if the user gives none.
    pub default: u64,
    get: fn(&Knobs) -> u64,
    set: fn(&mut Knobs, u64),
}

impl Knob {
    /// Return the knob's value in `knobs`.
    #[must_use]
    pub fn of(&self, knobs: &Knobs) -> u64 {
        (self.get)(knobs)
    }

    /// Set the knob's value in `knobs`.
    ///
    /// # Errors
    /// Fail with the cause and the remedy when the value is out of range.
    pub fn set(&self, knobs: &mut Knobs, value: u64) -> Result<(), String> {
        self.check(value)?;
        (self.set)(knobs, value);
        Ok(())
    }

    /// Return a value of the configuration as a number.
    ///
    /// # Errors
    /// Fail with the cause and the remedy if it is not a whole number.
    pub fn number(&self, value: &Value) -> Result<u64, String> {
        value.as_u64().ok_or_else(|| {
            let unit = self.unit.to_lowercase();
            let of = if unit == "n" { String::new() } else { format!(" of {unit}") };
            format!("{} is {value}: give a whole number{of} from {} to {}", self.key, self.min, self.max)
        })
    }

    /// Check that the value is in range.
    ///
    /// # Errors
    /// Fail with the cause and the remedy when it is not.
    pub fn check(&self, value: u64) -> Result<(), String> {
        if (self.min..=self.max).contains(&value) {
            return Ok(());
        }
        Err(format!("{} is {value}: give a value from {} to {}", self.key, self.min, self.max))
    }
}

macro_rules! knobs {
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

        impl Knob {
            /// All knobs.
            pub const ALL: &[Self] = &[$(Self {
                key: stringify!($name),
                formerly: concat!($($old)?),
                unit: $unit,
                help: concat!($($help),+),
                min: $min,
                max: $max,
                default: $default,
                get: |knobs| knobs.$name,
                set: |knobs, value| knobs.$name = value,
            },)+];
        }
    };
}

knobs! {
    /// Longest time that a task runs before others may run. Longer slices mean fewer switches and
    /// better throughput. Shorter slices mean less waiting
    slice_us: "MICROSECONDS", 100 to 100_000, 10_000;

    /// Slice when many tasks wait, at most slice_us. Longer favours throughput under load. Shorter
    /// favours response under load
    slice_min_us: "MICROSECONDS", 10 to 100_000, 1_000;

    /// Difference in vtime at which a task on a fast CPU and one on a slow CPU migrate to each
    /// other's CPU. Larger means fewer migrations. Smaller means more equal progress
    rotate_gap_us: "MICROSECONDS", 1_000 to 10_000_000, 40_000;

    /// A CPU whose tasks sleep sooner than this keeps a wakee on its waker's CPU. Larger keeps more
    /// tasks that communicate in one cache. Smaller spreads them, and 0 always spreads
    sync_burst_us: "MICROSECONDS", 0 to 1_000_000, 500;

    /// Instructions of a window, after which a task's stalls enter its profile. A window also lasts
    /// at least 16 ns per instruction, or 8 ms if that is less. Larger ignores short phases.
    /// Smaller follows them sooner
    window_instructions: "N", 10_000 to 1_000_000_000, 500_000;

    /// Count one run in N of a task whose profile is stable or whose last run was brief, and one
    /// in 8 N if both hold. Larger makes switches cheaper. Smaller detects changes of tasks that
    /// run briefly sooner
    sample_every: "N", 1 to 1_000, 8;

    /// Difference in predicted speedup that is worth a migration. Larger means fewer migrations.
    /// Smaller acts on smaller gains
    gain_permille: "PERMILLE", 10 to 10_000, 100;

    /// Lag at which a task of the other class goes before the tasks of a CPU's own class. Larger
    /// favours throughput. Smaller favours equal progress
    steal_lag_us: "MICROSECONDS", 1_000 to 10_000_000, 40_000, formerly "borrow_gap_us";

    /// Lag at which a running task takes the fast CPU of a task that gains more. Larger favours
    /// throughput. Smaller favours equal progress
    unfair_gap_us: "MICROSECONDS", 1_000 to 100_000_000, 320_000;
}

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
    fn defaults_are_in_range_and_go_together() {
        let mut knobs = Knobs::default();
        assert_eq!(knobs.check(), Ok(()));
        for knob in Knob::ALL {
            assert_eq!(knob.check(knob.default), Ok(()));
            assert_eq!(knob.of(&knobs), knob.default, "{}", knob.key);
            assert!(!knob.help.trim().ends_with('.') && knob.help.starts_with(' '), "{}", knob.help);
            assert!(knob.set(&mut knobs, knob.max + 1).is_err_and(|why| why.contains(knob.key)));
        }
        assert_eq!(knobs, Knobs::default());
    }

    #[test]
    fn each_knob_turns_itself_only() {
        for knob in Knob::ALL {
            let mut knobs = Knobs::default();
            assert_eq!(knob.set(&mut knobs, knob.max), Ok(()));
            let changed: Vec<_> =
                Knob::ALL.iter().filter(|other| other.of(&knobs) != other.default).collect();
            assert_eq!(changed.iter().map(|other| other.key).collect::<Vec<_>>(), [knob.key]);
        }
    }

    #[test]
    fn a_least_slice_above_the_slice_is_a_contradiction() {
        let knobs = Knobs { slice_us: 500, ..Knobs::default() };
        assert!(knobs.check().is_err_and(|why| why.contains("shorter least slice")));
    }
}
