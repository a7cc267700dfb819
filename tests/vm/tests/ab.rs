//! A whole A/B run: the host boots the VM, the guest switches schedulers, and the report shows the
//! results.
#![allow(missing_docs, clippy::unwrap_used)]

use bias_vm::build;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Run `bias-bench ab` without the emulation, with the shortest times. The figures are not checked.
fn ab(out: &Path, more: &[&str]) -> String {
    let status = build::cargo().args(["build", "--quiet", "--locked", "--release"]).status().unwrap();
    assert!(status.success(), "the programs do not build");
    let mut command = Command::new(build::target_directory().join("release/bias-bench"));
    command.current_dir(build::workspace()).args(["ab", "--vm", "SYM", "--no-emulation", "--seed", "7"]);
    command.args(["--arms", "default,scx_bias", "--cells", "2compute+1chase,pingpong@0", "--window", "0.2"]);
    command.args(["--stretch", "2", "--out"]).arg(out).args(more);
    let output = command.output().unwrap();
    let (text, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n-- stdout\n{text}\n-- stderr\n{error}", output.status);
    text.into_owned()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_run_is_measured_reported_and_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("run");
    let text = ab(&out, &["--blocks", "1"]);
    assert!(text.contains("scx_bias against default") && text.contains("too few"), "{text}");
    let samples = || std::fs::read_to_string(out.join("samples.jsonl")).unwrap().lines().count();
    assert_eq!(samples(), 2 * 2 * 2, "two arms, two visits, two cells");

    ab(&out, &["--blocks", "2", "--resume"]);
    assert_eq!(samples(), 2 * 8, "what was measured is kept, what was missing is added");
    let run = json(&out.join("run.json"));
    assert_eq!((run["complete"].as_bool(), run["blocks_done"].as_u64()), (Some(true), Some(2)), "{run:#}");
    let rows = json(&out.join("report.json"))["rows"].as_array().unwrap().len();
    assert!(rows > 8, "{rows} rows");
    let html = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(
        html.contains("<svg") && !html.contains("http://") && !html.contains("<script"),
        "self-contained"
    );
}
