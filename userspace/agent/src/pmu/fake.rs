// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Fake machines for tests: a sysfs and a `/proc` in a temporary directory, and a kernel that opens
//! events by a rule.

#![allow(clippy::unwrap_used)]

use super::events::PerfEvent;
use super::group::PerfOpener;
use crate::topology::{Cpu, Topology};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// A machine in a directory.
pub struct FakeSysfs {
    directory: tempfile::TempDir,
    pub topology: Topology,
}

impl FakeSysfs {
    pub fn new(cpus: u32) -> Self {
        Self { directory: tempfile::tempdir().unwrap(), topology: Topology::flat(cpus) }
    }

    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn pmu(&self, name: &str, files: &[(&str, &str)]) {
        for (file, text) in files {
            self.write(&format!("sys/bus/event_source/devices/{name}/{file}"), &format!("{text}\n"));
        }
    }

    fn x86(&self, vendor: &str, family: u32, model: u32) {
        let block = |cpu: &Cpu| {
            let number = cpu.cpu;
            format!(
                "processor\t: {number}\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n\n"
            )
        };
        self.write("proc/cpuinfo", &self.topology.cpus.iter().map(block).collect::<String>());
    }

    fn midr(&self, cpu: u32, midr: &str) {
        self.write(&format!("sys/devices/system/cpu/cpu{cpu}/regs/identification/midr_el1"), midr);
    }

    /// Two large cores (0, 1) and two small ones (2, 3) of an Intel hybrid part.
    pub fn hybrid() -> Self {
        let machine = Self::new(4);
        machine.x86("GenuineIntel", 6, 0xb7);
        let format = [
            ("format/event", "config:0-7"),
            ("format/umask", "config:8-15,40-47"),
            ("format/edge", "config:18"),
            ("format/inv", "config:23"),
            ("format/cmask", "config:24-31"),
            ("format/offcore_rsp", "config1:0-63"),
            ("format/odd", "elsewhere"),
            ("events/cache-misses", "event=0x2e,umask=0x41"),
            ("events/recursive", "cache-misses"),
            ("events/parameter", "event=0x24,umask=?"),
        ];
        for (name, kind, cpus) in [("cpu_core", "4", "0-1"), ("cpu_atom", "10", "2-3")] {
            machine.pmu(name, &[("type", kind), ("cpus", cpus)]);
            machine.pmu(name, &format);
        }
        machine.pmu("uncore_imc", &[("type", "20"), ("cpumask", "0")]);
        machine.pmu("broken", &[("type", "x")]);
        machine
    }

    /// Two CPUs of an AMD part.
    pub fn amd(family: u32, model: u32) -> Self {
        Self::amd_of(2, family, model)
    }

    /// This many CPUs of an AMD part.
    pub fn amd_of(cpus: u32, family: u32, model: u32) -> Self {
        let machine = Self::new(cpus);
        machine.x86("AuthenticAMD", family, model);
        machine.pmu(
            "cpu",
            &[("type", "4"), ("format/event", "config:0-7,32-35"), ("format/umask", "config:8-15")],
        );
        machine
    }

    /// Two A55 (0, 1) and two A78 (2, 3), each core type with a PMU of its own.
    pub fn big_little() -> Self {
        let machine = Self::new(4);
        for (cpu, midr) in [(0, "0x412fd050"), (1, "0x412fd050"), (2, "0x411fd410"), (3, "0x411fd410")] {
            machine.midr(cpu, midr);
        }
        machine.pmu("armv8_cortex_a55", &[("type", "8"), ("cpus", "0-1"), ("format/event", "config:0-15")]);
        machine.pmu("armv8_cortex_a78", &[("type", "9"), ("cpus", "2-3"), ("format/event", "config:0-15")]);
        machine
    }

    /// The asymmetric VM: its own PMU and no other.
    pub fn amp() -> Self {
        let machine = Self::new(2);
        machine.x86("GenuineIntel", 6, 0xb7);
        machine.pmu("amp", &[("type", "11"), ("format/event", "config:0-7")]);
        for (event, number) in [
            ("instructions", 0),
            ("cycles", 1),
            ("stall_external", 2),
            ("stall_internal", 3),
            ("llc_misses", 4),
        ] {
            machine.pmu("amp", &[(&format!("events/{event}"), &format!("event={number:#x}"))]);
        }
        machine
    }
}

/// Errno for an event; None opens it.
type Rule<'a> = dyn Fn(&PerfEvent) -> Option<i32> + 'a;

/// A kernel that refuses by a rule and returns descriptors of one file for the rest.
pub struct FakeOpener<'a> {
    rule: Box<Rule<'a>>,
    file: tempfile::NamedTempFile,
    opened: RefCell<Vec<(u32, u32, u64)>>,
}

impl<'a> FakeOpener<'a> {
    /// Create a kernel whose `rule` gives the errno for an event, or None to open it.
    pub fn new(rule: impl Fn(&PerfEvent) -> Option<i32> + 'a) -> Self {
        Self {
            rule: Box::new(rule),
            file: tempfile::NamedTempFile::new().unwrap(),
            opened: RefCell::default(),
        }
    }

    /// Count the descriptors that were returned and not closed.
    pub fn alive(&self) -> usize {
        let fds = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let own = fds.filter(|fd| fs::read_link(fd.path()).is_ok_and(|target| target == self.file.path()));
        // The file itself has one.
        own.count() - 1
    }

    /// Return type and code of the opened events, by CPU.
    pub fn opened(&self) -> BTreeMap<u32, Vec<(u32, u64)>> {
        let mut by_cpu: BTreeMap<u32, Vec<(u32, u64)>> = BTreeMap::new();
        for (cpu, kind, config) in &*self.opened.borrow() {
            by_cpu.entry(*cpu).or_default().push((*kind, *config));
        }
        by_cpu
    }
}

impl PerfOpener for FakeOpener<'_> {
    fn open(&self, cpu: u32, event: &PerfEvent, _leader: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
        if let Some(error) = (self.rule)(event) {
            return Err(io::Error::from_raw_os_error(error));
        }
        self.opened.borrow_mut().push((cpu, event.kind, event.config[0]));
        Ok(self.file.as_file().try_clone()?.into())
    }
}
