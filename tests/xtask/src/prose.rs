// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Check of comments and documents: line width and banned words.
//!
//! # Problem
//! rustfmt and clang-format do not wrap comments, and no tool knows the words that the project
//! avoids.
//!
//! # Approach
//! A line scanner finds the comments of C and Rust and the prose of Markdown. A line is too wide if
//! it exceeds 80 columns in C and 100 elsewhere. [`BANNED`] has words to avoid, which
//! `CONTRIBUTING.md` explains. They are sought in strings, too: these are help and messages.
//!
//! # Limits
//! The scanner works by line. A comment behind code counts only if nothing in front of it is in
//! quotes. Only strings that begin on their line are checked.

use std::path::Path;

/// Words that are opaque to readers, see `CONTRIBUTING.md`. They are sought in lower case.
const BANNED: &[&str] = &["anew", "whoever", "whomever", "somebody", "nobody", "to and fro", "of late"];
/// Columns between the stops of tabs.
const TAB: usize = 8;

/// The languages that are checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    C,
    Rust,
    Markdown,
    Shell,
}

impl Language {
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "c" | "h" => Some(Self::C),
            "rs" => Some(Self::Rust),
            "md" => Some(Self::Markdown),
            "sh" => Some(Self::Shell),
            _ => None,
        }
    }

    fn columns(self) -> usize {
        if self == Self::C { 80 } else { 100 }
    }
}

/// Return the complaints about a file's prose, each with its line number.
pub fn complaints(path: &Path, text: &str) -> Vec<(usize, String)> {
    let Some(language) = Language::of(path) else { return Vec::new() };
    if path.ends_with(file!()) {
        return Vec::new(); // it quotes the words
    }
    let mut scanner = Scanner { language, inside: false };
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some(prose) = scanner.prose(line) else {
            let strings: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
            let said = if language == Language::Markdown { Vec::new() } else { strings };
            found.extend(banned(&said.join(" ")).map(|word| (at + 1, format!("the word \"{word}\""))));
            continue;
        };
        let columns = line.chars().fold(0, |at, c| if c == '\t' { (at / TAB + 1) * TAB } else { at + 1 });
        let link = prose.contains("](") || prose.contains("://");
        if columns > language.columns() && !link {
            found.push((at + 1, format!("{columns} columns, at most {}", language.columns())));
        }
        found.extend(banned(prose).map(|word| (at + 1, format!("the word \"{word}\""))));
    }
    found
}

/// Return the banned words of a line. What stands in `code` or *emphasis* is quoted, not said.
fn banned(prose: &str) -> impl Iterator<Item = &'static str> {
    let prose = prose.trim_start_matches("/*");
    let prose = prose.strip_prefix("* ").unwrap_or(prose);
    let words = prose.split(['`', '*']).step_by(2).collect::<Vec<_>>().join(" ").to_lowercase();
    let words: Vec<&str> = words.split(|c: char| !c.is_alphanumeric()).collect();
    let line = format!(" {} ", words.join(" "));
    BANNED.iter().copied().filter(move |word| line.contains(&format!(" {word} ")))
}

/// Finds the prose of one line after the other.
struct Scanner {
    language: Language,
    /// The line begins inside a comment of several lines; in Markdown, inside a block of code.
    inside: bool,
}

impl Scanner {
    fn prose<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        let text = line.trim_start();
        if self.language == Language::Markdown {
            let fence = text.starts_with("```");
            self.inside ^= fence;
            let code = fence || self.inside || line.starts_with("    ");
            return (!code && !text.starts_with('|')).then_some(text);
        }
        if self.language == Language::Shell {
            return text.starts_with('#').then_some(text);
        }
        let begin = if self.inside { Some(0) } else { comment(text) };
        let prose = &text[begin?..];
        let block = self.inside || prose.starts_with("/*");
        self.inside = block && !prose.contains("*/");
        Some(prose)
    }
}

/// Return where a comment begins on a line that does not begin inside one.
fn comment(text: &str) -> Option<usize> {
    let at = [text.find("//"), text.find("/*")].into_iter().flatten().min()?;
    (!text[..at].contains(['"', '\'', '#'])).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(name: &str, text: &str) -> Vec<usize> {
        complaints(Path::new(name), text).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn comments_keep_to_the_columns_of_their_language() {
        let wide = "x ".repeat(45);
        assert_eq!(lines("a.h", &format!("/*\n * {wide}\n */\nint {wide};\n")), [2]);
        assert_eq!(lines("a.c", &format!("int y; /* {wide} */\n")), [1]);
        assert_eq!(lines("a.rs", &format!("/// {wide}\n")), [] as [usize; 0]);
        assert_eq!(lines("a.rs", &format!("    /// {wide}{wide}\nlet s = \"// {wide}{wide}\";\n")), [1]);
        let document = format!("{wide}{wide}\n| {wide}{wide} |\n```\n{wide}{wide}\n```\n{wide}{wide}\n");
        assert_eq!(lines("a.md", &document), [1, 6]);
        assert_eq!(lines("a.toml", &document), [] as [usize; 0]);
    }

    #[test]
    fn banned_words_are_found_in_comments_and_strings() {
        assert_eq!(lines("a.h", "/*\n * Nobody, not *nobody*.\n */\n"), [2]);
        let text =
            "// Whoever, not `nobody`\nlet nobody = 1;\n// it goes to and\n// renewed\n/// to and fro\n";
        assert_eq!(lines("a.rs", text), [1, 5]);
        assert_eq!(lines("a.rs", "let nobody = f(\"of\", \"late\");\nf(\"runs anew\");\n"), [1, 2]);
        assert_eq!(lines("a.sh", "# anew\nnobody=1\necho \"$x\" \"anew\"\n"), [1, 3]);
    }
}
