// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Log of loading the scheduler: messages of libbpf and the kernel, the explanation of a refusal in
//! one line, and the instructions that the verifier processed. `-v` prints all of it.

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{PrintLevel, set_print};
use tracing::debug;

use crate::check::NO_JIT;
use crate::failure::{Exit, Failure};

/// Prefix of this scheduler's program names. The kernel keeps 15 letters of a name.
const PREFIX: &str = "bias_";

/// Messages so far. They are global because libbpf's callback is a plain function. The verifier's
/// log bounds their size.
static SAID: Mutex<String> = Mutex::new(String::new());
static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Start to collect messages, and also print them if `verbose`.
pub(crate) fn collect(verbose: bool) {
    VERBOSE.store(verbose, Ordering::Relaxed);
    if let Ok(mut said) = SAID.lock() {
        said.clear();
    }
    set_print(Some((PrintLevel::Info, keep)));
}

fn keep(_level: PrintLevel, text: String) {
    if VERBOSE.load(Ordering::Relaxed) {
        // A panic here would unwind into C.
        let _ = write!(std::io::stderr(), "{text}");
    }
    if let Ok(mut said) = SAID.lock() {
        said.push_str(&text);
    }
}

/// Return the line that explains a refusal best: the verifier's last line, or libbpf's last
/// message.
pub(crate) fn reason() -> Option<String> {
    let said = SAID.lock().ok()?;
    reason_in(&said)
}

fn reason_in(said: &str) -> Option<String> {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let verdict = lines.iter().rposition(|line| line.starts_with("processed ") && line.contains("insns"));
    let program = lines.iter().find_map(|line| line.strip_prefix("libbpf: prog '")?.split('\'').next());
    let text = match verdict.and_then(|at| lines.get(at.checked_sub(1)?)) {
        Some(line) => (*line).to_owned(),
        None => lines
            .iter()
            .rev()
            .find(|line| line.starts_with("libbpf: "))?
            .trim_start_matches("libbpf: ")
            .to_owned(),
    };
    Some(program.map_or_else(|| text.clone(), |program| format!("{program}: {text}")))
}

/// Return a loading error, with its cause and remedy in front where they are known.
pub(super) fn explain(error: &anyhow::Error) -> anyhow::Error {
    let text = format!("{error:#}");
    if text.contains("already running") || text.contains("os error 16") {
        return Failure::new(Exit::OtherScheduler, "another sched_ext scheduler is active; stop it first")
            .into();
    }
    if text.contains("CONFIG_FUNCTION_TRACER") {
        return Failure::kernel(
            "this kernel lacks CONFIG_FUNCTION_TRACER; boot one that has it, see `scx_bias check`",
        )
        .into();
    }
    if text.contains("malformed scx kfunc") {
        return Failure::kernel(format!(
            "this kernel's BTF describes scx functions wrongly (built with an old pahole); boot another build of it, see `scx_bias check`: {text}"
        ))
        .into();
    }
    let reason = reason().unwrap_or_default();
    // ENOTSUPP, which libc does not know: a program was not compiled.
    if text.contains("os error 524") || reason.contains("JIT is required") {
        return Failure::kernel(format!("{}; {}", NO_JIT.0, NO_JIT.1)).into();
    }
    if reason.contains("PREEMPT_RT") {
        return Failure::kernel(
            "this kernel has PREEMPT_RT, and no BPF timers, which scx_bias needs; boot one without PREEMPT_RT",
        )
        .into();
    }
    let denied = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<libbpf_rs::Error>())
        .any(|cause| cause.kind() == libbpf_rs::ErrorKind::PermissionDenied);
    if denied && !nix::unistd::geteuid().is_root() {
        return Failure::kernel("loading a scheduler needs CAP_BPF and CAP_PERFMON; run it with sudo").into();
    }
    Failure::runtime(format!(
        "the kernel refused the scheduler: {text}: {reason}; `scx_bias check` lists what is missing, -v prints the verifier's log"
    ))
    .into()
}

/// Log the instructions that the verifier processed for each program, for `scx_bias -v` and for the
/// test of the budget. This figure can grow unnoticed until a kernel refuses to load the program.
pub(crate) fn log_verified() {
    for program in ProgInfoIter::default() {
        let name = program.name.to_string_lossy();
        if name.starts_with(PREFIX) {
            debug!("program {name}: {} instructions verified", program.verified_insns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::describe;
    use anyhow::anyhow;

    #[test]
    fn the_verifiers_last_line_is_the_reason() {
        let said = "libbpf: prog 'bias_enqueue': BPF program load failed: -EACCES\n\
                    libbpf: prog 'bias_enqueue': -- BEGIN PROG LOAD LOG --\n\
                    12: (79) r1 = *(u64 *)(r2 +0)\nR2 invalid mem access 'scalar'\n\
                    processed 13 insns (limit 1000000) max_states_per_insn 0\n\
                    -- END PROG LOAD LOG --\nlibbpf: failed to load object 'bpf_bpf'\n";
        assert_eq!(reason_in(said).as_deref(), Some("bias_enqueue: R2 invalid mem access 'scalar'"));
        assert_eq!(reason_in("libbpf: extern 'x': not found\n").as_deref(), Some("extern 'x': not found"));
        assert_eq!(reason_in(""), None);
    }

    #[test]
    fn a_program_that_was_not_compiled_is_explained_by_the_setting() {
        let error = anyhow!("failed to load BPF object: Unknown error 524 (os error 524)");
        let (exit, message) = describe(&explain(&error));
        assert_eq!(exit, Exit::Kernel);
        assert!(message.contains("net.core.bpf_jit_enable=1") && message.contains("; "), "{message}");
    }
}
