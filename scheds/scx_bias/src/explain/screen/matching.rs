// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The filter of tasks that a user types.

use bias_agent::bpf::{Bias, TaskReport};

/// Words that a task must all match: a part of its name, the start of its pid, or of its bias.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TaskFilter {
    words: Vec<String>,
}

impl TaskFilter {
    /// Return the filter for the text that a user typed. Case does not count.
    pub(super) fn new(text: &str) -> Self {
        Self { words: text.split_whitespace().map(str::to_lowercase).collect() }
    }

    /// Return true if the task matches every word.
    pub(super) fn matches(&self, task: &TaskReport) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let (name, pid, bias) = (task.name.to_lowercase(), task.pid.to_string(), bias_name(task));
        self.words
            .iter()
            .all(|word| name.contains(word.as_str()) || pid.starts_with(word) || bias.starts_with(word))
    }
}

/// Return the glossary's name of a task's bias, `unknown` without a profile.
pub(super) fn bias_name(task: &TaskReport) -> &'static str {
    match (task.speedup_permille, task.bias) {
        (None, _) => "unknown",
        (_, Bias::FastBiased) => "fast-biased",
        (_, Bias::SlowBiased) => "slow-biased",
        (_, Bias::Unbiased) => "unbiased",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_must_match() {
        let task = TaskReport {
            pid: 4711,
            name: "Render".into(),
            bias: Bias::FastBiased,
            speedup_permille: Some(2000),
            ..TaskReport::default()
        };
        for text in ["", " ", "render", "END", "47", "fast", "fast-biased end 471"] {
            assert!(TaskFilter::new(text).matches(&task), "{text}");
        }
        for text in ["711", "slow", "unbiased", "render slow", "biased"] {
            assert!(!TaskFilter::new(text).matches(&task), "{text}");
        }
        let unknown = TaskReport { speedup_permille: None, ..task };
        assert!(TaskFilter::new("unk").matches(&unknown) && !TaskFilter::new("fast").matches(&unknown));
    }
}
