// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Rate of the host's time stamp counter, which QEMU passes on to the guest.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Attempts to read both clocks at the same time. On a busy host some take long.
const ATTEMPTS: u32 = 20;

/// Return the counter, and the time when it was read.
fn read() -> (Instant, u64) {
    let attempts = (0..ATTEMPTS).map(|_| {
        let begin = Instant::now();
        // SAFETY: every x86-64 CPU has the instruction, and it reads nothing else.
        let counter = unsafe { std::arch::x86_64::_rdtsc() };
        (begin.elapsed(), begin, counter)
    });
    attempts.min_by_key(|(took, ..)| *took).map_or_else(|| (Instant::now(), 0), |(_, at, tsc)| (at, tsc))
}

/// Return the words that give a kernel with this configuration the counter's rate.
///
/// A kernel that measures the rate itself fails occasionally on a busy host. Its timers are then as
/// coarse as its tick. It also measures how long its delay loop takes, for up to two seconds per
/// CPU. `lpj` replaces that measurement and needs the kernel's tick rate.
pub fn kernel_args(config: Option<&Path>) -> Vec<String> {
    let khz = khz();
    let config = config.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    let delay = tick_hz(&config).map(|hz| format!("lpj={}", khz * 1000 / hz));
    [format!("tsc_early_khz={khz}")].into_iter().chain(delay).collect()
}

/// Return the tick rate in a kernel's configuration.
fn tick_hz(config: &str) -> Option<u64> {
    let value = config.lines().find_map(|line| line.strip_prefix("CONFIG_HZ="))?;
    value.parse().ok().filter(|hz| *hz > 0)
}

/// Return the counter's rate [kHz], measured for 50 ms.
fn khz() -> u64 {
    let (begin, first) = read();
    std::thread::sleep(Duration::from_millis(50));
    let (end, last) = read();
    (u128::from(last.wrapping_sub(first)) * 1_000_000 / (end - begin).as_nanos().max(1)) as u64
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_delay_of_a_tick_needs_the_tick_rate() {
        assert_eq!(super::tick_hz("CONFIG_HZ_100=y\nCONFIG_HZ=250\n"), Some(250));
        assert_eq!(super::tick_hz("CONFIG_HZ=0\n"), None);
        assert_eq!(super::kernel_args(None).len(), 1);
    }

    #[test]
    fn the_rate_is_stable() {
        let (one, other) = (super::khz(), super::khz());
        assert!(one.abs_diff(other) * 1000 < one, "{one} kHz, then {other} kHz");
    }
}
