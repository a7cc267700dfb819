// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `bias-bench ab --host` as a user runs it: the real program, short windows, no scheduler to load.
//! The tests check that samples survive, above all after an error. They do not check the figures.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest time that a step of a test may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

const TINY_PLAN: &str = "name = 'tiny'\narms = ['default', 'default-2']\nblocks = 6\nwarmup_s = 0.02\nwindow_s = 0.05\n\
                         energy = true\n[[cells]]\nworkload = '2compute'\n";

fn bias_bench() -> &'static str {
    env!("CARGO_BIN_EXE_bias-bench")
}

fn ended(output: &Output, code: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    (out, err)
}

fn run(args: &[&str], code: i32) -> (String, String) {
    ended(&Command::new(bias_bench()).args(args).output().unwrap(), code)
}

fn samples(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("samples.jsonl")).unwrap_or_default()
}

fn run_json(dir: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(dir.join("run.json")).unwrap()).unwrap()
}

/// Return a directory with the tiny plan, and the path of the plan.
fn tiny() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let plan = dir.path().join("tiny.toml");
    std::fs::write(&plan, TINY_PLAN).unwrap();
    (dir, plan)
}

#[test]
fn ctrl_c_keeps_the_samples_and_resume_completes_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let words =
        "ab --host --cells 2compute --arms default,default-2 --window 0.05 --blocks 4 --time 600 --out";
    let args: Vec<&str> = words.split(' ').chain([out.to_str().unwrap()]).collect();
    let mut command = Command::new(bias_bench());
    let child = command.args(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while samples(&out).lines().count() < 5 {
        assert!(begun.elapsed() < PATIENCE, "the second block never began");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let (text, error) = ended(&child.wait_with_output().unwrap(), 1);
    assert!(
        error.lines().last().unwrap().contains("incomplete, --resume continues it: interrupted"),
        "{error}"
    );
    assert!(text.contains("INCOMPLETE: interrupted"), "{text}");
    let (kept, before) = (samples(&out), run_json(&out));
    assert!(kept.ends_with('\n') && kept.lines().count() >= 5);
    assert_eq!((&before["complete"], &before["incomplete_why"]), (&false.into(), &"interrupted".into()));

    run(&args, 2);
    let (_, _) = run(&[&args[..], &["--resume"]].concat(), 0);
    let after = run_json(&out);
    assert_eq!(
        (&after["complete"], &after["blocks_done"], &after["seed"]),
        (&true.into(), &4.into(), &before["seed"])
    );
    assert!(samples(&out).starts_with(&kept), "nothing was measured twice");
    run(&["report", out.to_str().unwrap()], 0);
}

#[test]
fn resume_refuses_settings_that_change_the_meaning_of_samples() {
    let (dir, plan) = tiny();
    let out = dir.path().join("run");
    let ab = |from: &str, to: &str, more: &[&str], code: i32| {
        std::fs::write(&plan, TINY_PLAN.replace("blocks = 6", "blocks = 2").replace(from, to)).unwrap();
        let args = ["ab", "--host", "--plan", plan.to_str().unwrap(), "--out", out.to_str().unwrap()];
        run(&[&args[..], more].concat(), code).1
    };
    ab("", "", &["--seed", "7"], 0);
    let before = samples(&out);
    for (from, to, more, says) in [
        ("warmup_s = 0.02", "warmup_s = 0.03", &[][..], "warm-up 0.02 s, but this one has 0.03 s"),
        ("window_s = 0.05", "window_s = 0.06", &[], "window 0.05 s, but this one has 0.06 s"),
        ("'2compute'", "'2compute'\nwindow_s = 0.07", &[], "window 0.05 s, but this one has 0.07 s"),
        ("energy = true", "energy = true\ndead_zone = 0.02", &[], "dead zone 0.01, but this one has 0.02"),
        ("energy = true", "", &[], "energy true, but this one has false"),
        ("'default-2'", "'default-3'", &[], "default, default-2, but this one has default, default-3"),
        ("", "", &["--bpf-stats"], "bpf_stats false, but this one has true"),
        ("", "", &["--seed", "8"], "seed 7, but this one has 8"),
        ("", "", &["--stretch", "2"], "stretch 1, but this one has 2"),
        ("blocks = 2", "blocks = 1", &[], "blocks 2, but this one has 1"),
    ] {
        let error = ab(from, to, &[more, &["--resume"]].concat(), 2);
        assert!(error.contains(says) && error.trim_end().lines().count() == 1, "{to}: {error}");
    }
    assert_eq!(samples(&out), before);
    // More blocks extend the run.
    ab("blocks = 2", "blocks = 3", &["--resume"], 0);
    assert!(samples(&out).len() > before.len() && samples(&out).starts_with(&before));
    assert!(ab("", "", &["--resume"], 2).contains("blocks 3, but this one has 2"));
}

/// Run a comparison whose samples do not fit below a limit that `sh` sets up, and then its report,
/// which does not fit either.
fn on_a_full_disk(shell: &mut Command, limit: &str, remedy: &str) -> Option<()> {
    let (dir, plan) = tiny();
    let out = dir.path().join("disk");
    std::fs::create_dir(&out).unwrap();
    let script = format!(
        "{limit} || exit 77\n'{0}' ab --host --plan '{1}' --out '{2}/run' 2>&1; echo \"code $?\"\n\
         echo ==\n'{0}' report '{2}/run' 2>&1; echo \"code $?\"",
        bias_bench(),
        plan.display(),
        out.display()
    );
    let output = shell.arg(script.replace("DISK", out.to_str().unwrap())).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (run, report) = text.split_once("==\n")?;
    let (error, code) = (run.lines().rev().nth(1)?, run.lines().last()?);
    assert_eq!(code, "code 1", "{text}");
    assert!(error.contains("samples.jsonl: ") && error.contains(remedy), "{text}");
    assert!(error.contains("--resume"), "{error}");
    // The report shows the samples that exist, and then the file that it cannot write.
    assert!(report.contains("INCOMPLETE") && report.contains("default-2 against default"), "{text}");
    assert!(report.contains("used of 6") && !report.contains("0 used of 6"), "{text}");
    assert!(report.contains(remedy) && report.ends_with("code 1\n"), "{text}");
    Some(())
}

#[test]
fn a_limit_on_file_sizes_is_named_and_the_samples_stay() {
    // 12 KiB hold two blocks and no report.
    on_a_full_disk(Command::new("sh").arg("-c"), "trap '' XFSZ && ulimit -f 24", "ulimit -f").unwrap();
}

#[test]
fn a_full_disk_is_named_and_the_samples_stay() {
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    let mount = "mount -t tmpfs -o size=32k none 'DISK'";
    if on_a_full_disk(&mut unshare, mount, "free some space").is_none() {
        eprintln!("skipped: no permission to mount a tmpfs in a namespace of its own");
    }
}

#[test]
fn two_real_runs_are_compared() {
    let (dir, plan) = tiny();
    let out = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let (a, b) = (out("a"), out("b"));
    for out in [&a, &b] {
        run(&["ab", "--host", "--plan", plan.to_str().unwrap(), "--out", out], 0);
    }
    let (text, _) = run(&["compare", &a, &b], 0);
    assert!(text.contains("default-2") && text.contains("2compute") && text.contains("6, 6"), "{text}");
    let (json, _) = run(&["compare", &a, &b, "--json"], 0);
    let comparison: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(comparison["schema"], "bias-bench.compare/1");
    let rows = comparison["rows"].as_array().unwrap();
    let of = |metric: &str| rows.iter().find(|row| row["metric"] == metric).unwrap();
    // Runs on a busy host may differ so much that no interval has an end.
    let of_stp = |key: &str| of("stp")[key].is_f64() || of("stp")["verdict"] == "inconclusive";
    assert!(["ratio", "low", "p_holm"].into_iter().all(of_stp), "{json}");
    assert_eq!(of("stp")["blocks"], serde_json::json!([6, 6]));
    assert!(rows.iter().any(|row| row["metric"].as_str().unwrap().starts_with("energy_")), "{json}");
    // The run left its plan. With another workload it is another run, which is refused.
    let other = std::fs::read_to_string(format!("{a}/plan.toml")).unwrap().replace("2compute", "2branchy");
    std::fs::write(&plan, other.replace("blocks = 6", "blocks = 1")).unwrap();
    let c = out("c");
    run(&["ab", "--host", "--plan", plan.to_str().unwrap(), "--out", &c], 0);
    let (_, error) = run(&["compare", &a, &c], 2);
    assert!(error.contains("cell 2compute is") && error.trim_end().lines().count() == 1, "{error}");
    let (_, error) = run(&["compare", &a, &c, "--force"], 2);
    assert!(error.contains("no cell in common"), "{error}");
}

#[test]
fn a_scheduler_is_refused_early_on_a_kernel_without_sched_ext() {
    if Path::new("/sys/kernel/sched_ext").exists() || !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: needs root, and a kernel without sched_ext");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let args = [
        "ab",
        "--host",
        "--cells",
        "2compute",
        "--arms",
        "default,x=sleep 9",
        "--out",
        out.to_str().unwrap(),
    ];
    let (_, error) = run(&args, 3);
    assert!(error.contains("CONFIG_SCHED_CLASS_EXT") && !out.exists(), "{error}");
}
