// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! CPUs as the kernel sees them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use super::events::Event;
use super::task::{RawTask, TaskId};

/// What a CPU runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curr {
    /// The idle task.
    Idle,
    /// A SCHED_EXT task.
    Task(TaskId),
    /// A real-time task.
    RealTime,
    /// The stopper.
    Stopper,
}

impl Curr {
    /// Return true for a class above sched_ext.
    #[must_use]
    pub fn is_higher(self) -> bool {
        matches!(self, Self::RealTime | Self::Stopper)
    }
}

/// Progress of a CPU's task since the last update.
#[derive(Debug, Default)]
pub struct Progress {
    /// Up to when run time is charged (`exec_start`).
    pub charged_ns: Cell<u64>,
    /// Up to when work is counted; in the future while a switch takes place.
    pub counted_ns: Cell<u64>,
    /// Time of a unit of work [permille of the reference CPU].
    pub rate: Cell<u64>,
    /// Number of the plan for the end of the phase; events of older plans are void.
    pub plan: Cell<u64>,
}

/// The clock of a CPU, as schedutil sees it.
#[derive(Debug)]
pub struct Clock {
    /// The performance target, on the system's scale of capacity (`cpuperf_target`).
    pub target: Cell<u32>,
    /// Number of changes of the target.
    pub changes: Cell<u64>,
    /// Since when the CPU idles, runs SCHED_EXT tasks, or runs a higher class [ns].
    pub since_ns: Cell<u64>,
}

impl Default for Clock {
    /// The kernel begins with the maximum (scx_enable()).
    fn default() -> Self {
        Self {
            target: Cell::new(crate::ffi::SCX_CPUPERF_ONE),
            changes: Cell::default(),
            since_ns: Cell::default(),
        }
    }
}

/// Counters of a CPU.
#[derive(Debug, Default)]
pub struct Counters {
    /// Cycles, instructions, external stalls, internal stalls.
    pub counts: [Cell<u64>; 4],
}

/// A CPU.
#[derive(Debug)]
pub struct Cpu {
    /// What it runs.
    pub curr: Cell<Curr>,
    /// Its local DSQ.
    pub local: RefCell<VecDeque<TaskId>>,
    /// Tasks that are to be inserted into other CPUs' local DSQs.
    pub deferred: RefCell<VecDeque<TaskId>>,
    /// CPU that has locked its runqueue.
    pub locked_by: Cell<Option<usize>>,
    /// It executes an activity of the kernel, with interrupts off.
    pub in_kernel: Cell<bool>,
    /// Events that came meanwhile.
    pub pending: RefCell<Vec<Event>>,
    /// The present task is to be rescheduled.
    pub need_resched: Cell<bool>,
    /// The next task is to be rescheduled as soon as it runs.
    pub resched_next: Cell<bool>,
    /// It looks for a task in balance_one().
    pub in_balance: Cell<bool>,
    /// It inserts a task that wakes.
    pub in_wakeup: Cell<bool>,
    /// balance_one() keeps the present task.
    pub keep: Cell<bool>,
    /// Deferred insertions are carried out before the runqueue is unlocked.
    pub deferred_callback: Cell<bool>,
    /// Its local DSQ is to be enqueued again.
    pub reenqueue: Cell<bool>,
    /// Tasks that this round of ops.dispatch moved.
    pub dispatched: Cell<u32>,
    /// ops.cpu_release was called and the CPU is not back.
    pub released: Cell<bool>,
    /// sched_ext considers it online (`SCX_RQ_ONLINE`).
    pub online: Cell<bool>,
    /// While it goes offline: since when nothing has kept its tasks from leaving [ns].
    pub leaves_ns: Cell<Option<u64>>,
    /// It calls ops.cpu_online or ops.cpu_offline.
    pub in_hotplug: Cell<bool>,
    /// CPUs to kick, with flags.
    pub kicks: RefCell<Vec<(usize, u64)>>,
    /// An interrupt for the kicks is on its way.
    pub kick_queued: Cell<bool>,
    /// Its tick is stopped.
    pub tick_stopped: Cell<bool>,
    /// When its tick or the remote one came last [ns].
    pub ticked_ns: Cell<u64>,
    /// Time that a real-time task still wants [ns].
    pub realtime_ns: Cell<u64>,
    /// Number of the stay of a higher class; events of older ones are void.
    pub higher_stay: Cell<u64>,
    /// Tasks that the stopper is to push away.
    pub stops: RefCell<VecDeque<TaskId>>,
    /// Where the rotating pick of idle CPUs continues.
    pub distribute: Cell<usize>,
    /// Since when it idles; meaningful while it does [ns].
    pub idle_since_ns: Cell<u64>,
    /// Since when its local DSQ is not empty while it idles; 0 if not [ns].
    pub progress: Progress,
    /// The clock that it requests.
    pub clock: Clock,
    /// Its counters.
    pub counters: Counters,
    /// Its runqueue, as BPF code sees it.
    pub rq: Cell<crate::ffi::rq>,
    /// `task_struct` of its idle task.
    pub idle_task: RawTask,
    /// `task_struct` of the real-time task.
    pub realtime_task: RawTask,
    /// `task_struct` of its stopper.
    pub stopper_task: RawTask,
}

/// Priority of a real-time task: below MAX_RT_PRIO.
const PRIO_REALTIME: i32 = 50;

impl Cpu {
    /// Return an idle CPU.
    #[must_use]
    pub fn new(number: usize) -> Self {
        let raw = |name: &str, pid: i32, prio: i32| {
            let raw = RawTask::new(name, pid);
            raw.change(|raw| {
                raw.thread_info.cpu = number as u32;
                raw.prio = prio;
            });
            raw
        };
        Self {
            curr: Cell::new(Curr::Idle),
            local: RefCell::default(),
            deferred: RefCell::default(),
            locked_by: Cell::new(None),
            in_kernel: Cell::new(false),
            pending: RefCell::default(),
            need_resched: Cell::new(false),
            resched_next: Cell::new(false),
            in_balance: Cell::new(false),
            in_wakeup: Cell::new(false),
            keep: Cell::new(false),
            deferred_callback: Cell::new(false),
            reenqueue: Cell::new(false),
            dispatched: Cell::new(0),
            released: Cell::new(false),
            online: Cell::new(true),
            leaves_ns: Cell::new(None),
            in_hotplug: Cell::new(false),
            kicks: RefCell::default(),
            kick_queued: Cell::new(false),
            tick_stopped: Cell::new(false),
            ticked_ns: Cell::new(0),
            realtime_ns: Cell::new(0),
            higher_stay: Cell::new(0),
            stops: RefCell::default(),
            distribute: Cell::new(0),
            idle_since_ns: Cell::new(0),
            progress: Progress::default(),
            clock: Clock::default(),
            counters: Counters::default(),
            rq: Cell::new(crate::ffi::rq { nr_running: 0, scx: crate::ffi::scx_rq { nr_running: 0 } }),
            idle_task: raw("swapper", 0, 120),
            realtime_task: raw("realtime", 20_000 + number as i32, PRIO_REALTIME),
            stopper_task: raw("migration", 30_000 + number as i32, 0),
        }
    }
}
