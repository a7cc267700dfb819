//! Load the kernel side, attach it, and watch it until it ends.
//!
//! # Problem
//!
//! The scheduler runs in the kernel and must survive faults of this process. This process may
//! neither leave a half-written machine description behind nor keep tasks from running.
//!
//! # Approach
//!
//! [`load`] writes all data that the kernel side needs before it attaches the scheduler. Afterwards
//! the main thread only waits: for signals, for requests ([`server`]), for events, and for the end
//! of the scheduler. The attachment belongs to this process. When the process dies, for any reason,
//! the kernel returns all tasks to the default scheduler.
//!
//! # Limits
//!
//! The kernel side handles a change of the online CPUs in place. A CPU that is not in the table
//! counts as fast until the agent measures it ([`crate::recal`]).

mod chosen;
mod counting;
mod desk;
mod exit;
mod follow;
mod hints;
mod inputs;
pub mod knobs;
mod limit;
mod load;
mod log;
mod options;
mod printing;
pub mod privilege;
mod programs;
mod protocol;
mod publish;
pub mod reload;
mod reply;
mod report;
mod running;
mod seats;
mod server;
mod service;
mod signals;
mod skel;
mod socket;
mod stats;
mod status;
mod table;

use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use crossbeam::channel::never;
use tracing::{info, warn};

pub use exit::ExitReport;
pub use options::RunOptions;
pub use reload::{Config, ReloadReport};
pub use reply::Reply;
pub use report::{Bias, Reason, Stack, TaskReport};
pub use stats::{Monitor, Stats, monitor};
pub use status::{CpuClass, CpuCounters, Machine, Scope, StatusReport, Thresholds};

use crate::capacity::Capacity;
use crate::costs::Live;
use crate::failure::{Exit, Failure};
use crate::optin::OptIn;
use crate::optin::journal::{self, Store};
use crate::optin::quota::Quotas;
use crate::optin::system::Linux;
use crate::pmu::Counters;
use crate::recal::thermal::Listener;
use crate::recal::{self, Recalibrator};
use crate::swaps::{RtGuard, Swaps};
use crate::topology::Topology;
use chosen::Chosen;
use inputs::{Inputs, POLL};
use load::Loaded;
use printing::Printing;
use running::Running;
use server::Server;
use service::Manager;
use signals::Signals;

/// Load the scheduler with this table and these counters, and block until a signal stops it or
/// the kernel ends it. A reload of `config`, by request or by SIGHUP, changes `options`.
///
/// First restore the policies that a killed scx_bias has changed. With opted-in cgroups, also
/// restore at the end the policies that this run has changed.
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
    config: &dyn Config,
) -> Result<ExitReport> {
    refuse_if_active()?;
    let mut optin = opt_in(if options.schedules_everything() { &[] } else { &options.cgroups })?;
    if options.schedules_everything()
        && let Some((found, remedy)) = Quotas::unenforced(Path::new("/")).note()
    {
        warn!("{found}; {remedy}");
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

/// Restore the policies that a killed scx_bias has changed, and opt these cgroups in. Return None
/// if there are no cgroups, which means that the whole system is scheduled.
fn opt_in(cgroups: &[PathBuf]) -> Result<Option<OptIn<Linux>>, Failure> {
    let directory = Path::new(journal::DIRECTORY);
    if cgroups.is_empty() && !Store::exists(directory) {
        return Ok(None);
    }
    let system = Linux::new(PathBuf::from("/"));
    let store = Store::open(directory, &system.boot())?;
    let mut optin = OptIn::start(system, store, cgroups)?;
    if cgroups.is_empty() {
        optin.finish();
        return Ok(None);
    }
    Ok(Some(optin))
}

fn run_once(
    options: &mut RunOptions,
    capacity: &Capacity,
    counters: Counters,
    config: &dyn Config,
    signals: &mut Signals,
    optin: Option<&mut OptIn<Linux>>,
) -> Result<ExitReport> {
    let mut object = MaybeUninit::uninit();
    let mut loaded = Loaded::attach(&mut object, options, &capacity.table, counters)?;
    // Threads inherit the capabilities of the thread that starts them. Start none before this
    // point.
    if let Err(error) = privilege::give_up() {
        warn!("capabilities that are not needed any more are kept: {error:#}");
    }
    let signals = signals.listen()?;
    let scope = Chosen::start(optin, options, &mut loaded)?;
    let live = Live::new(capacity.table.clone());
    let swaps = Swaps::new(&live, loaded.counts(), &options.swaps);
    let references = recal::references(&capacity.file);
    let mut recal = Recalibrator::start(&capacity.table, references, options.recalibrate);
    let listener = listen(&mut recal);
    let server = Server::launch(None);
    if let Err(error) = &server {
        warn!("status and commands are not available: {error:#}");
    }
    let mut inputs = Inputs {
        signals,
        questions: server.as_ref().map_or_else(|_| never(), |server| server.questions().clone()),
        bell: scope.bell(),
        thermal: listener.as_ref().map_or_else(never, |listener| listener.events().clone()),
    };
    let running = Running {
        chosen: scope,
        loaded,
        options,
        config,
        manager: Manager::new(),
        live,
        rt_guard: RtGuard::new(swaps.are_planned()),
        swaps,
        recal,
        started: Instant::now(),
        quiet: POLL,
        printing: Printing::new(),
    };
    running.watch(&mut inputs, server.ok().as_ref())
}

/// Open a listener for the kernel's thermal events if recalibration is on. Return None if that
/// fails.
fn listen(recal: &mut Recalibrator) -> Option<Listener> {
    let listener = recal.is_on().then(Listener::open)?;
    listener.map_err(|error| recal.note_no_events(&error)).ok()
}

/// Directory in which the kernel reports the state of sched_ext.
const SCHED_EXT: &str = "/sys/kernel/sched_ext";

/// Return the name of the active sched_ext scheduler, None if none is active.
pub(crate) fn active() -> Option<String> {
    let directory = Path::new(SCHED_EXT);
    let state = std::fs::read_to_string(directory.join("state")).ok()?;
    let name = || std::fs::read_to_string(directory.join("root/ops")).unwrap_or_default();
    (state.trim() != "disabled").then(|| name().trim().to_owned())
}

fn refuse_if_active() -> Result<(), Failure> {
    if !Path::new(SCHED_EXT).join("state").exists() {
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
