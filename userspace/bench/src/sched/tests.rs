// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
use super::*;

/// Make a directory like that of sched_ext in sysfs, for a fake scheduler to write to.
fn fake(state: &str) -> (tempfile::TempDir, SchedExt) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("state"), state).unwrap();
    std::fs::write(dir.path().join("enable_seq"), "3").unwrap();
    let kernel = SchedExt::at(dir.path());
    (dir, kernel)
}

fn script(dir: &tempfile::TempDir, body: &str) -> String {
    let path = dir.path().join("fake.sh");
    std::fs::write(&path, format!("cd {}\n{body}", dir.path().display())).unwrap();
    format!("sh {}", path.display())
}

const GOOD: &str = "trap 'echo disabled >state; exit 0' INT; echo 4 >enable_seq; echo enabled >state; \
     while :; do sleep 0.05; done";
const LONG: Duration = Duration::from_secs(20);

fn options(scheduler_cmd: String) -> SchedulerOptions {
    SchedulerOptions { scheduler_cmd, load_timeout: LONG }
}

#[test]
fn loads_measures_and_unloads() {
    let (dir, kernel) = fake("disabled\n");
    let scheduler = options(script(&dir, GOOD));
    let state = under(kernel.clone(), &scheduler, false, |_| kernel.state()).unwrap();
    assert_eq!(state, "enabled");
    assert_eq!(kernel.state().unwrap(), "disabled");
}

#[test]
fn a_scheduler_that_fails_to_load_is_quoted() {
    let (dir, kernel) = fake("disabled");
    let command = script(&dir, "echo no BTF here >&2; exit 3");
    let error = Loaded::start(kernel, &command, LONG).err().unwrap();
    let text = error.to_string();
    assert!(text.contains("exit status: 3), saying \"no BTF here\"; run it by hand"), "{text}");
    assert!(!text.contains('\n'), "one line says it all: {text}");
    assert_eq!(error.exit_code(), 1);
}

#[test]
fn a_scheduler_that_never_enables_is_stopped() {
    let (dir, kernel) = fake("disabled");
    let command = script(&dir, "trap 'touch ended; exit 0' INT; while :; do sleep 0.05; done");
    let error = Loaded::start(kernel, &command, Duration::from_millis(300)).err().unwrap();
    let text = error.to_string();
    assert!(text.contains("not enabled within 0 s and printed nothing; the command must load"), "{text}");
    assert!(dir.path().join("ended").exists());
}

#[test]
fn an_interrupt_ends_the_wait_for_a_scheduler_that_never_enables() {
    let (dir, kernel) = fake("disabled");
    let command = script(&dir, "echo one; echo two; while :; do sleep 0.05; done");
    let begun = Instant::now();
    let error = Loaded::start_unless(kernel, &command, LONG, &AtomicBool::new(true)).err().unwrap();
    assert!(begun.elapsed() < LONG && error.to_string().contains("when interrupted"), "{error}");
}

#[test]
fn a_scheduler_ended_by_sigint_has_stopped_without_an_error() {
    let (dir, kernel) = fake("disabled");
    let on_sigint = |how: &str| GOOD.replace("exit 0", how);
    for (how, fine) in [("trap - INT; kill -INT $$", true), ("exit 130", true), ("exit 7", false)] {
        let command = script(&dir, &on_sigint(how));
        std::fs::write(dir.path().join("enable_seq"), "3").unwrap();
        let stopped = Loaded::start(kernel.clone(), &command, LONG).unwrap().stop();
        assert_eq!(stopped.is_ok(), fine, "{how}: {stopped:?}");
        if let Err(e) = stopped {
            assert!(e.to_string().contains("when stopped (exit status: 7)"), "{e}");
        }
    }
}

#[test]
fn a_scheduler_that_dies_midway_is_reported_with_its_output() {
    let (dir, kernel) = fake("disabled");
    let command = script(
        &dir,
        &GOOD.replace("while :; do sleep 0.05; done", "echo; echo first; echo at last; kill -9 $$"),
    );
    let mut loaded = Loaded::start(kernel, &command, LONG).unwrap();
    loaded.wait_exit(LONG).unwrap();
    let text = loaded.check().unwrap_err().to_string();
    let (line, quoted) = text.split_once('\n').unwrap();
    assert!(
        line.contains("ended during the measurement (signal: 9 (SIGKILL)), saying \"at last\"; run"),
        "{text}"
    );
    assert_eq!(quoted, "  | first\n  | at last");
}

#[test]
fn a_scheduler_ejected_midway_fails_the_measurement() {
    let (dir, kernel) = fake("disabled");
    let command = script(&dir, GOOD);
    let ejected = |_: &Loaded| {
        std::fs::write(dir.path().join("state"), "disabled").unwrap();
        Ok(())
    };
    let error = under(kernel.clone(), &options(command), false, ejected).unwrap_err();
    assert!(error.to_string().contains("ejected"), "{error}");
    let (dir, kernel) = fake("disabled");
    let command = script(&dir, GOOD);
    let replaced = |_: &Loaded| {
        std::fs::write(dir.path().join("enable_seq"), "6").unwrap();
        Ok(())
    };
    let error = under(kernel, &options(command), false, replaced).unwrap_err();
    assert!(error.to_string().contains("replaced"), "{error}");
}

#[test]
fn another_scheduler_is_left_alone() {
    let (dir, kernel) = fake("enabled");
    let error = Loaded::start(kernel, &script(&dir, "touch started"), LONG).err().unwrap();
    assert_eq!(error.exit_code(), 4);
    assert!(!dir.path().join("started").exists());
}

#[test]
fn a_kernel_without_sched_ext_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = SchedExt::at(dir.path()).state().unwrap_err();
    assert_eq!(error.exit_code(), 3);
}

#[test]
fn the_kernel_reports_tasks_under_sched_ext() {
    let text =
        |ext| format!("work (7, #threads: 1)\nse.exec_start   :   12.3\next.enabled      :        {ext}\n");
    assert_eq!((enabled_in(&text(1)), enabled_in(&text(0))), (Some(true), Some(false)));
    assert_eq!(enabled_in("work (7, #threads: 1)\npolicy : 0\n"), None);
}
