// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The script that the guest runs, `guest.sh`, and its inputs.
//!
//! # Approach
//! A file in the run's directory holds the command. It is never on the kernel's command line.
//! Output goes to two virtio ports. The script finds them by name in sysfs, because
//! `/dev/virtio-ports` exists only where udev runs. It records the course of the run as files in
//! the run's directory: [`STARTED`], [`FAILED`], [`EXIT_CODE`].
//!
//! # Invariants
//! The guest passes every word of the command on unchanged (tested with a shell).

/// File that is written just before the command starts.
pub const STARTED: &str = "started";
/// File with the reason why the command could not start.
pub const FAILED: &str = "setup-failed";
/// The reason in [`FAILED`] that requires another boot of the machine.
pub const NO_TIMER: &str = "a CPU of the guest has no exact timer, a fault of QEMU's or of a busy host";
/// File with the command's exit code.
pub const EXIT_CODE: &str = "exit-code";
/// File with the number of schedulers that the guest loaded.
pub const LOADS: &str = "loads";
/// Name of the port that carries the command's standard output.
pub const PORT_OUT: &str = "bias.out";
/// Name of the port that carries the command's standard error.
pub const PORT_ERR: &str = "bias.err";

/// Quote a word, so that the shell reads it back unchanged.
#[must_use]
pub fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Return the text of the script with its variables and the command. `guest.sh` uses these
/// variables:
///
/// * `OUT`: the shared output directory.
/// * `AMPCTL`: the program that starts the emulation if there is no module.
/// * `AMP_PMU`: the guest's PMU module, which starts the emulation when it is loaded. The command
///   can load it again with other parameters.
/// * `VM_PARAMS`: parameters of the module, separated by blanks.
/// * `VM_ROOT`: the archive that is unpacked into memory, or empty. The command finds the directory
///   in `ROOT`.
/// * `VM_DISK_MIB`: size of the block device in memory, or 0. The command finds its mount in
///   `DISK`.
/// * `VM_RUN`, `VM_CWD`: the run's directory, and the working directory of the command.
/// * `VM_SERVE`: not empty for a guest that runs several commands ([`crate::session`]).
/// * `VM_CONFIG`: the kernel's configuration, which appears in `/boot` if the kernel has no
///   `/proc/config.gz`.
#[must_use]
pub fn script(variables: &[(&str, String)], command: &[String]) -> String {
    let marks = [
        ("VM_STARTED", STARTED),
        ("VM_FAILED", FAILED),
        ("VM_NO_TIMER", NO_TIMER),
        ("VM_EXIT_CODE", EXIT_CODE),
        ("VM_LOADS", LOADS),
        ("VM_PORT_OUT", PORT_OUT),
        ("VM_PORT_ERR", PORT_ERR),
    ];
    let all = marks.into_iter().chain(variables.iter().map(|(name, value)| (*name, value.as_str())));
    let assignments: String = all.map(|(name, value)| format!("{name}={}\n", quote(value))).collect();
    let words: Vec<_> = command.iter().map(|word| quote(word)).collect();
    format!(
        "{assignments}set -- {}\n{}{}",
        words.join(" "),
        include_str!("session.sh"),
        include_str!("guest.sh")
    )
}

/// Return the text of a script that runs one of several commands.
#[must_use]
pub fn job(variables: &[(&str, String)], command: &[String]) -> String {
    let assignments: String =
        variables.iter().map(|(name, value)| format!("export {name}={}\n", quote(value))).collect();
    let words: Vec<_> = command.iter().map(|word| quote(word)).collect();
    format!("{assignments}set -- {}\n{}", words.join(" "), include_str!("job.sh"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    #[test]
    fn the_script_is_valid_shell_and_keeps_its_inputs() {
        let variables = [("VM_RUN", "/o'ut/run".into()), ("VM_PARAMS", "itmt=1 asym=1".into())];
        let text = script(&variables, &["sh".into(), "-c".into(), "echo \"$0\"; exit 3".into()]);
        let shell = |text: &str| Command::new("sh").args(["-c", text]).output().unwrap();
        assert!(shell(&format!("if false; then\n{text}\nfi")).status.success());
        let inputs = text.split("#!/bin/sh").next().unwrap();
        let output = shell(&format!("{inputs}\nprintf '%s|' \"$VM_RUN\" \"$VM_PARAMS\" \"$@\""));
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "/o'ut/run|itmt=1 asym=1|sh|-c|echo \"$0\"; exit 3|"
        );
    }

    #[test]
    fn the_script_of_a_job_is_valid_shell_and_keeps_its_words() {
        let text = job(&[("OUT", "/o'ut".into())], &["printf".into(), "%s|".into(), "a b".into()]);
        let shell = |text: &str| Command::new("sh").args(["-c", text]).output().unwrap();
        assert!(shell(&format!("if false; then\n{text}\nfi")).status.success());
        let (inputs, _) = text.split_once("# SPDX").unwrap();
        let output = shell(&format!("{inputs}\nprintf '%s|' \"$OUT\"; \"$@\""));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "/o'ut|a b|");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_shell_reads_a_quoted_word_back(word in "[^\0]{0,20}") {
            let output = Command::new("sh").args(["-c", &format!("printf %s {}", quote(&word))]).output().unwrap();
            prop_assert_eq!(String::from_utf8_lossy(&output.stdout).into_owned(), word);
        }
    }
}
