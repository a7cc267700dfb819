//! Size of the memory loop's set, such that every load leaves the caches.
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

#[cfg(test)]
mod tests {
    use super::*;

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
