//! The whole of it on a machine that does not hold still: threads fork, end, move and change between any two questions.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::Path;
use std::rc::Rc;

use proptest::prelude::*;

use super::plan::Tid;
use super::plan::policy::{BATCH, EXT, IDLE, NORMAL};
use super::system::{Lineage, Stat};
use super::*;

const FIFO: u32 = 1;
const OWN: Tid = 1_000_000;
/// The cgroups there are; the first two are opted in now and then.
const CGROUPS: [&str; 4] = ["/in", "/in/below", "/also", "/out"];

#[derive(Debug, Clone)]
struct Thread {
    attr: Attr,
    /// What it would have if there were no scx_bias.
    natural: (u32, i32),
    start: u64,
    process: Tid,
    parent: Tid,
    cgroup: usize,
    kernel: bool,
    /// Nobody can know what it would have: its maker was gone first.
    orphan: bool,
    /// It asked for SCHED_EXT itself.
    native: bool,
    /// It was in an opted-in cgroup once.
    was_inside: bool,
    /// It got out, with our policy, when nobody looked.
    escaped: bool,
}

#[derive(Debug, Clone)]
enum Event {
    Fork {
        by: usize,
        thread: bool,
        into: Option<usize>,
    },
    End(usize),
    Move(usize, usize),
    Policy(usize, u32),
    Nice(usize, i32),
    /// It ends, and its number is given to one outside that has nothing to do with it, or to a child of another.
    Reuse(usize, Option<usize>),
}

#[derive(Default)]
struct World {
    threads: BTreeMap<Tid, Thread>,
    clock: u64,
    next: Tid,
    events: VecDeque<Option<Event>>,
    /// What the kernel side follows: cgroups that are opted in (true) or just let go.
    followed: BTreeMap<usize, bool>,
    removed: BTreeSet<usize>,
    hints: Vec<Hint>,
    /// Nobody listens.
    down: bool,
    /// What is recorded then.
    recorded: BTreeSet<(Tid, u64)>,
    /// Wrongs that were done.
    wrongs: Vec<String>,
    /// So many policies can be set before the kernel refuses; None does not end.
    budget: Option<usize>,
    limited: bool,
}

type Shared = Rc<RefCell<World>>;

impl World {
    /// Is it opted in (true) or just let go?
    fn follows(&self, cgroup: usize) -> Option<bool> {
        let name = CGROUPS[cgroup];
        let above = |at: &usize| name == CGROUPS[*at] || name.starts_with(&format!("{}/", CGROUPS[*at]));
        self.followed.iter().filter(|(at, _)| above(at)).map(|(_, inside)| *inside).max()
    }

    fn covered(&self, cgroup: usize) -> bool {
        self.follows(cgroup) == Some(true)
    }

    fn pick(&self, at: usize) -> Option<Tid> {
        let threads: Vec<Tid> =
            self.threads.iter().filter(|(_, thread)| !thread.kernel).map(|(tid, _)| *tid).collect();
        threads.get(at % threads.len().max(1)).copied().filter(|tid| *tid != OWN)
    }

    fn spawn(&mut self, thread: Thread) -> Tid {
        self.next += 1;
        self.put(self.next, thread);
        self.next
    }

    /// Children of this process, its own threads but the first, and all who come from these: nobody knows any more what they would have.
    fn forget_makers(&mut self, process: Tid) {
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

    fn put(&mut self, tid: Tid, mut thread: Thread) {
        self.clock += 1;
        thread.start = self.clock;
        thread.was_inside = self.covered(thread.cgroup);
        if thread.process == 0 {
            thread.process = tid;
        }
        self.threads.insert(tid, thread);
    }

    fn hint(&mut self, hint: Hint) {
        if !self.down {
            self.hints.push(hint);
        }
    }

    fn step(&mut self) {
        let Some(Some(event)) = self.events.pop_front() else { return };
        match event {
            Event::Fork { by, thread, into } => self.fork(by, thread, into, None),
            Event::End(at) => self.end(at),
            Event::Move(at, to) => self.move_process(at, to),
            Event::Policy(at, policy) => {
                let Some(tid) = self.pick(at).filter(|tid| !self.threads[tid].native) else { return };
                let thread = self.threads.get_mut(&tid).unwrap();
                thread.attr.policy = policy;
                thread.natural = (policy, thread.attr.nice);
                self.forget_makers(tid);
            }
            Event::Nice(at, nice) => {
                let Some(tid) = self.pick(at) else { return };
                let thread = self.threads.get_mut(&tid).unwrap();
                thread.attr.nice = nice;
                thread.natural.1 = nice;
                self.forget_makers(tid);
            }
            Event::Reuse(at, by) => {
                let Some(tid) = self.pick(at).filter(|tid| self.threads[tid].process == *tid) else { return };
                self.end(at);
                match by {
                    Some(by) => self.fork(by, false, None, Some(tid)),
                    None => self.put(tid, Thread { native: true, ..task(3, EXT, 0) }),
                }
            }
        }
    }

    fn run(&mut self) {
        while !self.events.is_empty() {
            self.step();
        }
    }

    fn fork(&mut self, by: usize, as_thread: bool, into: Option<usize>, number: Option<Tid>) {
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
        // Makers are found by process: another thread than the first may have another policy.
        let first = self.threads.get(&parent.process).map(|first| first.natural);
        let differs = first.is_none_or(|first| first.0 != child.natural.0)
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
            self.hint(Hint::Inside);
        } else if !inside && policy == EXT {
            let left = self.follows(parent.cgroup).is_some();
            self.hint(if left { Hint::Left(process) } else { Hint::Born { process, maker: self.id(maker) } });
        }
    }

    /// The process of a thread.
    fn id(&self, tid: Tid) -> Id {
        let process = self.threads[&tid].process;
        Id { tid: process, start: self.threads[&process].start }
    }

    fn end(&mut self, at: usize) {
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

    fn move_process(&mut self, at: usize, to: usize) {
        let Some(tid) = self.pick(at).filter(|tid| !self.threads[tid].native && !self.removed.contains(&to))
        else {
            return;
        };
        let process = self.id(tid);
        let (from, into) = (self.follows(self.threads[&tid].cgroup), self.covered(to));
        if into {
            self.hint(Hint::Inside);
        } else if from.is_some() {
            self.hint(Hint::Left(process));
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

    /// What is not as it should be, once all is quiet.
    fn judge(&self) -> Vec<String> {
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

fn task(cgroup: usize, policy: u32, nice: i32) -> Thread {
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

impl System for Shared {
    fn resolve(&self, path: &Path) -> Result<Cgroup, Failure> {
        let at = CGROUPS.iter().position(|name| Path::new(name) == path);
        let at = at.filter(|at| !self.borrow().removed.contains(at));
        at.map(|at| Cgroup { path: CGROUPS[at].into(), name: CGROUPS[at].into(), id: at as u64 })
            .ok_or_else(|| Failure::usage("no such cgroup; name another"))
    }

    fn threads(&self, cgroup: &Cgroup) -> Option<Vec<Tid>> {
        self.borrow_mut().step();
        let world = self.borrow();
        let inside = |thread: &Thread| cgroup.covers(CGROUPS[thread.cgroup]);
        let threads =
            world.threads.iter().filter(|(_, thread)| inside(thread)).map(|(tid, _)| *tid).collect();
        (!world.removed.contains(&(cgroup.id as usize))).then_some(threads)
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
        // No step: between this and the policy being set nothing can be known to change.
        let world = self.borrow();
        let thread = world.threads.get(&tid)?;
        Some(Stat { start: thread.start, dead: false, kernel: thread.kernel })
    }

    fn cgroup_of(&self, tid: Tid) -> Option<String> {
        self.borrow_mut().step();
        Some(CGROUPS[self.borrow().threads.get(&tid)?.cgroup].to_owned())
    }

    fn lineage(&self, tid: Tid) -> Option<Lineage> {
        self.borrow_mut().step();
        let world = self.borrow();
        let Thread { process, parent, .. } = *world.threads.get(&tid)?;
        Some(Lineage { process, parent })
    }

    fn attr(&self, tid: Tid) -> Option<Attr> {
        self.borrow_mut().step();
        Some(self.borrow().threads.get(&tid)?.attr)
    }

    fn set_attr(&self, tid: Tid, attr: Attr) -> io::Result<()> {
        let mut world = self.borrow_mut();
        match &mut world.budget {
            Some(0) => return Err(io::Error::from_raw_os_error(nix::libc::EPERM)),
            Some(budget) => *budget -= 1,
            None => {}
        }
        let Some(thread) = world.threads.get_mut(&tid) else {
            return Err(io::Error::from_raw_os_error(nix::libc::ESRCH));
        };
        let old = thread.attr;
        thread.attr = attr;
        // As the kernel does: no nice value and no slice together with SCHED_IDLE.
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
            world.wrongs.push(wrong);
        } else if (attr.reset_on_fork, attr.slice_ns) != (old.reset_on_fork, old.slice_ns) {
            world.wrongs.push(format!("{tid} lost something"));
        }
        Ok(())
    }

    fn limited_by(&self, cgroup: &Cgroup) -> Option<String> {
        self.borrow().limited.then(|| cgroup.path.clone())
    }
}

/// An agent on a world, with its files in a folder.
struct Agent {
    world: Shared,
    folder: tempfile::TempDir,
    optin: Option<OptIn<Shared>>,
    now: Instant,
}

impl Agent {
    fn new(threads: Vec<Thread>) -> Self {
        let mut world = World { next: 10, ..World::default() };
        world.put(OWN, task(0, NORMAL, 0));
        for thread in threads {
            world.spawn(thread);
        }
        let folder = tempfile::tempdir().unwrap();
        Self { world: Rc::new(RefCell::new(world)), folder, optin: None, now: Instant::now() }
    }

    fn store(&self) -> Store {
        Store::open(&self.folder.path().join("run"), "boot").unwrap()
    }

    fn start(&mut self, cgroups: &[usize]) {
        let paths: Vec<&str> = cgroups.iter().map(|at| CGROUPS[*at]).collect();
        self.optin = Some(OptIn::start(self.world.clone(), self.store(), &paths).unwrap());
        self.world.borrow_mut().down = false;
        self.settle();
    }

    /// Tells the kernel side what to follow.
    fn follow(&self) {
        let followed = self.optin.as_ref().map_or_else(BTreeMap::new, OptIn::followed);
        let mut world = self.world.borrow_mut();
        world.followed = followed.into_iter().map(|(id, inside)| (id as usize, inside)).collect();
        let inside: Vec<usize> = (0..CGROUPS.len()).filter(|at| world.covered(*at)).collect();
        for thread in world.threads.values_mut() {
            thread.was_inside |= inside.contains(&thread.cgroup);
        }
    }

    fn hear(&mut self) {
        let hints = std::mem::take(&mut self.world.borrow_mut().hints);
        for hint in hints {
            self.optin.as_mut().unwrap().heard(hint, self.now);
        }
    }

    fn pass(&mut self) {
        self.follow();
        self.hear();
        self.optin.as_mut().unwrap().pass(self.now);
        self.follow();
    }

    /// Until nothing happens and all hints are heard; then what is in the file is what is known.
    fn settle(&mut self) {
        loop {
            self.pass();
            // Without a cgroup it asks nothing.
            self.world.borrow_mut().step();
            let world = self.world.borrow();
            if world.hints.is_empty() && world.events.is_empty() {
                break;
            }
        }
        self.pass();
        self.pass();
        let optin = self.optin.as_ref().unwrap();
        let written = optin.store.read().unwrap().unwrap();
        assert_eq!(written.journal, optin.journal);
        assert_eq!(written.cgroups, optin.inside.iter().map(|cgroup| cgroup.path.clone()).collect());
    }

    /// As SIGKILL does.
    fn kill(&mut self) {
        let mut optin = self.optin.take().unwrap();
        optin.over = true;
        let mut world = self.world.borrow_mut();
        world.down = true;
        world.hints.clear();
        world.recorded = optin.journal.iter().map(|(tid, entry)| (*tid, entry.start)).collect();
        let inside: Vec<usize> = (0..CGROUPS.len()).filter(|at| world.covered(*at)).collect();
        let recorded = world.recorded.clone();
        for (tid, thread) in &mut world.threads {
            let unknown =
                thread.attr.policy == EXT && !thread.native && !recorded.contains(&(*tid, thread.start));
            thread.escaped |= unknown && !inside.contains(&thread.cgroup);
        }
    }

    fn judge(&self) {
        let wrongs = self.world.borrow().judge();
        assert!(wrongs.is_empty(), "{wrongs:#?}");
    }

    fn finish(&mut self) {
        self.optin.as_mut().unwrap().remove_all();
        self.follow();
        loop {
            self.hear();
            assert!(self.optin.as_mut().unwrap().finish());
            if self.world.borrow().hints.is_empty() {
                break;
            }
        }
        self.optin = None;
        self.follow();
        assert!(!Store::exists(&self.folder.path().join("run")));
        self.judge();
    }

    fn policies(&self) -> Vec<(u32, i32)> {
        let world = self.world.borrow();
        world
            .threads
            .iter()
            .filter(|(tid, _)| **tid != OWN)
            .map(|(_, t)| (t.attr.policy, t.attr.nice))
            .collect()
    }
}

fn any_thread() -> impl Strategy<Value = Thread> {
    let policy = prop::sample::select(vec![NORMAL, NORMAL, BATCH, IDLE, FIFO]);
    (0..CGROUPS.len(), policy, -20..19, any::<bool>(), prop::bool::weighted(0.1), prop::bool::weighted(0.1))
        .prop_map(|(cgroup, policy, nice, reset, kernel, native)| {
            let mut thread = task(cgroup, policy, nice);
            thread.attr.reset_on_fork = reset;
            if native && !kernel {
                thread = Thread { native: true, ..task(3, EXT, nice) };
            }
            Thread { kernel, ..thread }
        })
}

fn any_event() -> impl Strategy<Value = Event> {
    let policy = prop::sample::select(vec![NORMAL, BATCH, IDLE, FIFO]);
    prop_oneof![
        4 => (0..20usize, any::<bool>(), prop::option::weighted(0.3, 0..4usize))
            .prop_map(|(by, thread, into)| Event::Fork { by, thread, into }),
        2 => (0..20usize).prop_map(Event::End),
        4 => (0..20usize, 0..4usize).prop_map(|(at, to)| Event::Move(at, to)),
        1 => (0..20usize, policy).prop_map(|(at, policy)| Event::Policy(at, policy)),
        1 => (0..20usize, -20..19).prop_map(|(at, nice)| Event::Nice(at, nice)),
        1 => (0..20usize, prop::option::of(0..20usize)).prop_map(|(at, by)| Event::Reuse(at, by)),
    ]
}

fn any_events() -> impl Strategy<Value = VecDeque<Option<Event>>> {
    prop::collection::vec(prop::option::weighted(0.4, any_event()), 0..60).prop_map(VecDeque::from)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_threads_do_all_is_right_when_they_hold_still(
        threads in prop::collection::vec(any_thread(), 1..8),
        events in prop::collection::vec(any_events(), 1..5),
    ) {
        let mut agent = Agent::new(threads);
        agent.start(&[0]);
        agent.judge();
        for events in events {
            agent.world.borrow_mut().events = events;
            agent.settle();
            agent.judge();
        }
        agent.finish();
    }

    #[test]
    fn cgroups_come_and_go_while_threads_do(
        threads in prop::collection::vec(any_thread(), 1..8),
        steps in prop::collection::vec((any_events(), 0..3usize, any::<bool>()), 1..6),
        last in any_events(),
    ) {
        let mut agent = Agent::new(threads);
        agent.start(&[0, 2]);
        let mut inside = BTreeSet::from([0, 2]);
        for (events, at, add) in steps {
            agent.world.borrow_mut().events = events;
            let (optin, path) = (agent.optin.as_mut().unwrap(), Path::new(CGROUPS[at]));
            if add {
                inside.insert(at);
                optin.add(path).unwrap();
            } else {
                prop_assert_eq!(optin.remove(path).is_ok(), inside.remove(&at));
            }
            agent.settle();
            agent.judge();
        }
        // They hold still no more than before.
        agent.world.borrow_mut().events = last;
        agent.finish();
    }

    #[test]
    fn a_killed_agents_successor_gives_everything_back(
        threads in prop::collection::vec(any_thread(), 1..8),
        before in any_events(), meanwhile in any_events(),
        budget in prop::option::of(0..6usize), opts_in in any::<bool>(),
    ) {
        let mut agent = Agent::new(threads);
        agent.start(&[0, 2]);
        // Killed amid whatever it does.
        agent.world.borrow_mut().events = before;
        agent.world.borrow_mut().budget = budget;
        agent.pass();
        agent.kill();
        agent.world.borrow_mut().budget = None;
        agent.world.borrow_mut().events = meanwhile;
        agent.world.borrow_mut().run();
        agent.start(if opts_in { &[2] } else { &[] });
        agent.judge();
        agent.finish();
    }
}

#[test]
fn policies_go_and_come_back() {
    let ready =
        vec![task(0, NORMAL, 5), task(1, BATCH, -3), task(0, IDLE, 2), task(0, FIFO, 0), task(3, NORMAL, 1)];
    let before: Vec<_> = ready.iter().map(|thread| (thread.attr.policy, thread.attr.nice)).collect();
    let mut agent = Agent::new(ready);
    agent.start(&[0]);
    assert_eq!(agent.policies(), [(EXT, 5), (EXT, -3), (EXT, IDLE_NICE), (FIFO, 0), (NORMAL, 1)]);
    let report = agent.optin.as_ref().unwrap().report();
    let expected = CgroupReport { path: "/in".into(), threads: 3, real_time: 1, cpu_max: None };
    assert_eq!(report, Report { cgroups: vec![expected], ..Report::default() });
    agent.finish();
    assert_eq!(agent.policies(), before);
}

#[test]
fn a_child_that_leaves_before_it_was_seen_is_known_by_the_hint() {
    let mut agent = Agent::new(vec![task(0, BATCH, 0)]);
    agent.start(&[0]);
    // It is forked, leaves and forks again, all between two looks.
    let fork = |by| Event::Fork { by, thread: false, into: None };
    agent.world.borrow_mut().events = [fork(0), Event::Move(1, 3), fork(1)].map(Some).into();
    agent.world.borrow_mut().run();
    agent.settle();
    assert!(agent.optin.as_ref().unwrap().is_watching());
    assert_eq!(agent.policies(), [(EXT, 0), (BATCH, 0), (BATCH, 0)]);
    agent.now += WATCHED;
    agent.pass();
    assert!(!agent.optin.as_ref().unwrap().is_watching());
    agent.finish();
}

#[test]
fn who_asks_for_the_policy_outside_keeps_it() {
    let native = Thread { native: true, ..task(3, EXT, 0) };
    let mut agent = Agent::new(vec![native.clone(), task(0, NORMAL, 0)]);
    agent.start(&[0]);
    agent.world.borrow_mut().events = [Some(Event::Fork { by: 0, thread: false, into: None })].into();
    agent.settle();
    agent.finish();
    assert_eq!(agent.policies(), [(EXT, 0), (NORMAL, 0), (EXT, 0)]);
}

#[test]
fn a_cgroup_that_vanishes_is_dropped_and_told() {
    let mut agent = Agent::new(vec![task(0, NORMAL, 0)]);
    agent.start(&[0, 2]);
    agent.world.borrow_mut().removed.insert(2);
    agent.pass();
    let optin = agent.optin.as_mut().unwrap();
    let report = optin.report();
    assert_eq!((report.cgroups.len(), report.gone), (1, vec!["/also".to_owned()]));
    assert_eq!(optin.followed(), BTreeMap::from([(0, true)]));
    assert!(optin.remove(Path::new("/also")).unwrap_err().message.contains("is not opted in"));
    assert!(optin.add(Path::new("/also")).is_err());
    agent.world.borrow_mut().removed.clear();
    let optin = agent.optin.as_mut().unwrap();
    optin.add(Path::new("/also")).unwrap();
    // Twice is once.
    optin.add(Path::new("/also")).unwrap();
    assert_eq!((optin.report().cgroups.len(), optin.report().gone.len()), (2, 0));
    agent.finish();
}

#[test]
fn what_the_kernel_refuses_is_told_and_tried_again() {
    let mut agent = Agent::new(vec![task(0, NORMAL, 0), task(0, BATCH, 0)]);
    agent.world.borrow_mut().budget = Some(0);
    agent.world.borrow_mut().limited = true;
    agent.start(&[0]);
    let report = agent.optin.as_ref().unwrap().report();
    assert!(report.notes[0].contains("cannot be set"), "{report:?}");
    assert!(report.cgroups[0].note().unwrap().contains("cpu.max of /in"));
    agent.world.borrow_mut().budget = None;
    agent.pass();
    assert_eq!(agent.policies(), [(EXT, 0), (EXT, 0)]);
    assert!(agent.optin.as_ref().unwrap().report().notes.is_empty());
    // Not given back, and not forgotten.
    agent.world.borrow_mut().budget = Some(0);
    assert!(!agent.optin.as_mut().unwrap().finish());
    agent.optin = None;
    agent.world.borrow_mut().budget = None;
    agent.start(&[]);
    assert_eq!(agent.policies(), [(NORMAL, 0), (BATCH, 0)]);
    agent.finish();
}

#[test]
fn what_cannot_be_recorded_is_not_switched() {
    let mut agent = Agent::new(vec![task(3, NORMAL, 0)]);
    agent.start(&[0]);
    // Without its file nothing can be appended.
    agent.optin.as_mut().unwrap().store.clear().unwrap();
    agent.world.borrow_mut().events = [Some(Event::Move(0, 0))].into();
    agent.pass();
    agent.pass();
    assert_eq!(agent.policies(), [(NORMAL, 0)]);
    assert!(agent.optin.as_ref().unwrap().report().notes[0].contains("none are switched"));
}

/// It may be started from a shell that a killed one has left with SCHED_EXT.
#[test]
fn this_process_is_given_back_what_it_had_and_not_switched() {
    let mut agent = Agent::new(vec![task(0, NORMAL, 0)]);
    agent.world.borrow_mut().threads.get_mut(&OWN).unwrap().attr.policy = EXT;
    agent.start(&[0]);
    assert_eq!(agent.world.borrow().threads[&OWN].attr.policy, NORMAL);
    assert_eq!(agent.policies(), [(EXT, 0)]);
    agent.finish();
}

#[test]
fn dropping_it_gives_everything_back() {
    let mut agent = Agent::new(vec![task(0, BATCH, 4)]);
    agent.start(&[0]);
    agent.optin = None;
    assert_eq!(agent.policies(), [(BATCH, 4)]);
}

/// A thousand at once take two looks and one record.
#[test]
fn a_thousand_threads_are_switched_in_one_pass() {
    let mut agent = Agent::new(vec![task(0, NORMAL, 0); 1000]);
    agent.start(&[0]);
    assert_eq!(agent.optin.as_ref().unwrap().report().cgroups[0].threads, 1000);
    agent.finish();
}
