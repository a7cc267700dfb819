// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Replacement of the capacity table in one step while the kernel side reads it
//! (`bpf/table.bpf.h`), and the state of the CPUs for recalibration.

use std::sync::atomic::{Ordering, fence};

use anyhow::{Context, Result, ensure};
use bias_policy::ffi;
use bias_policy::table::CapacityTable;
use libbpf_rs::ProgramInput;

use crate::bpf::attach::Attached;
use crate::bpf::cost_table::{COPIES, write};
use crate::recal::CpuReading;
use crate::skel::RUN_BUSY;

impl Attached<'_> {
    /// Read the state of every CPU for recalibration.
    pub(crate) fn readings(&self) -> Vec<CpuReading> {
        let Some(bss) = self.skel.maps.bss_data.as_deref() else { return Vec::new() };
        // This thread usually runs on a CPU that is idle otherwise, and must not make it look busy.
        let here = nix::sched::sched_getcpu().ok().and_then(|cpu| u32::try_from(cpu).ok());
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
        write(bss, copy, table);
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
