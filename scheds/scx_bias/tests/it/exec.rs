// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of `scx_bias exec` on this machine, with a capacity file for its CPUs. They need no
//! privilege and no sched_ext.

use crate::PROGRAM;
use bias_agent::topology::Topology;
use bias_agent::{affinity, cpulist};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// CPUs of this machine that the tests may use, with a directory for tables.
struct Machine {
    directory: TempDir,
    /// CPUs in the affinity of the tests, in ascending order.
    allowed: Vec<u32>,
}

impl Machine {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), allowed: affinity::allowed().unwrap() }
    }

    fn last(&self) -> u32 {
        self.allowed[self.allowed.len() - 1]
    }

    /// Write a table in which the last allowed CPU is the fastest. With `classes` it is also the
    /// only fast one.
    fn table(&self, classes: bool) -> PathBuf {
        let cpus: Vec<Value> =
            Topology::read().unwrap().cpus.iter().map(|cpu| self.entry(cpu.cpu, classes)).collect();
        let path = self.directory.path().join(format!("{classes}.json"));
        std::fs::write(&path, json!({"version": 1, "cpus": cpus}).to_string()).unwrap();
        path
    }

    fn entry(&self, cpu: u32, classes: bool) -> Value {
        let best = cpu == self.last();
        let execute = if best { 1000 } else { 2000 + cpu };
        let class = if best || !classes { "fast" } else { "slow" };
        json!({"cpu": cpu, "class": class, "cost_permille": [execute, 1000, 1000]})
    }

    /// Run `scx_bias exec` with `table`.
    fn exec(&self, table: &Path, args: &[&str]) -> Output {
        command(table, args).output().unwrap()
    }

    /// Return the standard output of a run that must succeed without a warning.
    fn runs(&self, table: &Path, args: &[&str]) -> String {
        let output = self.exec(table, args);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{args:?}");
        text(&output.stdout)
    }

    /// Return the exit code and the error line of a run that must fail with one such line.
    fn refused(&self, table: &Path, args: &[&str]) -> (i32, String) {
        let output = self.exec(table, args);
        let why = text(&output.stderr);
        assert_eq!((why.lines().count(), output.stdout.len()), (1, 0), "{why}");
        (output.status.code().unwrap(), why)
    }
}

fn command(table: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["exec", "--capacity-file"]).arg(table).args(args);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Command that prints its own affinity.
const SHOW: [&str; 3] = ["grep", "Cpus_allowed_list", "/proc/self/status"];

fn shown(cpus: &[u32]) -> String {
    format!("Cpus_allowed_list:\t{}\n", cpulist::format(cpus))
}

#[test]
fn a_program_runs_on_the_fastest_cpus_only() {
    let machine = Machine::new();
    let table = machine.table(true);
    let with = |args: &[&str]| machine.runs(&table, &[args, &SHOW].concat());
    assert_eq!(with(&["-n", "1", "--"]), shown(&[machine.last()]));
    assert_eq!(with(&["-n1"]), shown(&[machine.last()]));
    assert_eq!(with(&["--class", "fast", "--"]), shown(&[machine.last()]));
    let all = machine.allowed.len().to_string();
    assert_eq!(with(&["-n", &all, "--"]), shown(&machine.allowed));
    // Child processes inherit the CPUs.
    let script = SHOW.join(" ") + "; :";
    assert_eq!(machine.runs(&table, &["-n", "1", "--", "sh", "-c", &script]), shown(&[machine.last()]));
}

#[test]
fn slow_cpus_are_chosen_slowest_first() {
    let machine = Machine::new();
    let table = machine.table(true);
    let Some((_, slow)) = machine.allowed.split_last().filter(|(_, slow)| !slow.is_empty()) else { return };
    let with = |args: &[&str]| machine.runs(&table, &[args, &SHOW].concat());
    assert_eq!(with(&["--class", "slow", "--"]), shown(slow));
    let slowest: u32 = with(&["--class", "slow", "-n", "1", "--"])
        .trim_end()
        .rsplit('\t')
        .next()
        .and_then(|cpu| cpu.parse().ok())
        .unwrap();
    // Close costs are ties, which caches and cores break.
    assert!(slow.contains(&slowest) && (2000 + slowest) * 101 > (2000 + slow[slow.len() - 1]) * 100);
}

#[test]
fn the_choice_is_among_the_cpus_of_the_caller() {
    let machine = Machine::new();
    let table = machine.table(true);
    let program = PROGRAM;
    let file = table.to_str().unwrap();
    let inner = ["-n", "1", "--", program, "exec", "--capacity-file", file];
    assert_eq!(
        machine.runs(&table, &[&inner[..], &["-n", "1", "--"], &SHOW].concat()),
        shown(&[machine.last()])
    );
    let (code, why) = machine.refused(&table, &[&inner[..], &["-n", "2", "--", "true"]].concat());
    assert_eq!(code, 2);
    assert!(
        why.contains(&format!("there are 1 among the CPUs that this process may use ({})", machine.last())),
        "{why}"
    );
}

#[test]
fn too_few_cpus_and_missing_classes_are_refused() {
    let machine = Machine::new();
    let table = machine.table(false);
    let (code, why) = machine.refused(&table, &["-n", "99999", "--", "true"]);
    assert_eq!(code, 2);
    assert!(why.contains(&format!("there are {} among", machine.allowed.len())), "{why}");
    let (code, why) = machine.refused(&table, &["--class", "slow", "--", "true"]);
    assert!(code == 2 && why.contains("all CPUs of this machine are of one class"), "{why}");
    // This choice is harmless, so the program runs, with a warning.
    let output = machine.exec(&table, &["--class", "fast", "--", "true"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("leaves nothing out"));
    let (code, why) = machine.refused(Path::new("/nonexistent/table"), &["-n", "1", "--", "true"]);
    assert!(code == 2 && why.contains("check the path"), "{why}");
}

#[test]
fn wrong_usage_is_refused() {
    let machine = Machine::new();
    let table = machine.table(true);
    for args in
        [&["-n", "0", "--", "true"][..], &["--", "true"], &["-n", "1"], &["-n", "1", "--json", "--", "true"]]
    {
        assert_eq!(machine.exec(&table, args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn without_a_table_there_is_one_line_with_the_remedy() {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(PROGRAM);
    let output =
        command.args(["exec", "-n", "1", "--", "true"]).env("XDG_STATE_HOME", home.path()).output().unwrap();
    // Root reads /var/lib, where this machine may have a table.
    if output.status.code() != Some(0) {
        let why = text(&output.stderr);
        assert!(output.status.code() == Some(2) && why.contains("scx_bias calibrate"), "{why}");
        assert_eq!(why.lines().count(), 1);
    }
}

#[test]
fn a_program_that_cannot_run_has_the_exit_codes_of_env() {
    let machine = Machine::new();
    let table = machine.table(true);
    let script = |name: &str, text: &str, mode: u32| {
        let path = machine.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let refused = |program: &str| machine.refused(&table, &["-n", "1", "--", program]);
    let (code, why) = refused("no-such-program-anywhere");
    assert!(code == 127 && why.contains("no-such-program-anywhere"), "{why}");
    assert_eq!(refused("/nonexistent/program").0, 127);
    let (code, why) = refused(&script("orphan", "#!/nonexistent/interpreter\n", 0o755));
    assert!(code == 127 && why.contains("interpreter"), "{why}");
    let (code, why) = refused(&script("plain", "exit 0\n", 0o644));
    assert!(code == 126 && why.contains("permissions"), "{why}");
    assert_eq!(refused("/").0, 126);
}

#[test]
fn the_program_replaces_the_process_of_exec() {
    let machine = Machine::new();
    let table = machine.table(true);
    let child = command(
        &table,
        &["-n", "1", "--", "sh", "-c", "echo $$; grep SigIgn /proc/self/status; exit 7", "--", "-x"],
    )
    .stdout(std::process::Stdio::piped())
    .spawn()
    .unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    let shown = text(&output.stdout);
    let mut lines = shown.lines();
    assert_eq!((output.status.code(), lines.next()), (Some(7), Some(&*pid.to_string())));
    let ignored = lines
        .next()
        .and_then(|line| line.rsplit('\t').next())
        .and_then(|mask| u64::from_str_radix(mask, 16).ok());
    assert_eq!(
        ignored.map(|mask| mask >> (nix::libc::SIGPIPE - 1) & 1),
        Some(0),
        "SIGPIPE stays ignored: {shown}"
    );
    // Arguments reach the program unchanged, with and without dashes before them.
    for dashes in [&["--"][..], &[]] {
        let args = [&["-n", "1"], dashes, &["echo", "-n", "a", "--", "--dry-run", "b"]].concat();
        assert_eq!(machine.runs(&table, &args), "a -- --dry-run b");
    }
}

#[test]
fn the_choice_can_be_seen_beforehand() {
    let machine = Machine::new();
    let table = machine.table(true);
    let last = machine.last();
    let plain = machine.runs(&table, &["-n", "1", "--dry-run", "--", "/nonexistent/program"]);
    assert!(plain.starts_with(&format!("CPU {last}: the fastest 1 ")), "{plain}");
    let value: Value =
        serde_json::from_str(&machine.runs(&table, &["-n", "1", "--dry-run", "--json"])).unwrap();
    assert_eq!((&value["list"], &value["cpus"][0]["cpu"]), (&json!(last.to_string()), &json!(last)));
    let output = machine.exec(&table, &["-v", "-n", "1", "--", "true"]);
    assert!(text(&output.stderr).starts_with(&format!("scx_bias: CPU {last}: the fastest 1 ")));
    for args in [&["-h"][..], &["--help"]] {
        let help = machine.runs(&table, args);
        assert!(help.contains("126") && help.contains("3 kernel or permission"), "{help}");
    }
}
