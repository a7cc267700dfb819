//! The timer tick (sched_tick(), task_tick_scx()).

use super::Kernel;
use super::cpu::Curr;
use super::events::Event;

impl Kernel {
    /// The timer of `cpu` ticks. An idle CPU has stopped its tick.
    pub(crate) fn tick(&self, cpu: usize) {
        self.push(self.now() + self.case.tick_ns, Event::Tick(cpu));
        let this = &self.cpus[cpu];
        if this.curr.get() == Curr::Idle || !self.online.get().has(cpu) {
            return;
        }
        self.sync(cpu);
        self.fentry_tick();
        self.lock(cpu);
        if let Curr::Task(task) = this.curr.get() {
            self.update_curr(cpu);
            self.op_tick(task);
            if self.tasks[task].slice() == 0 {
                self.resched(cpu);
            }
        }
        self.unlock(cpu);
    }

    /// Return the tick count (jiffies_64).
    pub(crate) fn jiffies(&self) -> u64 {
        // As in the kernel, the count does not begin at 0.
        1_000_000 + self.now() / self.case.tick_ns
    }

    /// The timer of BPF code expires that was started as number `start` (bpf_timer_cb()).
    pub(crate) fn bpf_timer_expires(&self, start: u64) {
        let Some((timer, map, Some(callback))) = self.bpf_timer.expired(start) else { return };
        let mut key = 0;
        // SAFETY: the loaded scheduler set this callback for a timer in a map of the engine.
        self.within("timer", || unsafe { callback(map, &raw mut key, timer) });
    }
}
