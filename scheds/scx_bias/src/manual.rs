// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Man pages: those of the commands, and scx_bias.toml(5) of the configuration file.

use crate::cli::Cli;
use crate::config::USUAL;
use bias_agent::options::setting::{Form, Setting};
use clap::CommandFactory;
use roff::{Roff, bold, italic, roman};
use std::io;
use std::path::Path;

/// Return the page of the program, scx_bias(1).
///
/// # Errors
/// None in practice, because the page is written to memory.
pub fn program() -> io::Result<String> {
    let mut text = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Write a page for every command to `directory`.
///
/// # Errors
/// A page cannot be written.
pub fn every_command(directory: &Path) -> io::Result<()> {
    clap_mangen::generate_to(Cli::command(), directory)
}

/// Return the page of the configuration file, scx_bias.toml(5).
pub fn configuration() -> String {
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
        roman(" takes over all options that need no restart. "),
        bold("scx_bias config"),
        roman(" prints a file with every option as a comment."),
    ]);
    page.control("SH", ["OPTIONS"]);
    for setting in Setting::all() {
        page.control("TP", []);
        page.text([bold(setting.key), roman(" = "), italic(value(setting))]);
        let change = if setting.live { "A reload changes it." } else { "It needs a restart." };
        page.text([roman(format!("{}. {change}", setting.help.trim()))]);
    }
    page.control("SH", ["EXAMPLE"]);
    page.control("EX", []);
    page.text([roman("profile = \"server\"\ncgroups = [\"/sys/fs/cgroup/work.slice\"]\nstats = 10.0")]);
    page.control("EE", []);
    page.control("SH", ["SEE ALSO"]);
    page.text([bold("scx_bias"), roman("(1), "), bold("scx_bias-config"), roman("(1)")]);
    page.render()
}

/// Return the notation of a setting's value.
fn value(setting: &Setting) -> String {
    match setting.form {
        Form::Switch => "true|false".to_owned(),
        Form::Text if !setting.words.is_empty() => format!("\"{}\"", setting.words.join("\"|\"")),
        Form::Text => format!("\"{}\"", setting.value_name),
        Form::List => format!("[\"{}\", ...]", setting.value_name),
        Form::Number | Form::Whole => setting.value_name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_file_has_every_option() {
        let page = configuration();
        for setting in Setting::all() {
            // A dash of a name is escaped; keys have none.
            assert!(
                page.contains(&format!("\\fB{}\\fR = ", setting.key)),
                "{} is not in\n{page}",
                setting.key
            );
        }
        assert!(page.starts_with(".ie \\n(.g") || page.contains(".TH scx_bias.toml 5"), "{page}");
    }
}
