// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Profiles: named sets of defaults for kinds of use.
//!
//! # Approach
//!
//! A profile replaces defaults ([`RunOptions::of`](super::RunOptions::of)). The configuration file
//! and the command line take precedence, so an option keeps the value that the user gave it.

/// A kind of use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// The usual defaults.
    #[default]
    Auto,
    /// Frames in time: short slices, rarer rotation.
    Gaming,
    /// Short waits before throughput.
    LowLatency,
    /// Less work of the scheduler itself.
    PowerSave,
    /// Throughput before short waits.
    Server,
}

impl Profile {
    /// Words that name the profiles, as scx_loader uses them for its modes.
    pub const WORDS: &[&str] = &["auto", "gaming", "lowlatency", "powersave", "server"];
    const ALL: [Self; 5] = [Self::Auto, Self::Gaming, Self::LowLatency, Self::PowerSave, Self::Server];

    /// Return the profile that `word` names.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::WORDS.iter().zip(Self::ALL).find(|(known, _)| **known == word).map(|(_, profile)| profile)
    }

    /// Return the word that names the profile.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS
            .iter()
            .zip(Self::ALL)
            .find(|(_, profile)| *profile == self)
            .map_or("auto", |(word, _)| word)
    }
}
