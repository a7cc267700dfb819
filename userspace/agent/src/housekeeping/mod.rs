// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Housekeeping CPU: all threads outside the selected cgroups run there, and those inside never do.
//!
//! # Problem
//!
//! Daemons and kernel threads delay the threads of a parallel program, which then wait for the
//! delayed one. [Grant06] keeps them on one slow core. With opted-in cgroups the other threads
//! belong to the default scheduler, so that the kernel side cannot place them.
//!
//! # Approach
//!
//! The agent sets affinities, which hold under every scheduler. A sweep examines all threads every
//! [`SWEEP`], and those inside after an event. Kernel threads count unless the kernel pins them.
//! Workers of unbound workqueues follow the mask in sysfs. [`homes`] decides, and records what a
//! later start needs to restore affinities after a crash.
//!
//! # Invariants
//!
//! A thread outside whose own affinity excludes the housekeeping CPU is left alone. At the
//! end, and while the housekeeping CPU is offline, each thread has the affinity that it had before,
//! or that it inherited or requested since.
//!
//! # Limits
//!
//! A new thread outside that starts with all CPUs, as kernel threads do, is found within
//! [`SWEEP`]. A thread that limits itself to exactly the housekeeping CPU meanwhile, or to all
//! others, is assumed to have inherited this. Interrupts are not moved.

mod confinement;
mod homes;

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use bias_policy::table::{CapacityTable, Component};
use tracing::info;

use crate::cpulist;
use crate::failure::Failure;
use crate::optin::cgroup::Cgroup;
use crate::optin::journal::{self, DIRECTORY};
use crate::optin::system::Linux;
use confinement::{AffinityCalls, Confinement, Whom};
use homes::RememberedHomes;

/// Time between two sweeps over all threads.
const SWEEP: Duration = Duration::from_secs(1);
/// Time between an event of a cgroup and the sweep over the threads inside.
const BURST_DELAY: Duration = Duration::from_millis(20);

/// A housekeeping CPU as the user names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HousekeepingCpu {
    /// The slowest CPU; of equal ones, that with the highest number.
    Slow,
    /// The fastest CPU; of equal ones, that with the lowest number.
    Fast,
    /// This CPU.
    Cpu(u32),
}

impl FromStr for HousekeepingCpu {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "slow" => Ok(Self::Slow),
            "fast" => Ok(Self::Fast),
            _ => text
                .parse()
                .ok()
                .filter(|cpu| *cpu < cpulist::MAX_CPUS)
                .map(Self::Cpu)
                .ok_or_else(|| "give slow, fast or the number of a CPU".to_owned()),
        }
    }
}

impl fmt::Display for HousekeepingCpu {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slow => out.write_str("slow"),
            Self::Fast => out.write_str("fast"),
            Self::Cpu(cpu) => cpu.fmt(out),
        }
    }
}

impl HousekeepingCpu {
    /// Return the number of the chosen CPU among the `online` ones.
    ///
    /// # Errors
    /// Fail with a usage failure if the CPU is not online, or if it is the only one.
    fn choose(self, table: &CapacityTable, online: &[u32]) -> Result<u32, Failure> {
        if online.len() < 2 {
            return Err(Failure::usage(
                "--housekeeping leaves no CPU to the cgroups: only one CPU is online; start without it",
            ));
        }
        let cost =
            |cpu: &u32| table.get(*cpu).map_or(0, |entry| entry.cost_permille[Component::Execute.index()]);
        let chosen = match self {
            Self::Slow => online.iter().max_by_key(|cpu| (cost(cpu), **cpu)),
            Self::Fast => online.iter().min_by_key(|cpu| (cost(cpu), **cpu)),
            Self::Cpu(number) => online.iter().find(|cpu| **cpu == number),
        };
        chosen.copied().ok_or_else(|| {
            let online = cpulist::format(online);
            Failure::usage(format!("--housekeeping {self}: this CPU is not online; choose one of {online}"))
        })
    }
}

/// Housekeeping CPU of a run.
pub(crate) struct Housekeeper {
    confinement: Confinement<Linux>,
    swept: Instant,
    /// Time of the next sweep over the threads inside, None without an event.
    look_inside: Option<Instant>,
}

impl Housekeeper {
    /// Choose the CPU, and confine the threads outside of `cgroups` to it.
    ///
    /// # Errors
    /// Fail with a usage failure if the CPU cannot be used. Fail with a kernel failure if the CPUs
    /// or the record cannot be read.
    pub(crate) fn start(
        choice: HousekeepingCpu,
        table: &CapacityTable,
        cgroups: &[Cgroup],
    ) -> Result<Self, Failure> {
        let system = Linux::default();
        let online = system.online().ok_or_else(|| Failure::kernel("cannot read which CPUs are online"))?;
        let cpu = choice.choose(table, &online)?;
        let file = homes::open(Path::new(DIRECTORY), &system.boot())?;
        let mut confinement = Confinement::new(system, file, cpu);
        confinement.keep(Whom::All, cgroups);
        info!("CPU {cpu} does the housekeeping: all threads outside the cgroups run there, and none inside");
        Ok(Self { confinement, swept: Instant::now(), look_inside: None })
    }

    /// Take note of an event of a cgroup: threads may have moved.
    pub(crate) fn notified(&mut self) {
        self.look_inside.get_or_insert_with(|| Instant::now() + BURST_DELAY);
    }

    /// Return the time until [`Self::tick`] has work.
    pub(crate) fn time_left(&self) -> Duration {
        let due = self.swept + SWEEP;
        let due = self.look_inside.map_or(due, |at| at.min(due));
        due.saturating_duration_since(Instant::now())
    }

    /// Sweep over threads if it is time to.
    pub(crate) fn tick(&mut self, cgroups: &[Cgroup]) {
        let now = Instant::now();
        if now >= self.swept + SWEEP {
            self.confinement.keep(Whom::All, cgroups);
            (self.swept, self.look_inside) = (Instant::now(), None);
        } else if self.look_inside.is_some_and(|at| now >= at) {
            self.confinement.keep(Whom::Inside, cgroups);
            self.look_inside = None;
        }
    }

    /// Return a line about the housekeeping CPU.
    pub(crate) fn note(&self) -> String {
        let Confinement { record: RememberedHomes { cpu, .. }, confines, trouble, .. } = &self.confinement;
        match (confines, &trouble.0) {
            (false, _) => format!("the housekeeping CPU {cpu} is offline: all threads may use all CPUs"),
            (true, None) => format!("CPU {cpu} does the housekeeping: all other threads run there only"),
            (true, Some(trouble)) => format!("CPU {cpu} does the housekeeping, but {trouble}"),
        }
    }

    /// Restore all affinities.
    pub(crate) fn finish(&mut self) {
        self.confinement.finish();
    }
}

/// Restore the affinities that a killed scx_bias has recorded. Do nothing if there is no record.
///
/// # Errors
/// * [`crate::failure::Exit::OtherScheduler`]: a running scx_bias holds the record.
/// * [`crate::failure::Exit::Kernel`]: the record cannot be read.
/// * [`crate::failure::Exit::Runtime`]: some affinity cannot be restored, and the record stays.
pub fn restore() -> Result<(), Failure> {
    let directory = Path::new(DIRECTORY);
    if !homes::exist(directory) {
        return Ok(());
    }
    let system = Linux::default();
    let file = homes::open(directory, &system.boot())?;
    let lines = file.read().map_err(|error| journal::unusable(directory, &error))?;
    let Some(remembered) = lines.as_deref().and_then(RememberedHomes::parse) else { return Ok(()) };
    Confinement::resume(system, file, remembered).release()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use bias_policy::table::{Class, CpuCapacity};

    fn table(costs: &[u32]) -> CapacityTable {
        let entry = |(cpu, cost): (usize, &u32)| {
            CpuCapacity::alone(
                cpu as u32,
                if *cost == 1000 { Class::Fast } else { Class::Slow },
                [*cost, 1000, 1000],
            )
        };
        CapacityTable::new(costs.iter().enumerate().map(entry).collect()).unwrap()
    }

    #[test]
    fn the_slowest_the_fastest_or_the_named_cpu_is_chosen() {
        let table = table(&[1000, 1000, 2500, 2500]);
        let choose = |choice, online: &[u32]| HousekeepingCpu::choose(choice, &table, online).unwrap();
        assert_eq!(choose(HousekeepingCpu::Slow, &[0, 1, 2, 3]), 3);
        assert_eq!(choose(HousekeepingCpu::Slow, &[0, 1, 2]), 2);
        assert_eq!(choose(HousekeepingCpu::Fast, &[0, 1, 2, 3]), 0);
        assert_eq!(choose(HousekeepingCpu::Cpu(1), &[0, 1, 2, 3]), 1);
    }

    #[test]
    fn a_cpu_that_is_offline_or_the_only_one_is_refused() {
        let table = table(&[1000, 1000]);
        let failure = HousekeepingCpu::Cpu(7).choose(&table, &[0, 1]).unwrap_err();
        assert!(failure.message.contains("choose one of 0-1"), "{failure}");
        assert!(HousekeepingCpu::Slow.choose(&table, &[0]).is_err());
    }

    #[test]
    fn parsing_undoes_printing() {
        for text in ["slow", "fast", "0", "17"] {
            assert_eq!(text.parse::<HousekeepingCpu>().unwrap().to_string(), text);
        }
        for wrong in ["", "medium", "-1", "16384", "0-1"] {
            assert!(wrong.parse::<HousekeepingCpu>().is_err(), "{wrong}");
        }
    }
}
