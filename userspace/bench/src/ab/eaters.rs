//! A known slowdown: processes that eat a given share of every CPU.
//!
//! Problem: who says that a comparison would have found a difference? It must be tried on one whose size is known.
//!
//! Approach: an arm `eater-30` is the default scheduler with one process pinned to each CPU, in the real-time class so that nothing
//! takes its turn, that computes for 30 thousandths of every [`PERIOD`] and sleeps the rest.
//!
//! Limits: needs root. Waking costs a little on top: some thousand instructions a period, 0.2 % of a 60 MIPS CPU.

use crate::task::{cpu_time_ns, spawn};
use crate::{Error, Result, cpus};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// How often an eater wakes.
const PERIOD: Duration = Duration::from_millis(50);

/// Running eaters; they end when this is dropped, or with this process.
pub struct Eaters {
    pids: Vec<Pid>,
}

impl Eaters {
    /// Starts one on each online CPU.
    pub fn start(permille: u32) -> Result<Self> {
        let mut eaters = Eaters { pids: Vec::new() };
        for cpu in cpus::online()?.0 {
            let pid = spawn(|| eat(cpu, permille))?;
            eaters.pids.push(pid);
            // SAFETY: plain system call; the structure is valid and outlives it.
            let done = unsafe {
                let parameters = nix::libc::sched_param { sched_priority: 1 };
                nix::libc::sched_setscheduler(pid.as_raw(), nix::libc::SCHED_FIFO, &parameters)
            };
            if done != 0 {
                let why = std::io::Error::last_os_error();
                return Err(Error::Kernel(format!(
                    "an eater needs the real-time class ({why}); run as root"
                )));
            }
        }
        Ok(eaters)
    }
}

impl Drop for Eaters {
    fn drop(&mut self) {
        for &pid in &self.pids {
            // Errors mean that it has ended already, which is what is wanted.
            let _ = kill(pid, Signal::SIGKILL);
            let _ = waitpid(pid, None);
        }
    }
}

/// An eater's life; ends by a signal.
fn eat(cpu: usize, permille: u32) -> u8 {
    if cpus::set_affinity(Pid::from_raw(0), &[cpu]).is_err() {
        return 1;
    }
    let meal_ns = PERIOD.as_nanos() as u64 * u64::from(permille) / 1000;
    let mut next = Instant::now();
    loop {
        next += PERIOD;
        let full_ns = cpu_time_ns() + meal_ns;
        while cpu_time_ns() < full_ns {
            std::hint::spin_loop();
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}
