//! The numbers that a user can choose, each defined once.
//!
//! Problem. A knob has a name, a unit, a range, a default and an explanation, and flags, `--help`, the man page, the configuration file, the
//! check of what was given, the reload and the kernel side all need them.
//!
//! Approach. One list. The macro below makes of it the structure that the agent works with and a table that everything else walks.
//!
//! Invariants. Each knob may be turned while the scheduler runs: the kernel side reads it anew at each use (`KNOB` in `bpf/state.bpf.h`).
//! Where it is written there is one line a knob, in [`super::load`]; no other place names them all.

/// What is known of a knob.
#[derive(Debug, Clone, Copy)]
pub struct Knob {
    /// Its key in the configuration file; the flag has dashes for underscores.
    pub key: &'static str,
    /// Name of its value in `--help`: the unit.
    pub unit: &'static str,
    /// What it is and what raising and lowering it does.
    pub help: &'static str,
    /// Least value.
    pub min: u64,
    /// Greatest value.
    pub max: u64,
    /// Value unless told otherwise.
    pub default: u64,
    get: fn(&Knobs) -> u64,
    set: fn(&mut Knobs, u64),
}

impl Knob {
    /// Its value in `knobs`.
    #[must_use]
    pub fn of(&self, knobs: &Knobs) -> u64 {
        (self.get)(knobs)
    }

    /// Gives it a value in `knobs`.
    ///
    /// # Errors
    /// Cause and remedy when the value is out of range.
    pub fn turn(&self, knobs: &mut Knobs, value: u64) -> Result<(), String> {
        self.check(value)?;
        (self.set)(knobs, value);
        Ok(())
    }

    /// Is it one of its values?
    ///
    /// # Errors
    /// Cause and remedy when it is out of range.
    pub fn check(&self, value: u64) -> Result<(), String> {
        if (self.min..=self.max).contains(&value) {
            return Ok(());
        }
        Err(format!("{} is {value}: give a value from {} to {}", self.key, self.min, self.max))
    }
}

macro_rules! knobs {
    ($($(#[doc = $help:literal])+ $name:ident: $unit:literal, $min:literal to $max:literal, $default:literal;)+) => {
        /// A value for each knob. All are whole numbers in the unit of their name.
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
            /// Every knob.
            pub const ALL: &[Self] = &[$(Self {
                key: stringify!($name),
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
    /// Longest time a task runs before others get their turn. Longer slices mean fewer switches and better throughput; shorter ones mean
    /// less waiting
    slice_us: "MICROSECONDS", 100 to 100_000, 10_000;

    /// Time a task runs when many wait, at most slice_us. Longer favours throughput under load; shorter favours response under load
    slice_min_us: "MICROSECONDS", 10 to 100_000, 1_000;

    /// Difference in progress at which running tasks change places between fast and slow CPUs. Larger means fewer migrations; smaller
    /// means more equal progress
    rotate_gap_us: "MICROSECONDS", 1_000 to 10_000_000, 40_000;

    /// CPUs whose tasks sleep sooner than this keep a woken task where its waker runs. Larger keeps more conversations in one cache;
    /// smaller spreads them; 0 always spreads
    sync_burst_us: "MICROSECONDS", 0 to 1_000_000, 500;

    /// Instructions after which what a task stalled on is taken into its profile, though not before 16 ns have passed for each, or 8 ms in
    /// all. More ignore short phases; fewer follow them sooner
    window_instructions: "N", 10_000 to 1_000_000_000, 500_000;

    /// Count one run in so many of a task whose profile is stable. Larger costs less a switch; smaller sees changes of tasks that run
    /// briefly sooner
    sample_every: "N", 1 to 1_000, 8;

    /// Difference in predicted speedup that is worth a move. Larger means fewer migrations; smaller acts on smaller gains
    gain_permille: "PERMILLE", 10 to 10_000, 100;

    /// How far behind in progress tasks that gain little must be to go first on a fast CPU, and the others on a slow one. Larger favours
    /// throughput; smaller favours equal progress
    borrow_gap_us: "MICROSECONDS", 1_000 to 10_000_000, 40_000;

    /// How far behind a running task must be to take the place of one that gains more. Larger favours throughput; smaller favours equal
    /// progress
    unfair_gap_us: "MICROSECONDS", 1_000 to 100_000_000, 320_000;
}

impl Knobs {
    /// Do the values go together?
    ///
    /// # Errors
    /// Cause and remedy of the first contradiction.
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
            assert!(knob.turn(&mut knobs, knob.max + 1).is_err_and(|why| why.contains(knob.key)));
        }
        assert_eq!(knobs, Knobs::default());
    }

    #[test]
    fn each_knob_turns_itself_only() {
        for knob in Knob::ALL {
            let mut knobs = Knobs::default();
            assert_eq!(knob.turn(&mut knobs, knob.max), Ok(()));
            let turned: Vec<_> = Knob::ALL.iter().filter(|other| other.of(&knobs) != other.default).collect();
            assert_eq!(turned.iter().map(|other| other.key).collect::<Vec<_>>(), [knob.key]);
        }
    }

    #[test]
    fn a_least_slice_above_the_slice_is_a_contradiction() {
        let knobs = Knobs { slice_us: 500, ..Knobs::default() };
        assert!(knobs.check().is_err_and(|why| why.contains("shorter least slice")));
    }
}
