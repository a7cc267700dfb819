// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The kernel side as swaps need it: a snapshot of the fields that CPUs publish, and the two
//! programs of `bpf/swap.bpf.h`.
//!
//! # Limits
//!
//! A CPU writes its fields while they are read, so that a snapshot may be one event old. The query
//! that follows detects that.

use anyhow::{Context, Result, bail};
use bias_policy::cpuset::CpuSet;
use bias_policy::ffi;
use bias_policy::swap::Resident;
use libbpf_rs::{ProgramInput, ProgramMut};
use nix::errno::Errno;
use nix::sched::sched_getcpu;

use crate::affinity;
use crate::bpf::attach::Attached;
use crate::skel::RUN_BUSY;
use crate::swaps::{Refusal, SwapBackend, SwapRequest, Task};

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
        let answer = call(&self.skel.progs.bias_task_query, &mut query).context("cannot look at a task")?;
        match Errno::from_raw(answer.wrapping_neg()) {
            _ if answer == 0 => Ok(Some(Task::new(&query, affinity_of))),
            Errno::ESRCH | Errno::ENOENT => Ok(None),
            other => bail!("cannot look at a task ({other})"),
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
        let answer = call(&self.skel.progs.bias_swap_ask, &mut raw).context("cannot ask for a swap")?;
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
    fn what_is_handed_over_has_no_padding() {
        assert_eq!(size_of::<ffi::bias_swap_request>(), 2 * 8 + 4 * 4);
        assert_eq!(size_of::<ffi::bias_work>(), 2 * 2 * 8);
        let work = size_of::<ffi::bias_work>() + size_of::<ffi::bias_profile>();
        assert_eq!(size_of::<ffi::bias_task_state>(), 3 * 8 + work + 4 * 4 + 16 + 4);
    }
}
