// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Answers of the simulated machine. Most calls first let its events advance.

use super::*;

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
