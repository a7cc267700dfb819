// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Pipe ping-pong: the cost of one context switch, counted in guest instructions.
//!
//! # Problem
//! A scheduler's overhead in time depends on the host and the clock rate. In instructions it is
//! nearly free of noise. Every switch here is forced: a process writes one byte, which wakes its
//! partner, and then blocks in a read, which gives up the CPU.
//!
//! # Approach
//! Pairs of processes use two pipes each. Every round reads the sum of executed instructions of all
//! CPUs before and after. One *switch* is one write and one read, so a round trip is two switches.
//!
//! Nothing is subtracted for ticks and background work, which are about 20 of some 6 000
//! instructions per switch. The idle machine before a round is not a reference. In the same time it
//! executes a hundred or a thousand instructions, because a newly loaded scheduler opens its
//! sockets and the kernel cleans up. Subtracting that would make switches look cheaper.
//!
//! Every round has new processes, because a pair keeps one of a few levels of cost, 1 % apart,
//! until it ends.
//!
//! # Limits
//! Without the amp PMU, only the time of a switch is reported. Cache lines that come from another
//! CPU are counted on machines that track them (`transfer_ns=`).

use crate::counters::MachineEvent;
use crate::options::{Printable, rounds};
use crate::task::{end, spawn};
use crate::{Error, Result, cpus, metrics, sched::SchedExt};
use clap::Args;
use nix::unistd::{Pid, pipe, read, write};
use serde::Serialize;
use std::fmt::Write;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Round trips of each pair before the first round. Both processes are then past their start.
const WARMUP_ROUND_TRIPS: u32 = 100;
/// Round trips of each pair in a round of [`run_for`]. A round is long compared with reading the
/// counters, and short compared with a window.
const SHORT_ROUND_TRIPS: u32 = 250;

/// Pairs, switches and rounds of a run.
#[derive(Debug, Clone, Args)]
pub struct PingpongOptions {
    /// Pairs of processes at the same time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub pairs: u16,
    /// CPU for all processes; the scheduler decides unless given
    #[arg(long)]
    pub cpu: Option<usize>,
    /// Switches per round, all pairs together, rounded up to whole round trips of every pair. More
    /// switches reduce the noise
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub switches: u32,
    /// Rounds. The report has the mean of the middle half for instructions, and the median for
    /// times
    #[arg(long, default_value = "3", value_parser = rounds)]
    pub rounds: u16,
}

/// One round.
#[derive(Debug, Clone, Serialize)]
pub struct SwitchRound {
    /// Switches made.
    pub switches: u64,
    /// Wall time, nanoseconds.
    pub wall_ns: u64,
    /// Instructions of all CPUs in that time; null without the PMU.
    pub instructions: Option<u64>,
    /// Instructions per switch; null without the PMU.
    pub instructions_per_switch: Option<f64>,
    /// Cache lines that came from another CPU, per switch; null unless the machine tracks them.
    pub transfers_per_switch: Option<f64>,
}

/// All rounds.
#[derive(Debug, Clone, Serialize)]
pub struct PingpongReport {
    /// Format of this report.
    pub schema: &'static str,
    /// The sched_ext scheduler that was active, or "default".
    pub scheduler: String,
    /// Pairs at the same time.
    pub pairs: usize,
    /// CPU that all processes were pinned to.
    pub cpu: Option<usize>,
    /// Mean of the middle half of the rounds' instructions per switch; null without the PMU.
    pub instructions_per_switch: Option<f64>,
    /// The same for the cache lines that came from another CPU; null unless the machine tracks
    /// them.
    pub transfers_per_switch: Option<f64>,
    /// Median over the rounds of wall time per switch, nanoseconds.
    pub ns_per_switch: f64,
    /// Every round.
    pub rounds: Vec<SwitchRound>,
}

/// Run all rounds.
pub fn run(options: &PingpongOptions) -> Result<PingpongReport> {
    let mut session = Match::open(options.pairs.into(), options.cpu)?;
    let round_trips = options.switches.div_ceil(2 * session.pairs as u32).max(1);
    for _ in 0..options.rounds {
        session.round(round_trips)?;
    }
    Ok(session.report())
}

/// Run short rounds until `window` is over, after an unmeasured `warmup`, instead of a fixed number
/// of switches.
pub fn run_for(
    pairs: usize,
    cpu: Option<usize>,
    warmup: Duration,
    window: Duration,
) -> Result<PingpongReport> {
    let mut session = Match::open(pairs, cpu)?;
    let start = Instant::now();
    while start.elapsed() < warmup {
        session.table()?.play(SHORT_ROUND_TRIPS)?;
    }
    let start = Instant::now();
    while session.rounds.is_empty() || start.elapsed() < window {
        session.round(SHORT_ROUND_TRIPS)?;
    }
    Ok(session.report())
}

/// Counters, and the rounds so far.
struct Match {
    pairs: usize,
    cpu: Option<usize>,
    instructions: Option<MachineEvent>,
    transfers: Option<MachineEvent>,
    rounds: Vec<SwitchRound>,
}

/// Read an event, if it is counted.
fn count(event: &mut Option<MachineEvent>) -> Result<Option<u64>> {
    event.as_mut().map(MachineEvent::read).transpose()
}

impl Match {
    fn open(pairs: usize, cpu: Option<usize>) -> Result<Self> {
        if let Some(cpu) = cpu {
            cpus::require_online(&[cpu])?;
        }
        let online = cpus::online()?.0;
        let (instructions, transfers) =
            (MachineEvent::instructions(&online)?, MachineEvent::transfers(&online)?);
        Ok(Match { pairs: pairs.max(1), cpu, instructions, transfers, rounds: Vec::new() })
    }

    /// Start a table of players, and play until all are past their start.
    fn table(&self) -> Result<Table> {
        let table = Table::set(self.pairs, self.cpu)?;
        table.play(WARMUP_ROUND_TRIPS)?;
        Ok(table)
    }

    /// Play one round with new players, and add it.
    fn round(&mut self, round_trips: u32) -> Result<()> {
        let table = self.table()?;
        let transfers = count(&mut self.transfers)?;
        let instructions = count(&mut self.instructions)?;
        let start = Instant::now();
        table.play(round_trips)?;
        let wall_ns = start.elapsed().as_nanos() as u64;
        let since = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        let instructions = since(count(&mut self.instructions)?, instructions);
        let transfers = since(count(&mut self.transfers)?, transfers);
        let switches = 2 * u64::from(round_trips) * self.pairs as u64;
        self.rounds.push(SwitchRound::of(switches, wall_ns, instructions, transfers));
        Ok(())
    }

    /// Summarise the rounds.
    fn report(self) -> PingpongReport {
        let rounds = self.rounds;
        let midmean = |of: fn(&SwitchRound) -> Option<f64>| {
            let all: Option<Vec<f64>> = rounds.iter().map(of).collect();
            metrics::midmean(&all?)
        };
        let ns: Vec<f64> = rounds.iter().map(|r| r.wall_ns as f64 / r.switches as f64).collect();
        PingpongReport {
            schema: "bias-bench.pingpong/1",
            scheduler: SchedExt::system().active().unwrap_or_else(|| "default".into()),
            pairs: self.pairs,
            cpu: self.cpu,
            instructions_per_switch: midmean(|round| round.instructions_per_switch),
            transfers_per_switch: midmean(|round| round.transfers_per_switch),
            ns_per_switch: metrics::median(&ns).unwrap_or(f64::NAN),
            rounds,
        }
    }
}

impl SwitchRound {
    fn of(switches: u64, wall_ns: u64, instructions: Option<u64>, transfers: Option<u64>) -> Self {
        let per_switch = |all| all as f64 / switches as f64;
        let transfers_per_switch = transfers.filter(|all| *all > 0).map(per_switch);
        let instructions_per_switch = instructions.map(per_switch);
        SwitchRound { switches, wall_ns, instructions, instructions_per_switch, transfers_per_switch }
    }
}

/// The players. Dropping it kills and reaps them.
struct Table {
    players: Vec<Pid>,
    pairs: usize,
    /// Pipe from which each pair's first player takes the number of round trips (four bytes).
    go: OwnedFd,
    /// Pipe into which that player writes one byte when it has made them.
    done: OwnedFd,
}

impl Table {
    /// Start the processes of all pairs. They wait for the first round.
    fn set(pairs: usize, cpu: Option<usize>) -> Result<Self> {
        let (go_read, go) = new_pipe()?;
        let (done, done_write) = new_pipe()?;
        let mut table = Table { players: Vec::new(), pairs, go, done };
        for _ in 0..pairs {
            let (to_second, from_first) = new_pipe()?;
            let (to_first, from_second) = new_pipe()?;
            table.players.push(spawn(|| first(cpu, &go_read, &done_write, &from_first, &to_first))?);
            table.players.push(spawn(|| second(cpu, &to_second, &from_second))?);
        }
        Ok(table)
    }

    /// Let every pair make `round_trips`. Return when the last pair has finished.
    fn play(&self, round_trips: u32) -> Result<()> {
        let failed = |e| Error::failed("ping-pong", e);
        for _ in 0..self.pairs {
            write(&self.go, &round_trips.to_ne_bytes()).map_err(failed)?;
        }
        for _ in 0..self.pairs {
            let mut byte = [0];
            if read(&self.done, &mut byte).map_err(failed)? != 1 || byte[0] != 1 {
                return Err(Error::failed("ping-pong", "a process could not be pinned or lost its partner"));
            }
        }
        Ok(())
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        end(&self.players);
    }
}

fn new_pipe() -> Result<(OwnedFd, OwnedFd)> {
    pipe().map_err(|e| Error::failed("making a pipe", e))
}

fn pinned(cpu: Option<usize>) -> bool {
    cpu.is_none_or(|cpu| cpus::set_affinity(Pid::from_raw(0), &[cpu]).is_ok())
}

/// Run a pair's first player: take a round, make its trips, report, and repeat.
fn first(cpu: Option<usize>, go: &OwnedFd, done: &OwnedFd, out: &OwnedFd, back: &OwnedFd) -> u8 {
    let well = pinned(cpu);
    let mut number = [0; 4];
    while matches!(read(go, &mut number), Ok(4)) {
        let mut byte = [0];
        let trip = |_| matches!((write(out, &[1]), read(back, &mut byte)), (Ok(1), Ok(1)));
        let all = well && (0..u32::from_ne_bytes(number)).all(trip);
        if write(done, &[u8::from(all)]).is_err() {
            return 1;
        }
    }
    1
}

/// Run a pair's second player: answer every byte.
fn second(cpu: Option<usize>, from: &OwnedFd, to: &OwnedFd) -> u8 {
    let mut byte = [0];
    if !pinned(cpu) {
        return 1;
    }
    while matches!((read(from, &mut byte), write(to, &[1])), (Ok(1), Ok(1))) {}
    1
}

impl Printable for PingpongReport {
    fn text(&self) -> String {
        let place = self.cpu.map_or("free".into(), |cpu| format!("all on CPU {cpu}"));
        let mut out = format!("{} pair(s), {place}, under {}\n", self.pairs, self.scheduler);
        for round in &self.rounds {
            let ns = round.wall_ns as f64 / round.switches as f64;
            let cost = round
                .instructions_per_switch
                .map_or("no counters".into(), |n| format!("{n:.0} instructions"));
            let _ = writeln!(out, "  {} switches, {ns:.0} ns and {cost} a switch", round.switches);
        }
        if let Some(n) = self.instructions_per_switch {
            let _ = writeln!(out, "middle half: {n:.0} instructions a switch");
        }
        if let Some(n) = self.transfers_per_switch {
            let _ = writeln!(out, "middle half: {n:.1} cache lines from another CPU a switch");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_plays_and_whole_round_trips_are_counted() {
        let report = run(&PingpongOptions { pairs: 3, cpu: None, switches: 100, rounds: 2 }).unwrap();
        assert_eq!(report.rounds.len(), 2);
        // 100 switches over 3 pairs make 17 round trips each.
        assert!(report.rounds.iter().all(|r| r.switches == 2 * 17 * 3));
        assert!(report.ns_per_switch > 0.0);
    }

    #[test]
    fn no_instructions_of_the_idle_machine_are_subtracted() {
        let round = SwitchRound::of(100, 500_000_000, Some(700_000), Some(1230));
        assert_eq!(round.instructions_per_switch, Some(7000.0));
        assert_eq!(round.transfers_per_switch, Some(12.3));
        assert_eq!(SwitchRound::of(100, 1, None, None).instructions_per_switch, None);
        assert_eq!(SwitchRound::of(100, 1, Some(1), Some(0)).transfers_per_switch, None);
    }
}
