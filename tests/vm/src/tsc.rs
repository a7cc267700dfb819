//! Rate of the host's time stamp counter, which QEMU passes on to the guest.

use std::time::{Duration, Instant};

/// Attempts to read both clocks at once. On a busy host some take long.
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

/// Return the counter's rate [kHz], measured for 50 ms.
pub fn khz() -> u64 {
    let (begin, first) = read();
    std::thread::sleep(Duration::from_millis(50));
    let (end, last) = read();
    (u128::from(last.wrapping_sub(first)) * 1_000_000 / (end - begin).as_nanos().max(1)) as u64
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_rate_stays() {
        let (one, other) = (super::khz(), super::khz());
        assert!(one.abs_diff(other) * 1000 < one, "{one} kHz, then {other} kHz");
    }
}
