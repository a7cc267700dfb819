// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests on simulated threads that fork, move and limit themselves between sweeps.

use std::collections::BTreeSet;

use super::*;
use proptest::prelude::*;

const POSSIBLE: u32 = 6;

#[derive(Debug, Clone)]
struct SimThread {
    affinity: Cpus,
    /// Affinity without scx_bias.
    natural: Cpus,
    inside: bool,
    maker: Option<Tid>,
}

#[derive(Debug, Clone)]
enum Event {
    Fork(prop::sample::Index),
    Move(prop::sample::Index),
    Limit(prop::sample::Index, Cpus),
}

struct SimHomes {
    sets: CpuSets,
    threads: BTreeMap<Tid, SimThread>,
    homes: Homes,
    /// Threads about which a sweep has decided.
    known: BTreeSet<Tid>,
}

impl SimHomes {
    fn new(cpu: u32, online: Cpus, threads: Vec<(Cpus, bool)>) -> Self {
        let sets = CpuSets { cpu, online, possible: (0..POSSIBLE).collect() };
        let thread = |(natural, inside): (Cpus, bool)| {
            let affinity = sets.visible(&natural);
            // Of threads with all online CPUs the kernel does not report more.
            let natural = if affinity == sets.online { sets.possible.clone() } else { affinity.clone() };
            SimThread { affinity, natural, inside, maker: None }
        };
        let threads = threads.into_iter().map(thread).filter(|thread| !thread.affinity.is_empty());
        let threads = (1..).zip(threads).collect();
        Self { sets, threads, homes: Homes::new(), known: BTreeSet::new() }
    }

    /// Sweep until nothing is left to do. Return the number of sweeps.
    fn settle(&mut self, mut phase: Phase) -> usize {
        for sweeps in 1..10 {
            let mut quiet = true;
            for tid in self.threads.keys().copied().collect::<Vec<_>>() {
                let id = |tid: Tid| Id { tid, start: u64::from(tid) };
                let SimThread { affinity, inside, maker, .. } = self.threads[&tid].clone();
                let maker = maker.filter(|_| self.known.insert(tid));
                let seen = SeenAffinity { id: id(tid), affinity, inside, maker: maker.map(id) };
                let decision = self.sets.decide(&seen, &self.homes, phase);
                match decision.record {
                    Some(record) => drop(self.homes.insert(tid, record)),
                    None => drop(self.homes.remove(&tid)),
                }
                if let Some(set) = decision.set {
                    quiet = false;
                    self.threads.get_mut(&tid).unwrap().affinity = self.sets.visible(&set);
                }
            }
            if phase == Phase::Start {
                phase = Phase::Keep;
            }
            if quiet || phase == Phase::Release {
                return sweeps;
            }
        }
        unreachable!("sweeps find no end");
    }

    fn carry_out(&mut self, event: Event) {
        let tid = |index: prop::sample::Index| index.index(self.threads.len()) as Tid + 1;
        match event {
            Event::Fork(index) => {
                let maker = tid(index);
                let child = SimThread { maker: Some(maker), ..self.threads[&maker].clone() };
                self.threads.insert(self.threads.len() as Tid + 1, child);
            }
            Event::Move(index) => {
                let thread = self.threads.get_mut(&tid(index)).unwrap();
                thread.inside = !thread.inside;
            }
            Event::Limit(index, cpus) => {
                let cpus = self.sets.visible(&cpus);
                let is_known = self.homes.values().any(|home| self.sets.visible(&home.given) == cpus);
                if cpus.is_empty() || self.sets.is_default(&cpus) || is_known {
                    return;
                }
                let natural =
                    if cpus == self.sets.online { self.sets.possible.clone() } else { cpus.clone() };
                let thread = self.threads.get_mut(&tid(index)).unwrap();
                (thread.affinity, thread.natural) = (cpus, natural);
            }
        }
    }

    fn wrong(&self) -> Option<String> {
        let wrong = self.threads.iter().find(|(_, thread)| {
            let uses = thread.affinity.contains(&self.sets.cpu);
            let excluded = !thread.natural.contains(&self.sets.cpu);
            match thread.inside {
                true => uses || thread.affinity.is_empty(),
                false if excluded => thread.affinity != self.sets.visible(&thread.natural),
                false => thread.affinity != [self.sets.cpu],
            }
        });
        wrong.map(|(tid, thread)| format!("{tid} {thread:?} {:?}", self.homes.get(tid)))
    }
}

fn cpus() -> impl Strategy<Value = Cpus> {
    let some = prop::collection::btree_set(0..POSSIBLE, 1..4).prop_map(|set| set.into_iter().collect());
    prop_oneof![Just((0..POSSIBLE).collect()), some]
}

fn event() -> impl Strategy<Value = Event> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        index().prop_map(Event::Fork),
        index().prop_map(Event::Move),
        (index(), cpus()).prop_map(|(index, cpus)| Event::Limit(index, cpus)),
    ]
}

proptest! {
    #[test]
    fn threads_are_where_they_belong_and_get_their_homes_back(
        cpu in 0..4u32,
        online in prop::sample::select(vec![4, 5, POSSIBLE]),
        threads in prop::collection::vec((cpus(), any::<bool>()), 1..8),
        events in prop::collection::vec(event(), 0..30),
    ) {
        let mut sim = SimHomes::new(cpu, (0..online).collect(), threads);
        prop_assume!(!sim.threads.is_empty());
        sim.settle(Phase::Start);
        prop_assert_eq!(sim.wrong(), None);
        for event in events {
            sim.carry_out(event);
            sim.settle(Phase::Keep);
            prop_assert_eq!(sim.wrong(), None);
        }
        sim.settle(Phase::Release);
        for thread in sim.threads.values() {
            prop_assert_eq!(&thread.affinity, &sim.sets.visible(&thread.natural));
        }
    }
}

fn seen(tid: Tid, affinity: &[u32], inside: bool, maker: Option<Tid>) -> SeenAffinity {
    let id = |tid| Id { tid, start: u64::from(tid) };
    SeenAffinity { id: id(tid), affinity: affinity.to_vec(), inside, maker: maker.map(id) }
}

#[test]
fn most_threads_need_no_record() {
    let sets = CpuSets { cpu: 3, online: vec![0, 1, 2, 3], possible: vec![0, 1, 2, 3] };
    let decide = |thread| sets.decide(&thread, &Homes::new(), Phase::Start);
    let outside = decide(seen(1, &[0, 1, 2, 3], false, None));
    assert_eq!(outside, Decision { set: Some(vec![3]), record: None });
    let elsewhere = decide(seen(1, &[1], false, None));
    assert_eq!(elsewhere, Decision { set: None, record: None });
    // Without a record these would count as threads whose home is all CPUs.
    assert!(decide(seen(1, &[3], false, None)).record.is_some());
    assert!(decide(seen(1, &[0, 1, 2], false, None)).record.is_some());
}

#[test]
fn a_cpu_that_is_going_offline_costs_no_thread_its_home() {
    let all = vec![0, 1, 2, 3];
    let sets = CpuSets { cpu: 3, online: all.clone(), possible: all };
    let mut homes = Homes::new();
    let first = sets.decide(&seen(7, &[2, 3], false, None), &homes, Phase::Start);
    homes.insert(7, first.record.unwrap());
    // Asleep, or driven off by the kernel. The CPU is still listed as online.
    for affinity in [&[][..], &[0, 1, 2]] {
        let decision = sets.decide(&seen(7, affinity, false, None), &homes, Phase::Keep);
        assert_eq!(decision.record.as_ref(), homes.get(&7), "{affinity:?}");
    }
}

#[test]
fn threads_get_their_homes_while_the_housekeeping_cpu_is_offline() {
    let all = vec![0, 1, 2, 3];
    let mut sets = CpuSets { cpu: 3, online: all.clone(), possible: all.clone() };
    let mut homes = Homes::new();
    let first = sets.decide(&seen(7, &[0, 3], false, None), &homes, Phase::Start);
    homes.insert(7, first.record.unwrap());
    sets.online = vec![0, 1, 2];
    assert!(!sets.can_confine());
    for (tid, affinity, inside, home) in [
        // Asleep, or driven off by the kernel.
        (7, &[][..], false, vec![0, 3]),
        (7, &[0, 1, 2], false, vec![0, 3]),
        (8, &[], false, all.clone()),
        (8, &[0, 1, 2], true, all),
    ] {
        let decision = sets.decide(&seen(tid, affinity, inside, None), &homes, Phase::Release);
        assert_eq!(decision.set, Some(home), "{tid} {affinity:?}");
    }
}
