//! Text inside the page and its plots: escaped for HTML, and a row as a sentence.

use super::{Row, format};

/// Escape text for HTML, attributes included.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\n' => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

/// Return a row as one sentence.
pub(super) fn sentence(row: &Row) -> String {
    let change = row.change.text();
    let p = format::p_value(row.p_holm);
    let note = row.note.as_ref().map_or(String::new(), |note| format!(" ({note})"));
    let Row { arm, cell, metric, .. } = row;
    format!("{arm}, {cell}, {metric}: {change}, p {p}, {}{note}", row.verdict.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn escaped_text_cannot_leave_its_place(text in "\\PC{0,40}") {
            let escaped = escape(&text);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            let back = escaped.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
            prop_assert_eq!(back.replace("&#39;", "'").replace("&amp;", "&"), text);
        }
    }
}
