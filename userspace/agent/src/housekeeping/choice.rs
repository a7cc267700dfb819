// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Choice of the housekeeping CPU.

use std::fmt;
use std::str::FromStr;

use bias_policy::table::{CapacityTable, Component};
use serde_json::Value;

use crate::cpulist;
use crate::failure::Failure;

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
    /// Read a choice from a configuration, as a text or as a number.
    ///
    /// # Errors
    /// Fail with the remedy if the value is neither `slow`, `fast` nor a CPU.
    pub fn read(value: &Value) -> Result<Self, String> {
        value.as_str().map_or_else(|| value.to_string().parse(), str::parse)
    }

    /// Return the number of the chosen CPU among the `online` ones.
    ///
    /// # Errors
    /// Fail with a usage failure if the CPU is not online, or if it is the only one.
    pub(super) fn choose(self, table: &CapacityTable, online: &[u32]) -> Result<u32, Failure> {
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
    fn texts_are_read_as_they_are_shown() {
        for text in ["slow", "fast", "0", "17"] {
            assert_eq!(text.parse::<HousekeepingCpu>().unwrap().to_string(), text);
        }
        for wrong in ["", "medium", "-1", "16384", "0-1"] {
            assert!(wrong.parse::<HousekeepingCpu>().is_err(), "{wrong}");
        }
    }
}
