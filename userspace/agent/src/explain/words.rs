//! Texts for figures, biases and reasons, and their layout.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::sched::Kind;
use crate::sched::{Reason, TaskReport};

/// Format a speedup or cost of 1000 as `1.00`.
pub(crate) fn ratio(permille: u32) -> String {
    format!("{:.2}", f64::from(permille) / 1000.0)
}

/// Format a share in whole percent, rounded. A share above zero is never shown as zero.
pub(crate) fn percent(permille: u32) -> String {
    match (permille, (permille + 5) / 10) {
        (1.., 0) => "<1%".to_owned(),
        (_, rounded) => format!("{rounded}%"),
    }
}

/// Return the text for a task's bias: `-` for unbiased, `?` for unknown.
pub(crate) fn kind(task: &TaskReport) -> &'static str {
    match (task.speedup_permille, task.kind) {
        (None, _) => "?",
        (_, Kind::Neutral) => "-",
        (_, Kind::Fast) => "fast",
        (_, Kind::Slow) => "slow",
    }
}

/// Return the reason why a task was last moved while it ran.
pub(crate) fn reason(reason: Reason) -> &'static str {
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

/// Format a count: `1 task`, `2 tasks`.
pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Format a duration in its two largest units.
pub(crate) fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// Cut `text` to `width` columns. A name may hold any bytes: a question mark replaces characters
/// that could move the cursor.
pub(crate) fn cut(text: &str, width: usize) -> String {
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
pub(crate) fn fit(text: &str, width: usize, right: bool) -> String {
    let text = cut(text, width);
    let blank = " ".repeat(width - text.width().min(width));
    if right { blank + &text } else { text + &blank }
}

/// Wrap `text` to at most `width` columns and indent the lines after the first. A longer word is
/// cut.
pub(crate) fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
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
    fn figures_are_short() {
        assert_eq!([0, 4, 5, 996, 1000].map(percent), ["0%", "<1%", "1%", "100%", "100%"]);
        assert_eq!(ratio(2412), "2.41");
        assert_eq!([5, 65, 3700, 90_000].map(duration), ["5 s", "1 min 5 s", "1 h 1 min", "1 d 1 h"]);
        assert_eq!([count(1, "task"), count(2, "task")], ["1 task", "2 tasks"]);
    }

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
