// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A mix whose tasks have their memory spread over all NUMA nodes, e.g.
//! `interleaved+2compute+2chase`.
//!
//! # Problem
//! A task that leaves the node of its memory loses. Whether a scheduler may move it for speed
//! depends on where its pages are ([Koufaty10], slide 16).
//!
//! # Approach
//! The tasks start under the memory policy `MPOL_INTERLEAVE` over all online nodes, which they
//! inherit. Everything else is as in a plain mix.
//!
//! # Limits
//! On a machine of one node this is a plain mix. A kernel without NUMA refuses the policy.

use super::{Description, Env, Measured, Workload, mix};
use crate::spec::{CpuList, Mix, WorkKind};
use crate::{Error, Result};
use nix::libc;

/// Entry of this workload in [`super::list`].
pub const DESCRIPTION: Description = Description {
    name: "interleaved",
    syntax: "interleaved+TASKS",
    measures: "batch tasks as in a mix, with their memory spread over all NUMA nodes: no node is nearer to it than another",
    ..mix::DESCRIPTION
};

/// Pages are spread over nodes (`linux/mempolicy.h`).
const MPOL_INTERLEAVE: libc::c_long = 3;
/// The kernel's default.
const MPOL_DEFAULT: libc::c_long = 0;

/// The workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Interleaved {
    batch: Mix,
}

impl Interleaved {
    /// Parse the text after the name.
    pub(super) fn parse(rest: &str) -> std::result::Result<Self, String> {
        let tasks = rest.strip_prefix('+');
        let tasks = tasks
            .ok_or_else(|| format!("'interleaved{rest}' is not a workload; write {}", DESCRIPTION.syntax))?;
        Ok(Interleaved { batch: tasks.parse()? })
    }
}

impl Workload for Interleaved {
    fn name(&self) -> String {
        format!("interleaved+{}", self.batch)
    }

    fn kinds(&self) -> Vec<WorkKind> {
        self.batch.kinds()
    }

    fn batch(&self) -> Option<&Mix> {
        Some(&self.batch)
    }

    fn run(&self, env: &Env) -> Result<Measured> {
        let kinds = self.batch.tasks();
        set_policy(MPOL_INTERLEAVE, node_mask())?;
        let group = mix::start(&kinds, env);
        set_policy(MPOL_DEFAULT, 0)?;
        let window = group?.measure(env.warmup, mix::whole_periods(env.window, &kinds))?;
        mix::figures(&kinds, &window, env.solo)
    }
}

/// Return a bit for each of the first 64 nodes that has memory, or for node 0 if sysfs names none.
fn node_mask() -> u64 {
    let text = std::fs::read_to_string("/sys/devices/system/node/has_memory").unwrap_or_default();
    let nodes = text.trim().parse::<CpuList>().map(|list| list.0).unwrap_or_default();
    nodes.into_iter().filter(|node| *node < 64).fold(0, |mask, node| mask | 1 << node).max(1)
}

/// Set the memory policy of this thread, which its children inherit. `nodes` has a bit for each of
/// the first 64 nodes.
fn set_policy(policy: libc::c_long, nodes: u64) -> Result<()> {
    let mask = [nodes, 0];
    let bits = if nodes == 0 { 0 } else { libc::c_ulong::from(u64::BITS + 1) };
    let pointer = if nodes == 0 { std::ptr::null() } else { mask.as_ptr() };
    // SAFETY: the mask outlives the call, and the kernel reads fewer bits than it has.
    let code = unsafe { libc::syscall(libc::SYS_set_mempolicy, policy, pointer, bits) };
    match code {
        0 => Ok(()),
        _ => Err(Error::failed("setting the memory policy", std::io::Error::last_os_error())),
    }
}
