// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests on fake machines.

#![allow(clippy::unwrap_used)]

use super::btf::tests::build;
use super::*;

/// A machine without any fault, in a directory.
struct FakeRoot(tempfile::TempDir);

impl FakeRoot {
    fn new() -> Self {
        let fake = Self(tempfile::tempdir().unwrap());
        fake.write("proc/sys/kernel/osrelease", b"6.18.15\n");
        fake.write("proc/self/status", b"Name:\tx\nCapEff:\t000001ffffffffff\n");
        fake.write("sys/kernel/sched_ext/state", b"disabled\n");
        fake.write("sys/devices/system/cpu/online", b"0-3\n");
        fake.pmu("cpu_core", "0-1");
        fake.pmu("cpu_atom", "2-3");
        fake.functions(|name| Some((name, &[])));
        fake
    }

    fn write(&self, path: &str, data: &[u8]) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, data).unwrap();
    }

    fn pmu(&self, name: &str, cpus: &str) {
        let directory = format!("sys/bus/event_source/devices/{name}");
        self.write(&format!("{directory}/type"), b"4\n");
        self.write(&format!("{directory}/cpus"), cpus.as_bytes());
    }

    /// Give the machine the oldest variant of every function, changed or left out by `change`.
    fn functions(
        &self,
        change: impl Fn(&'static str) -> Option<(&'static str, &'static [(&'static str, &'static str)])>,
    ) {
        let functions: Vec<_> = NEEDS.iter().filter_map(|need| change(need.any_of.last().unwrap())).collect();
        self.write("sys/kernel/btf/vmlinux", &build(&functions));
    }

    /// Give the machine every function, and these as well.
    fn functions_and(&self, more: &[&'static str]) {
        let needed = NEEDS.iter().filter_map(|need| need.any_of.last());
        let functions: Vec<_> = needed.chain(more).map(|name| (*name, &[][..])).collect();
        self.write("sys/kernel/btf/vmlinux", &build(&functions));
    }

    /// Return the report's findings about known defects, on a kernel of this release.
    fn defects(&self, release: &str) -> Vec<String> {
        self.write("proc/sys/kernel/osrelease", release.as_bytes());
        let report = self.report();
        assert_eq!(report.exit(), Exit::Clean, "a defect refuses nothing");
        let findings = report.findings.into_iter().filter(|finding| finding.subject == "defect");
        findings.map(|finding| format!("{}; {}", finding.found, finding.remedy)).collect()
    }

    fn report(&self) -> CheckReport {
        let report = examine(self.0.path());
        // The module's invariant, on every fake machine.
        for finding in &report.findings {
            assert_eq!(finding.remedy.is_empty(), finding.status == Status::Ok, "{finding:?}");
            assert!(!finding.found.contains('\n') && !finding.remedy.contains('\n'));
        }
        report
    }

    fn refusal(&self) -> (Exit, String) {
        let failure = self.report().refuse().unwrap_err();
        (failure.exit, failure.message)
    }
}

#[test]
fn a_good_machine_passes() {
    let report = FakeRoot::new().report();
    assert_eq!((report.exit(), report.refuse()), (Exit::Clean, Ok(())), "{}", report.text());
    assert!(report.text().ends_with("scx_bias can run here.\n"));
}

#[test]
fn earlier_ejections_are_reported_but_do_not_refuse() {
    let fake = FakeRoot::new();
    fake.write("run/x", b"");
    crate::ejections::remember(&fake.0.path().join("run/scx_bias"), "runnable task stall").unwrap();
    let report = fake.report();
    assert_eq!(report.exit(), Exit::Clean);
    let finding = report.findings.iter().find(|finding| finding.subject == "ejections").unwrap();
    assert!(
        finding.status == Status::Limited && finding.found.ends_with("ago: runnable task stall"),
        "{finding:?}"
    );
}

#[test]
fn a_kernel_without_sched_ext_is_distinguished_from_an_old_one() {
    let fake = FakeRoot::new();
    fs::remove_dir_all(fake.0.path().join("sys/kernel/sched_ext")).unwrap();
    let (exit, message) = fake.refusal();
    assert!(
        exit == Exit::Kernel
            && message.contains("built without")
            && message.contains("CONFIG_SCHED_CLASS_EXT")
    );
    assert_eq!(fake.report().findings.iter().filter(|finding| finding.status == Status::Missing).count(), 1);
    fake.write("proc/sys/kernel/osrelease", b"6.1.0-18-amd64");
    assert!(fake.refusal().1.contains("boot 6.12 or later"));
}

#[test]
fn missing_and_damaged_type_information_is_refused() {
    let fake = FakeRoot::new();
    fake.write("sys/kernel/btf/vmlinux", b"nothing");
    assert!(fake.refusal().1.contains("damaged"));
    fs::remove_file(fake.0.path().join("sys/kernel/btf/vmlinux")).unwrap();
    assert!(fake.refusal().1.contains("CONFIG_DEBUG_INFO_BTF"));
}

#[test]
fn a_missing_function_is_named_unless_it_is_optional() {
    let fake = FakeRoot::new();
    fake.functions(|name| (name != "scx_bpf_kick_cpu").then_some((name, &[])));
    assert!(fake.refusal().1.contains("lacks scx_bpf_kick_cpu;"));
    fake.functions(|name| (name != "scx_bpf_task_set_slice").then_some((name, &[])));
    assert_eq!(fake.report().refuse(), Ok(()));
}

#[test]
fn malformed_type_information_is_recognised() {
    let fake = FakeRoot::new();
    let aux: &[(&str, &str)] = &[("cpu", ""), ("aux", "bpf_prog_aux")];
    fake.functions(|name| Some((name, if name == "scx_bpf_kick_cpu" { aux } else { &[] })));
    let (exit, message) = fake.refusal();
    assert!(exit == Exit::Kernel && message.contains("malformed BTF: 1 kernel functions (scx_bpf_kick_cpu"));
}

#[test]
fn a_kernel_without_its_jit_is_refused_with_the_setting() {
    let fake = FakeRoot::new();
    fake.write("proc/sys/net/core/bpf_jit_enable", b"1\n");
    assert_eq!(fake.report().refuse(), Ok(()));
    fake.write("proc/sys/net/core/bpf_jit_enable", b"0\n");
    let (exit, message) = fake.refusal();
    assert!(
        exit == Exit::Kernel && message.contains("sysctl net.core.bpf_jit_enable=1"),
        "{exit:?} {message}"
    );
}

/// All conditions of known defects hold: SMT with core scheduling, PSI, CPUs of `nohz_full=`.
fn exposed() -> FakeRoot {
    let fake = FakeRoot::new();
    fake.functions_and(&["sched_core_share_pid"]);
    fake.write("sys/devices/system/cpu/smt/active", b"1\n");
    fake.write("proc/pressure/cpu", b"some avg10=0.00\n");
    fake.write("sys/devices/system/cpu/nohz_full", b"1-3\n");
    fake
}

#[test]
fn known_defects_are_those_of_the_release() {
    let fake = exposed();
    let (core, psi, nohz) = ("core_scheduling=off", "psi=0", "without nohz_full=");
    let cases: [(&str, &[&str]); 13] = [
        ("6.11.0", &[]),
        ("6.12.117+deb13-amd64", &[nohz]),
        ("6.18.32", &[nohz]),
        ("6.18.33", &[psi, nohz]),
        ("6.19.14", &[nohz]),
        ("7.0.9", &[nohz]),
        ("7.0.10", &[psi, nohz]),
        ("7.1-rc2", &[core, psi, nohz]),
        ("7.1.5", &[core, psi, nohz]),
        ("7.1.6", &[core, psi]),
        ("7.1.9", &[core]),
        ("7.3.4", &[core]),
        ("unknown", &[]),
    ];
    for (release, remedies) in cases {
        let defects = fake.defects(release);
        assert_eq!(defects.len(), remedies.len(), "{release}: {defects:?}");
        for (defect, remedy) in defects.iter().zip(remedies) {
            assert!(defect.contains(remedy) && defect.contains(release), "{release}: {defect}");
        }
    }
}

#[test]
fn defects_that_cannot_occur_or_are_repaired_are_not_reported() {
    assert_eq!(FakeRoot::new().defects("7.1.3"), Vec::<String>::new());
    let fake = exposed();
    assert_eq!(fake.defects("7.1.3").len(), 3);
    // A distribution has applied the repair, which added this function.
    fake.functions_and(&["sched_core_share_pid", "psi_trigger_create_rtpoll_worker"]);
    assert_eq!(fake.defects("7.1.3").len(), 2);
    fake.functions_and(&["psi_trigger_create_rtpoll_worker"]);
    assert_eq!(fake.defects("7.1.3").len(), 1, "built without core scheduling");
    fake.write("sys/devices/system/cpu/nohz_full", b"(null)\n");
    assert_eq!(fake.defects("7.1.3"), Vec::<String>::new());
    fake.functions_and(&["sched_core_share_pid", "psi_trigger_create_rtpoll_worker"]);
    assert_eq!(fake.defects("7.1.3").len(), 1);
    fake.write("sys/devices/system/cpu/smt/active", b"0\n");
    assert_eq!(fake.defects("7.1.3"), Vec::<String>::new());
    fs::remove_file(fake.0.path().join("proc/pressure/cpu")).unwrap();
    fake.functions_and(&[]);
    assert_eq!(fake.defects("7.1.3"), Vec::<String>::new());
}

#[test]
fn missing_capabilities_are_named() {
    let fake = FakeRoot::new();
    fake.write("proc/self/status", b"CapEff:\t0000000000200000\n");
    let (exit, message) = fake.refusal();
    assert_eq!(
        (exit, message.as_str()),
        (Exit::Kernel, "this user lacks CAP_PERFMON, CAP_BPF; run as root, e.g. with sudo")
    );
}

#[test]
fn another_scheduler_has_its_own_exit_code_unless_something_is_missing() {
    let fake = FakeRoot::new();
    fake.write("sys/kernel/sched_ext/state", b"enabled\n");
    fake.write("sys/kernel/sched_ext/root/ops", b"lavd_1.1.4\n");
    let (exit, message) = fake.refusal();
    assert!(exit == Exit::OtherScheduler && message.contains("\"lavd_1.1.4\" is enabled"));
    fake.write("proc/self/status", b"CapEff:\t0\n");
    assert_eq!(fake.refusal().0, Exit::Kernel);
}

#[test]
fn no_counters_is_a_limit_not_an_error() {
    let fake = FakeRoot::new();
    fs::remove_dir_all(fake.0.path().join("sys/bus")).unwrap();
    let report = fake.report();
    let wanted = "speed only; no PMU of a core serves this CPU; in a virtual machine";
    assert!(report.text().contains("limited  counters") && report.exit() == Exit::Clean);
    assert!(report.text().contains(wanted), "{}", report.text());
    fake.pmu("cpu_core", "0-1");
    let text = fake.report().text();
    assert!(
        text.contains("limited  counters   CPU performance counters: cpu_core of CPU 0-1 (generic")
            && text.contains("; none of CPU 2-3; tasks are not classified on the latter; name events"),
        "{text}"
    );
}

#[test]
fn each_pmu_is_named_with_its_cpus() {
    let text = FakeRoot::new().report().text();
    assert!(
        text.contains("ok       counters   CPU performance counters: cpu_core of CPU 0-1 (generic"),
        "{text}"
    );
    assert!(text.contains("cpu_atom of CPU 2-3 (generic"), "{text}");
}

#[test]
fn the_json_carries_the_exit_code() {
    let fake = FakeRoot::new();
    fake.write("sys/kernel/sched_ext/state", b"enabled\n");
    let value: serde_json::Value = serde_json::from_str(&fake.report().json().unwrap()).unwrap();
    assert_eq!((&value["exit_code"], &value["kernel"]), (&4.into(), &"6.18.15".into()));
}
