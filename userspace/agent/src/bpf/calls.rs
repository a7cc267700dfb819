// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The running kernel side as recalibration and swaps need it: snapshots of the fields that CPUs
//! publish, and the programs that the agent calls (`bpf/table.bpf.h`, `bpf/swap.bpf.h`). One of
//! them replaces the capacity table in one step while the kernel side reads it.
//!
//! # Limits
//!
//! A CPU writes its fields while they are read, so that a snapshot may be one event old. The query
//! of a task that follows detects that.

use std::sync::atomic::{Ordering, fence};

use anyhow::{Context, Result, bail, ensure};
use bias_policy::cpuset::CpuSet;
use bias_policy::ffi;
use bias_policy::swap::Resident;
use bias_policy::table::CapacityTable;
use libbpf_rs::{ProgramInput, ProgramMut};
use nix::errno::Errno;
use nix::sched::sched_getcpu;

use crate::affinity;
use crate::bpf::attach::Attached;
use crate::bpf::prepare::{COPIES, write_costs};
use crate::bpf::skel::RUN_BUSY;
use crate::recal::CpuReading;
use crate::swaps::{Refusal, SwapBackend, SwapRequest, Task};

impl Attached<'_> {
    /// Read the state of every CPU for recalibration.
    pub(crate) fn readings(&self) -> Vec<CpuReading> {
        let Some(bss) = self.skel.maps.bss_data.as_deref() else { return Vec::new() };
        // This thread usually runs on a CPU that is idle otherwise, and must not make it look busy.
        let here = sched_getcpu().ok().and_then(|cpu| u32::try_from(cpu).ok());
        let cpus = bss.cpu_ctxs.iter().zip(&bss.cpu_info).take(self.nr_cpus);
        let readings = (0u32..).zip(cpus).filter(|(_, (_, info))| info.known != 0);
        readings
            .map(|(cpu, (cctx, info))| CpuReading {
                cpu,
                cycles: cctx.seen_cycles,
                counted_ns: cctx.seen_ns,
                ran_ns: cctx.stats[ffi::BIAS_STAT_RUN_FAST_NS as usize]
                    .wrapping_add(cctx.stats[ffi::BIAS_STAT_RUN_SLOW_NS as usize]),
                busy: cctx.run_flags & RUN_BUSY != 0 && here != Some(cpu),
                counted: info.counters != 0,
                onlined: cctx.onlined,
            })
            .collect()
    }

    /// Describe CPUs that the kernel side did not know. Their counters are opened as if the CPUs
    /// had just come online.
    fn introduce(&mut self, table: &CapacityTable) {
        let Some(bss) = self.skel.maps.bss_data.as_deref_mut() else { return };
        for entry in &table.cpus {
            let at = entry.cpu as usize;
            let cpu = bss.cpu_info.get_mut(at).zip(bss.cpu_ctxs.get(at)).zip(self.onlined.get_mut(at));
            if let Some(((info, cctx), seen)) = cpu.filter(|((info, _), _)| info.known == 0) {
                (info.known, info.node) = (1, entry.node);
                *seen = cctx.onlined.wrapping_sub(1);
            }
        }
    }

    /// Put a table in force.
    ///
    /// # Errors
    /// Fail with the reason. The old table then remains in force.
    pub(crate) fn publish(&mut self, table: &CapacityTable) -> Result<()> {
        let bss = self.skel.maps.bss_data.as_deref_mut().context("the BPF object lacks a data section")?;
        let copy = bss.table_seq.wrapping_add(1) as usize % COPIES;
        write_costs(bss, copy, table);
        // The kernel side reads the copy in the system call that follows, and on other CPUs after
        // that.
        fence(Ordering::SeqCst);
        let program = &self.skel.progs.bias_table_replace;
        let output = program.test_run(ProgramInput::default()).context("bias_table_replace does not run")?;
        ensure!(output.return_value == 0, "bias_table_replace ended with {}", output.return_value);
        self.introduce(table);
        Ok(())
    }
}

impl SwapBackend for Attached<'_> {
    fn residents(&self, residents: &mut Vec<Resident>) {
        residents.clear();
        let Some(bss) = self.bss() else { return };
        // On the CPU of this thread, the agent has preempted the resident task, so that RUN_BUSY
        // may be clear.
        let here = sched_getcpu().unwrap_or(usize::MAX);
        for (at, (cctx, info)) in bss.cpu_ctxs.iter().zip(&bss.cpu_info).enumerate().take(self.nr_cpus) {
            let is_resident = cctx.run_flags & RUN_BUSY != 0 || at == here;
            let since_ns = bss.llc_ctxs.get(info.llc as usize).map_or(0, |llc| llc.waiting_since_ns);
            residents.push(Resident {
                cpu: at as u32,
                pid: if is_resident { u32::try_from(cctx.resident_pid).unwrap_or(0) } else { 0 },
                speedup_permille: cctx.resident_speedup,
                waiting_since_ns: since_ns,
            });
        }
    }

    fn query(&self, pid: u32) -> Result<Option<Task>> {
        let mut query = ffi::bias_task_state { pid, ..ffi::bias_task_state::default() };
        let answer = call(&self.skel.progs.bias_task_query, &mut query).context("cannot query a task")?;
        match Errno::from_raw(answer.wrapping_neg()) {
            _ if answer == 0 => Ok(Some(Task::new(&query, affinity_of))),
            Errno::ESRCH | Errno::ENOENT => Ok(None),
            other => bail!("cannot query a task ({other})"),
        }
    }

    fn ask(&self, request: &SwapRequest) -> Result<Result<(), Refusal>> {
        let mut raw = ffi::bias_swap_request {
            up_start_ns: request.up.start_ns,
            down_start_ns: request.down.start_ns,
            up_pid: request.up.pid,
            up_cpu: request.up.cpu,
            down_pid: request.down.pid,
            down_cpu: request.down.cpu,
        };
        let answer = call(&self.skel.progs.bias_swap_ask, &mut raw).context("cannot request a swap")?;
        Ok(Refusal::of(answer as u32).map_or(Ok(()), Err))
    }
}

/// Return the CPUs that a task may use. A task that has ended may use none, and is not swapped.
fn affinity_of(pid: u32) -> CpuSet {
    let tid = i32::try_from(pid).unwrap_or(-1);
    affinity::allowed_to_thread(tid).unwrap_or_default().into_iter().collect()
}

/// Structure without padding that consists of integers only: any bytes are valid, and all are
/// initialised.
trait Plain {}
impl Plain for ffi::bias_task_state {}
impl Plain for ffi::bias_swap_request {}

/// Run a program with `context`, which the program may change. Return the program's result.
fn call<T: Plain>(program: &ProgramMut<'_>, context: &mut T) -> libbpf_rs::Result<i32> {
    // SAFETY: the bytes of a plain structure are all initialised, and any bytes that the kernel
    // writes are valid. The slice ends before the borrow does.
    let bytes =
        unsafe { std::slice::from_raw_parts_mut(std::ptr::from_mut(context).cast::<u8>(), size_of::<T>()) };
    let input = ProgramInput { context_in: Some(bytes), ..ProgramInput::default() };
    program.test_run(input).map(|output| output.return_value as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_for_the_kernel_side_have_no_padding() {
        assert_eq!(size_of::<ffi::bias_swap_request>(), 2 * 8 + 4 * 4);
        assert_eq!(size_of::<ffi::bias_work>(), 2 * 2 * 8);
        let work = size_of::<ffi::bias_work>() + size_of::<ffi::bias_profile>();
        assert_eq!(size_of::<ffi::bias_task_state>(), 3 * 8 + work + 4 * 4 + 16 + 4);
    }
}
