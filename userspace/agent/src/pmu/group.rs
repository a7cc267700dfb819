// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The open counters of one CPU.

use super::event_plan::EventPlan;
use super::open::Fds;
use super::read::{CounterReading, LONGEST};
use super::roles::{CounterState, EventSummary, Events, PerfEvent, ROLES, Role, Unit};
use nix::errno::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// The open counters of one CPU, closed on drop.
#[derive(Debug)]
pub struct Group {
    pub(super) cpu: u32,
    pub(super) events: Events,
    pub(super) origin: String,
    /// Index of the plan among the CPU's plans.
    pub(super) plan: usize,
    fds: Fds,
}

impl Group {
    pub(super) fn new(cpu: u32, plan: &EventPlan, index: usize, fds: Fds) -> Self {
        Self { cpu, events: plan.events.clone(), origin: plan.origin.clone(), plan: index, fds }
    }

    /// Return the CPU's number.
    #[must_use]
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Return the descriptors in the order of the kernel side's slots: cycles, instructions,
    /// external, internal. The first two are always open. The kernel's map must stay empty in a
    /// slot that is None.
    #[must_use]
    pub fn fds(&self) -> [Option<BorrowedFd<'_>>; ROLES] {
        self.fds.each_ref().map(|fd| fd.as_ref().map(AsFd::as_fd))
    }

    /// Return the unit of a role's counts; None when the role is not counted.
    #[must_use]
    pub fn unit(&self, role: Role) -> Option<Unit> {
        self.event(role).map(|event| event.unit)
    }

    /// Return the open event of a role.
    #[must_use]
    pub fn event(&self, role: Role) -> Option<&PerfEvent> {
        self.events[role.index()].as_ref()
    }

    /// Read the counts since the group was opened.
    ///
    /// # Errors
    /// The kernel's error. `InvalidData` when it returns fewer values than requested, as when the
    /// group cannot be scheduled.
    pub fn read(&self) -> io::Result<CounterReading> {
        let [Some(leader), ..] = &self.fds else { return Err(Errno::EBADF.into()) };
        let mut bytes = [0; LONGEST];
        let length = nix::unistd::read(leader, &mut bytes)?;
        let open = self.fds.each_ref().map(Option::is_some);
        let short =
            || io::Error::new(io::ErrorKind::InvalidData, "the kernel gave another number of counters");
        bytes.get(..length).and_then(|bytes| CounterReading::parse(bytes, open)).ok_or_else(short)
    }

    /// List the open events.
    #[must_use]
    pub fn summary(&self) -> Vec<EventSummary> {
        let events = Role::ALL.into_iter().zip(&self.events);
        events.filter_map(|(role, event)| Some(EventSummary { role, event: event.clone()? })).collect()
    }

    /// Classify the counters. `refusal` says why no better ones are open.
    pub(super) fn worth(&self, refusal: Option<String>) -> CounterState {
        CounterState::of(&self.events, || {
            let external = match self.unit(Role::External) {
                None => Some("external stalls are not counted"),
                Some(Unit::Misses) => Some("external stalls are counted as misses"),
                Some(_) => None,
            };
            let internal = self.unit(Role::Internal).is_none().then_some("internal stalls are not counted");
            let lacks: Vec<&str> = external.into_iter().chain(internal).collect();
            let why = refusal.unwrap_or_else(|| {
                "no better events are known for this core; name some with --events if its manual has them"
                    .to_owned()
            });
            format!("{}: {why}", lacks.join(" and "))
        })
    }

    /// Return a sentence for a counter that stays at zero.
    pub(super) fn still(&self, role: Role) -> String {
        let name = self.events[role.index()].as_ref().map_or("?", |event| event.name.as_str());
        format!("{name} stays at zero on CPU {} and was taken out; name another with --events", self.cpu)
    }

    /// Close a counter permanently.
    pub(super) fn close(&mut self, role: Role) {
        self.events[role.index()] = None;
        self.fds[role.index()] = None;
    }
}
