//! The script that the guest runs. It finds the output ports, starts the emulation, runs the
//! command and records how it ended.
//!
//! # Approach
//! A file in the run's directory holds the command. It is never on the kernel's command line.
//! Output goes to two virtio ports. The script finds them by name in sysfs, because
//! `/dev/virtio-ports` exists only where udev runs. It records the course of the run as files in
//! the run's directory: [`STARTED`], [`FAILED`], [`EXIT_CODE`].
//!
//! # Invariants
//! The guest passes every word of the command on unchanged (tested with a shell).

use std::fmt::Write as _;
use std::path::Path;

/// File that is written just before the command starts.
pub const STARTED: &str = "started";
/// File with the reason why the command could not start.
pub const FAILED: &str = "setup-failed";
/// The reason in [`FAILED`] that requires another boot of the machine.
pub const NO_TIMER: &str = "a CPU of the guest has no timer, a fault of QEMU's";
/// File with the command's exit code.
pub const EXIT_CODE: &str = "exit-code";
/// Name of the port that carries the command's standard output.
pub const PORT_OUT: &str = "bias.out";
/// Name of the port that carries the command's standard error.
pub const PORT_ERR: &str = "bias.err";

/// Inputs of the script.
pub struct Script<'a> {
    /// The run's private directory, as the guest sees it.
    pub run: &'a Path,
    /// The shared output directory, in the command's variable `OUT`.
    pub out: &'a Path,
    /// Working directory of the command.
    pub cwd: &'a Path,
    /// Additional environment variables of the command.
    pub env: &'a [(String, String)],
    /// The kernel's configuration. The script makes it available in `/boot` if the kernel has no
    /// `/proc/config.gz`.
    pub config: Option<&'a Path>,
    /// The guest's PMU module, which starts the emulation when it is loaded. The command finds it
    /// in `AMP_PMU`, so that it can load the module with other parameters.
    pub module: Option<&'a Path>,
    /// Parameters of the module.
    pub module_params: &'a [String],
    /// A program that starts the emulation if there is no module.
    pub starter: Option<&'a Path>,
    /// The command and its arguments.
    pub command: &'a [String],
}

/// Quote a word, so that the shell reads it back unchanged.
#[must_use]
pub fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn quote_path(path: &Path) -> String {
    quote(&path.to_string_lossy())
}

/// Return the text of the script.
#[must_use]
pub fn script(script: &Script<'_>) -> String {
    let run = quote_path(script.run);
    let mut text = format!(
        r#"#!/bin/sh
run={run}
for port in /sys/class/virtio-ports/*; do
	read -r name <"$port/name" || continue
	case $name in
	{PORT_OUT}) exec >"/dev/${{port##*/}}" ;;
	{PORT_ERR}) exec 2>"/dev/${{port##*/}}" ;;
	esac
done
exec </dev/null
finish() {{
	# Power off at once: an orderly shutdown takes seconds and nothing here needs it.
	echo 1 >/proc/sys/kernel/sysrq
	echo o >/proc/sysrq-trigger
	sleep 60
}}
fail() {{
	echo "$1" >"$run/{FAILED}"
	finish
}}
# The kernel starts with one CPU; see KERNEL_ARGS. A CPU that the command line forbids stays off.
# A start waits for many grace periods of RCU, which are short if expedited.
echo 1 >/sys/kernel/rcu_expedited
for cpu in /sys/devices/system/cpu/cpu[0-9]*/online; do
	[ "$(cat "$cpu")" = 1 ] || echo 1 >"$cpu"
done 2>/dev/null
echo 0 >/sys/kernel/rcu_expedited
# QEMU now and then leaves a CPU without a timer, and a task that sleeps there never wakes. Find out now, from whichever CPU this is.
mkdir -p /run/bias
cpus=0
for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
	cpus=$((cpus + 1))
	(taskset -c "${{cpu##*/cpu}}" sleep 0.02; echo >>/run/bias/timers) &
done
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	[ "$(wc -l </run/bias/timers)" -ge "$cpus" ] && break
	[ "$try" = 20 ] && fail "{NO_TIMER}"
	sleep 0.1
done 2>/dev/null
# State directories become writable; what is written is lost with the guest.
mkdir -p /run/bias/upper /run/bias/work
mount -t overlay -o lowerdir=/var/lib,upperdir=/run/bias/upper,workdir=/run/bias/work overlay /var/lib 2>/dev/null ||
	mount -t tmpfs state /var/lib
export OUT={out} HOME="${{HOME:-/root}}" XDG_CACHE_HOME=/run/bias/cache XDG_STATE_HOME=/run/bias/state
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p "$XDG_CACHE_HOME" "$XDG_STATE_HOME"
"#,
        out = quote_path(script.out),
    );
    // Writing to a String cannot fail, so the results are ignored.
    for (name, value) in script.env {
        let _ = writeln!(text, "export {name}={}", quote(value));
    }
    if let Some(config) = script.config {
        // libbpf reads the configuration for schedulers that depend on kernel options. Without it
        // they do not load.
        let _ = writeln!(
            text,
            "[ -e /proc/config.gz ] || {{ mkdir -p /run/bias/boot && cp {} \"/run/bias/boot/config-$(uname -r)\" && mount --bind /run/bias/boot /boot; }}",
            quote_path(config)
        );
    }
    if let Some(module) = script.module {
        let params: String = script.module_params.iter().map(|word| format!(" {}", quote(word))).collect();
        let _ = writeln!(
            text,
            "export AMP_PMU={}\ninsmod \"$AMP_PMU\"{params} 2>\"$run/insmod.log\" || fail \"the guest refuses the PMU module: $(cat \"$run/insmod.log\")\"",
            quote_path(module)
        );
    } else if let Some(starter) = script.starter {
        let _ = writeln!(
            text,
            "{} start >\"$run/start.log\" 2>&1 || fail \"cannot start the emulation: $(cat \"$run/start.log\")\"",
            quote_path(starter)
        );
    }
    let words: Vec<_> = script.command.iter().map(|word| quote(word)).collect();
    let _ = write!(
        text,
        "cd {cwd} 2>/dev/null || cd /\necho started >\"$run/{STARTED}\"\n{command}\necho $? >\"$run/{EXIT_CODE}.new\"\n\
         mv \"$run/{EXIT_CODE}.new\" \"$run/{EXIT_CODE}\"\nfinish\n",
        cwd = quote_path(script.cwd),
        command = words.join(" "),
    );
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_script_is_valid_shell() {
        let text = script(&Script {
            run: Path::new("/o'ut/run"),
            out: Path::new("/o'ut"),
            cwd: Path::new("/some where"),
            env: &[("A".into(), "it's $HOME".into())],
            config: Some(Path::new("/co'nfig")),
            module: Some(Path::new("/m.ko")),
            module_params: &["it's=1".into(), "asym=1".into()],
            starter: None,
            command: &["sh".into(), "-c".into(), "echo \"$0\"; exit 3".into()],
        });
        assert!(text.contains(r#"insmod "$AMP_PMU" 'it'\''s=1' 'asym=1' 2>"#), "{text}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        std::fs::write(&path, text).unwrap();
        assert!(std::process::Command::new("sh").arg("-n").arg(&path).status().unwrap().success());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_shell_reads_a_quoted_word_back(word in "[^\0]{0,20}") {
            let output = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", quote(&word))]).output().unwrap();
            prop_assert_eq!(String::from_utf8_lossy(&output.stdout).into_owned(), word);
        }
    }
}
