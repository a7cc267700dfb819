// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Load the kernel side, attach it, and watch it until it ends.
//!
//! # Problem
//!
//! The scheduler runs in the kernel and must survive faults of this process. This process may
//! neither leave a half-written machine description behind nor keep tasks from running.
//!
//! # Approach
//!
//! [`crate::bpf::attach`] writes all data that the kernel side needs before it attaches the
//! scheduler. Afterwards the main thread only waits: for signals, for requests
//! ([`crate::control::server`]), for events, and for the end of the scheduler. The attachment
//! belongs to this process. When the process dies, for any reason, the kernel returns all tasks to
//! the default scheduler.
//!
//! # Limits
//!
//! The kernel side handles a change of the online CPUs in place. A CPU that is not in the table
//! counts as fast until the agent measures it ([`crate::recal`]).

mod event_loop;
mod outputs;
pub mod privileges;
mod scope;
mod sources;

use std::mem::MaybeUninit;
use std::path::Path;

use anyhow::Result;
use crossbeam::channel::never;
use tracing::{info, warn};

use crate::boot_time;
use crate::bpf::{self, Attached, ExitReport, active};
use crate::capacity::Capacity;
use crate::control::Server;
use crate::costs::Live;
use crate::failure::{Exit, Failure};
use crate::housekeeping::{self, Housekeeper};
use crate::marks::MarkServer;
use crate::optin::system::Linux;
use crate::optin::{self, OptIn};
use crate::options::{Config, RunOptions};
use crate::pmu::Counters;
use crate::recal::thermal::Listener;
use crate::recal::{self, Recalibrator};
use crate::swaps::{RtGuard, Swaps};
use crate::topology::Topology;
use event_loop::Daemon;
use outputs::{Manager, Printing};
use scope::CgroupScope;
use sources::{POLL, Signals, Sources};

/// Load the scheduler with this table and these counters, and block until a signal stops it or
/// the kernel ends it. A reload of `config`, by request or by SIGHUP, changes `options`.
///
/// First restore the policies and affinities that a killed scx_bias has changed. At the end restore
/// those that this run has changed.
///
/// When the kernel asks for a restart, load the scheduler again, with the counters of the CPUs that
/// are online then. The kernel asks for one when CPUs change while the scheduler is being loaded.
///
/// # Errors
/// * [`Exit::OtherScheduler`]: a sched_ext scheduler is active.
/// * [`Exit::Kernel`]: sched_ext or a capability is missing.
/// * [`Exit::Runtime`]: the kernel refuses the scheduler.
/// * [`Exit::Ejected`]: the kernel ends the scheduler.
pub fn run(
    mut options: RunOptions,
    capacity: &Capacity,
    mut counters: Counters,
    config: &Config<'_>,
) -> Result<ExitReport> {
    refuse_if_active()?;
    housekeeping::restore()?;
    let mut optin = opt_in(&options)?;
    if matches!(scx_utils::compat::struct_has_field("task_group", "cfs_bandwidth"), Ok(false)) {
        warn!("cpu.max does not hold: scx_bias enforces it on kernels with CONFIG_CFS_BANDWIDTH=y");
    }
    let mut signals = Signals::catch()?;
    loop {
        let report = run_once(&mut options, capacity, counters, config, &mut signals, optin.as_mut())?;
        if !report.restart {
            return Ok(report);
        }
        info!("the kernel asked for a restart: {}", report.text());
        let topology = Topology::read()?;
        counters = Counters::open(&topology, &options.counting());
        counters.probe_at_start(&[], topology.llc_bytes);
    }
}

/// Restore the policies that a killed scx_bias has changed, and opt the cgroups in. Return None if
/// the whole system is scheduled.
fn opt_in(options: &RunOptions) -> Result<Option<OptIn<Linux>>, Failure> {
    if !options.schedules_everything() {
        return OptIn::on_this_machine(&options.cgroups).map(Some);
    }
    match optin::restore() {
        Err(failure) if failure.exit != Exit::Runtime => Err(failure),
        // The log shows what could not be restored. Its record stays for the next start.
        _ => Ok(None),
    }
}

fn run_once(
    options: &mut RunOptions,
    capacity: &Capacity,
    counters: Counters,
    config: &Config<'_>,
    signals: &mut Signals,
    optin: Option<&mut OptIn<Linux>>,
) -> Result<ExitReport> {
    let mut object = MaybeUninit::uninit();
    let mut attached = Attached::attach(&mut object, options, &capacity.table, counters)?;
    // Threads inherit the capabilities of the thread that starts them. Start none before this
    // point.
    if let Err(error) = privileges::give_up() {
        warn!("cannot drop all unneeded capabilities: {error:#}");
    }
    let signals = signals.listen()?;
    let scope = CgroupScope::start(optin, options, &mut attached)?;
    let housekeeper =
        options.housekeeping.map(|choice| Housekeeper::start(choice, &capacity.table, scope.cgroups()));
    let housekeeper = housekeeper.transpose()?;
    let live = Live::new(capacity.table.clone());
    let swaps = Swaps::new(&live, attached.counts(), &options.swaps());
    let references = recal::references(&capacity.file);
    let mut recal = Recalibrator::start(&capacity.table, references, !options.no_recalibrate);
    let listener = listen(&mut recal);
    let server = Server::launch(None);
    if let Err(error) = &server {
        warn!("status and commands are not available: {error:#}");
    }
    let marked = MarkServer::launch(None);
    if let Err(error) = &marked {
        warn!("marked programs cannot announce sections: {error:#}");
    }
    let mut sources = Sources {
        signals,
        requests: server.as_ref().map_or_else(|_| never(), |server| server.requests().clone()),
        notify: scope.notify(),
        marks: marked.as_ref().map_or_else(|_| never(), |server| server.events().clone()),
        thermal: listener.as_ref().map_or_else(never, |listener| listener.events().clone()),
    };
    let running = Daemon {
        chosen: scope,
        housekeeper,
        attached,
        options,
        config,
        manager: Manager::new(),
        live,
        rt_guard: RtGuard::new(swaps.are_planned()),
        swaps,
        recal,
        started_ms: boot_time::now_ms(),
        quiet: POLL,
        printing: Printing::new(),
    };
    running.watch(&mut sources, server.ok().as_ref())
}

/// Open a listener for the kernel's thermal events if recalibration is on. Return None if that
/// fails.
fn listen(recal: &mut Recalibrator) -> Option<Listener> {
    let listener = recal.is_on().then(Listener::open)?;
    listener.map_err(|error| recal.note_no_events(&error)).ok()
}

fn refuse_if_active() -> Result<(), Failure> {
    if !Path::new(bpf::SCHED_EXT).join("state").exists() {
        return Err(Failure::kernel(
            "this kernel has no sched_ext; boot one built with CONFIG_SCHED_CLASS_EXT (6.12 or later), see `scx_bias check`",
        ));
    }
    active().map_or(Ok(()), |name| {
        Err(Failure::new(
            Exit::OtherScheduler,
            format!("the sched_ext scheduler \"{name}\" is active; stop it first"),
        ))
    })
}

#[cfg(test)]
mod costs_tests;
