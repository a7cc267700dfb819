// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Machines: CPUs with costs, cores, caches and nodes, from a short text.
//!
//! A text is either one of the VM's (`60:60:24:24`, `2F2S`, `60x4:24x4,llcs=2`, see `ampvm_abi`) or
//! counts of core types, `8P2T+16E`, with options. In the second form a part is a number of cores,
//! a type (`P` performance, `M` middle, `E` efficiency, `L` low power), and optionally threads of
//! each core (`2T`). Options are `llcs=N` and `nodes=N`, which divide the cores evenly, and
//! `llcs=2+10` for caches with these numbers of cores.
//!
//! A third form is the list of a capacity table's entries, as JSON: a machine that was measured.

use std::cell::Cell;

use ampvm_abi::{Penalty, Stall};
use anyhow::{Context as _, Result, bail, ensure};
use bias_policy::classes::{SplitRule, split_by_cost};
use bias_policy::table::{CapacityTable, Class, CpuCapacity};

use crate::mask::{MAX_CPUS, Mask};

/// Costs of execute, internal and external work of a core type [permille of P].
const TYPES: [(char, [u32; 3]); 4] = [
    ('P', [1000, 1000, 1000]),
    ('M', [1300, 1250, 1080]),
    ('E', [1700, 1500, 1150]),
    ('L', [3000, 2500, 1400]),
];

/// Time of a thread whose sibling is busy [permille of the time alone].
const SHARED_PERMILLE: u32 = 1550;

/// A CPU of a machine.
#[derive(Debug, Clone)]
pub struct CpuSpec {
    /// Cost of execute, internal and external work alone on its core, as specified [permille].
    pub cost_permille: [u32; 3],
    /// Time of each component's work while a sibling is busy [permille of the time alone].
    pub shared_permille: [u32; 3],
    /// Lowest CPU of its core.
    pub core: usize,
    /// CPUs of its core, itself included.
    pub siblings: Mask,
    /// Lowest CPU of its last-level cache.
    pub llc: usize,
    /// Node.
    pub node: usize,
    /// It belongs to the slow class, as specified.
    pub slow: bool,
    /// Factor on the costs at the moment [permille].
    pub factor_permille: Cell<u32>,
}

impl CpuSpec {
    /// Return what a unit of each component costs at the moment [permille].
    #[must_use]
    pub fn cost(&self, shared: bool) -> [u32; 3] {
        let factor = u64::from(self.factor_permille.get());
        std::array::from_fn(|k| {
            let shared = if shared { u64::from(self.shared_permille[k]) } else { 1000 };
            (u64::from(self.cost_permille[k]) * factor * shared / 1_000_000).max(1) as u32
        })
    }
}

/// A machine.
#[derive(Debug, Clone)]
pub struct Machine {
    /// CPUs by number.
    pub cpus: Vec<CpuSpec>,
    /// Measured classes; without them costs decide.
    classes: Option<Vec<Class>>,
}

impl Machine {
    /// Read a machine.
    ///
    /// # Errors
    /// The error names the mistake in the text.
    pub fn parse(text: &str) -> Result<Self> {
        if text.starts_with('[') {
            return Self::measured(serde_json::from_str(text).context("this is not a list of CPUs")?);
        }
        let mut cpus = if is_counts(text) { from_counts(text)? } else { from_vm(text)? };
        ensure!(!cpus.is_empty(), "the machine {text} has no CPUs");
        ensure!(cpus.len() <= MAX_CPUS, "the machine {text} has {} CPUs, at most {MAX_CPUS}", cpus.len());
        let best: [u32; 3] =
            std::array::from_fn(|k| cpus.iter().map(|cpu| cpu.cost_permille[k]).min().unwrap_or(1000).max(1));
        for cpu in &mut cpus {
            cpu.cost_permille =
                std::array::from_fn(|k| (u64::from(cpu.cost_permille[k]) * 1000 / u64::from(best[k])) as u32);
        }
        let costs: Vec<_> = cpus.iter().map(|cpu| cpu.cost_permille).collect();
        let split = split_by_cost(&costs, SplitRule::default());
        Ok(Self::of(cpus, &split.classes, None))
    }

    /// Return the machine that a capacity table describes.
    fn measured(entries: Vec<CpuCapacity>) -> Result<Self> {
        let table = CapacityTable::new(entries)?;
        let all = table.cpus.len();
        for (at, entry) in table.cpus.iter().enumerate() {
            ensure!(entry.cpu as usize == at, "CPU {at} is missing; number the CPUs from 0 without gaps");
            let places = [entry.core as usize, entry.llc as usize];
            ensure!(
                places.iter().all(|cpu| *cpu < all),
                "CPU {at} shares a core or cache with a CPU that is not listed"
            );
        }
        let classes: Vec<Class> = table.cpus.iter().map(|entry| entry.class).collect();
        let one = |entry: &CpuCapacity| {
            let (core, llc, node) = (entry.core as usize, entry.llc as usize, entry.node as usize);
            spec(entry.cost_permille, entry.shared_permille, core, llc, node)
        };
        Ok(Self::of(table.cpus.iter().map(one).collect(), &classes, Some(classes.clone())))
    }

    fn of(mut cpus: Vec<CpuSpec>, slow: &[Class], classes: Option<Vec<Class>>) -> Self {
        for at in 0..cpus.len() {
            let core = cpus[at].core;
            cpus[at].siblings = (0..cpus.len()).filter(|other| cpus[*other].core == core).collect();
        }
        for (cpu, class) in cpus.iter_mut().zip(slow) {
            cpu.slow = *class == Class::Slow;
        }
        Self { cpus, classes }
    }

    /// Return true if some core has several threads.
    #[must_use]
    pub fn smt(&self) -> bool {
        self.cpus.iter().enumerate().any(|(at, cpu)| cpu.core != at)
    }

    /// Return the capacity table that the agent would measure at the moment.
    ///
    /// # Errors
    /// Fail if the costs are not a valid table.
    pub fn table(&self) -> Result<CapacityTable> {
        let now: Vec<[u32; 3]> = self.cpus.iter().map(|cpu| cpu.cost(false)).collect();
        let best: [u32; 3] =
            std::array::from_fn(|k| now.iter().map(|cost| cost[k]).min().unwrap_or(1000).max(1));
        let costs: Vec<[u32; 3]> = now
            .iter()
            .map(|cost| std::array::from_fn(|k| (u64::from(cost[k]) * 1000 / u64::from(best[k])) as u32))
            .collect();
        let classes = self.classes.clone();
        let classes = classes.unwrap_or_else(|| split_by_cost(&costs, SplitRule::default()).classes);
        let entries = self.cpus.iter().zip(costs).zip(classes).enumerate();
        let cpus = entries.map(|(cpu, ((spec, cost_permille), class))| CpuCapacity {
            cpu: cpu as u32,
            core: spec.core as u32,
            llc: spec.llc as u32,
            node: spec.node as u32,
            class,
            cost_permille,
            spread_permille: [0; 3],
            shared_permille: spec.shared_permille,
        });
        Ok(CapacityTable::new(cpus.collect())?)
    }
}

fn spec(cost_permille: [u32; 3], shared_permille: [u32; 3], core: usize, llc: usize, node: usize) -> CpuSpec {
    CpuSpec {
        cost_permille,
        shared_permille,
        core,
        siblings: Mask::default(),
        llc,
        node,
        slow: false,
        factor_permille: Cell::new(1000),
    }
}

/// Return true for counts of core types, as opposed to the VM's speeds and names.
fn is_counts(text: &str) -> bool {
    let first = text.split([',', '+']).next().unwrap_or_default();
    let digits = first.chars().take_while(char::is_ascii_digit).count();
    let mut rest = first.chars().skip(digits);
    digits > 0
        && rest.next().is_some_and(|kind| TYPES.iter().any(|(name, _)| *name == kind))
        && rest.next().is_none_or(|next| next.is_ascii_digit())
        && ampvm_abi::Machine::parse(text).is_err()
}

fn from_counts(text: &str) -> Result<Vec<CpuSpec>> {
    let mut parts = text.split(',');
    let mut cores: Vec<([u32; 3], usize)> = Vec::new();
    for part in parts.next().unwrap_or_default().split('+') {
        let digits = part.chars().take_while(char::is_ascii_digit).count();
        let count: usize =
            part[..digits].parse().with_context(|| format!("{part} does not begin with a number"))?;
        let mut rest = part[digits..].chars();
        let kind = rest.next().with_context(|| format!("{part} names no type of core; give P, M, E or L"))?;
        let Some((_, cost)) = TYPES.iter().find(|(name, _)| *name == kind) else {
            bail!("{kind} is not a type of core; give P, M, E or L");
        };
        let threads = rest.as_str();
        let threads = if threads.is_empty() {
            1
        } else {
            let number = threads
                .strip_suffix('T')
                .with_context(|| format!("{part} should end in threads, such as 2T"))?;
            number.parse().with_context(|| format!("{number} is not a number of threads"))?
        };
        ensure!((1..=4).contains(&threads), "a core of {part} has {threads} threads, not 1 to 4");
        ensure!(count <= MAX_CPUS, "{part} has too many cores, at most {MAX_CPUS}");
        cores.extend(std::iter::repeat_n((*cost, threads), count));
    }
    let (mut numbers, mut nodes) = (vec![1], 1);
    for option in parts {
        let number = |text: &str| text.parse().with_context(|| format!("{option} is not a number"));
        match option.split_once('=') {
            Some(("llcs", text)) => numbers = text.split('+').map(number).collect::<Result<_>>()?,
            Some(("nodes", text)) => nodes = number(text)?,
            _ => bail!("{option} is not an option of a machine; give llcs=N, llcs=N+M or nodes=N"),
        }
    }
    let llc_of = llc_of_cores(&numbers, nodes, cores.len())?;
    let llcs = llc_of.last().map_or(1, |last| last + 1);
    let mut cpus: Vec<CpuSpec> = Vec::new();
    let (mut llc_first, mut last) = (0, usize::MAX);
    for ((cost, threads), llc) in cores.into_iter().zip(llc_of) {
        if llc != last {
            (llc_first, last) = (cpus.len(), llc);
        }
        let first = cpus.len();
        let shared = if threads > 1 { SHARED_PERMILLE } else { 1000 };
        for _ in 0..threads {
            cpus.push(spec(cost, [shared; 3], first, llc_first, llc * nodes / llcs));
        }
    }
    Ok(cpus)
}

/// Return the last-level cache of each core: one number of caches, or the cores of each.
fn llc_of_cores(numbers: &[usize], nodes: usize, cores: usize) -> Result<Vec<usize>> {
    if let [number] = numbers {
        let llcs = std::cmp::max(*number, nodes);
        ensure!(
            nodes > 0 && llcs % nodes == 0 && llcs <= cores,
            "{llcs} caches and {nodes} nodes do not divide {cores} cores"
        );
        return Ok((0..cores).map(|at| at * llcs / cores).collect());
    }
    ensure!(nodes == 1, "caches with different numbers of cores need one node");
    ensure!(
        numbers.iter().sum::<usize>() == cores && !numbers.contains(&0),
        "caches of {numbers:?} cores do not divide {cores} cores"
    );
    let each = numbers.iter().enumerate();
    Ok(each.flat_map(|(llc, cores)| std::iter::repeat_n(llc, *cores)).collect())
}

fn from_vm(text: &str) -> Result<Vec<CpuSpec>> {
    let machine = ampvm_abi::Machine::parse(text).map_err(|error| anyhow::anyhow!("{error}"))?;
    let slots = machine.slots.len();
    let shared = if machine.threads > 1 { 1_000_000 / machine.smt_share_permille.max(1) } else { 1000 };
    // Lowest CPU of the group of slots that a slot is in, for each division.
    let mut cpus: Vec<CpuSpec> = Vec::new();
    let mut first_of = std::collections::BTreeMap::new();
    for (slot, vcpu) in machine.slots.iter().enumerate() {
        let Some(vcpu) = vcpu else { continue };
        let cycle_ns = 1_000_000.0 / f64::from(vcpu.mips_milli);
        let ns = |penalty: Penalty| match penalty {
            Penalty::Cycles { milli } => f64::from(milli) / 1000.0 * cycle_ns,
            Penalty::Ns(ns) => f64::from(ns),
        };
        let stall_ns = |stall: Stall| ns(vcpu.penalties[stall as usize]);
        let cost = [cycle_ns, stall_ns(Stall::Branch), stall_ns(Stall::Mem)];
        let cost = cost.map(|ns| (ns * 1000.0).round().max(1.0) as u32);
        let mut first = |division: u8, group: usize| *first_of.entry((division, group)).or_insert(cpus.len());
        let core = first(0, slot / machine.threads);
        let llc = first(1, slot * machine.llcs.len() / slots);
        let alone = machine.threads == 1
            || machine.slots[slot / machine.threads * machine.threads..][..machine.threads]
                .iter()
                .flatten()
                .count()
                == 1;
        cpus.push(spec(
            cost,
            [if alone { 1000 } else { shared }; 3],
            core,
            llc,
            slot * machine.nodes / slots,
        ));
    }
    Ok(cpus)
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
