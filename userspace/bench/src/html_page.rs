// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The frame of a page that is one file: no script, no font, no picture from elsewhere.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Style sheet of all pages, which adapts to light, dark and print.
pub const STYLE: &str = include_str!("html_page.css");

/// Return the complete page with this title and body.
pub fn page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    };
    page.into_string()
}
