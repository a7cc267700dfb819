//! Loading the kernel side and staying with it until it ends.
//!
//! Problem. The scheduler lives in the kernel and must outlive mistakes here: whatever this process does, it may neither leave a half-told
//! machine description behind nor keep tasks from running.
//!
//! Approach. Everything the kernel side needs is written before it is attached, in [`load`]. Afterwards this process only
//! watches: for a signal, for the end of the scheduler, for questions ([`server`]). The attachment belongs to this process, so that the
//! kernel returns all tasks to the default scheduler when the process dies, however it dies.
//!
//! Limits. A change of the online CPUs is handled in place by the kernel side; CPUs that were not in the table count as
//! fast ones until they are measured ([`crate::recal`]).

mod chosen;
mod counting;
mod desk;
mod exit;
mod follow;
mod hints;
pub mod knobs;
mod limit;
mod load;
mod log;
mod options;
mod printing;
pub mod privilege;
mod programs;
pub mod reload;
mod reply;
mod report;
mod running;
mod seats;
mod server;
mod service;
mod signals;
mod socket;
mod stats;
mod status;
mod table;

use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use crossbeam::channel::{Receiver, never, select};
use nix::time::{ClockId, clock_gettime};
use tracing::{info, warn};

pub use exit::ExitReport;
pub use options::RunOptions;
pub use reload::{Config, ReloadReport};
pub use reply::Reply;
pub use report::{Kind, Reason, Stack, TaskReport};
pub use stats::{Monitor, Stats, monitor};
pub use status::{CpuClass, CpuCounters, Machine, Scope, StatusReport, Thresholds};

use crate::failure::{Exit, Failure};
use crate::optin::OptIn;
use crate::optin::journal::{self, Store};
use crate::optin::quota::Quotas;
use crate::optin::system::Linux;
use crate::pmu::Counters;
use crate::recal::Recalibrator;
use crate::recal::thermal::{Listener, News};
use crate::swaps::Swaps;
use crate::topology::Topology;
use chosen::Chosen;
use load::Loaded;
use running::Running;
use server::{Question, Server};
use signals::{Signal, Signals};

/// How often the end of the scheduler is looked for. Each look wakes this process, which displaces a task on a busy machine.
const POLL: Duration = Duration::from_millis(500);

/// Loads the scheduler with these counters and blocks until a signal asks it to go, or the kernel ends it. Where `config` is read again, on
/// request or SIGHUP, `options` change with it.
///
/// Whatever a scx_bias that was killed has left is given back first. With opted-in cgroups, so is at the end what this one switched.
///
/// When the kernel asks for a restart, as it does when CPUs change while the scheduler is being loaded, it is loaded again, with
/// the counters of the CPUs that are online then.
///
/// # Errors
/// [`Exit::OtherScheduler`] when a scheduler is active, [`Exit::Kernel`] when sched_ext or a right is missing,
/// [`Exit::Runtime`] when the kernel refuses the scheduler, [`Exit::Ejected`] when it ends it.
pub fn run(mut options: RunOptions, mut counters: Counters, config: &dyn Config) -> Result<ExitReport> {
    refuse_if_active()?;
    let mut optin = opt_in(if options.schedules_everything() { &[] } else { &options.cgroups })?;
    if options.schedules_everything()
        && let Some((found, remedy)) = Quotas::unenforced(Path::new("/")).note()
    {
        warn!("{found}; {remedy}");
    }
    let mut signals = Signals::catch()?;
    loop {
        let report = run_once(&mut options, counters, config, &mut signals, optin.as_mut())?;
        if !report.restart {
            return Ok(report);
        }
        info!("the kernel asked for a restart: {}", report.text());
        let topology = Topology::read()?;
        counters = Counters::open(&topology, &options.counting());
        counters.probe_at_start(&[], topology.llc_bytes);
    }
}

/// Gives back what was left, and opts these cgroups in; None if there are none, and everything is scheduled.
fn opt_in(cgroups: &[PathBuf]) -> Result<Option<OptIn<Linux>>, Failure> {
    let folder = Path::new(journal::FOLDER);
    if cgroups.is_empty() && !Store::exists(folder) {
        return Ok(None);
    }
    let system = Linux::new(PathBuf::from("/"));
    let store = Store::open(folder, &system.boot())?;
    let mut optin = OptIn::start(system, store, cgroups)?;
    if cgroups.is_empty() {
        optin.finish();
        return Ok(None);
    }
    Ok(Some(optin))
}

fn run_once(
    options: &mut RunOptions,
    counters: Counters,
    config: &dyn Config,
    signals: &mut Signals,
    optin: Option<&mut OptIn<Linux>>,
) -> Result<ExitReport> {
    let mut object = MaybeUninit::uninit();
    let mut loaded = Loaded::attach(&mut object, options, counters)?;
    // Threads have the rights of those that start them, so from here on there may be some.
    if let Err(error) = privilege::give_up() {
        warn!("rights that are not needed any more are kept: {error:#}");
    }
    let signals = signals.listen()?;
    let scope = Chosen::start(optin, options, &mut loaded)?;
    let swaps = Swaps::new(&options.table, loaded.counts(), &options.swaps);
    let mut recal = Recalibrator::start(&options.table, &options.references, options.recalibrate);
    let listener = listen(&mut recal);
    let server = Server::launch(None);
    if let Err(error) = &server {
        warn!("nobody can ask for the status, or command: {error:#}");
    }
    let mut inputs = Inputs {
        signals,
        questions: server.as_ref().map_or_else(|_| never(), |server| server.questions().clone()),
        bell: scope.bell(),
        news: listener.as_ref().map_or_else(never, |listener| listener.news().clone()),
    };
    let running = Running::new(loaded, options, config, scope, swaps, recal);
    running.watch(&mut inputs, server.ok().as_ref())
}

/// Listens to what the kernel announces of CPUs, if the table is followed and it announces anything.
fn listen(recal: &mut Recalibrator) -> Option<Listener> {
    let listener = recal.is_on().then(Listener::open)?;
    listener.map_err(|error| recal.hears_nothing(&error)).ok()
}

/// What the watching thread wakes up for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    Signal(Signal),
    Asked(Question),
    /// Something happens in an opted-in cgroup.
    Hinted,
    /// Something got hot, or cools.
    Heated(News),
    /// Nothing came for long enough.
    Quiet,
}

/// Where the watching thread hears from.
struct Inputs<'a> {
    signals: &'a mut Receiver<Signal>,
    questions: Receiver<Question>,
    bell: Receiver<()>,
    news: Receiver<News>,
}

impl Inputs<'_> {
    /// Waits for something to do, `patience` at most. Should a thread behind one of these end, it is made one that never has anything.
    fn wait(&mut self, patience: Duration) -> Event {
        select! {
            recv(self.signals) -> signal => signal.map_or_else(|_| {
                *self.signals = never();
                Event::Quiet
            }, Event::Signal),
            recv(self.bell) -> rang => rang.map_or_else(|_| {
                self.bell = never();
                Event::Quiet
            }, |()| Event::Hinted),
            recv(self.news) -> news => news.map_or_else(|_| {
                self.news = never();
                Event::Quiet
            }, Event::Heated),
            recv(self.questions) -> asked => asked.map_or_else(|_| {
                self.questions = never();
                Event::Quiet
            }, Event::Asked),
            default(patience) => Event::Quiet,
        }
    }
}

/// The kernel side's clock [ns]; 0 if there is none, which Linux does not know.
fn monotonic_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| Duration::from(now).as_nanos() as u64)
}

/// Where the kernel tells about sched_ext.
const SCHED_EXT: &str = "/sys/kernel/sched_ext";

/// Name of the sched_ext scheduler that is active; None when none is.
pub(crate) fn active() -> Option<String> {
    let folder = Path::new(SCHED_EXT);
    let state = std::fs::read_to_string(folder.join("state")).ok()?;
    let name = || std::fs::read_to_string(folder.join("root/ops")).unwrap_or_default();
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

/// What is scheduled, on what.
fn describe(options: &RunOptions) -> String {
    let cpus = &options.table.cpus;
    let slow = cpus.iter().filter(|cpu| cpu.class == bias_policy::table::Class::Slow).count();
    let fast = cpus.len() - slow;
    let machine = match slow {
        0 => format!("{fast} CPUs of one class"),
        _ => format!("{fast} fast and {slow} slow CPUs"),
    };
    let scope = match (options.schedules_everything(), options.limits_bias()) {
        (false, _) => ", for opted-in cgroups",
        (true, true) => ", with bias in opted-in cgroups only",
        (true, false) => "",
    };
    machine + scope
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam::channel::unbounded;
    use std::time::Instant;

    #[test]
    fn the_watching_thread_hears_everyone_and_outlives_them() {
        const SHORT: Duration = Duration::from_millis(5);
        let (stop, mut signals) = unbounded();
        let (ask, questions) = unbounded();
        let (rope, bell) = unbounded();
        let (announce, news) = unbounded();
        let mut inputs = Inputs { signals: &mut signals, questions, bell, news };
        assert_eq!(inputs.wait(SHORT), Event::Quiet);
        assert!(ask.send(Question::Tasks).is_ok());
        assert_eq!(inputs.wait(SHORT), Event::Asked(Question::Tasks));
        assert!(rope.send(()).is_ok());
        assert_eq!(inputs.wait(SHORT), Event::Hinted);
        assert!(announce.send(News::Somewhere).is_ok());
        assert_eq!(inputs.wait(SHORT), Event::Heated(News::Somewhere));
        drop((ask, rope, announce));
        for _ in 0..3 {
            assert_eq!(inputs.wait(SHORT), Event::Quiet);
        }
        let quiet = Instant::now();
        assert_eq!(inputs.wait(SHORT), Event::Quiet);
        assert!(quiet.elapsed() >= SHORT / 2, "what has ended must not keep this thread busy");
        assert!(stop.send(Signal::Stop).is_ok());
        assert_eq!(inputs.wait(SHORT), Event::Signal(Signal::Stop));
    }
}
