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
//! `CONTRIBUTING.md` explains. The check includes strings, which are help and messages, and names of
//! Rust functions, where underscores separate words.
//!
//! # Limits
//! The scanner works by line, so it misses a phrase that two lines share. A comment behind code counts
//! only if nothing in front of it is in quotes. Only strings that begin on their line are checked.

use std::path::Path;

/// Words that are opaque to readers, see `CONTRIBUTING.md`. They match in any case.
const BANNED: &[&str] = &[
    "anew",
    "whoever",
    "whomever",
    "somebody",
    "nobody",
    "everyone",
    "to and fro",
    "of late",
    "goes on",
    "go on",
    "went on",
    "is told",
    "are told",
    "was told",
    "for without",
    "look at where",
    "gives back what",
];
/// Prose may use it of readers. The name of a function is about things.
const BANNED_IN_NAMES: &str = "who";
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
        if language == Language::Rust {
            found.extend(banned_in_name(line).map(|word| (at + 1, format!("the word \"{word}\" in a name"))));
        }
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

/// Return the banned words of a line. Words in `code` or *emphasis* are quotations.
fn banned(prose: &str) -> impl Iterator<Item = &'static str> {
    let prose = prose.trim_start_matches("/*");
    let prose = prose.strip_prefix("* ").unwrap_or(prose);
    // A line of passwd names the user `nobody`.
    let line =
        words(&prose.replace("nobody:", "").split(['`', '*']).step_by(2).collect::<Vec<_>>().join(" "));
    BANNED.iter().copied().filter(move |word| line.contains(&format!(" {word} ")))
}

/// Return the banned words in the name of the function that a line of Rust defines.
fn banned_in_name(line: &str) -> impl Iterator<Item = &'static str> {
    let name = words(function(line).unwrap_or_default());
    let all = BANNED.iter().copied().chain([BANNED_IN_NAMES]);
    all.filter(move |word| name.contains(&format!(" {word} ")))
}

/// Return the name of the function that a line of Rust defines.
fn function(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let begins_word = before.is_empty() || before.ends_with(' ');
    // `extern "C" fn` has a whole string before the name; inside a string, a quote is open.
    let is_code = !before.contains("//") && before.matches('"').count().is_multiple_of(2);
    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len());
    (begins_word && is_code).then_some(&after[..end])
}

/// Return a text's words in lower case, each between blanks. Punctuation separates phrases.
fn words(text: &str) -> String {
    let text = text.to_lowercase();
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
    format!(" {} ", words.join(" "))
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

    #[test]
    fn phrases_are_found_within_a_clause() {
        for phrase in
            ["It goes on.", "CPUs are told.", "is not used, for without events", "Look at where it is"]
        {
            assert_eq!(lines("a.rs", &format!("// {phrase}\n")), [1], "{phrase}");
        }
        for phrase in ["Let it go. On the next line", "It tells the agent", "the reader who asks"] {
            assert_eq!(lines("a.rs", &format!("// {phrase}\n")), [] as [usize; 0], "{phrase}");
        }
    }

    #[test]
    fn banned_words_are_found_in_names_of_functions() {
        for line in [
            "fn who_leaves_is_restored() {",
            "    pub(crate) fn tasks_go_on(cpu: u32) {",
            "pub unsafe extern \"C\" fn cpus_are_told<T>() { f() } // why",
            "fn it_runs_anew(text: &str) -> &str { \"x\" }",
        ] {
            assert_eq!(lines("a.rs", line), [1], "{line}");
        }
        for line in [
            "fn whole_cpus_are_found() {",
            "fn cpus_are_found_as_told() { who(); }",
            "let who = cpus_go_on();",
            "/// Quotes `fn who_leaves()`",
            "f(\"fn who_leaves\");",
            "let name = my_fn + who;",
            "type Who = fn(who: u32);",
        ] {
            assert_eq!(lines("a.rs", line), [] as [usize; 0], "{line}");
        }
        assert_eq!(lines("a.c", "int fn who_leaves(void);"), [] as [usize; 0]);
    }
}
