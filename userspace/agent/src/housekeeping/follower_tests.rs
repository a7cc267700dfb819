// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests on a simulated machine of four CPUs.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use super::*;
use crate::optin::system::Stat;

#[derive(Debug, Clone)]
struct SimTask {
    cpus: Cpus,
    inside: bool,
    pinned: bool,
    maker: Tid,
}

#[derive(Debug, Default)]
struct SimMachine {
    tasks: BTreeMap<Tid, SimTask>,
    online: Cpus,
    workqueues: String,
    /// Number of calls that set an affinity.
    sets: usize,
    /// Thread that forks another one whenever an affinity is set, and the number of forks left.
    forks: (Tid, usize),
}

type SharedMachine = Rc<RefCell<SimMachine>>;

impl SimMachine {
    fn add(&mut self, tid: Tid, cpus: &[u32], inside: bool) {
        let task = SimTask { cpus: cpus.to_vec(), inside, pinned: false, maker: 1 };
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
        Some(vec![0, 1, 2, 3])
    }

    fn threads(&self) -> BTreeSet<Tid> {
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

    fn stat(&self, tid: Tid) -> Option<Stat> {
        let pinned = self.borrow().tasks.get(&tid)?.pinned;
        Some(Stat { start: u64::from(tid), dead: false, kernel: pinned, pinned })
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
    let mut state = SimMachine { online: ALL.to_vec(), workqueues: "f".to_owned(), ..SimMachine::default() };
    state.add(1, &ALL, false);
    state.add(2, &[0, 3], false);
    state.add(3, &[1], false);
    state.add(4, &ALL, true);
    state.add(5, &ALL, false);
    state.tasks.get_mut(&5).unwrap().pinned = true;
    Rc::new(RefCell::new(state))
}

fn start(system: &SharedMachine, directory: &Path) -> Confinement<SharedMachine> {
    let file = HomesFile::open(&directory.join("run"), "boot").unwrap();
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
    // A thread moves in, another one leaves. Only the look at all threads finds the latter.
    system.borrow_mut().tasks.get_mut(&1).unwrap().inside = true;
    system.borrow_mut().tasks.get_mut(&4).unwrap().inside = false;
    confinement.keep(Whom::Inside, &[]);
    assert_eq!((&cpus(&system)[0], &cpus(&system)[3]), (&vec![0, 1, 2], &vec![0, 1, 2]));
    confinement.keep(Whom::All, &[]);
    assert_eq!(cpus(&system)[3], [3]);
    confinement.end().unwrap();
    assert_eq!((cpus(&system), system.borrow().workqueues.as_str()), (homes(), "f"));
}

#[test]
fn threads_that_fork_meanwhile_are_found() {
    let (system, directory) = (machine(), tempfile::tempdir().unwrap());
    system.borrow_mut().forks = (2, 5);
    let confinement = start(&system, directory.path());
    let confined = cpus(&system);
    assert!(confined.len() == 10 && confined[5..].iter().all(|cpus| cpus == &[3]), "{confined:?}");
    system.borrow_mut().forks = (2, 5);
    confinement.end().unwrap();
    let restored = cpus(&system);
    assert!(restored.len() == 15 && restored[5..].iter().all(|cpus| cpus == &[0, 3]), "{restored:?}");
}

#[test]
fn what_a_killed_instance_left_is_restored() {
    let (system, directory) = (machine(), tempfile::tempdir().unwrap());
    let mut confinement = start(&system, directory.path());
    system.borrow_mut().fork(1);
    // As if killed: nothing runs at the end.
    confinement.over = true;
    drop(confinement);
    assert_eq!(cpus(&system)[5], [3]);
    let file = HomesFile::open(&directory.path().join("run"), "boot").unwrap();
    let remembered = file.read().unwrap().unwrap();
    Confinement::resume(Rc::clone(&system), file, remembered).end().unwrap();
    assert_eq!(cpus(&system), [homes(), vec![ALL.to_vec()]].concat());
    assert_eq!(system.borrow().workqueues, "f");
    assert!(!HomesFile::exists(&directory.path().join("run")));
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
    confinement.end().unwrap();
    assert_eq!(cpus(&system), homes());
}
