// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `scx_bias man` and `scx_bias completions`: the command line and the configuration file, for
//! man(1) and for shells.

use crate::config::USUAL;
use crate::output::print;
use anyhow::{Context, Result};
use bias_agent::failure::Exit;
use bias_agent::options::values::Profile;
use bias_agent::options::{LIVE, RunOptions};
use clap::{Arg, Args, Command};
use clap_complete::Shell;
use roff::{Roff, bold, italic, roman};
use std::path::PathBuf;
use toml::Value;

/// Print the man page, or that of the configuration file, or write a page for every command
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Print scx_bias.toml(5), the page of the configuration file
    #[arg(long, conflicts_with = "to")]
    toml: bool,

    /// Directory for the pages: scx_bias.1, scx_bias-check.1 and so on
    #[arg(long, value_name = "DIRECTORY")]
    to: Option<PathBuf>,
}

impl ManArgs {
    pub fn run(self, program: Command) -> Result<Exit> {
        if self.toml {
            return print(&configuration());
        }
        if let Some(directory) = self.to {
            clap_mangen::generate_to(program, &directory)
                .with_context(|| format!("cannot write man pages to {}", directory.display()))?;
            return Ok(Exit::Clean);
        }
        let mut text = Vec::new();
        clap_mangen::Man::new(program).render(&mut text)?;
        print(&String::from_utf8_lossy(&text))
    }
}

/// Print shell completions
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell to complete for
    shell: Shell,
}

impl CompletionsArgs {
    pub fn run(self, mut program: Command) -> Result<Exit> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut program, "scx_bias", &mut text);
        print(&String::from_utf8_lossy(&text))
    }
}

/// Return the page of the configuration file, scx_bias.toml(5).
fn configuration() -> String {
    let version = concat!("scx_bias ", env!("CARGO_PKG_VERSION"));
    let mut page = Roff::new();
    page.control("TH", ["scx_bias.toml", "5", "", version]);
    page.control("SH", ["NAME"]);
    page.text([roman("scx_bias.toml - configuration of the scheduler scx_bias")]);
    page.control("SH", ["DESCRIPTION"]);
    let (file, reload) = (bold(USUAL), bold("scx_bias reload"));
    page.text([
        roman("scx_bias reads "),
        file,
        roman(
            " at its start, or the file that --config names. It is a TOML file. As root, scx_bias accepts only \
             a file that root owns and that no other user can write. Options of the command line take \
             precedence. After a change, ",
        ),
        reload,
        roman(" applies all options that need no restart. "),
        bold("scx_bias config"),
        roman(" prints a file with every option as a comment."),
    ]);
    page.control("SH", ["OPTIONS"]);
    let examples = RunOptions::examples(Profile::Auto);
    for flag in RunOptions::flags() {
        let key = flag.get_id().as_str();
        page.control("TP", []);
        page.text([bold(key), roman(" = "), italic(notation(&flag, examples.get(key)))]);
        let change = if LIVE.contains(&key) { "A reload changes it." } else { "It needs a restart." };
        let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
        page.text([roman(format!("{help}. {change}"))]);
    }
    page.control("SH", ["EXAMPLE"]);
    page.control("EX", []);
    page.text([roman("profile = \"server\"\ncgroups = [\"/sys/fs/cgroup/work.slice\"]\nstats = 10.0")]);
    page.control("EE", []);
    page.control("SH", ["SEE ALSO"]);
    page.text([bold("scx_bias"), roman("(1), "), bold("scx_bias-config"), roman("(1)")]);
    page.render()
}

/// Return the notation of an option's value, which has the type of `example`.
fn notation(flag: &Arg, example: Option<&Value>) -> String {
    let name = flag.get_value_names().unwrap_or_default().join("");
    let words: Vec<String> =
        flag.get_possible_values().iter().map(|word| format!("\"{}\"", word.get_name())).collect();
    match example {
        Some(Value::Boolean(_)) => "true|false".to_owned(),
        Some(Value::String(_)) if !words.is_empty() => words.join("|"),
        Some(Value::String(_)) => format!("\"{name}\""),
        Some(Value::Array(list)) if list.iter().all(Value::is_str) => format!("[\"{name}\", ...]"),
        Some(Value::Array(_)) => format!("[{name}]"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_file_has_every_option() {
        let page = configuration();
        for key in RunOptions::keys() {
            // A dash of a name is escaped; keys have none.
            assert!(page.contains(&format!("\\fB{key}\\fR = ")), "{key} is not in\n{page}");
        }
        assert!(page.starts_with(".ie \\n(.g") || page.contains(".TH scx_bias.toml 5"), "{page}");
    }
}
