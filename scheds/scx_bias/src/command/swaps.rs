// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `scx_bias swaps`: planned swaps with predicted and measured gain.
//!
//! # Invariants
//! No line is wider than 80 columns, for any name of a task.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use bias_agent::failure::{Exit, Failure};
use bias_agent::figures::{self, duration};
use bias_agent::swaps::{SwapRecord, SwapSummary, SwapsReport};
use bias_policy::audit::{Ending, Outcome, Unjudged, Verdict};
use bias_policy::swap::Move;
use bias_policy::table::Component;
use clap::Args;

use crate::cli::SocketArg;
use crate::help;
use crate::output::{WIDTH, cut, fit, print_part, wrap};

/// Time between requests to the running instance.
const INTERVAL: Duration = Duration::from_secs(1);

const HELP: &str = "\
Swaps that the agent planned, the oldest first. For each swap:
  predicted    Expected gain in the progress of both tasks together.
  measured     Their actual gain: instructions per time of running, after the
               swap over before it, each task compared with itself.
  with migrations
               The same, less the time that the migrations took. More than +2%
               is paid, less than -2% regretted, neutral between.
  The tasks    The one that went to a fast CPU, then the other: old and new
               CPU; execution/internal/external stalls [% of its time on the
               best CPU]; its speed after over before, predicted and measured.

What to conclude:
  none         The CPUs' own searches have placed the tasks, or tasks wait for
               CPUs, and each dispatch decides again. Usual, and good.
  refused      Tasks ended, slept or migrated before the swap: they are short.
               Came to nothing: the same a moment later.
  regretted    Tasks change their behaviour faster than they migrate, or disturb
               each other's caches. Their next swap waits longer each time. If
               it continues, use --no-swap.
  slow-CPU costs learned
               Far from 1.00: the table is wrong for these tasks; measure again
               on an idle machine: scx_bias calibrate --force.";

/// Show the swaps of the agent, each with its predicted and its measured gain
#[derive(Debug, Args)]
#[command(after_help = help::exit_codes(), after_long_help = help::long(HELP))]
pub struct SwapsArgs {
    /// Print JSON for machines: one document, or with --follow one object per line
    #[arg(long)]
    json: bool,

    /// Continue with new swaps until interrupted
    #[arg(long, short)]
    follow: bool,

    #[command(flatten)]
    socket: SocketArg,
}

impl SwapsArgs {
    pub fn run(self) -> Result<Exit> {
        let mut client = self.socket.connect()?;
        let mut report = client.swaps(Some(0))?;
        let mut shown = match (self.json, self.follow) {
            (false, _) => text(&report),
            (true, true) => lines(&report)?,
            (true, false) => figures::json(&report, "swaps")?,
        };
        while print_part(&shown)? && self.follow {
            sleep(INTERVAL);
            // A new instance counts from 0 again.
            let next = report.next;
            report = client.swaps(Some(next))?;
            if report.next < next {
                report = client.swaps(Some(0))?;
            }
            shown = if self.json { lines(&report)? } else { entries(&report) };
        }
        Ok(Exit::Clean)
    }
}

/// Return one JSON object per swap.
fn lines(report: &SwapsReport) -> Result<String, Failure> {
    let mut text = String::new();
    for swap in &report.swaps {
        text += &figures::json_line(swap, "swap")?;
        text.push('\n');
    }
    Ok(text)
}

/// Return the figures and the swaps as text.
fn text(report: &SwapsReport) -> String {
    let mut text = String::new();
    for sentence in sentences(&report.summary) {
        for line in wrap(&sentence, WIDTH, 2) {
            text += &line;
            text.push('\n');
        }
    }
    text + &entries(report)
}

/// Return the results of all swaps in two clauses. `status` uses them too.
pub(super) fn verdicts(summary: &SwapSummary) -> String {
    let (tally, verdicts) = (&summary.tally, &summary.verdicts);
    if let Some(why) = &summary.off {
        return format!("swaps by the agent: none, {why}");
    }
    format!(
        "swaps by the agent: {} requested ({} more refused, {} came to nothing); {} paid, {} neutral, {} regretted, {} not judged",
        tally.asked,
        tally.refused,
        tally.undone,
        verdicts.paid,
        verdicts.neutral,
        verdicts.regretted,
        verdicts.unjudged
    )
}

fn sentences(summary: &SwapSummary) -> Vec<String> {
    let mut sentences = vec![verdicts(summary)];
    if let Some([predicted, measured, net]) = summary.verdicts.means_permille() {
        sentences.push(format!(
            "gain of the two tasks on average: {} predicted, {} measured, {} with the time of migrations, {} ms each",
            gain(predicted),
            gain(measured),
            gain(net),
            summary.migration_ns as f64 / 1e6
        ));
    }
    if summary.samples > 0 {
        let factor = |component: Component| {
            let permille = summary.factors_permille.get(component.index()).copied().unwrap_or(1000);
            format!("{} {:.2}", component.name(), f64::from(permille) / 1000.0)
        };
        sentences.push(format!(
            "slow-CPU costs learned from swaps, relative to calibration: {}; residual error {}",
            Component::ALL.map(factor).join(", "),
            gain(i64::from(summary.error_permille))
        ));
    }
    sentences
}

/// Format a gain in percent, with its sign.
fn gain(permille: i64) -> String {
    format!("{:+.0}%", permille as f64 / 10.0)
}

fn entries(report: &SwapsReport) -> String {
    let mut text = String::new();
    for swap in &report.swaps {
        let age_s = report.now_ns.saturating_sub(swap.asked_ns) / 1_000_000_000;
        text += &entry(swap, age_s);
    }
    text
}

/// Return the three lines of a swap.
fn entry(swap: &SwapRecord, age_s: u64) -> String {
    let record = &swap.record;
    let planned = &record.swap;
    let ending = match &record.ending {
        Ending::Judged(outcome) => format!(
            "measured {}, with migrations {}: {}",
            gain(i64::from(outcome.measured_permille)),
            gain(i64::from(outcome.net_permille)),
            verdict(outcome.verdict)
        ),
        Ending::Unjudged(Unjudged::TooShort) => "not judged, a task ran too little".to_owned(),
        Ending::Unjudged(Unjudged::NoWork) => "not judged, no instructions counted".to_owned(),
    };
    let head = format!(
        "#{} {} ago: predicted {}, {ending}",
        record.number,
        duration(age_s),
        gain(i64::from(planned.gain_permille))
    );
    let outcome = match &record.ending {
        Ending::Judged(outcome) => Some(outcome),
        Ending::Unjudged(_) => None,
    };
    let part = |speed: fn(&Outcome) -> u32| outcome.map(speed);
    [
        head,
        task(&planned.up, &swap.up_name, part(|outcome| outcome.up_permille)),
        task(&planned.down, &swap.down_name, part(|outcome| outcome.down_permille)),
    ]
    .map(|line| cut(&line, WIDTH) + "\n")
    .concat()
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Paid => "paid",
        Verdict::Neutral => "neutral",
        Verdict::Regretted => "regretted",
    }
}

/// Return the line of a task: pid, name, CPUs, CPI stack [% execution/internal/external stalls],
/// and its speed after over before.
fn task(one: &Move, name: &str, measured_permille: Option<u32>) -> String {
    let [execute, internal, external] = one.stack_permille.map(|share| (share + 5) / 10);
    let predicted = f64::from(one.after_ppm) / f64::from(one.before_ppm.max(1));
    let measured = measured_permille
        .map_or_else(|| "   ?".to_owned(), |speed| format!("{:.2}", f64::from(speed) / 1000.0));
    format!(
        "  {:>7} {} CPU {:>3} to {:<3} {execute:>3}/{internal:>2}/{external:>2}  x{predicted:.2} predicted, x{measured}",
        one.pid,
        fit(name, 15, false),
        one.from,
        one.to
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use bias_policy::audit::{Record, VerdictCounts};
    use bias_policy::swap::Swap;

    fn record(ending: Ending) -> SwapRecord {
        let one = |pid, from, to, stack_permille, before_ppm, after_ppm| Move {
            pid,
            from,
            to,
            stack_permille,
            before_ppm,
            after_ppm,
        };
        let swap = Swap {
            up: one(4711, 2, 0, [941, 47, 12], 408_000, 1_000_000),
            down: one(4_194_303, 0, 2, [47, 20, 933], 1_000_000, 935_000),
            gain_permille: 374,
            net_ns: 1,
        };
        SwapRecord {
            record: Record { number: 11, at_ns: 9, swap, lost_ns: 3_000_000, ending },
            asked_ns: 5_000_000_000,
            up_name: "render".into(),
            down_name: "a\x1b[2Jname that is long".into(),
        }
    }

    fn report() -> SwapsReport {
        let outcome = Outcome {
            verdict: Verdict::Paid,
            measured_permille: 366,
            net_permille: 361,
            up_permille: 2431,
            down_permille: 941,
            up_failed: false,
            down_failed: false,
        };
        let mut report = SwapsReport {
            now_ns: 8_100_000_000,
            next: 12,
            swaps: vec![record(Ending::Judged(outcome)), record(Ending::Unjudged(Unjudged::TooShort))],
            ..SwapsReport::default()
        };
        let summary = &mut report.summary;
        (summary.tally.asked, summary.tally.refused) = (12, 3);
        summary.verdicts = VerdictCounts { paid: 9, neutral: 1, unjudged: 2, ..VerdictCounts::default() };
        (summary.verdicts.predicted_permille, summary.verdicts.measured_permille) = (3740, 3660);
        summary.verdicts.net_permille = 3610;
        (summary.migration_ns, summary.samples) = (1_500_000, 20);
        (summary.factors_permille, summary.error_permille) = ([1010, 1000, 990], -12);
        report
    }

    #[test]
    fn swaps_in_80_columns() {
        let expected = "
swaps by the agent: 12 requested (3 more refused, 0 came to nothing); 9 paid, 1
  neutral, 0 regretted, 2 not judged
gain of the two tasks on average: +37% predicted, +37% measured, +36% with the
  time of migrations, 1.5 ms each
slow-CPU costs learned from swaps, relative to calibration: execute 1.01,
  internal 1.00, external 0.99; residual error -1%
#11 3 s ago: predicted +37%, measured +37%, with migrations +36%: paid
     4711 render          CPU   2 to 0    94/ 5/ 1  x2.45 predicted, x2.43
  4194303 a?[2Jname that  CPU   0 to 2     5/ 2/93  x0.94 predicted, x0.94
#11 3 s ago: predicted +37%, not judged, a task ran too little
     4711 render          CPU   2 to 0    94/ 5/ 1  x2.45 predicted, x   ?
  4194303 a?[2Jname that  CPU   0 to 2     5/ 2/93  x0.94 predicted, x   ?
";
        let seen = format!("\n{}", text(&report()));
        assert!(seen.lines().all(|line| line.chars().count() <= WIDTH), "{seen}");
        assert_eq!(seen, expected);
    }

    #[test]
    fn without_swaps_the_reason_is_shown() {
        let mut none = SwapsReport::default();
        none.summary.off = Some("all CPUs count as equally fast".into());
        assert_eq!(text(&none), "swaps by the agent: none, all CPUs count as equally fast\n");
    }

    #[test]
    fn json_has_one_object_per_swap() {
        let lines = lines(&report()).unwrap();
        let values: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(values.len(), 2);
        assert_eq!(values[0]["ending"]["judged"]["verdict"], "paid");
        assert_eq!(values[1]["ending"]["unjudged"], "too-short");
        assert_eq!(values[0]["swap"]["up"]["stack_permille"][0], 941);
        assert_eq!(values[0]["up_name"], "render");
    }
}
