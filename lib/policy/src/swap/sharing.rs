//! The cost in force on each CPU: the shared one while a sibling is busy.

use super::cpuset::CpuSet;
use super::input::{Snapshot, State};
use crate::table::{COMPONENTS, CpuCapacity};

/// The busy CPUs of each core. A swap leaves both its CPUs busy, so this holds for a whole plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Core and number of each busy CPU, in ascending order.
    busy: Vec<(u32, u32)>,
}

impl Sharing {
    /// Take the CPUs of `busy`.
    fn new(cpus: &[CpuCapacity], busy: &CpuSet) -> Self {
        let cpus = cpus.iter().filter(|entry| busy.contains(entry.cpu));
        let mut busy: Vec<(u32, u32)> = cpus.map(|entry| (entry.core, entry.cpu)).collect();
        busy.sort_unstable();
        Self { busy }
    }

    /// Return true if another CPU of the core of `entry` is busy.
    #[must_use]
    pub fn is_shared(&self, entry: &CpuCapacity) -> bool {
        let first = self.busy.partition_point(|(core, _)| *core < entry.core);
        let of_core = self.busy[first..].iter().take_while(|(core, _)| *core == entry.core);
        of_core.into_iter().any(|(_, cpu)| *cpu != entry.cpu)
    }

    /// Return the costs of a CPU that are in force [permille of the best CPU].
    #[must_use]
    pub fn cost_permille(&self, entry: &CpuCapacity) -> [u32; COMPONENTS] {
        if self.is_shared(entry) { entry.shared_cost_permille() } else { entry.cost_permille }
    }
}

impl Snapshot<'_> {
    /// Return which cores are shared now.
    #[must_use]
    pub fn sharing(&self) -> Sharing {
        let mut busy: CpuSet = self
            .runners
            .iter()
            .filter(|runner| runner.state == State::Running)
            .map(|runner| runner.cpu)
            .collect();
        busy.unite(&self.busy);
        Sharing::new(self.cpus, &busy)
    }
}
