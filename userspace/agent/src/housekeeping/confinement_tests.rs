// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests on a simulated machine, whose threads fork, move and limit themselves between sweeps.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;

use super::*;
use crate::housekeeping::homes::{exist, open};
use proptest::prelude::*;

#[derive(Debug, Clone)]
struct SimTask {
    cpus: Cpus,
    /// Affinity without scx_bias.
    natural: Cpus,
    inside: bool,
    pinned: bool,
    maker: Tid,
}

#[derive(Debug, Default)]
struct SimMachine {
    tasks: BTreeMap<Tid, SimTask>,
    online: Cpus,
    possible: Cpus,
    workqueues: String,
    /// Number of calls that set an affinity.
    sets: usize,
    /// Thread that forks another one whenever an affinity is set, and the number of forks left.
    forks: (Tid, usize),
}

type SharedMachine = Rc<RefCell<SimMachine>>;

impl SimMachine {
    fn add(&mut self, tid: Tid, cpus: &[u32], inside: bool) {
        let task = SimTask { cpus: cpus.to_vec(), natural: cpus.to_vec(), inside, pinned: false, maker: 1 };
        self.tasks.insert(tid, task);
    }

    fn fork(&mut self, maker: Tid) -> Tid {
        let tid = self.tasks.keys().max().unwrap() + 1;
        let task = SimTask { maker, ..self.tasks[&maker].clone() };
        self.tasks.insert(tid, task);
        tid
    }
}

impl AffinityCalls for SharedMachine {
    fn online(&self) -> Option<Cpus> {
        Some(self.borrow().online.clone())
    }

    fn possible(&self) -> Option<Cpus> {
        Some(self.borrow().possible.clone())
    }

    fn all_threads(&self) -> BTreeSet<Tid> {
        self.borrow().tasks.keys().copied().collect()
    }

    fn inside(&self, _: &[Cgroup]) -> BTreeSet<Tid> {
        self.borrow().tasks.iter().filter(|(_, task)| task.inside).map(|(tid, _)| *tid).collect()
    }

    fn affinity(&self, tid: Tid) -> Option<Cpus> {
        let state = self.borrow();
        let cpus = state.tasks.get(&tid)?.cpus.iter().copied();
        Some(cpus.filter(|cpu| state.online.contains(cpu)).collect())
    }

    fn movable(&self, tid: Tid) -> Option<Id> {
        let is_pinned = self.borrow().tasks.get(&tid)?.pinned;
        (!is_pinned).then_some(Id { tid, start: u64::from(tid) })
    }

    fn maker(&self, tid: Tid) -> Option<Id> {
        let maker = self.borrow().tasks.get(&tid)?.maker;
        Some(Id { tid: maker, start: u64::from(maker) })
    }

    fn set_affinity(&self, tid: Tid, cpus: &[u32]) -> io::Result<()> {
        let mut state = self.borrow_mut();
        if state.forks.1 > 0 {
            state.forks.1 -= 1;
            let maker = state.forks.0;
            state.fork(maker);
        }
        state.sets += 1;
        let task = state.tasks.get_mut(&tid).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        assert!(!task.pinned, "{tid}");
        task.cpus = cpus.to_vec();
        Ok(())
    }

    fn workqueues(&self) -> Option<String> {
        Some(self.borrow().workqueues.clone())
    }

    fn set_workqueues(&self, mask: &str) -> io::Result<()> {
        self.borrow_mut().workqueues = mask.to_owned();
        Ok(())
    }
}

const ALL: [u32; 4] = [0, 1, 2, 3];

/// A machine with threads outside (1, 2, 3), inside (4) and pinned by the kernel (5).
fn machine() -> SharedMachine {
    let mut state = SimMachine {
        online: ALL.to_vec(),
        possible: ALL.to_vec(),
        workqueues: "f".to_owned(),
        ..SimMachine::default()
    };
    state.add(1, &ALL, false);
    state.add(2, &[0, 3], false);
    state.add(3, &[1], false);
    state.add(4, &ALL, true);
    state.add(5, &ALL, false);
    state.tasks.get_mut(&5).unwrap().pinned = true;
    Rc::new(RefCell::new(state))
}

fn start(system: &SharedMachine, directory: &Path) -> Confinement<SharedMachine> {
    let file = open(&directory.join("run"), "boot").unwrap();
    let mut confinement = Confinement::new(Rc::clone(system), file, 3);
    confinement.keep(Whom::All, &[]);
    confinement
}

fn cpus(system: &SharedMachine) -> Vec<Cpus> {
    system.borrow().tasks.values().map(|task| task.cpus.clone()).collect()
}

fn homes() -> Vec<Cpus> {
    vec![ALL.to_vec(), vec![0, 3], vec![1], ALL.to_vec(), ALL.to_vec()]
}

#[test]
fn threads_are_confined_and_all_is_restored() {
    let (system, directory) = (machine(), tempfile::tempdir().unwrap());
    let mut confinement = start(&system, directory.path());
    assert_eq!(cpus(&system), [vec![3], vec![3], vec![1], vec![0, 1, 2], ALL.to_vec()]);
    assert_eq!(system.borrow().workqueues, "8");
    // Nothing is left to do.
    let sets = system.borrow().sets;
    confinement.keep(Whom::All, &[]);
    confinement.keep(Whom::Inside, &[]);
    assert_eq!(system.borrow().sets, sets);
    // A thread moves in, another one leaves. Only a sweep over all threads finds the latter.
    system.borrow_mut().tasks.get_mut(&1).unwrap().inside = true;
    system.borrow_mut().tasks.get_mut(&4).unwrap().inside = false;
    confinement.keep(Whom::Inside, &[]);
    assert_eq!((&cpus(&system)[0], &cpus(&system)[3]), (&vec![0, 1, 2], &vec![0, 1, 2]));
    confinement.keep(Whom::All, &[]);
    assert_eq!(cpus(&system)[3], [3]);
    confinement.release().unwrap();
    assert_eq!((cpus(&system), system.borrow().workqueues.as_str()), (homes(), "f"));
}

#[test]
fn threads_that_fork_meanwhile_are_found() {
    let (system, directory) = (machine(), tempfile::tempdir().unwrap());
    system.borrow_mut().forks = (2, 5);
    let mut confinement = start(&system, directory.path());
    let confined = cpus(&system);
    assert!(confined.len() == 10 && confined[5..].iter().all(|cpus| cpus == &[3]), "{confined:?}");
    system.borrow_mut().forks = (2, 5);
    confinement.release().unwrap();
    let restored = cpus(&system);
    assert!(restored.len() == 15 && restored[5..].iter().all(|cpus| cpus == &[0, 3]), "{restored:?}");
}

#[test]
fn affinities_set_by_a_killed_instance_are_restored() {
    let (system, directory) = (machine(), tempfile::tempdir().unwrap());
    let mut confinement = start(&system, directory.path());
    system.borrow_mut().fork(1);
    // As if killed: nothing runs at the end.
    confinement.over = true;
    drop(confinement);
    assert_eq!(cpus(&system)[5], [3]);
    let file = open(&directory.path().join("run"), "boot").unwrap();
    let remembered = RememberedHomes::parse(&file.read().unwrap().unwrap()).unwrap();
    Confinement::resume(Rc::clone(&system), file, remembered).release().unwrap();
    assert_eq!(cpus(&system), [homes(), vec![ALL.to_vec()]].concat());
    assert_eq!(system.borrow().workqueues, "f");
    assert!(!exist(&directory.path().join("run")));
}

#[test]
fn without_its_cpu_no_thread_is_confined_until_the_cpu_is_back() {
    let (system, directory) = (machine(), tempfile::tempdir().unwrap());
    let mut confinement = start(&system, directory.path());
    system.borrow_mut().online = vec![0, 1, 2];
    // The kernel gives other CPUs to the thread that runs, and leaves the others alone.
    system.borrow_mut().tasks.get_mut(&1).unwrap().cpus = ALL.to_vec();
    let before = cpus(&system);
    confinement.keep(Whom::All, &[]);
    assert_eq!(cpus(&system), before, "nothing happens while CPUs change");
    confinement.keep(Whom::All, &[]);
    assert_eq!((cpus(&system), system.borrow().workqueues.as_str()), (homes(), "f"));
    assert!(!confinement.confines);
    let sets = system.borrow().sets;
    confinement.keep(Whom::All, &[]);
    assert_eq!(system.borrow().sets, sets);
    system.borrow_mut().online = ALL.to_vec();
    confinement.keep(Whom::All, &[]);
    confinement.keep(Whom::All, &[]);
    assert_eq!(cpus(&system), [vec![3], vec![3], vec![1], vec![0, 1, 2], ALL.to_vec()]);
    assert_eq!(system.borrow().workqueues, "8");
    // It ends while the CPU is offline.
    system.borrow_mut().online = vec![0, 1, 2];
    confinement.release().unwrap();
    assert_eq!(cpus(&system), homes());
}

#[test]
fn a_mask_has_one_bit() {
    assert_eq!([mask_of(0), mask_of(3), mask_of(32)], ["1", "8", "1,00000000"]);
    assert_eq!(mask_of(95), "80000000,00000000,00000000");
}

#[test]
fn threads_of_this_machine_are_listed() {
    let system = Linux::default();
    let (online, possible) = (system.online().unwrap(), system.possible().unwrap());
    assert!(online.iter().all(|cpu| possible.contains(cpu)));
    let leader = std::process::id();
    let threads = system.all_threads();
    assert!(threads.contains(&leader) && threads.contains(&1));
    let shows = |name: &str| {
        let is_shown = || {
            // SAFETY: the call has no arguments and only returns a number.
            let tid = unsafe { nix::libc::gettid() } as Tid;
            Linux::default().all_threads().contains(&tid)
        };
        std::thread::Builder::new().name(name.into()).spawn(is_shown).unwrap().join().unwrap()
    };
    assert!(shows("another") && !shows(SPOT_THREAD));
    assert!(!system.affinity(leader).unwrap().is_empty());
    assert_eq!(system.affinity(5_000_000), None);
}

const POSSIBLE: u32 = 6;

#[derive(Debug, Clone)]
enum Event {
    Fork(prop::sample::Index),
    Move(prop::sample::Index),
    Limit(prop::sample::Index, Cpus),
}

impl SimMachine {
    /// Return the affinity that the kernel shows, and the home that follows from it. The kernel
    /// shows online CPUs only.
    fn shown(&self, cpus: &[u32]) -> (Cpus, Cpus) {
        let shown: Cpus = cpus.iter().copied().filter(|cpu| self.online.contains(cpu)).collect();
        let natural = if shown == self.online { self.possible.clone() } else { shown.clone() };
        (shown, natural)
    }

    fn carry_out(&mut self, event: Event, confinement: &Confinement<SharedMachine>, sets: &CpuSets) {
        let tid = |index: prop::sample::Index| index.index(self.tasks.len()) as Tid + 1;
        match event {
            Event::Fork(index) => drop(self.fork(tid(index))),
            Event::Move(index) => {
                let task = self.tasks.get_mut(&tid(index)).unwrap();
                task.inside = !task.inside;
            }
            Event::Limit(index, cpus) => {
                let (cpus, natural) = self.shown(&cpus);
                let mut homes = confinement.record.homes.values();
                let is_known = homes.any(|home| sets.visible(&home.given) == cpus);
                if !cpus.is_empty() && !sets.is_default(&cpus) && !is_known {
                    let task = self.tasks.get_mut(&tid(index)).unwrap();
                    (task.cpus, task.natural) = (cpus, natural);
                }
            }
        }
    }

    /// Return the first thread that is not where it belongs.
    fn wrong(&self, cpu: u32) -> Option<String> {
        let wrong = self.tasks.iter().find(|(_, task)| {
            let affinity = self.shown(&task.cpus).0;
            match task.inside {
                true => affinity.contains(&cpu) || affinity.is_empty(),
                false if task.natural.contains(&cpu) => affinity != [cpu],
                false => affinity != self.shown(&task.natural).0,
            }
        });
        wrong.map(|(tid, task)| format!("{tid} {task:?}"))
    }
}

fn any_cpus() -> impl Strategy<Value = Cpus> {
    let some = prop::collection::btree_set(0..POSSIBLE, 1..4).prop_map(|set| set.into_iter().collect());
    prop_oneof![Just((0..POSSIBLE).collect()), some]
}

fn any_event() -> impl Strategy<Value = Event> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        index().prop_map(Event::Fork),
        index().prop_map(Event::Move),
        (index(), any_cpus()).prop_map(|(index, cpus)| Event::Limit(index, cpus)),
    ]
}

proptest! {
    #[test]
    fn threads_are_where_they_belong_and_get_their_homes_back(
        cpu in 0..4u32,
        online in prop::sample::select(vec![4, 5, POSSIBLE]),
        threads in prop::collection::vec((any_cpus(), any::<bool>()), 1..8),
        events in prop::collection::vec(any_event(), 0..30),
    ) {
        let (online, possible): (Cpus, Cpus) = ((0..online).collect(), (0..POSSIBLE).collect());
        let sets = CpuSets { cpu, online: online.clone(), possible: possible.clone() };
        let mut machine = SimMachine { online, possible, ..SimMachine::default() };
        for (cpus, inside) in threads {
            let (cpus, natural) = machine.shown(&cpus);
            if !cpus.is_empty() {
                let tid = machine.tasks.len() as Tid + 1;
                machine.add(tid, &cpus, inside);
                machine.tasks.get_mut(&tid).unwrap().natural = natural;
            }
        }
        prop_assume!(!machine.tasks.is_empty());
        let (system, directory) = (Rc::new(RefCell::new(machine)), tempfile::tempdir().unwrap());
        let file = open(&directory.path().join("run"), "boot").unwrap();
        let mut confinement = Confinement::new(Rc::clone(&system), file, cpu);
        confinement.keep(Whom::All, &[]);
        prop_assert_eq!(system.borrow().wrong(cpu), None);
        for event in events {
            system.borrow_mut().carry_out(event, &confinement, &sets);
            confinement.keep(Whom::All, &[]);
            prop_assert_eq!(system.borrow().wrong(cpu), None);
        }
        confinement.release().unwrap();
        let machine = system.borrow();
        for task in machine.tasks.values() {
            prop_assert_eq!(machine.shown(&task.cpus).0, machine.shown(&task.natural).0);
        }
    }
}
