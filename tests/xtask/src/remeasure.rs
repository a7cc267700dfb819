// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `cargo xtask remeasure`: repeats the comparisons behind the claims of the documents.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bias_vm::build;
use bias_vm::packages::{self, Consent, Purpose};
use serde::Deserialize;

use crate::args::RemeasureArgs;

/// The used part of the output of `bias-bench results --json`.
#[derive(Deserialize)]
struct Listed {
    claims: Vec<Claim>,
}

#[derive(Deserialize)]
struct Claim {
    id: String,
    standing: String,
    ab: String,
}

/// Measure the chosen claims and record them. Return the exit code.
pub fn run(args: &RemeasureArgs, consent: Consent) -> Result<i32> {
    packages::ensure(Purpose::All, consent)?;
    eprintln!("xtask: the programs ...");
    let bench = build::programs()?.join("bias-bench");
    for id in &args.claims {
        // A record that is refused must not prevent the next one.
        let _ = fs::remove_file(build::workspace().join(format!("docs/results/{id}.json")));
    }
    let begun = Instant::now();
    let runs = runs(choose(args, listed(&bench)?)?);
    for (at, (ab, ids)) in runs.iter().enumerate() {
        if args.budget.is_some_and(|minutes| begun.elapsed() >= Duration::from_secs(60 * minutes)) {
            eprintln!("xtask: the time is over; {at} of {} runs are done", runs.len());
            return Ok(0);
        }
        eprintln!("xtask: run {} of {}: {} ...", at + 1, runs.len(), ids.join(", "));
        measure(&bench, ab, ids)?;
    }
    Ok(0)
}

/// Return the runs that decide these claims, with the claims of each.
fn runs(claims: Vec<Claim>) -> Vec<(String, Vec<String>)> {
    let mut runs: Vec<(String, Vec<String>)> = Vec::new();
    for claim in claims {
        match runs.iter_mut().find(|(ab, _)| *ab == claim.ab) {
            Some((_, ids)) => ids.push(claim.id),
            None => runs.push((claim.ab, vec![claim.id])),
        }
    }
    runs
}

fn listed(bench: &Path) -> Result<Listed> {
    let output = Command::new(bench).args(["results", "--json"]).current_dir(build::workspace()).output();
    let output = output.with_context(|| format!("cannot run {}", bench.display()))?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("cannot read the list of claims")
}

/// Return the named claims, or those that are not current.
fn choose(args: &RemeasureArgs, listed: Listed) -> Result<Vec<Claim>> {
    let known: Vec<&str> = listed.claims.iter().map(|claim| claim.id.as_str()).collect();
    if let Some(unknown) = args.claims.iter().find(|id| !known.contains(&id.as_str())) {
        bail!("there is no claim '{unknown}'; docs/claims.toml has {}", known.join(", "));
    }
    let is_chosen = |claim: &Claim| match args.claims.as_slice() {
        [] => claim.standing != "current",
        named => named.contains(&claim.id),
    };
    Ok(listed.claims.into_iter().filter(is_chosen).collect())
}

/// Run a comparison in a new directory, and record it for these claims.
fn measure(bench: &Path, ab: &str, ids: &[String]) -> Result<()> {
    let out = build::target_directory().join("claims").join(ids.join("+"));
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    // The options are words of a shell.
    let line = format!("exec \"$0\" ab {ab} --out \"$1\"");
    let mut compare = Command::new("sh");
    compare.args(["-c", &line]).arg(bench).arg(&out).env("BIAS_XTASK", std::env::current_exe()?);
    let record = |id: &String| {
        let mut record = Command::new(bench);
        record.arg("record").arg(&out).args(["--claim", id]);
        record
    };
    for mut command in [compare].into_iter().chain(ids.iter().map(record)) {
        let status = command.current_dir(build::workspace()).status().context("cannot run bias-bench")?;
        if !status.success() {
            bail!("{} is not recorded: bias-bench ended with {status}", ids.join(", "));
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn named_claims_or_those_that_are_not_current_are_measured() {
        let listed = || -> serde_json::Result<Listed> {
            serde_json::from_str(
                r#"{"claims": [{"id": "a", "standing": "current", "ab": "", "more": 1},
                               {"id": "b", "standing": "stale", "ab": ""}]}"#,
            )
        };
        let chosen = |names: &[&str]| {
            let claims = names.iter().map(|name| (*name).to_owned()).collect();
            let args = RemeasureArgs { claims, budget: None };
            choose(&args, listed().unwrap())
                .map(|claims| claims.into_iter().map(|claim| claim.id).collect::<Vec<_>>())
        };
        assert_eq!(chosen(&[]).unwrap(), ["b"]);
        assert_eq!(chosen(&["a"]).unwrap(), ["a"]);
        assert!(chosen(&["c"]).unwrap_err().to_string().contains("has a, b"));
        assert_eq!(runs(listed().unwrap().claims), [(String::new(), vec!["a".to_owned(), "b".to_owned()])]);
    }
}
