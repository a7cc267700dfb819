// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Texts for biases and reasons, and the layout of texts.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use bias_agent::bpf::Bias;
use bias_agent::bpf::{Reason, TaskReport};

/// Return the text for a task's bias: `-` for unbiased, `?` for unknown.
pub fn bias(task: &TaskReport) -> &'static str {
    match (task.speedup_permille, task.bias) {
        (None, _) => "?",
        (_, Bias::Unbiased) => "-",
        (_, Bias::FastBiased) => "fast",
        (_, Bias::SlowBiased) => "slow",
    }
}

/// Return the reason why a task was last moved while it ran.
pub fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::None => "-",
        Reason::Pull => "idle fast CPU",
        // Used for both tasks of a rotation.
        Reason::Rotate => "rotation",
        Reason::Gain => "gains more",
        Reason::Yield => "gave way",
        Reason::Swap => "swapped",
    }
}

/// Cut `text` to `width` columns. A name may hold any bytes: a question mark replaces characters
/// that could move the cursor.
pub fn cut(text: &str, width: usize) -> String {
    let mut used = 0;
    let printable = text.chars().map(|c| if c.is_control() || c.width().is_none() { '?' } else { c });
    printable
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= width
        })
        .collect()
}

/// Fit `text` into exactly `width` columns.
pub fn fit(text: &str, width: usize, right: bool) -> String {
    let text = cut(text, width);
    let blank = " ".repeat(width - text.width().min(width));
    if right { blank + &text } else { text + &blank }
}

/// Wrap `text` to at most `width` columns and indent the lines after the first. A longer word is
/// cut.
pub fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(" ".repeat(indent) + word),
            None => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| cut(line, width)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_cannot_move_the_cursor() {
        assert_eq!(cut("a\x1b[2Jb\n", 20), "a?[2Jb?");
        assert_eq!(fit("名前", 3, false), "名 ");
    }

    #[test]
    fn wrapped_text_keeps_its_words() {
        assert_eq!(wrap("one two three", 7, 2), ["one two", "  three"]);
        assert_eq!(wrap("incomprehensible", 5, 0), ["incom"]);
    }

    proptest! {
        #[test]
        fn whatever_is_fitted_fits(text in ".*", width in 0usize..30, right: bool) {
            prop_assert_eq!(fit(&text, width, right).width(), width);
            prop_assert!(wrap(&text, width, 2).iter().all(|line| line.width() <= width));
        }
    }
}
