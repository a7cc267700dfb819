// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the invariants in `lib/include/bias/quota.h`, on the code that BPF compiles.

use bias_policy::ffi::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// A group, charged as the kernel side charges one.
#[derive(Debug)]
struct Group {
    quota_ns: u64,
    period_ns: u64,
    burst_ns: u64,
    start_ns: u64,
    used_ns: i64,
    until_ns: u64,
}

impl Group {
    fn charge(&mut self, ran_ns: u64, now_ns: u64) {
        self.used_ns += ran_ns as i64;
        let periods = c!(bias_quota_periods(self.start_ns, now_ns, self.period_ns));
        self.used_ns -= c!(bias_quota_grant(self.used_ns, periods, self.quota_ns, self.burst_ns)) as i64;
        self.start_ns += periods * self.period_ns;
        let until = c!(bias_quota_until(self.start_ns, self.used_ns, self.quota_ns, self.period_ns));
        if until > now_ns {
            self.until_ns = until;
        }
    }
}

fn group() -> impl Strategy<Value = Group> {
    (1u64..3000, 1u64..=1000, 0u64..2000, 0u64..1 << 40).prop_map(|(quota, period, burst, start_ns)| Group {
        quota_ns: quota * MS,
        period_ns: period * MS,
        burst_ns: burst * MS,
        start_ns,
        used_ns: 0,
        until_ns: 0,
    })
}

proptest! {
    /// A group that runs only while it is not throttled exceeds its quota by a burst and its last
    /// charge at most.
    #[test]
    fn a_group_keeps_to_its_quota(mut group in group(), steps in prop::collection::vec((0u64..300, 0u64..=16), 1..300)) {
        let (began, quota, period, burst) = (group.start_ns, group.quota_ns, group.period_ns, group.burst_ns);
        let (mut now, mut ran, mut last) = (began, 0, 0);
        for (wait, charge) in steps {
            now += wait * MS;
            if now >= group.until_ns && charge > 0 {
                last = charge * MS;
                ran += last;
                group.charge(last, now);
            }
            let granted = ((now - began) / period + 1) * quota;
            prop_assert!(ran <= granted + burst + last, "{ran} of {granted}");
        }
    }

    /// A group that is always ready to run gets everything that its periods grant, even after an
    /// excess.
    #[test]
    fn a_greedy_group_gets_its_quota(mut group in group(), cpus in 1u64..64) {
        // More CPUs than the quota needs.
        let cpus = cpus + group.quota_ns / group.period_ns + 1;
        let (began, quota, period) = (group.start_ns, group.quota_ns, group.period_ns);
        let (mut now, mut ran) = (began, 0);
        while now < began + 40 * period {
            now += MS;
            if now >= group.until_ns {
                ran += cpus * MS;
                group.charge(cpus * MS, now);
            }
        }
        prop_assert!(ran >= 39 * quota, "{ran} of {}", 39 * quota);
    }

    /// The rest of a debt is less than a quota when the group may run again.
    #[test]
    fn a_debt_is_paid_before_the_group_runs(start in 0u64..1 << 40, used in 0i64..1 << 44, quota in 1u64..3000, period in 1u64..=1000) {
        let until = c!(bias_quota_until(start, used, quota * MS, period * MS));
        if used < (quota * MS) as i64 {
            prop_assert_eq!(until, 0);
        } else {
            let periods = (until - start) / (period * MS);
            let left = used as u64 - periods * quota * MS;
            prop_assert!(left < quota * MS, "{left}");
            prop_assert_eq!((until - start) % (period * MS), 0);
        }
    }

    /// No quotient or product fails, whatever the clock and the quota are.
    #[test]
    fn the_balance_stays_above_the_burst(used in -(1i64 << 44)..1 << 44, periods: u64, quota in 0u64..1 << 44, burst in 0u64..1 << 44) {
        let grant = c!(bias_quota_grant(used, periods, quota, burst));
        prop_assert!(used - grant as i64 >= used.min(-(burst as i64)));
        prop_assert!(grant == 0 || used - grant as i64 <= used);
    }
}

#[test]
fn a_group_without_a_debt_waits_for_the_next_period() {
    assert_eq!(c!(bias_quota_until(1000 * MS, (20 * MS) as i64, 20 * MS, 100 * MS)), 1100 * MS);
    assert_eq!(c!(bias_quota_until(1000 * MS, (39 * MS) as i64, 20 * MS, 100 * MS)), 1100 * MS);
    assert_eq!(c!(bias_quota_until(1000 * MS, (40 * MS) as i64, 20 * MS, 100 * MS)), 1200 * MS);
}

#[test]
fn a_clock_that_goes_back_ends_no_period() {
    assert_eq!(c!(bias_quota_periods(1000, 999, 10)), 0);
    assert_eq!(c!(bias_quota_periods(1000, 1009, 10)), 0);
    assert_eq!(c!(bias_quota_periods(1000, 1010, 10)), 1);
    assert_eq!(c!(bias_quota_periods(0, u64::MAX >> 2, 0)), 0);
}
