// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Check whether this machine can run scx_bias, with a remedy for everything that is missing.
//!
//! Every finding is one line that names the cause, with one remedy. All of it is read from files.
//! So everything except the capabilities works for an ordinary user, and tests examine fake
//! machines.
//!
//! # Invariants
//! A missing requirement always has a remedy. Nothing on the machine is changed.

pub mod btf;
mod defects;
pub mod kfuncs;

use crate::boot_time;
use crate::cpulist;
use crate::ejections;
use crate::failure::{Exit, Failure, REPORT_TO};
use crate::figures;
use crate::kernel;
use crate::optin::journal;
use crate::pmu::survey;
use btf::Btf;
use kfuncs::{Availability, NEEDS, judge};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Effect of a finding on the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// No effect.
    Ok,
    /// The scheduler runs without it, but less well.
    Limited,
    /// The scheduler cannot run.
    Missing,
    /// Another scheduler has to be stopped first.
    Busy,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Subject of the check; stable, for scripts.
    pub subject: &'static str,
    /// Effect on the scheduler.
    pub status: Status,
    /// Result of the check.
    pub found: String,
    /// Remedy; empty when none is needed.
    pub remedy: String,
}

/// All findings of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// Kernel release.
    pub kernel: String,
    /// In the order of examination.
    pub findings: Vec<Finding>,
}

impl CheckReport {
    /// Return the exit code: missing requirements come before an active scheduler.
    #[must_use]
    pub fn exit(&self) -> Exit {
        let any = |status| self.findings.iter().any(|finding| finding.status == status);
        if any(Status::Missing) {
            Exit::Kernel
        } else if any(Status::Busy) {
            Exit::OtherScheduler
        } else {
            Exit::Clean
        }
    }

    /// Return the report as text: a line per finding, with its remedy.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        for finding in &self.findings {
            let mark = match finding.status {
                Status::Ok => "ok     ",
                Status::Limited => "limited",
                Status::Missing => "MISSING",
                Status::Busy => "BUSY   ",
            };
            let remedy =
                if finding.remedy.is_empty() { String::new() } else { format!("; {}", finding.remedy) };
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{mark}  {:<9}  {}{remedy}", finding.subject, finding.found);
        }
        out.push_str(match self.exit() {
            Exit::Clean => "scx_bias can run here.\n",
            Exit::OtherScheduler => "scx_bias can run here once the other scheduler is stopped.\n",
            _ => "scx_bias cannot run here yet.\n",
        });
        out
    }

    /// Return the report as JSON.
    ///
    /// # Errors
    /// Runtime failure when it cannot be written as JSON.
    pub fn json(&self) -> Result<String, Failure> {
        #[derive(Serialize)]
        struct Document<'a> {
            version: u32,
            exit_code: u8,
            #[serde(flatten)]
            report: &'a CheckReport,
        }
        figures::json(&Document { version: 1, exit_code: self.exit() as u8, report: self }, "check")
    }

    /// Return the first finding that keeps the scheduler from running, as an error.
    ///
    /// # Errors
    /// Kernel failure or "another scheduler" with the finding's line.
    pub fn refuse(&self) -> Result<(), Failure> {
        let exit = self.exit();
        let wanted = if exit == Exit::OtherScheduler { Status::Busy } else { Status::Missing };
        match self.findings.iter().find(|finding| finding.status == wanted) {
            Some(finding) => Err(Failure::new(exit, format!("{}; {}", finding.found, finding.remedy))),
            None => Ok(()),
        }
    }
}

/// Reason why a kernel without the BPF JIT cannot run a scheduler, and the remedy.
pub(crate) const NO_JIT: (&str, &str) = (
    "net.core.bpf_jit_enable is 0, so the kernel cannot run the program of a scheduler",
    "run `sudo sysctl net.core.bpf_jit_enable=1`, and remove the setting from /etc/sysctl.d",
);

/// Examine the machine whose /sys and /proc are below `root`.
#[must_use]
pub fn examine(root: &Path) -> CheckReport {
    let machine = ExaminedRoot(root);
    let mut findings = vec![machine.sched_ext()];
    // A kernel without sched_ext lacks all its functions, and naming each would hide the cause.
    if findings.iter().all(|finding| finding.status == Status::Ok) {
        match machine.btf() {
            Ok(btf) => {
                findings.extend(kernel_functions(&btf));
                findings.extend(machine.defects(&btf));
            }
            Err(finding) => findings.push(finding),
        }
        findings.extend(machine.jit());
    }
    findings.push(machine.capabilities());
    findings.push(machine.active());
    findings.push(machine.counters());
    findings.extend(machine.ejections());
    CheckReport { kernel: machine.release(), findings }
}

struct ExaminedRoot<'a>(&'a Path);

fn finding(
    subject: &'static str,
    status: Status,
    found: impl Into<String>,
    remedy: impl Into<String>,
) -> Finding {
    Finding { subject, status, found: found.into(), remedy: remedy.into() }
}

fn kernel_functions(btf: &Btf) -> Vec<Finding> {
    let verdicts: Vec<_> = NEEDS.iter().map(|need| (need, judge(btf, need))).collect();
    let mut findings = vec![finding("btf", Status::Ok, "the kernel provides type information", "")];
    let malformed: Vec<&str> = verdicts
        .iter()
        .filter_map(|(_, v)| if let Availability::Malformed(name) = v { Some(*name) } else { None })
        .collect();
    if let Some(first) = malformed.first() {
        let found = format!(
            "malformed BTF: {} kernel functions ({first} among them) still show their implicit argument, so no scheduler that calls them can load",
            malformed.len()
        );
        findings.push(finding(
            "btf",
            Status::Missing,
            found,
            "boot another build of this kernel, or 6.12 to 7.0, or 7.3",
        ));
    }
    let missing: Vec<&str> = verdicts
        .iter()
        .filter(|(need, verdict)| need.required && *verdict == Availability::Missing)
        .map(|(need, _)| need.any_of.last().copied().unwrap_or(need.purpose))
        .collect();
    findings.push(if missing.is_empty() {
        finding("kfuncs", Status::Ok, format!("all {} needed kernel functions exist", NEEDS.len()), "")
    } else {
        let found = format!("the kernel lacks {}", missing.join(", "));
        finding(
            "kfuncs",
            Status::Missing,
            found,
            "boot 6.12 or later with CONFIG_SCHED_CLASS_EXT and CONFIG_BPF_JIT",
        )
    });
    findings
}

impl ExaminedRoot<'_> {
    fn text(&self, path: &str) -> Option<String> {
        Some(fs::read_to_string(self.0.join(path)).ok()?.trim().to_owned())
    }

    fn release(&self) -> String {
        kernel::release(self.0).unwrap_or_else(|| "unknown".to_owned())
    }

    fn sched_ext(&self) -> Finding {
        let release = self.release();
        if self.0.join("sys/kernel/sched_ext").is_dir() {
            return finding("sched_ext", Status::Ok, format!("kernel {release} has sched_ext"), "");
        }
        let (found, remedy) = if !self.0.join("sys/kernel").is_dir() {
            ("sysfs is not mounted".to_owned(), "mount it on /sys")
        } else if kernel::is_before(&release, (6, 12)) {
            (
                format!("kernel {release} is older than sched_ext"),
                "boot 6.12 or later, built with CONFIG_SCHED_CLASS_EXT",
            )
        } else {
            let found = format!("kernel {release} is built without sched_ext");
            (found, "boot one with CONFIG_SCHED_CLASS_EXT=y (Debian: 6.16 or later from backports)")
        };
        finding("sched_ext", Status::Missing, found, remedy)
    }

    fn btf(&self) -> Result<Btf, Finding> {
        let path = self.0.join("sys/kernel/btf/vmlinux");
        if !path.exists() {
            let found = "the kernel provides no type information in /sys/kernel/btf/vmlinux";
            return Err(finding("btf", Status::Missing, found, "boot one with CONFIG_DEBUG_INFO_BTF=y"));
        }
        Btf::read(&path).map_err(|error| {
            let found = format!("the kernel's type information is damaged ({error})");
            finding("btf", Status::Missing, found, "boot another build of this kernel")
        })
    }

    /// Return a finding for each known defect of the kernel that can occur here.
    fn defects(&self, btf: &Btf) -> Vec<Finding> {
        let release = self.release();
        let possible = defects::possible(&release, self.0, btf);
        let found = |what| format!("kernel {release} has a known defect: {what}");
        possible.map(|defect| finding("defect", Status::Limited, found(defect.what), defect.remedy)).collect()
    }

    /// Return a finding if the kernel does not compile BPF programs. Other network namespaces than
    /// the initial one do not show the setting.
    fn jit(&self) -> Option<Finding> {
        let off = self.text("proc/sys/net/core/bpf_jit_enable")? == "0";
        off.then(|| finding("jit", Status::Missing, NO_JIT.0, NO_JIT.1))
    }

    fn capabilities(&self) -> Finding {
        /// The capabilities CAP_PERFMON and CAP_BPF, with their numbers.
        const NEEDED: [(u32, &str); 2] = [(38, "CAP_PERFMON"), (39, "CAP_BPF")];
        let status = self.text("proc/self/status").unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let Some(held) = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()) else {
            return finding(
                "capabilities",
                Status::Missing,
                "cannot read which capabilities this process has",
                "mount proc on /proc",
            );
        };
        let lacking: Vec<&str> =
            NEEDED.iter().filter(|(bit, _)| held >> bit & 1 == 0).map(|(_, name)| *name).collect();
        if lacking.is_empty() {
            return finding("capabilities", Status::Ok, "this user may load a scheduler", "");
        }
        let found = format!("this user lacks {}", lacking.join(", "));
        finding("capabilities", Status::Missing, found, "run as root, e.g. with sudo")
    }

    fn active(&self) -> Finding {
        let state = self.text("sys/kernel/sched_ext/state").unwrap_or_else(|| "disabled".to_owned());
        if state == "disabled" {
            return finding("scheduler", Status::Ok, "no sched_ext scheduler is active", "");
        }
        let name = self.text("sys/kernel/sched_ext/root/ops").unwrap_or_else(|| "unknown".to_owned());
        finding(
            "scheduler",
            Status::Busy,
            format!("the sched_ext scheduler \"{name}\" is {state}"),
            "stop it first",
        )
    }

    /// Return a finding if the kernel ended a scheduler since boot.
    fn ejections(&self) -> Option<Finding> {
        let directory = journal::DIRECTORY.trim_start_matches('/');
        let past = ejections::last(&self.0.join(directory));
        let last = ejections::lines(past.last().map(std::slice::from_ref)?, boot_time::wall_ms()).pop()?;
        let found = format!("the kernel has ended scx_bias; last {last}");
        let remedy = format!("report it with the dump in its log (`journalctl -u scx_bias`){REPORT_TO}");
        Some(finding("ejections", Status::Limited, found, remedy))
    }

    /// Report which PMU serves which CPUs. A machine without any is limited, but can run the
    /// scheduler.
    fn counters(&self) -> Finding {
        let cpus = cpulist::read(&self.0.join("sys/devices/system/cpu/online"));
        let services = survey(self.0, &cpus.unwrap_or_default());
        let served = services.iter().filter_map(|service| {
            let (pmu, origin) = service.by.as_ref().ok()?;
            Some(format!("{pmu} of CPU {} ({origin})", cpulist::format(&service.cpus)))
        });
        let served: Vec<String> = served.collect();
        let lacking = services.iter().find_map(|service| Some((service.by.as_ref().err()?, &service.cpus)));
        match lacking {
            _ if served.is_empty() => {
                let found = "no CPU performance counters: tasks are placed by CPU speed only";
                let why = lacking.map_or("sysfs lists no CPU; mount it", |(why, _)| why);
                finding("counters", Status::Limited, found, why)
            }
            Some((_, cpus)) => {
                let found = format!(
                    "CPU performance counters: {}; none of CPU {}",
                    served.join(", "),
                    cpulist::format(cpus)
                );
                let remedy = "tasks are not classified on the latter; name events with --events, or in a VM give each CPU a virtual PMU";
                finding("counters", Status::Limited, found, remedy)
            }
            None => {
                let found = format!("CPU performance counters: {}", served.join(", "));
                finding("counters", Status::Ok, found, "")
            }
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
