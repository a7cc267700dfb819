// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Pure parsers that find a figure in the output of a program. They return None if the figure is
//! missing.
//!
//! # Limits
//! The parsers are written for the versions of Debian 12 and 13. Units differ between programs.

/// Parse a positive number.
fn positive(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0)
}

/// Return the word after `label`, on the first line with that label.
fn after<'a>(output: &'a str, label: &str) -> Option<&'a str> {
    output.lines().find_map(|line| line.split_once(label)?.1.split_whitespace().next())
}

/// Return the operations per second of real time: the fifth number after the name of the stressor.
///
/// `stress-ng: metrc: [7] cpu   900   3.00   11.98   0.00   300.00   75.12`
pub(super) fn stress_ng(output: &str) -> Option<f64> {
    output.lines().find_map(|line| {
        let (_, row) = line.split_once(']')?;
        let mut words = row.split_whitespace();
        if words.next()? != "cpu" { None } else { positive(words.nth(4)?) }
    })
}

/// Return the events per second: the number of events over their time.
pub(super) fn sysbench(output: &str) -> Option<f64> {
    let events = positive(after(output, "total number of events:")?)?;
    let seconds = positive(after(output, "total time:")?.strip_suffix('s')?)?;
    Some(events / seconds)
}

/// Return the milliseconds, from `Time: 0.123`.
pub(super) fn hackbench(output: &str) -> Option<f64> {
    Some(positive(after(output, "Time:")?)? * 1e3)
}

/// Return the total rating in MIPS: the last number of the line `Tot:`.
pub(super) fn seven_zip(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.trim_start().starts_with("Tot:"))?;
    positive(line.split_whitespace().next_back()?)
}

/// Return the bytes per second of all processes together: the last field of the last line that
/// begins with `+F:`.
pub(super) fn openssl(output: &str) -> Option<f64> {
    let line = output.lines().rev().find(|line| line.starts_with("+F:"))?;
    positive(line.rsplit(':').next()?.trim())
}

/// Return the bytes compressed per second. zstd overwrites its progress, and the last state counts.
/// Of its two speeds, the first one counts.
pub(super) fn zstd(output: &str) -> Option<f64> {
    let last = output.split(['\r', '\n']).rfind(|state| state.matches("MB/s").count() == 2)?;
    let (before, _) = last.split_once("MB/s")?;
    let speed = before.split_whitespace().next_back()?;
    Some(positive(speed)? * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STRESS_NG: &str = "\
stress-ng: info:  [7] dispatching hogs: 4 cpu
stress-ng: metrc: [7] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s
stress-ng: metrc: [7]                           (secs)    (secs)    (secs)   (real time) (usr+sys time)
stress-ng: metrc: [7] cpu                 900      3.00     11.98      0.00       300.00          75.12
stress-ng: info:  [7] successful run completed in 3.00s
";
    const SYSBENCH: &str = "\
General statistics:
    total time:                          2.5000s
    total number of events:              5000

Latency (ms):
         sum:                                 9999.9
";
    const HACKBENCH: &str = "Running in process mode with 1 groups (each == 40 tasks)\nTime: 0.125\n";
    const SEVEN_ZIP: &str = "\
                       Compressing  |                  Decompressing
Avr:             700   3000  21000  |              710   3100  22000
Tot:             705   3050  21500
";
    const OPENSSL: &str = "\
Got: +F:25:sha256:1000.00 from 0
Got: +F:25:sha256:3000.00 from 1
+H:16384
+F:25:sha256:4000.50
";
    const ZSTD: &str = "Loading x...       \r   \r |-x :  1000 -> \r \
 |-x :  1000 ->   500 (x2.000),  100.5 MB/s \r /-x :  1000 ->   500 (x2.000),  120.5 MB/s, 900.0 MB/s\r 1#\n";

    #[test]
    fn figures_are_found() {
        assert_eq!(stress_ng(STRESS_NG), Some(300.0));
        assert_eq!(sysbench(SYSBENCH), Some(2000.0));
        assert_eq!(hackbench(HACKBENCH), Some(125.0));
        assert_eq!(seven_zip(SEVEN_ZIP), Some(21500.0));
        assert_eq!(openssl(OPENSSL), Some(4000.5));
        assert_eq!(zstd(ZSTD), Some(120.5e6));
    }

    #[test]
    fn what_is_cut_short_or_zero_has_no_figure() {
        assert_eq!(stress_ng(&STRESS_NG.replace("300.00", "0.00")), None);
        assert_eq!(sysbench(SYSBENCH.split("total number").next().unwrap()), None);
        assert_eq!(hackbench("Time: nan"), None);
        assert_eq!(seven_zip("Tot:"), None);
        assert_eq!(openssl("Got: +F:25:sha256:1000.00 from 0"), None);
        assert_eq!(zstd("|-x : 1000 -> 500 (x2.000),  100.5 MB/s"), None);
    }

    proptest! {
        #[test]
        fn no_output_panics(text in "([ -~]|\r|\n|\\PC){0,200}") {
            for parse in [stress_ng, sysbench, hackbench, seven_zip, openssl, zstd] {
                prop_assert!(parse(&text).is_none_or(|value| value > 0.0));
            }
        }
    }
}
