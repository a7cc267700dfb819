// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Ends of the `--help` texts and man pages that several commands share. A command's own text is in
//! its file. Lines have at most 80 columns: clap would break longer ones without regard to their
//! indents.

use crate::output::{WIDTH, wrap};
use bias_agent::bpf::Stats;
use bias_agent::failure::Exit;
use bias_agent::options::reload;

/// Return the exit codes of scheduling and of commands that need no instance.
pub fn exit_codes() -> String {
    let codes = [Exit::Clean, Exit::Runtime, Exit::Usage, Exit::Kernel, Exit::OtherScheduler, Exit::Ejected];
    format!("Exit codes: {}.", Exit::list(&codes))
}

/// Return the end of a long help: `text`, then the exit codes.
pub fn long(text: &str) -> String {
    format!("{text}\n\n{}", exit_codes())
}

/// Explains the statistics.
const STATISTICS: &str = "\
Statistics, which --stats and --monitor print per interval and status --json
since the start:";

const RELOAD: &str = "\
The instance reads the file that it was started with, or /etc/scx_bias.toml.
Options of its command line still take precedence. If anything in the file is
wrong, nothing changes. SIGHUP does the same for a scx_bias without a terminal;
`systemctl reload scx_bias` calls this command.";

/// Return the list of all statistics, with their descriptions.
pub fn statistics() -> String {
    let width = Stats::ALL.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = Stats::ALL
        .iter()
        .flat_map(|(name, text)| wrap(&format!("  {name:width$}  {text}"), WIDTH, width + 4));
    [STATISTICS.to_owned()].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

/// Return the end of `reload --help` without the exit codes. It lists every option.
pub fn reload() -> String {
    let list = |title: &str, keys: Vec<String>| {
        format!("{title}\n{}", wrap(&format!("  {}", keys.join(", ")), WIDTH, 2).join("\n"))
    };
    let at_once = list("Changed immediately:", reload::keys(true).collect());
    let restart = list("Changed by a restart only:", reload::keys(false).collect());
    let scope = "  cgroups, where they change from none to some or back";
    format!("{RELOAD}\n\n{at_once}\n{restart}\n{scope}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::command::Cli;
    use bias_agent::options::RunOptions;
    use clap::{Command, CommandFactory};

    #[test]
    fn the_tables_fit_the_width() {
        let program = Cli::command();
        let texts = program.get_subcommands().chain([&program]).filter_map(Command::get_after_long_help);
        let texts: Vec<String> = texts.map(ToString::to_string).collect();
        assert!(texts.len() >= 8);
        for line in texts.iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= WIDTH || line.starts_with("Exit codes: "), "{line}");
        }
    }

    #[test]
    fn the_help_describes_every_statistic() {
        let help = Cli::command().render_long_help().to_string();
        let words: Vec<&str> = help.split_whitespace().collect();
        let mut man = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut man).unwrap();
        let man = String::from_utf8(man).unwrap();
        for (name, text) in Stats::ALL {
            let entry: Vec<&str> = [*name].into_iter().chain(text.split(' ')).collect();
            assert!(words.windows(entry.len()).any(|found| found == entry), "{name} is not in\n{help}");
            assert!(man.contains(&format!("  {name} ")), "{name} is not in\n{man}");
        }
    }

    #[test]
    fn the_help_of_reload_lists_every_option() {
        let text = reload();
        let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c == ',').collect();
        for key in RunOptions::keys() {
            assert!(words.contains(&key.as_str()), "{key} is not in\n{text}");
        }
        let restart = text.find("restart only").unwrap_or_default();
        for key in ["no_recalibrate", "no_swap", "swap_interval_ms", "no_moves"] {
            assert!(text.find(&format!(" {key},")).is_some_and(|at| at > restart), "{key}");
        }
    }
}
