// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Open the BPF object, load it and attach it.

use std::mem::MaybeUninit;

use anyhow::{Result, anyhow};
use bias_policy::table::CapacityTable;
use libbpf_rs::{Link, MapCore as _, MapFlags, OpenObject};
// The scx macros expand to paths through this name.
use scx_utils::{scx_ops_attach, scx_ops_load, scx_ops_open};
use tracing::{info, warn};

use crate::bpf::cgroup_events::{self, CgroupEvents, CgroupMap};
use crate::bpf::counting;
use crate::bpf::exit::{ExitReport, Uei};
use crate::bpf::load_log::{self, explain};
use crate::bpf::prepare;
use crate::bpf::skel::{BpfSkel, BpfSkelBuilder, types};
use crate::bpf::stats::Stats;
use crate::bpf::task_report::{Reports, TaskReport};
use crate::options::RunOptions;
use crate::pmu::{Counters, CpuSummary};
use crate::topology::Topology;
use serde::{Deserialize, Serialize};

/// State of one CPU's counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuCounters {
    /// Events that could be opened, and the reason why others could not.
    #[serde(flatten)]
    pub summary: CpuSummary,
    /// True if tasks are counted on this CPU.
    pub counted: bool,
}

/// Fields of the kernel side from which the thresholds are derived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Band {
    /// Average speedup [permille] with `BIAS_AVERAGE_PLACES` binary places, 0 while there is none.
    pub average: u32,
    pub(crate) low: u32,
    pub(crate) high: u32,
}

/// The attached scheduler. Dropping it detaches the scheduler.
pub(crate) struct Attached<'object> {
    pub(crate) skel: BpfSkel<'object>,
    link: Option<Link>,
    /// Number of CPUs in use: the highest possible CPU plus one.
    pub(crate) nr_cpus: usize,
    /// Counters of all CPUs. They stay open because the kernel side reads them.
    counters: Counters,
    /// For each CPU, how often it had come online when its counters were opened.
    pub(crate) onlined: Vec<u32>,
    /// Iterator over tasks, or the reason for its absence. The scheduler works without it.
    reports: Result<Reports>,
    /// Links of the programs that send events of opted-in cgroups.
    event_links: Vec<Link>,
}

impl<'object> Attached<'object> {
    /// Load and attach the scheduler with `options` and `table`. The kernel side reads `counters`.
    pub(crate) fn attach(
        object: &'object mut MaybeUninit<OpenObject>,
        options: &RunOptions,
        table: &CapacityTable,
        counters: Counters,
    ) -> Result<Self> {
        let topology = Topology::read()?;
        let nr_cpus = topology.possible.iter().max().map_or(1, |cpu| *cpu as usize + 1);
        load_log::collect(options.verbose);
        let builder = BpfSkelBuilder::default();
        let mut open = scx_ops_open!(builder, object, bias_ops, None).map_err(|error| explain(&error))?;
        let model = options.model.as_ref();
        prepare::all(&mut open, options, table, counting::any(&counters, model), nr_cpus)?;
        let mut skel = scx_ops_load!(open, bias_ops, uei).map_err(|error| explain(&error))?;
        if options.verbose {
            load_log::log_verified();
        }
        if let Some(bss) = skel.maps.bss_data.as_deref_mut() {
            counting::hand_over(&skel.maps.events, &mut bss.cpu_info[..nr_cpus], &counters, model);
        }
        let link = scx_ops_attach!(skel, bias_ops).map_err(|error| explain(&error))?;
        let reports = Reports::attach(&skel.progs.bias_report_tasks);
        Ok(Self {
            skel,
            link: Some(link),
            nr_cpus,
            counters,
            onlined: vec![0; nr_cpus],
            reports,
            event_links: Vec::new(),
        })
    }

    /// Reopen the counters of CPUs of `table` that came online since the last call. The kernel
    /// closed the old ones when the CPUs went offline.
    pub(crate) fn follow_hotplug(&mut self, options: &RunOptions, table: &CapacityTable) {
        let Some(bss) = self.skel.maps.bss_data.as_deref_mut() else { return };
        let mut back = Vec::new();
        for (cpu, (seen, cctx)) in (0u32..).zip(self.onlined.iter_mut().zip(bss.cpu_ctxs.iter())) {
            if *seen != cctx.onlined {
                *seen = cctx.onlined;
                // A CPU that is not in the table has no costs, so its cycles cannot be interpreted.
                back.extend(table.get(cpu).map(|entry| entry.cpu));
            }
        }
        if back.is_empty() {
            return;
        }
        info!("CPUs {back:?} came online: opening their counters again");
        match Topology::read() {
            Ok(topology) => self.counters.reopen(&back, &topology, &options.counting()),
            Err(error) => warn!("the counters stay closed: {error}"),
        }
        for cpu in back {
            if let Some(info) = bss.cpu_info.get_mut(cpu as usize) {
                counting::hand_over_one(
                    &self.skel.maps.events,
                    cpu,
                    info,
                    &self.counters,
                    options.model.as_ref(),
                );
            }
        }
    }

    /// Let the kernel side send events of opted-in cgroups.
    ///
    /// # Errors
    /// Fail with the reason why it cannot. The agent must then scan more often.
    pub(crate) fn events(&mut self) -> Result<CgroupEvents> {
        cgroup_events::require()?;
        let (maps, progs) = (&self.skel.maps, &self.skel.progs);
        let events = CgroupEvents::listen(&maps.optin_cgroups, &maps.optin_events)?;
        for program in [&progs.bias_optin_move, &progs.bias_optin_fork] {
            self.event_links.push(program.attach()?);
        }
        Ok(events)
    }

    /// Return the map of cgroups in which tasks have a bias.
    ///
    /// # Errors
    /// Fail when the map cannot be opened.
    pub(crate) fn cgroups(&self) -> Result<CgroupMap> {
        CgroupMap::open(&self.skel.maps.optin_cgroups)
    }

    /// Make the kernel side read that map again.
    pub(crate) fn cgroups_changed(&mut self) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.cgroups_epoch = bss.cgroups_epoch.wrapping_add(1);
        }
    }

    /// Let the kernel side read the hints of process `pid` at this address, or none.
    ///
    /// # Errors
    /// Fail when the kernel refuses, such as for lack of memory.
    pub(crate) fn hint_table(&mut self, pid: u32, address: Option<u64>) -> Result<()> {
        let (tables, key) = (&self.skel.maps.hint_tables, pid.to_ne_bytes());
        match address {
            Some(address) => tables.update(&key, &address.to_ne_bytes(), MapFlags::ANY)?,
            None => tables.delete(&key)?,
        }
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.hints_epoch = bss.hints_epoch.wrapping_add(1).max(1);
        }
        Ok(())
    }

    /// Return the number of events lost since the start.
    pub(crate) fn events_lost(&self) -> u64 {
        self.skel.maps.bss_data.as_deref().map_or(0, |bss| bss.optin_lost)
    }

    /// Write the knobs of `options` to the kernel side.
    pub(crate) fn write_knobs(&mut self, options: &RunOptions) {
        if let Some(data) = self.skel.maps.data_knobs_data.as_deref_mut() {
            prepare::write_knobs(data, options);
        }
    }

    /// Return the memory that the kernel side and this process share.
    pub(crate) fn bss(&self) -> Option<&types::bss> {
        self.skel.maps.bss_data.as_deref()
    }

    /// Return true if the counters of some CPU are in use.
    pub(crate) fn counts(&self) -> bool {
        self.bss().is_some_and(|bss| bss.cpu_info.iter().any(|info| info.counters != 0))
    }

    /// Return true if the kernel has ended the scheduler.
    pub(crate) fn has_ended(&self) -> bool {
        self.uei().is_some_and(|uei| uei.has_ended())
    }

    /// Return the statistics since the start.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        if let Some(bss) = self.skel.maps.bss_data.as_deref() {
            for cpu in bss.cpu_ctxs.iter().take(self.nr_cpus) {
                stats.add(&cpu.stats);
            }
        }
        stats
    }

    /// Return the average speedup and the thresholds around it.
    pub(crate) fn band(&self) -> Band {
        let data = self.skel.maps.data_data.as_deref();
        self.skel.maps.bss_data.as_deref().map_or_else(Band::default, |bss| Band {
            average: bss.average_speedup,
            low: bss.band_low,
            high: data.map_or(u32::MAX, |data| data.band_high),
        })
    }

    /// Return a summary of each CPU's counters, and whether they are in use.
    pub(crate) fn counters(&self) -> Vec<CpuCounters> {
        let info = self.skel.maps.bss_data.as_deref().map(|bss| &bss.cpu_info);
        let counted =
            |cpu: u32| info.and_then(|info| info.get(cpu as usize)).is_some_and(|cpu| cpu.counters != 0);
        let summaries = self.counters.summary().into_iter();
        summaries.map(|summary| CpuCounters { counted: counted(summary.cpu), summary }).collect()
    }

    /// Return a report of each task that has run, or has run since the report with the number
    /// `since`, and the number of this report. The number of another run means all tasks if this
    /// run has not reached it.
    ///
    /// # Errors
    /// Fail when the kernel has no iterator over tasks, or stops it.
    pub(crate) fn tasks(&mut self, since: Option<u32>) -> Result<(u32, Vec<TaskReport>)> {
        let reports = self.reports.as_ref().map_err(|error| anyhow!("{error:#}"))?;
        let mut number = 0;
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.reports_since = since.filter(|since| *since <= bss.reports_epoch).unwrap_or(0);
            bss.reports_epoch = bss.reports_epoch.wrapping_add(1);
            number = bss.reports_epoch;
        }
        Ok((number, reports.read()?))
    }

    /// Detach the scheduler and return the report of its end.
    pub(crate) fn detach(&mut self) -> ExitReport {
        drop(self.link.take());
        self.uei().map_or_else(ExitReport::default, |uei| uei.report())
    }

    fn uei(&self) -> Option<Uei<'_>> {
        self.skel.maps.data_data.as_deref().map(|data| Uei(&data.uei))
    }
}
