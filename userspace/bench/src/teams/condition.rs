// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Conditions under which a team runs: CPUs, siblings, spare cores and pinning.
//!
//! # Approach
//! The cores that this process may use are the machine. `spare` of the last cores get no thread,
//! and of the others each has one thread or one for each sibling. The team has as many threads as
//! CPUs that remain. If it is pinned, each of these CPUs is a place of the runtime. Otherwise the
//! scheduler may use all CPUs, the spare ones and the siblings too, as in \[Cui23].

use clap::ValueEnum;
use serde::Serialize;
use std::fmt;

/// Binding of the team's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Bind {
    /// The scheduler places the threads.
    None,
    /// Threads on neighbouring places.
    Close,
    /// Threads on distant places.
    Spread,
}

/// Threads on a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Smt {
    /// One on each core.
    One,
    /// One on each sibling.
    All,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TeamCondition {
    /// Pinning.
    pub bind: Bind,
    /// Siblings.
    pub smt: Smt,
    /// Cores without a thread of the team.
    pub spare_cores: usize,
    /// CPUs of the team: one for each thread.
    pub cpus: Vec<usize>,
}

impl TeamCondition {
    /// Make a condition on these cores. `threads` limits the team.
    ///
    /// # Errors
    /// No core is left, or fewer CPUs than `threads`.
    pub fn new(
        cores: &[Vec<usize>],
        bind: Bind,
        smt: Smt,
        spare_cores: usize,
        threads: Option<usize>,
    ) -> Result<Self, String> {
        let used = &cores[..cores.len().saturating_sub(spare_cores)];
        let each = |core: &Vec<usize>| if smt == Smt::One { 1 } else { core.len() };
        let mut cpus: Vec<usize> =
            used.iter().flat_map(|core| &core[..each(core).min(core.len())]).copied().collect();
        if let Some(threads) = threads.filter(|&threads| threads <= cpus.len()) {
            cpus.truncate(threads);
        } else if threads.is_some() || cpus.is_empty() {
            return Err(format!(
                "{} CPUs remain of {} cores with {spare_cores} spare; give fewer --threads or --spare",
                cpus.len(),
                cores.len()
            ));
        }
        Ok(TeamCondition { bind, smt, spare_cores, cpus })
    }

    /// Return the variables of the OpenMP runtime, without the size of the team.
    pub fn variables(&self) -> Vec<(String, String)> {
        let places: Vec<String> = self.cpus.iter().map(|cpu| format!("{{{cpu}}}")).collect();
        match self.bind {
            Bind::None => vec![("OMP_PROC_BIND".into(), "false".into())],
            Bind::Close => {
                vec![("OMP_PROC_BIND".into(), "close".into()), ("OMP_PLACES".into(), places.join(","))]
            }
            Bind::Spread => {
                vec![("OMP_PROC_BIND".into(), "spread".into()), ("OMP_PLACES".into(), places.join(","))]
            }
        }
    }
}

impl fmt::Display for TeamCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bind = match self.bind {
            Bind::None => "not pinned",
            Bind::Close => "pinned close",
            Bind::Spread => "pinned spread",
        };
        let smt = if self.smt == Smt::One { "one sibling" } else { "all siblings" };
        write!(f, "{} threads, {bind}, {smt}, {} spare", self.cpus.len(), self.spare_cores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_has_the_cpus_that_the_factors_leave() {
        let cores = [vec![0, 4], vec![1, 5], vec![2], vec![3]];
        let of = |smt, spare, threads| TeamCondition::new(&cores, Bind::Close, smt, spare, threads);
        assert_eq!(of(Smt::One, 0, None).unwrap().cpus, [0, 1, 2, 3]);
        assert_eq!(of(Smt::All, 1, None).unwrap().cpus, [0, 4, 1, 5, 2]);
        assert_eq!(of(Smt::All, 0, Some(3)).unwrap().cpus, [0, 4, 1]);
        for (spare, threads) in [(4, None), (9, None), (2, Some(3)), (0, Some(5))] {
            assert!(of(Smt::One, spare, threads).unwrap_err().contains("fewer --threads"), "{spare}");
        }
    }

    #[test]
    fn pinned_teams_name_their_places_and_others_forbid_them() {
        let of = |bind| TeamCondition::new(&[vec![0], vec![2]], bind, Smt::One, 0, None).unwrap().variables();
        assert_eq!(of(Bind::None), [("OMP_PROC_BIND".to_string(), "false".to_string())]);
        assert_eq!(of(Bind::Spread)[1], ("OMP_PLACES".to_string(), "{0},{2}".to_string()));
        assert_eq!(of(Bind::Close)[0].1, "close");
    }
}
