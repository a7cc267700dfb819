// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tasks as the kernel sees them.

use std::cell::{Cell, RefCell, UnsafeCell};

use crate::ffi;
use crate::mask::Mask;

/// Index of a task.
pub type TaskId = usize;

/// A `task_struct` that BPF code reads and writes through its address.
#[derive(Debug)]
pub struct RawTask(Box<UnsafeCell<ffi::task_struct>>);

impl RawTask {
    /// Return a zeroed structure with a name and a pid.
    #[must_use]
    pub fn new(name: &str, pid: i32) -> Self {
        // SAFETY: the structure has integers and pointers only, for which zero is valid.
        let mut raw: ffi::task_struct = unsafe { std::mem::zeroed() };
        for (to, from) in raw.comm.iter_mut().zip(name.bytes().take(15)) {
            *to = from as _;
        }
        (raw.pid, raw.tgid) = (pid, pid);
        raw.prio = 120;
        let raw = Self(Box::new(UnsafeCell::new(raw)));
        let at = raw.address();
        raw.change(|raw| {
            raw.group_leader = at;
            raw.cpus_ptr = &raw const raw.cpus_mask;
        });
        raw
    }

    /// Return the address that BPF code gets.
    #[must_use]
    pub fn address(&self) -> *mut ffi::task_struct {
        self.0.get()
    }

    /// Read fields.
    pub fn read<T>(&self, read: impl FnOnce(&ffi::task_struct) -> T) -> T {
        // SAFETY: the engine has one thread, and no BPF code runs within `read`.
        read(unsafe { &*self.0.get() })
    }

    /// Change fields.
    pub fn change<T>(&self, change: impl FnOnce(&mut ffi::task_struct) -> T) -> T {
        // SAFETY: as above, and no other reference exists: read() returns none.
        change(unsafe { &mut *self.0.get() })
    }
}

/// Where a task is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On no queue: it sleeps, or runs.
    None,
    /// In the local DSQ of a CPU.
    Local(usize),
    /// In a DSQ of the scheduler.
    User(u64),
    /// In the kernel's global DSQ.
    Global,
    /// On the list of a CPU, to be inserted into another CPU's local DSQ.
    Deferred(usize),
    /// Between two queues, in the hands of a CPU.
    Moving(usize),
}

/// State of a task's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Not started.
    New,
    /// Runs or waits for a CPU.
    Active,
    /// Sleeps.
    Blocked,
    /// A CPU is waking it.
    Waking,
    /// Ended.
    Dead,
}

/// A task.
#[derive(Debug)]
pub struct Task {
    /// What BPF code sees.
    pub raw: RawTask,
    /// Where it is queued.
    pub place: Cell<Place>,
    /// Its key in a DSQ of the scheduler.
    pub key: Cell<(i64, u64)>,
    /// Insertion that ops.select_cpu or ops.enqueue decided: DSQ and flags.
    pub direct: Cell<Option<(u64, u64)>>,
    /// State of its life.
    pub life: Cell<Life>,
    /// A CPU wakes or changes it (`pi_lock`).
    pub pi_locked: Cell<bool>,
    /// A CPU's context is still that of this task.
    pub on_cpu: Cell<bool>,
    /// Affinity that waits until migration is enabled.
    pub wanted_cpus: Cell<Option<Mask>>,
    /// Position in its program.
    pub at: Cell<usize>,
    /// Rounds of its program so far.
    pub rounds: Cell<u64>,
    /// Work left of the present phase [ps on the reference CPU].
    pub left_ps: Cell<u64>,
    /// CPI stack of the present phase.
    pub stack: Cell<[u32; 3]>,
    /// Wakeups that it has not consumed.
    pub tokens: Cell<u32>,
    /// Hint that it has stored, if its program stores any.
    pub hint: Cell<Option<u32>>,
    /// It is about to block, and on what.
    pub blocking: Cell<Option<Blocking>>,
    /// What it sleeps on.
    pub asleep_on: Cell<Option<Blocking>>,
    /// Its timer has expired.
    pub timer_fired: Cell<bool>,
    /// Since when it waits for a CPU; 0 if it does not [ns].
    pub waiting_since_ns: Cell<u64>,
    /// Since when it runs; meaningful while it does [ns].
    pub running_since_ns: Cell<u64>,
    /// When it was last inserted into a DSQ of the scheduler [ns].
    pub placed_ns: Cell<u64>,
    /// When its affinity was last changed [ns].
    pub affinity_ns: Cell<u64>,
    /// When it last enabled its migration [ns].
    pub enabled_ns: Cell<u64>,
    /// Another CPU takes it from its runqueue (`TASK_ON_RQ_MIGRATING`).
    pub migrating: Cell<bool>,
    /// It has run since it was last found runnable (`SCX_TASK_RESET_RUNNABLE_AT`).
    pub has_run: Cell<bool>,
    /// Figures.
    pub stats: TaskStats,
}

/// What a task blocks on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocking {
    /// A timer.
    Timer,
    /// A wakeup by another task.
    Token,
    /// Nothing: it ends.
    End,
}

/// Figures of a task.
#[derive(Debug, Default)]
pub struct TaskStats {
    /// Work done [ps on the reference CPU].
    pub work_ps: Cell<u64>,
    /// Time that it ran.
    pub ran_ns: Cell<u64>,
    /// Time that it ran on CPUs that the machine calls slow.
    pub slow_ns: Cell<u64>,
    /// Longest wait for a CPU.
    pub longest_wait_ns: Cell<u64>,
    /// Sum of waits for a CPU.
    pub waited_ns: Cell<u64>,
    /// All waits, if the case records them.
    pub waits_ns: RefCell<Vec<u64>>,
    /// Times that it was switched in.
    pub switches: Cell<u64>,
    /// Ticks that interrupted it.
    pub ticks: Cell<u64>,
    /// Times that it changed its CPU.
    pub migrations: Cell<u64>,
}

impl Task {
    /// Return a task that has not started.
    #[must_use]
    pub fn new(raw: RawTask) -> Self {
        Self {
            raw,
            place: Cell::new(Place::None),
            key: Cell::new((0, 0)),
            direct: Cell::new(None),
            life: Cell::new(Life::New),
            pi_locked: Cell::new(false),
            on_cpu: Cell::new(false),
            wanted_cpus: Cell::new(None),
            at: Cell::new(0),
            rounds: Cell::new(0),
            left_ps: Cell::new(0),
            stack: Cell::new([1000, 0, 0]),
            tokens: Cell::new(0),
            hint: Cell::new(None),
            blocking: Cell::new(None),
            asleep_on: Cell::new(None),
            timer_fired: Cell::new(false),
            waiting_since_ns: Cell::new(0),
            running_since_ns: Cell::new(0),
            placed_ns: Cell::new(0),
            affinity_ns: Cell::new(0),
            enabled_ns: Cell::new(0),
            migrating: Cell::new(false),
            has_run: Cell::new(true),
            stats: TaskStats::default(),
        }
    }

    /// Return the CPU whose runqueue the task belongs to.
    #[must_use]
    pub fn cpu(&self) -> usize {
        self.raw.read(|raw| raw.thread_info.cpu as usize)
    }

    /// Return true if the task is runnable (`SCX_TASK_QUEUED`).
    #[must_use]
    pub fn queued(&self) -> bool {
        self.raw.read(|raw| raw.scx.flags & ffi::SCX_TASK_QUEUED != 0)
    }

    /// Set or clear `SCX_TASK_QUEUED`.
    pub fn set_queued(&self, queued: bool) {
        self.raw.change(|raw| {
            if queued {
                raw.scx.flags |= ffi::SCX_TASK_QUEUED;
            } else {
                raw.scx.flags &= !ffi::SCX_TASK_QUEUED;
            }
        });
    }

    /// Return the rest of its slice [ns].
    #[must_use]
    pub fn slice(&self) -> u64 {
        self.raw.read(|raw| raw.scx.slice)
    }

    /// Set the rest of its slice [ns].
    pub fn set_slice(&self, slice_ns: u64) {
        self.raw.change(|raw| raw.scx.slice = slice_ns);
    }

    /// Return its affinity (`cpus_mask`).
    #[must_use]
    pub fn affinity(&self) -> Mask {
        self.raw.read(|raw| Mask(raw.cpus_mask.bits))
    }

    /// Return the CPUs that `cpus_ptr` allows.
    #[must_use]
    pub fn allowed(&self) -> Mask {
        // SAFETY: cpus_ptr points to the task's own mask or to one of the engine's.
        self.raw.read(|raw| Mask(unsafe { (*raw.cpus_ptr).bits }))
    }

    /// Set its affinity.
    pub fn set_affinity(&self, cpus: &Mask) {
        self.raw.change(|raw| {
            raw.cpus_mask.bits = cpus.0;
            raw.nr_cpus_allowed = cpus.count() as i32;
        });
    }

    /// Return true if the task may not migrate at the moment.
    #[must_use]
    pub fn migration_disabled(&self) -> bool {
        self.raw.read(|raw| raw.migration_disabled > 0)
    }
}
