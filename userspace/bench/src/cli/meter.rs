// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Progress of a comparison on standard error, with an estimate of the time left.

use crate::ab::runner::BootProgress;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Instant;

/// A bar on a terminal, elsewhere one line per visit.
pub(super) struct Meter {
    boots: u32,
    begun: Instant,
    bar: Option<ProgressBar>,
    said: String,
}

impl Meter {
    /// Start the meter for a run of this many boots.
    pub(super) fn new(boots: u32) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(1);
            // The template is constant. A mistake in it would only change the appearance.
            if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3}% [{elapsed}] {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Meter { boots, begun: Instant::now(), bar, said: String::new() }
    }

    /// Show the current step.
    pub(super) fn show(&mut self, step: &BootProgress) {
        let total = step.total.max(1) as f64;
        let share =
            ((f64::from(step.boot) + step.done as f64 / total) / f64::from(self.boots)).clamp(0.0, 1.0);
        let left = match share {
            share if share > 0.02 => {
                let left = self.begun.elapsed().mul_f64((1.0 - share) / share);
                format!("{} left", HumanDuration(left))
            }
            _ => "estimating".to_string(),
        };
        let text = format!(
            "boot {}/{}, block {}: {} ({left})",
            step.boot + 1,
            self.boots,
            step.block + 1,
            step.what
        );
        match &self.bar {
            Some(bar) => {
                bar.set_length(1000);
                bar.set_position((share * 1000.0) as u64);
                bar.set_message(text);
            }
            None => {
                let place = format!(
                    "{}/{}/{}",
                    step.boot,
                    step.block,
                    step.what.split(':').next().unwrap_or_default()
                );
                if place != self.said {
                    eprintln!("[{:3.0} %] {text}", share * 100.0);
                    self.said = place;
                }
            }
        }
    }

    /// Clear the bar.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
