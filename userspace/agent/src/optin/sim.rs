// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Simulated machine for tests. Between any two calls its threads fork, end, move and change, and
//! their pids are reused.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::Path;
use std::rc::Rc;

use super::cgroup::{Cgroup, Found};
use super::opted::CgroupEvent;
use super::reconcile::policy::{self, BATCH, EXT, IDLE, NORMAL};
use super::reconcile::{IDLE_NICE, Id, Tid};
use super::system::{Attr, Lineage, Stat, System};
use crate::failure::Failure;

pub(super) const FIFO: u32 = 1;
pub(super) const OWN: Tid = 1_000_000;
/// The cgroups. Tests opt the first three in and out.
pub(super) const CGROUPS: [&str; 4] = ["/in", "/in/below", "/also", "/out"];

#[derive(Debug, Clone)]
pub(super) struct Thread {
    pub(super) attr: Attr,
    /// Policy and nice value that the thread would have without scx_bias.
    pub(super) natural: (u32, i32),
    pub(super) start: u64,
    pub(super) process: Tid,
    pub(super) parent: Tid,
    pub(super) cgroup: usize,
    pub(super) kernel: bool,
    /// True if `natural` cannot be known, because the maker was gone first.
    pub(super) orphan: bool,
    /// True if the thread asked for SCHED_EXT itself.
    pub(super) native: bool,
    /// True if the thread was in an opted-in cgroup once.
    pub(super) was_inside: bool,
    /// True if the thread left with SCHED_EXT while no agent ran.
    pub(super) escaped: bool,
}

#[derive(Debug, Clone)]
pub(super) enum SimEvent {
    Fork {
        by: usize,
        thread: bool,
        into: Option<usize>,
    },
    End(usize),
    Move(usize, usize),
    Policy(usize, u32),
    Nice(usize, i32),
    /// A process ends. Its pid goes to an unrelated process outside, or to a child of another one.
    Reuse(usize, Option<usize>),
}

#[derive(Default)]
pub(super) struct Sim {
    pub(super) threads: BTreeMap<Tid, Thread>,
    pub(super) clock: u64,
    pub(super) next: Tid,
    pub(super) events: VecDeque<Option<SimEvent>>,
    /// Ids of the cgroups that the kernel side follows: true for opted-in ones, false for ones just
    /// released. A cgroup that is made again has a new id, which it does not follow yet.
    pub(super) followed: BTreeMap<u64, bool>,
    pub(super) removed: BTreeSet<usize>,
    /// How often each cgroup was made again.
    pub(super) made: [u64; CGROUPS.len()],
    pub(super) notices: Vec<CgroupEvent>,
    /// True while no agent runs.
    pub(super) down: bool,
    /// Threads that were recorded when the agent was killed.
    pub(super) recorded: BTreeSet<(Tid, u64)>,
    /// Violations so far.
    pub(super) wrongs: Vec<String>,
    /// Number of policies that can be set before the kernel refuses, None for no limit.
    pub(super) budget: Option<usize>,
}

pub(super) type SharedSim = Rc<RefCell<Sim>>;

impl Sim {
    /// Return the kernel's id of a cgroup.
    pub(super) fn number(&self, cgroup: usize) -> u64 {
        cgroup as u64 + self.made[cgroup] * CGROUPS.len() as u64
    }

    /// Return true if the cgroup is opted in, false if it was just released, None otherwise.
    pub(super) fn follows(&self, cgroup: usize) -> Option<bool> {
        let name = CGROUPS[cgroup];
        let above = |at: &usize| name == CGROUPS[*at] || name.starts_with(&format!("{}/", CGROUPS[*at]));
        (0..CGROUPS.len()).filter(above).filter_map(|at| self.followed.get(&self.number(at)).copied()).max()
    }

    pub(super) fn covered(&self, cgroup: usize) -> bool {
        self.follows(cgroup) == Some(true)
    }

    pub(super) fn pick(&self, at: usize) -> Option<Tid> {
        let threads: Vec<Tid> =
            self.threads.iter().filter(|(_, thread)| !thread.kernel).map(|(tid, _)| *tid).collect();
        threads.get(at % threads.len().max(1)).copied().filter(|tid| *tid != OWN)
    }

    pub(super) fn spawn(&mut self, thread: Thread) -> Tid {
        self.next += 1;
        self.put(self.next, thread);
        self.next
    }

    /// Mark the threads made by this process, and all that these made, as orphans: the policies
    /// that they would have are unknown from now on.
    pub(super) fn forget_makers(&mut self, process: Tid) {
        let mut makers = vec![process];
        while let Some(process) = makers.pop() {
            for (tid, child) in &mut self.threads {
                let made = child.parent == process || (child.process == process && *tid != process);
                if made && !child.orphan && !child.native && child.attr.policy == EXT {
                    child.orphan = true;
                    makers.push(*tid);
                }
            }
        }
    }

    pub(super) fn put(&mut self, tid: Tid, mut thread: Thread) {
        self.clock += 1;
        thread.start = self.clock;
        thread.was_inside = self.covered(thread.cgroup);
        if thread.process == 0 {
            thread.process = tid;
        }
        self.threads.insert(tid, thread);
    }

    pub(super) fn notify(&mut self, notify: CgroupEvent) {
        if !self.down {
            self.notices.push(notify);
        }
    }

    pub(super) fn step(&mut self) {
        let Some(Some(event)) = self.events.pop_front() else { return };
        match event {
            SimEvent::Fork { by, thread, into } => self.fork(by, thread, into, None),
            SimEvent::End(at) => self.end(at),
            SimEvent::Move(at, to) => self.move_process(at, to),
            SimEvent::Policy(at, policy) => {
                let Some(tid) = self.pick(at).filter(|tid| !self.threads[tid].native) else { return };
                let thread = self.threads.get_mut(&tid).unwrap();
                thread.attr.policy = policy;
                thread.natural = (policy, thread.attr.nice);
                self.forget_makers(tid);
            }
            SimEvent::Nice(at, nice) => {
                let Some(tid) = self.pick(at) else { return };
                let thread = self.threads.get_mut(&tid).unwrap();
                thread.attr.nice = nice;
                thread.natural.1 = nice;
                self.forget_makers(tid);
            }
            SimEvent::Reuse(at, by) => {
                let Some(tid) = self.pick(at).filter(|tid| self.threads[tid].process == *tid) else { return };
                self.end(at);
                match by {
                    Some(by) => self.fork(by, false, None, Some(tid)),
                    None => self.put(tid, Thread { native: true, ..task(3, EXT, 0) }),
                }
            }
        }
    }

    pub(super) fn run(&mut self) {
        while !self.events.is_empty() {
            self.step();
        }
    }

    pub(super) fn fork(&mut self, by: usize, as_thread: bool, into: Option<usize>, number: Option<Tid>) {
        let Some(maker) = self.pick(by) else { return };
        let parent = self.threads[&maker].clone();
        let mut child = parent.clone();
        if !as_thread {
            (child.process, child.parent) = (0, parent.process);
            if let Some(into) = into.filter(|_| !parent.native) {
                child.cgroup = into;
            }
        }
        if child.attr.reset_on_fork && child.attr.policy == FIFO {
            (child.attr.policy, child.natural.0) = (NORMAL, NORMAL);
        }
        // The agent finds makers by process, and a thread other than the first may have another
        // policy, or be known where the first is not.
        let first = self.threads.get(&parent.process);
        let differs = first.is_none_or(|first| first.orphan || first.natural.0 != child.natural.0)
            || (child.natural.0 == IDLE && parent.process != maker);
        child.orphan |= child.attr.policy == EXT && !parent.native && differs;
        let (policy, cgroup) = (child.attr.policy, child.cgroup);
        let inside = self.covered(cgroup);
        child.escaped |= self.down && policy == EXT && !inside && !parent.native;
        let tid = match number {
            Some(tid) => {
                self.put(tid, child);
                tid
            }
            None => self.spawn(child),
        };
        let process = self.id(tid);
        if inside && policy::is_switched(policy) {
            self.notify(CgroupEvent::Inside);
        } else if !inside && policy == EXT {
            let left = self.follows(parent.cgroup).is_some();
            self.notify(if left {
                CgroupEvent::Left(process)
            } else {
                CgroupEvent::Forked { process, maker: self.id(maker) }
            });
        }
    }

    /// Return the identity of a thread's process.
    pub(super) fn id(&self, tid: Tid) -> Id {
        let process = self.threads[&tid].process;
        Id { tid: process, start: self.threads[&process].start }
    }

    pub(super) fn end(&mut self, at: usize) {
        let Some(tid) = self.pick(at) else { return };
        let process = self.threads[&tid].process;
        let all: Vec<Tid> = self
            .threads
            .iter()
            .filter(|(other, t)| **other == tid || (process == tid && t.process == tid))
            .map(|(t, _)| *t)
            .collect();
        for tid in all {
            self.threads.remove(&tid);
            self.forget_makers(tid);
            self.threads
                .values_mut()
                .filter(|child| child.parent == tid)
                .for_each(|child| child.parent = OWN);
        }
    }

    pub(super) fn move_process(&mut self, at: usize, to: usize) {
        let Some(tid) = self.pick(at).filter(|tid| !self.threads[tid].native && !self.removed.contains(&to))
        else {
            return;
        };
        let process = self.id(tid);
        let (from, into) = (self.follows(self.threads[&tid].cgroup), self.covered(to));
        if into {
            self.notify(CgroupEvent::Inside);
        } else if from.is_some() {
            self.notify(CgroupEvent::Left(process));
        }
        for (tid, thread) in self.threads.iter_mut().filter(|(_, thread)| thread.process == process.tid) {
            thread.cgroup = to;
            thread.was_inside |= into;
            thread.escaped |= self.down
                && !into
                && thread.attr.policy == EXT
                && !self.recorded.contains(&(*tid, thread.start));
        }
    }

    /// Move all threads out of a cgroup and of those below it.
    pub(super) fn empty(&mut self, cgroup: usize) {
        let is_inside = |at: usize| CGROUPS[at].starts_with(CGROUPS[cgroup]);
        let inside: Vec<Tid> =
            self.threads.iter().filter(|(_, t)| is_inside(t.cgroup)).map(|(tid, _)| *tid).collect();
        for tid in inside {
            let process = self.id(tid);
            if self.follows(self.threads[&tid].cgroup).is_some() {
                self.notify(CgroupEvent::Left(process));
            }
            if let Some(thread) = self.threads.get_mut(&tid) {
                thread.cgroup = 3;
            }
        }
    }

    /// Return the violations that remain when the machine is quiet.
    pub(super) fn judge(&self) -> Vec<String> {
        let mut wrongs = self.wrongs.clone();
        for (tid, thread) in &self.threads {
            let (policy, nice) = thread.natural;
            let inside = self.covered(thread.cgroup) && !thread.kernel && *tid != OWN && policy != FIFO;
            let now = (thread.attr.policy, thread.attr.nice);
            let right = if thread.native || thread.escaped {
                now.0 == EXT || thread.escaped
            } else if inside {
                now.0 == EXT && (nice == now.1 || now.1 == IDLE_NICE)
            } else {
                now == (policy, nice) || (thread.orphan && matches!(now.0, NORMAL | BATCH | IDLE))
            };
            if !right {
                wrongs.push(format!("{tid}: {thread:?}"));
            }
        }
        wrongs
    }
}

/// Return the cgroup with this id.
pub(super) fn cgroup_of(number: u64) -> usize {
    number as usize % CGROUPS.len()
}

pub(super) fn task(cgroup: usize, policy: u32, nice: i32) -> Thread {
    Thread {
        attr: Attr { policy, nice, reset_on_fork: false, slice_ns: 7 },
        natural: (policy, nice),
        start: 0,
        process: 0,
        parent: OWN,
        cgroup,
        kernel: false,
        orphan: false,
        native: false,
        was_inside: false,
        escaped: false,
    }
}

/// Answers of the machine. Most calls first let its events advance.
impl System for SharedSim {
    fn find(&self, path: &Path) -> Result<Found, Failure> {
        let at = CGROUPS.iter().position(|name| Path::new(name) == path);
        let at = at.ok_or_else(|| Failure::usage("no such cgroup; name another"))?;
        let sim = self.borrow();
        let path = CGROUPS[at].to_owned();
        let cgroup = Cgroup { path: path.clone(), name: path.clone(), id: sim.number(at) };
        Ok(if sim.removed.contains(&at) { Found::Later(path) } else { Found::Here(cgroup) })
    }

    fn is_there(&self, path: &str) -> bool {
        CGROUPS.iter().position(|name| *name == path).is_some_and(|at| !self.borrow().removed.contains(&at))
    }

    fn threads(&self, cgroup: &Cgroup) -> Option<Vec<Tid>> {
        self.borrow_mut().step();
        let sim = self.borrow();
        let inside = |thread: &Thread| cgroup.covers(CGROUPS[thread.cgroup]);
        let threads = sim.threads.iter().filter(|(_, thread)| inside(thread)).map(|(tid, _)| *tid).collect();
        let at = cgroup_of(cgroup.id);
        (!sim.removed.contains(&at) && sim.number(at) == cgroup.id).then_some(threads)
    }

    fn process(&self, tid: Tid) -> Vec<Tid> {
        self.borrow_mut().step();
        self.borrow()
            .threads
            .iter()
            .filter(|(_, thread)| thread.process == tid)
            .map(|(tid, _)| *tid)
            .collect()
    }

    fn own(&self) -> Vec<Tid> {
        vec![OWN]
    }

    fn stat(&self, tid: Tid) -> Option<Stat> {
        // Do not step: the agent could not notice a change between this call and the change of the
        // policy.
        let sim = self.borrow();
        let thread = sim.threads.get(&tid)?;
        Some(Stat { start: thread.start, dead: false, kernel: thread.kernel, pinned: false })
    }

    fn cgroup_of(&self, tid: Tid) -> Option<String> {
        self.borrow_mut().step();
        Some(CGROUPS[self.borrow().threads.get(&tid)?.cgroup].to_owned())
    }

    fn lineage(&self, tid: Tid) -> Option<Lineage> {
        self.borrow_mut().step();
        let sim = self.borrow();
        let Thread { process, parent, .. } = *sim.threads.get(&tid)?;
        Some(Lineage { process, parent })
    }

    fn attr(&self, tid: Tid) -> Option<Attr> {
        self.borrow_mut().step();
        Some(self.borrow().threads.get(&tid)?.attr)
    }

    fn set_attr(&self, tid: Tid, attr: Attr) -> io::Result<()> {
        let mut sim = self.borrow_mut();
        match &mut sim.budget {
            Some(0) => return Err(io::Error::from_raw_os_error(nix::libc::EPERM)),
            Some(budget) => *budget -= 1,
            None => {}
        }
        let Some(thread) = sim.threads.get_mut(&tid) else {
            return Err(io::Error::from_raw_os_error(nix::libc::ESRCH));
        };
        let old = thread.attr;
        thread.attr = attr;
        // Like the kernel, accept no nice value and no slice together with SCHED_IDLE.
        if attr.policy == IDLE {
            (thread.attr.nice, thread.attr.slice_ns) = (old.nice, old.slice_ns);
        }
        let other = (
            old.policy == FIFO,
            old.policy != EXT && attr.policy == EXT && !thread.was_inside,
            thread.native,
            thread.kernel,
        );
        if other != (false, false, false, false) || tid == OWN && attr.policy == EXT {
            let wrong = format!("{tid} was touched: {thread:?}, {old:?}");
            sim.wrongs.push(wrong);
        } else if (attr.reset_on_fork, attr.slice_ns) != (old.reset_on_fork, old.slice_ns) {
            sim.wrongs.push(format!("{tid} lost something"));
        }
        Ok(())
    }
}
