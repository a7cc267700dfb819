// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! DSQs of the scheduler and the kernel's global one.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Bound;

use super::task::TaskId;

/// A DSQ. Keys order by vtime, modulo 2^64, and then by insertion, as `scx_dsq_priq_less()` and
/// `rb_add()` do. In a FIFO all vtimes are 0.
#[derive(Debug, Default)]
pub struct Dsq {
    tasks: RefCell<BTreeMap<(i64, u64), TaskId>>,
    /// Insertions so far (`dsq->seq`).
    newest: Cell<u64>,
    kind: Cell<Option<bool>>,
}

impl Dsq {
    /// Insert a task and return its key. `vtime` is None in a FIFO. Return None if the DSQ holds
    /// tasks of the other order.
    pub fn insert(&self, task: TaskId, vtime: Option<u64>) -> Option<(i64, u64)> {
        let by_vtime = vtime.is_some();
        if self.kind.get().is_some_and(|kind| kind != by_vtime && !self.tasks.borrow().is_empty()) {
            return None;
        }
        self.kind.set(Some(by_vtime));
        self.newest.set(self.newest.get() + 1);
        let key = (vtime.unwrap_or(0) as i64, self.newest.get());
        self.tasks.borrow_mut().insert(key, task);
        Some(key)
    }

    /// Remove a task by its key.
    pub fn remove(&self, key: (i64, u64)) {
        self.tasks.borrow_mut().remove(&key);
    }

    /// Return the number of tasks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.borrow().len()
    }

    /// Return true if no task is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.borrow().is_empty()
    }

    /// Return the sequence number of the newest task.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.newest.get()
    }

    /// Return the first task after `after` that is not newer than `newest`, with its key.
    #[must_use]
    pub fn next(&self, after: Option<(i64, u64)>, newest: u64) -> Option<((i64, u64), TaskId)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let tasks = self.tasks.borrow();
        let mut rest = tasks.range((from, Bound::Unbounded));
        rest.find(|((_, seq), _)| *seq <= newest).map(|(key, task)| (*key, *task))
    }

    /// The same backwards, from the last task (`SCX_DSQ_ITER_REV`).
    #[must_use]
    pub fn previous(&self, before: Option<(i64, u64)>, newest: u64) -> Option<((i64, u64), TaskId)> {
        let to = before.map_or(Bound::Unbounded, Bound::Excluded);
        let tasks = self.tasks.borrow();
        let mut rest = tasks.range((Bound::Unbounded, to)).rev();
        rest.find(|((_, seq), _)| *seq <= newest).map(|(key, task)| (*key, *task))
    }
}

/// Hash of an id: the id's few bits spread over the word.
#[derive(Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, id: u64) {
        self.0 = (self.0.rotate_left(5) ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// DSQs by id.
#[derive(Debug, Default)]
pub struct Dsqs {
    /// The kernel's global DSQ.
    pub global: Dsq,
    user: RefCell<HashMap<u64, std::rc::Rc<Dsq>, BuildHasherDefault<IdHasher>>>,
}

impl Dsqs {
    /// Create a DSQ. Return false if the id is taken.
    pub fn create(&self, id: u64) -> bool {
        self.user.borrow_mut().insert(id, std::rc::Rc::default()).is_none()
    }

    /// Return a DSQ of the scheduler.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<std::rc::Rc<Dsq>> {
        self.user.borrow().get(&id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Tasks leave in the order of their vtimes, equal ones in the order of insertion. vtimes
        /// may wrap.
        #[test]
        fn vtimes_order(offset: u64, vtimes in proptest::collection::vec(0u64..8, 1..40)) {
            let dsq = Dsq::default();
            for (task, vtime) in vtimes.iter().enumerate() {
                // The kernel compares modulo 2^64, the tree as signed numbers: the same as long as
                // all are within 2^63 of zero, which a simulation never leaves.
                prop_assert!(dsq.insert(task, Some((offset >> 2).wrapping_sub(1 << 60).wrapping_add(*vtime))).is_some());
            }
            let mut order: Vec<usize> = (0..vtimes.len()).collect();
            order.sort_by_key(|task| vtimes[*task]);
            let mut after = None;
            let mut seen = Vec::new();
            while let Some((key, task)) = dsq.next(after, u64::MAX) {
                seen.push(task);
                after = Some(key);
            }
            prop_assert_eq!(seen, order);
        }
    }

    #[test]
    fn an_iteration_does_not_see_newer_tasks() {
        let dsq = Dsq::default();
        dsq.insert(0, Some(5));
        let newest = dsq.newest();
        dsq.insert(1, Some(1));
        assert_eq!(dsq.next(None, newest).map(|(_, task)| task), Some(0));
        assert_eq!(dsq.next(None, u64::MAX).map(|(_, task)| task), Some(1));
    }

    #[test]
    fn orders_do_not_mix() {
        let dsq = Dsq::default();
        assert!(dsq.insert(0, Some(5)).is_some());
        assert!(dsq.insert(1, None).is_none());
    }
}
