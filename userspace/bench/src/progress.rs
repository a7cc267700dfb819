// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Progress of long work on standard error: a bar on a terminal, plain lines elsewhere (logs, CI).

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// Progress over a known number of stages.
pub struct Progress {
    bar: Option<ProgressBar>,
    done: u64,
    total: u64,
}

impl Progress {
    /// Start the display for `total` stages.
    pub fn new(total: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total);
            // The template is constant. A mistake in it would only change the appearance.
            if let Ok(style) = ProgressStyle::with_template("{bar:20} {pos}/{len} [{elapsed}] {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Progress { bar, done: 0, total }
    }

    /// Begin the next stage, named `what`.
    pub fn stage(&mut self, what: &str) {
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.done);
                bar.set_message(what.to_string());
                bar.tick();
            }
            None => eprintln!("[{}/{}] {what}", self.done + 1, self.total),
        }
        self.done += 1;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
