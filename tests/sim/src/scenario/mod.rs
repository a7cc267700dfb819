// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Fixed cases with figures that they must reach: fairness, placement and latency.
//!
//! The oracles hold for every case. The strengths of a scheduler show only in loads made for them,
//! so each scenario here checks figures of one purpose. Bounds leave room for the seed.

mod arrivals;
mod departures;
mod parts;
mod places;
mod requests;
mod shares;
mod ticks;
mod waits;

pub use parts::{Check, Family, Figures, Scenario};

/// Return every scenario.
#[must_use]
#[allow(clippy::too_many_lines, reason = "it is a list")]
pub fn all() -> Vec<Scenario> {
    vec![
        shares::nice(),
        shares::cgroups(),
        shares::group_weight(),
        shares::preferred(),
        shares::three_on_four(),
        shares::eight_on_four(),
        shares::mix(),
        shares::mix_that_changes(),
        shares::siblings(),
        shares::caches(),
        shares::nodes(),
        shares::unequal_caches(),
        waits::sleeper(),
        waits::light(),
        waits::bursts_of_kthreads(),
        shares::daemons(),
        shares::pinned_beside_lone(),
        shares::group_of_many(),
        shares::pinned_beside_free(),
        shares::heavy_beside_free(),
        shares::hoppers(),
        shares::unequal_demand(),
        shares::after_a_crowd(),
        shares::newcomers(),
        shares::light_and_long_tick(),
        shares::light_and_alone_before(),
        waits::broadcast(),
        waits::real_time(),
        waits::overdue_beside_real_time(),
        waits::server(),
        waits::kthread(),
        waits::yielder(),
        waits::lone_yielder(),
        waits::swap(),
        waits::swap_beside_kthread(),
        waits::fast_falls_idle(),
        waits::restricted(),
        waits::cache_falls_idle(),
        waits::pinned(),
        waits::waker_runs_on(),
        waits::producer(),
        waits::hog_wakes(),
        waits::busy_kthreads(),
        waits::frames(),
        waits::rotation_beside_kthread(),
        shares::partitions(),
        shares::beside_heavy(),
        shares::beside_heavier(),
        shares::heavy_and_pinned(),
        shares::heavy_and_confined(),
        shares::confined_beside_heavier(),
        shares::pinned_beside_crowd(),
        shares::new_group(),
        shares::nested(),
        shares::limits(),
        shares::limited_sleepers(),
        requests::brief_sleeps(),
        requests::half_loaded(),
        requests::load_ends(),
        requests::nearly_idle(),
        requests::lone_hog(),
        places::partners(),
        places::pipeline(),
        places::slow_types(),
        places::fast_types(),
        places::spread_memory(),
        places::spread_swaps(),
        places::leaves(),
        places::full_node(),
        places::hinted(),
        places::stays_on_a_slow_type(),
        places::better_slow_type(),
        places::brief_phases(),
        places::near_node(),
        places::full_node_of_threads(),
        places::leaves_a_shared_core(),
        places::offered_by_one_of_many(),
        places::near_type(),
        places::spread_births(),
        waits::cache_in_demand(),
        waits::light_beside_heavy(),
        waits::servers_over_caches(),
        waits::servers_over_mixed_caches(),
        ticks::counted(),
        ticks::unticked(),
        ticks::unticked_pair(),
        ticks::unticked_on_a_slow_cpu(),
        ticks::unticked_beside_a_slow_cpu(),
    ]
}

/// Return every family of cases.
#[must_use]
pub fn families() -> Vec<Family> {
    [arrivals::all(), departures::all(), waits::families()].concat()
}
