// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A known slowdown: processes that use a given share of every CPU.
//!
//! # Problem
//! The ability of a comparison to find a difference must be proved. A difference of known size
//! shows it.
//!
//! # Approach
//! The arm `eater-30` is the default scheduler with one process pinned to each CPU. The process is
//! in the real-time class, so that normal tasks cannot preempt it. It computes for 30 thousandths
//! of every [`PERIOD`] and sleeps the rest.
//!
//! # Limits
//! Eaters need root. Their wakeups add some thousand instructions per period, 0.2 % of a CPU of 60
//! MIPS.

use crate::task::{cpu_time_ns, end, spawn};
use crate::{Error, Result, cpus};
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// Time between two wakeups of an eater.
const PERIOD: Duration = Duration::from_millis(50);

/// Running eaters. They end when this is dropped, or with this process.
pub struct Eaters {
    pids: Vec<Pid>,
}

impl Eaters {
    /// Start one eater on each online CPU.
    pub fn start(permille: u32) -> Result<Self> {
        let mut eaters = Eaters { pids: Vec::new() };
        for cpu in cpus::online()?.0 {
            let pid = spawn(|| eat(cpu, permille))?;
            eaters.pids.push(pid);
            // SAFETY: this is a plain system call. The structure is valid and outlives it.
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
        end(&self.pids);
    }
}

/// Run an eater until a signal ends it.
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
