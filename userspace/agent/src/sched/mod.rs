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
//! fast ones until the next start.

mod counting;
mod exit;
mod follow;
mod hints;
mod load;
mod log;
mod programs;
mod report;
mod server;
mod stats;
mod status;
mod table;

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bias_policy::recal::Reference;
use bias_policy::table::CapacityTable;
use crossbeam::channel::{Receiver, never, select, unbounded};
use tracing::info;

pub use exit::ExitReport;
pub use report::{Kind, Reason, Stack, TaskReport};
pub use server::CgroupAnswer;
pub use stats::{Monitor, Stats, monitor};
pub use status::{CpuClass, CpuCounters, Machine, Scope, StatusReport, Thresholds};

use crate::failure::{Exit, Failure};
use crate::model::CounterModel;
use crate::optin::journal::{self, Store};
use crate::optin::system::Linux;
use crate::optin::{OptIn, Report, Request};
use crate::pmu::{self, Counters, Override};
use crate::recal::Recalibrator;
use crate::topology::Topology;
use follow::Follow;
use load::Loaded;
use server::{Question, Server, Source};
use status::State;

/// How often the end of the scheduler is looked for. Each look wakes this process, which displaces a task on a busy machine.
const POLL: Duration = Duration::from_millis(500);

/// What a user can choose about a run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Time a task runs before others get their turn, when nothing waits [us].
    pub slice_us: u64,
    /// Time it runs when much waits [us].
    pub slice_min_us: u64,
    /// Difference in progress at which running tasks change places between fast and slow CPUs [us of a fast CPU].
    pub rotate_gap_us: u64,
    /// CPUs whose tasks sleep sooner than this keep synchronous wakeups local [us].
    pub sync_burst_us: u64,
    /// Instructions of a task that make a window.
    pub window_instructions: u64,
    /// One run in so many is counted of a task whose profile is stable.
    pub sample_every: u32,
    /// Fixed thresholds of the predicted speedup [permille], low and high; None adapts them to what runs.
    pub thresholds_permille: Option<(u32, u32)>,
    /// Difference in predicted speedup that is worth a move [permille].
    pub gain_permille: u32,
    /// How far behind the other class's tasks must be to go before a CPU's own class [us of a fast CPU].
    pub borrow_gap_us: u64,
    /// How far behind a running task must be to displace one that gains more [us of a fast CPU].
    pub unfair_gap_us: u64,
    /// Count what tasks stall on.
    pub bias: bool,
    /// Events to count in place of those we would choose.
    pub events: Vec<Override>,
    /// What calibration found of the counters; None for nominal scales.
    pub model: Option<CounterModel>,
    /// Print statistics at this interval.
    pub stats_interval: Option<Duration>,
    /// Print the verifier's log on a failure to load.
    pub verbose: bool,
    /// The cgroups whose threads are scheduled; everything if there are none.
    pub cgroups: Vec<PathBuf>,
    /// Keep the table true while scheduling.
    pub recalibrate: bool,
    /// The machine.
    pub table: CapacityTable,
    /// What its CPUs did when the table was measured, as far as that is known.
    pub references: Vec<Reference>,
}

impl RunOptions {
    /// What the counters are to be opened with.
    #[must_use]
    pub fn counting(&self) -> pmu::Options {
        pmu::Options { events: self.events.clone(), enabled: self.bias }
    }

    /// The defaults, for a machine described by `table`.
    #[must_use]
    pub fn new(table: CapacityTable) -> Self {
        Self {
            slice_us: 10_000,
            slice_min_us: 1_000,
            rotate_gap_us: 40_000,
            sync_burst_us: 500,
            window_instructions: 500_000,
            sample_every: 8,
            thresholds_permille: None,
            gain_permille: 100,
            borrow_gap_us: 40_000,
            unfair_gap_us: 320_000,
            bias: true,
            events: Vec::new(),
            model: None,
            stats_interval: None,
            verbose: false,
            cgroups: Vec::new(),
            recalibrate: true,
            table,
            references: Vec::new(),
        }
    }
}

/// Loads the scheduler with these counters and blocks until a signal asks it to go, or the kernel ends it.
///
/// Whatever a scx_bias that was killed has left is given back first. With opted-in cgroups, so is at the end what this one switched.
///
/// When the kernel asks for a restart, as it does when CPUs change while the scheduler is being loaded, it is loaded again, with
/// the counters of the CPUs that are online then.
///
/// # Errors
/// [`Exit::OtherScheduler`] when a scheduler is active, [`Exit::Kernel`] when sched_ext or a right is missing,
/// [`Exit::Runtime`] when the kernel refuses or ends the scheduler.
pub fn run(options: &RunOptions, mut counters: Counters) -> Result<ExitReport> {
    refuse_if_active()?;
    let mut optin = opt_in(&options.cgroups)?;
    let shutdown = signals()?;
    loop {
        let report = run_once(options, counters, &shutdown, optin.as_mut())?;
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
    options: &RunOptions,
    counters: Counters,
    shutdown: &Receiver<()>,
    optin: Option<&mut OptIn<Linux>>,
) -> Result<ExitReport> {
    let mut object = MaybeUninit::uninit();
    let mut loaded = Loaded::attach(&mut object, options, counters)?;
    let follow = RefCell::new(optin.map(|optin| Follow::start(optin, &mut loaded)));
    let mut bell = follow.borrow().as_ref().map_or_else(never, Follow::bell);
    let started = Instant::now();
    let server = Server::launch(None);
    if let Err(error) = &server {
        info!("statistics are not available: {error:#}");
    }
    let mut questions = server.as_ref().map_or_else(|_| never(), |server| server.questions().clone());
    info!(
        "scx_bias schedules: {}{}",
        describe(&options.table),
        if options.cgroups.is_empty() { "" } else { ", for opted-in cgroups" }
    );
    let mut recal = Recalibrator::start(&options.table, &options.references, options.recalibrate);
    let mut quiet = POLL;
    let mut last = stats::Stats::default();
    let mut due = options.stats_interval.map(|interval| Instant::now() + interval);
    loop {
        let mut patience = due.map_or(quiet, |at| at.saturating_duration_since(Instant::now()).min(quiet));
        if let Some(follow) = follow.borrow().as_ref() {
            patience = patience.min(follow.patience());
        }
        let event = wait(shutdown, &mut questions, &mut bell, patience);
        if event == Event::Shutdown {
            follow.borrow_mut().iter_mut().for_each(Follow::finish);
            return Ok(loaded.detach());
        }
        if loaded.has_ended() {
            return loaded.detach().into_result();
        }
        loaded.follow_hotplug(options);
        quiet = recal.turn(Instant::now(), &mut loaded).min(POLL);
        if let Some(follow) = follow.borrow_mut().as_mut() {
            if event == Event::Hinted {
                follow.rang();
            }
            follow.tick();
        }
        if let (Event::Asked(question), Ok(server)) = (event, &server) {
            server.answer(
                question,
                &Running { loaded: &loaded, options, started, follow: &follow, recal: &recal },
            );
        }
        if let (Some(at), Some(interval)) = (due, options.stats_interval)
            && Instant::now() >= at
        {
            let now = loaded.stats();
            println!("{}", now.since(&last).line());
            last = now;
            due = Some(at + interval);
        }
    }
}

/// What the watching thread wakes up for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    Shutdown,
    Asked(Question),
    /// Something happens in an opted-in cgroup.
    Hinted,
    /// Nothing came for long enough.
    Quiet,
}

/// Waits for something to do, `patience` at most. Should the threads behind `questions` or `bell` end, it is made one that never has any.
fn wait(
    shutdown: &Receiver<()>,
    questions: &mut Receiver<Question>,
    bell: &mut Receiver<()>,
    patience: Duration,
) -> Event {
    select! {
        recv(shutdown) -> _ => Event::Shutdown,
        recv(bell) -> rang => rang.map_or_else(|_| {
            *bell = never();
            Event::Quiet
        }, |()| Event::Hinted),
        recv(questions) -> asked => asked.map_or_else(|_| {
            *questions = never();
            Event::Quiet
        }, Event::Asked),
        default(patience) => Event::Quiet,
    }
}

/// A running scheduler, for who asks about it.
struct Running<'a, 'object, 'optin> {
    loaded: &'a Loaded<'object>,
    options: &'a RunOptions,
    started: Instant,
    follow: &'a RefCell<Option<Follow<'optin>>>,
    recal: &'a Recalibrator,
}

impl Running<'_, '_, '_> {
    fn scope(&self) -> Scope {
        self.follow.borrow().as_ref().map_or(Scope::WholeSystem, |follow| {
            let mut report = follow.report();
            let lost = self.loaded.hints_lost();
            if lost > 0 {
                report.notes.push(format!("{lost} events in cgroups came too fast to be told; threads that left then may keep SCHED_EXT"));
            }
            Scope::Cgroups(report)
        })
    }
}

impl Source for Running<'_, '_, '_> {
    fn stats(&self) -> Stats {
        self.loaded.stats()
    }

    fn status(&self) -> StatusReport {
        let loaded = self.loaded;
        let uptime = self.started.elapsed();
        let machine = Machine::of(self.recal.table());
        let state = State { scope: self.scope(), machine, recalibration: self.recal.report() };
        StatusReport::new(self.options, state, uptime, loaded.band(), loaded.counters(), loaded.stats())
    }

    fn cgroups(&self, request: &Request) -> Result<Report, Failure> {
        self.follow.borrow_mut().as_mut().map_or_else(
            || Err(Failure::usage("this scx_bias schedules the whole system, every cgroup with it; start it with --cgroup PATH to limit it")),
            |follow| follow.answer(request),
        )
    }

    fn tasks(&self) -> Result<Vec<TaskReport>> {
        self.loaded.tasks()
    }
}

/// SIGINT, SIGTERM and SIGHUP, as messages.
fn signals() -> Result<Receiver<()>> {
    let (sender, receiver) = unbounded();
    ctrlc::set_handler(move || {
        // The receiver is gone only when the process is about to end anyway.
        let _ = sender.send(());
    })
    .context("cannot handle signals")?;
    Ok(receiver)
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

fn describe(table: &CapacityTable) -> String {
    let slow = table.cpus.iter().filter(|cpu| cpu.class == bias_policy::table::Class::Slow).count();
    let fast = table.cpus.len() - slow;
    match slow {
        0 => format!("{fast} CPUs of one class"),
        _ => format!("{fast} fast and {slow} slow CPUs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watching_thread_hears_everyone_and_outlives_them() {
        const SHORT: Duration = Duration::from_millis(5);
        let (stop, shutdown) = unbounded();
        let (ask, mut questions) = unbounded();
        let (rope, mut bell) = unbounded();
        assert_eq!(wait(&shutdown, &mut questions, &mut bell, SHORT), Event::Quiet);
        assert!(ask.send(Question::Tasks).is_ok());
        assert_eq!(wait(&shutdown, &mut questions, &mut bell, SHORT), Event::Asked(Question::Tasks));
        assert!(rope.send(()).is_ok());
        assert_eq!(wait(&shutdown, &mut questions, &mut bell, SHORT), Event::Hinted);
        drop((ask, rope));
        for _ in 0..2 {
            assert_eq!(wait(&shutdown, &mut questions, &mut bell, SHORT), Event::Quiet);
        }
        let quiet = Instant::now();
        assert_eq!(wait(&shutdown, &mut questions, &mut bell, SHORT), Event::Quiet);
        assert!(quiet.elapsed() >= SHORT / 2, "what has ended must not keep this thread busy");
        assert!(stop.send(()).is_ok());
        assert_eq!(wait(&shutdown, &mut questions, &mut bell, SHORT), Event::Shutdown);
    }
}
