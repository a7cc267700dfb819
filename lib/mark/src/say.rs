// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! What the library tells the user.

use std::io::Write as _;

/// Print one line on standard error, if it is open.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "libbias_mark: {line}");
}
