// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! libbpf's messages while the scheduler is loaded. The agent keeps them to explain a refusal in
//! one line, and prints them with `-v`.

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use libbpf_rs::{PrintLevel, set_print};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifiers_last_word_is_the_reason() {
        let said = "libbpf: prog 'bias_enqueue': BPF program load failed: -EACCES\n\
                    libbpf: prog 'bias_enqueue': -- BEGIN PROG LOAD LOG --\n\
                    12: (79) r1 = *(u64 *)(r2 +0)\nR2 invalid mem access 'scalar'\n\
                    processed 13 insns (limit 1000000) max_states_per_insn 0\n\
                    -- END PROG LOAD LOG --\nlibbpf: failed to load object 'bpf_bpf'\n";
        assert_eq!(reason_in(said).as_deref(), Some("bias_enqueue: R2 invalid mem access 'scalar'"));
        assert_eq!(reason_in("libbpf: extern 'x': not found\n").as_deref(), Some("extern 'x': not found"));
        assert_eq!(reason_in(""), None);
    }
}
