//! When a vCPU must wait, and when the host was too slow.
//!
//! Problem: make real time follow modelled time. A vCPU that is ahead sleeps; one that is behind can only
//! run at host speed, and if it stays behind, what is measured in the guest is the host's speed, not the
//! model's. Approach: `epoch` is the real time at which modelled time was zero, so `epoch + model` is when
//! the work done so far is *due*.
//!
//! * ahead of due by more than [`MIN_SLEEP_NS`]: sleep until due (an absolute time, so errors do not add up);
//! * late by up to [`CATCH_UP_NS`]: run on, the next sleeps get shorter until it is level again;
//! * later than that: the excess is lost for good. The epoch moves, and the excess goes to the overrun
//!   account, or to the translation account as far as code was translated for the first time meanwhile;
//! * going idle late: what is late then cannot be caught up either, since idle time belongs to the guest;
//! * after idling: work is due from now on. Being ahead when going idle is kept, so short bursts are paced
//!   too, but idle time itself earns no credit.
//!
//! Invariants (property-tested): the sum of real busy time can exceed modelled time only by what the
//! accounts show plus [`CATCH_UP_NS`]; a sleep never lasts longer than the work was ahead; accounts only grow.

/// Shorter sleeps cost the host more than they pace.
pub const MIN_SLEEP_NS: i64 = 60_000;
/// Lateness that may be caught up, in ns. Also the largest error of an unflagged measurement. As long as a host that is itself a guest
/// loses its CPU for at a time: with 2 ms instead of 8, two busy vCPUs lacked 2 to 12 % of their time there, with 8 0.1 to 1 %.
pub const CATCH_UP_NS: i64 = 8_000_000;
/// Most lateness attributed to one block's translation: the host's compiler, not the host's speed. Typical is
/// a tenth of it, but a translating thread also waits for others that translate.
const TRANSLATION_NS: i64 = 1_000_000;

/// Overrun below which a vCPU is not called hopeless.
const HOPELESS_NS: u64 = 500_000_000;

/// What a vCPU is to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Run on.
    Run,
    /// Sleep until this real time in ns.
    SleepUntil(i64),
}

/// One vCPU's relation of modelled to real time. All times in ns; real times from any monotonic clock.
#[derive(Debug, Default, Clone)]
pub struct Pacer {
    epoch: Option<i64>,
    /// Lateness at the last look.
    late: i64,
    /// Part of the present lateness that is due to translating.
    forgiven: i64,
    overrun_ns: u64,
    translate_ns: u64,
}

impl Pacer {
    /// Compares modelled with real time. `translated` is the number of blocks translated on this vCPU's
    /// thread since the last call.
    pub fn look(&mut self, model_ns: u64, now: i64, translated: u32) -> Pace {
        let model = model_ns as i64;
        let epoch = *self.epoch.get_or_insert(now - model);
        let ahead = epoch + model - now;
        let late = (-ahead).max(0);
        self.forgive(late, translated);
        self.late = late.min(CATCH_UP_NS);
        if late > CATCH_UP_NS {
            self.write_off(late - CATCH_UP_NS);
            self.epoch = Some(now - CATCH_UP_NS - model);
        }
        if ahead > MIN_SLEEP_NS { Pace::SleepUntil(epoch + model) } else { Pace::Run }
    }

    /// The vCPU halts. Arguments as for [`Pacer::look`].
    pub fn idle(&mut self, model_ns: u64, now: i64, translated: u32) {
        let Some(epoch) = self.epoch else { return };
        let model = model_ns as i64;
        let late = now - (epoch + model);
        self.forgive(late.max(0), translated);
        if late > 0 {
            self.write_off(late);
            self.epoch = Some(now - model);
        }
        (self.late, self.forgiven) = (0, 0);
    }

    /// The vCPU runs again: its next work is due from now, or from when its earlier work is.
    pub fn resumed(&mut self, model_ns: u64, now: i64) {
        let level = now - model_ns as i64;
        self.epoch = Some(self.epoch.map_or(level, |e| e.max(level)));
    }

    /// Pacing is suspended; it will start level.
    pub fn suspend(&mut self) {
        self.epoch = None;
        (self.late, self.forgiven) = (0, 0);
    }

    /// Time the host was too slow by, in ns.
    pub fn overrun_ns(&self) -> u64 {
        self.overrun_ns
    }

    /// So far behind that every measurement is void: a thread in this state should leave the host to others.
    pub fn is_hopeless(&self, model_ns: u64) -> bool {
        self.overrun_ns > HOPELESS_NS && self.overrun_ns > model_ns / 2
    }

    /// Time lost to first translations, in ns.
    pub fn translate_ns(&self) -> u64 {
        self.translate_ns
    }

    /// Attributes lateness that is new since the last look to translating, as far as that explains it.
    fn forgive(&mut self, late: i64, translated: u32) {
        let grown = (late - self.late).max(0);
        self.forgiven = (self.forgiven + grown.min(i64::from(translated) * TRANSLATION_NS)).min(late);
    }

    fn write_off(&mut self, late: i64) {
        let translating = late.min(self.forgiven);
        self.forgiven -= translating;
        self.translate_ns += translating as u64;
        self.overrun_ns += (late - translating) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn work_ahead_of_time_waits_until_it_is_due() {
        let mut p = Pacer::default();
        assert_eq!(p.look(0, 1000 * MS, 0), Pace::Run);
        assert_eq!(p.look(MS as u64, 1000 * MS, 0), Pace::SleepUntil(1001 * MS));
        assert_eq!(p.look(MS as u64, 1001 * MS, 0), Pace::Run);
    }

    #[test]
    fn a_late_vcpu_catches_up_and_only_the_excess_is_overrun() {
        let mut p = Pacer::default();
        p.look(0, 0, 0);
        p.look(0, CATCH_UP_NS, 0);
        assert_eq!(p.overrun_ns(), 0);
        assert_eq!(p.look(CATCH_UP_NS as u64, CATCH_UP_NS, 0), Pace::Run, "level again");
        p.look(CATCH_UP_NS as u64, 2 * CATCH_UP_NS + 3 * MS, 0);
        assert_eq!(p.overrun_ns(), 3 * MS as u64);
    }

    #[test]
    fn idle_time_is_no_credit_but_being_ahead_is_kept() {
        let mut p = Pacer::default();
        p.look(0, 0, 0);
        p.look(50_000, 0, 0);
        p.idle(50_000, 10_000, 0);
        p.resumed(50_000, 20_000);
        assert_eq!(p.look(100_000, 20_000, 0), Pace::SleepUntil(100_000), "the first burst still counts");
        p.idle(100_000, 100_000, 0);
        p.resumed(100_000, 900_000_000);
        assert_eq!(p.look(200_000, 900_000_000, 0), Pace::SleepUntil(900_100_000), "idling earned nothing");
    }

    #[test]
    fn translating_is_not_overrun_but_is_shown() {
        let mut p = Pacer::default();
        p.look(0, 0, 0);
        p.look(0, CATCH_UP_NS + 3 * MS, 2);
        assert_eq!((p.overrun_ns(), p.translate_ns()), (MS as u64, 2 * MS as u64));
        p.look(0, CATCH_UP_NS + 8 * MS, 0);
        assert_eq!(
            (p.overrun_ns(), p.translate_ns()),
            (6 * MS as u64, 2 * MS as u64),
            "nothing new translated"
        );
    }

    #[test]
    fn only_a_vcpu_that_mostly_overruns_is_hopeless() {
        let mut p = Pacer::default();
        p.look(0, 0, 0);
        p.look(0, 400 * MS, 0);
        assert!(!p.is_hopeless(0), "it may be a hiccup");
        p.look(0, 600 * MS, 0);
        assert!(p.is_hopeless(0));
        assert!(!p.is_hopeless(10_000 * MS as u64), "long ago");
    }

    proptest! {
        /// Random work at random host speeds, with sleeps obeyed and idle periods in between.
        #[test]
        fn accounts_explain_every_delay(steps in proptest::collection::vec((0_i64..400_000, 0_i64..900_000, 0_i64..8, 0_u32..3), 1..200)) {
            let mut p = Pacer::default();
            let (mut now, mut model, mut busy) = (5 * MS, 0_i64, 0_i64);
            p.resumed(0, now);
            for (work, host, dice, translated) in steps {
                model += work;
                now += host;
                busy += host;
                match p.look(model as u64, now, translated) {
                    Pace::Run => {}
                    Pace::SleepUntil(t) => {
                        prop_assert!(t > now && t - now <= model);
                        busy += t - now;
                        now = t;
                    }
                }
                if dice == 0 {
                    p.idle(model as u64, now, 0);
                    now += 3 * MS;
                    p.resumed(model as u64, now);
                }
                let lost = (p.overrun_ns() + p.translate_ns()) as i64;
                prop_assert!(busy - model <= lost + CATCH_UP_NS, "unexplained delay");
            }
        }
    }
}
