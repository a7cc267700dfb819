// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Sizes of the memory loops' sets: one that leaves the caches, and one that hits the second level.
//!
//! # Problem
//! Four times the last-level cache that sysfs reports is correct on hardware. In a guest, sysfs
//! repeats what the hypervisor made up. On an emulated CPU a set of 64 MiB takes a second to build.
//!
//! # Approach
//! A ladder of small sets is measured first. A size is memory if a load takes longer than any cache
//! does ([`SURELY_MEMORY_NS`]) and a set of twice the size is no slower. The smallest such set is
//! taken, or the largest one tried if the latency never levels off. If no size reaches that
//! latency, the set is four times the reported cache, within bounds.
//!
//! The middle set is twice the smallest one that the first level does not hold
//! ([`choose_middle`]). Second-level caches have four times the size of first-level ones at least.
//!
//! # Limits
//! A hypervisor may hide a cache larger than it reports. On hardware with fast memory the set then
//! fits that cache in part. `--external-kib` overrides the size.

/// A load that takes this long comes from memory: hits of the slowest last-level caches take less
/// than half [ns].
pub const SURELY_MEMORY_NS: f64 = 250.0;
/// Smallest and largest set of the ladder [bytes].
pub const LADDER: (usize, usize) = (256 << 10, 2 << 20);
/// Growth from one rung to the next below which the latency counts as flat.
const FLAT: f64 = 1.2;
/// Bounds of the set when the reported cache decides its size [bytes].
const BOUNDS: (u64, u64) = (8 << 20, 256 << 20);

/// Return the size of the set [bytes] for a machine that reports a last-level cache of `llc_bytes`.
///
/// `latency_ns` builds a set of the given size and measures how long a load stalls. Its first error
/// ends the search and is returned.
///
/// # Errors
/// Those of `latency_ns`.
pub fn choose<E>(llc_bytes: u64, mut latency_ns: impl FnMut(usize) -> Result<f64, E>) -> Result<usize, E> {
    let mut size = LADDER.0;
    let mut latency = latency_ns(size)?;
    while size < LADDER.1 {
        let next = latency_ns(size * 2)?;
        if latency >= SURELY_MEMORY_NS && next < latency * FLAT {
            return Ok(size);
        }
        size *= 2;
        latency = next;
    }
    if latency >= SURELY_MEMORY_NS {
        // The latency never levels off, because address translation is slow (emulators) or the
        // machine is busy, but it is memory's.
        return Ok(size);
    }
    Ok(llc_bytes.saturating_mul(4).clamp(BOUNDS.0, BOUNDS.1) as usize)
}

/// Sizes at which [`choose_middle`] looks for the end of the first level [bytes].
const FIRST_LEVEL: (usize, usize) = (16 << 10, 512 << 10);
/// Growth of the time of a step by which a load misses the first level.
const MISSES_FIRST: f64 = 1.5;

/// Return the size of a set [bytes] that second-level caches hold and first-level ones do not. None
/// if every size is as fast as a first level.
///
/// `plain_ns` is the time of a step whose loads hit the first level. `step_ns` builds a set of the
/// given size and measures a step. Its first error ends the search and is returned.
///
/// # Errors
/// Those of `step_ns`.
pub fn choose_middle<E>(
    plain_ns: f64,
    mut step_ns: impl FnMut(usize) -> Result<f64, E>,
) -> Result<Option<usize>, E> {
    let mut size = FIRST_LEVEL.0;
    while size <= FIRST_LEVEL.1 {
        if step_ns(size)? > plain_ns * MISSES_FIRST {
            return Ok(Some(size * 2));
        }
        size *= 2;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_set_is_beyond_the_first_level_and_within_the_second() {
        // Sizes of first and second levels: the emulated machine, a small core, a large one.
        for (first, second) in [(8, 64), (32, 256), (48, 1280), (64, 512), (128, 12 << 10)] {
            let time = |bytes: usize| if bytes >> 10 <= first { 80.0 } else { 240.0 };
            let middle = choose_middle::<()>(80.0, |bytes| Ok(time(bytes))).unwrap_or(None);
            assert!(middle.is_some_and(|bytes| (first + 1..=second).contains(&(bytes >> 10))), "{middle:?}");
        }
        assert_eq!(choose_middle::<()>(80.0, |_| Ok(81.0)), Ok(None));
        assert_eq!(choose_middle(80.0, |_| Err("no memory")), Err("no memory"));
    }

    fn chosen(llc_bytes: u64, latency: impl Fn(usize) -> f64) -> usize {
        choose::<()>(llc_bytes, |bytes| Ok(latency(bytes))).unwrap_or(0)
    }

    #[test]
    fn an_emulated_machine_with_small_caches_gets_a_small_set() {
        let emulated = |bytes: usize| if bytes <= 256 << 10 { 150.0 } else { 600.0 };
        assert_eq!(chosen(16 << 20, emulated), 512 << 10);
    }

    #[test]
    fn a_partly_fitting_set_is_passed_over() {
        let growing = |bytes: usize| match bytes >> 10 {
            0..=256 => 300.0,
            257..=512 => 500.0,
            _ => 620.0,
        };
        assert_eq!(chosen(16 << 20, growing), 1 << 20);
    }

    #[test]
    fn memory_that_never_levels_off_does_not_fall_back_to_what_sysfs_says() {
        assert_eq!(chosen(16 << 20, |bytes| 300.0 * (bytes as f64 / 262_144.0).powf(0.5)), 2 << 20);
    }

    #[test]
    fn hardware_gets_four_times_its_cache_within_bounds() {
        assert_eq!(chosen(32 << 20, |_| 12.0), 128 << 20);
        assert_eq!(chosen(1 << 40, |_| 12.0), 256 << 20);
        assert_eq!(chosen(0, |_| 12.0), 8 << 20);
    }

    #[test]
    fn an_error_ends_the_search() {
        assert_eq!(choose(0, |_| Err("no memory")), Err("no memory"));
    }
}
