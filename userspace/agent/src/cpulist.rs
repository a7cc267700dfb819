// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The kernel's CPU list format, such as `0-3,8`. Fields of PMUs have ranges of bits in it.

use std::path::Path;

/// Bound of CPU numbers: the most that any architecture's kernel can be configured for.
pub const MAX_CPUS: u32 = 16_384;

/// Parse the ranges of a list in the order given. Return None when the list is malformed or names a
/// number that is not below `end`.
#[must_use]
pub fn ranges(list: &str, end: u32) -> Option<Vec<(u32, u32)>> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        (from <= to && to < end).then_some((from, to))
    };
    list.split(',').map(range).collect()
}

/// Parse a list to CPU numbers in ascending order without repeats. Return None when the list is
/// malformed or names an impossible number. An empty list is valid.
#[must_use]
pub fn parse(text: &str) -> Option<Vec<u32>> {
    let list = text.trim();
    let ranges = if list.is_empty() { Vec::new() } else { ranges(list, MAX_CPUS)? };
    let mut cpus: Vec<u32> = ranges.into_iter().flat_map(|(from, to)| from..=to).collect();
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// Read the list in a file. Return None as [`parse`] does, and when the file cannot be read.
#[must_use]
pub fn read(path: &Path) -> Option<Vec<u32>> {
    parse(&std::fs::read_to_string(path).ok()?)
}

/// Format ascending CPU numbers as a list.
#[must_use]
pub fn format(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*cpu) => *last = *cpu,
            _ => ranges.push((*cpu, *cpu)),
        }
    }
    let text = |(from, to): &(u32, u32)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_the_kernels_format() {
        assert_eq!(parse("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse("\n"), Some(vec![]));
        for bad in ["a", "3-1", "1,,2", "-1", "0-4294967295", "1-"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn parsing_undoes_formatting(cpus in prop::collection::btree_set(0u32..300, 0..40)) {
            let cpus: Vec<u32> = cpus.into_iter().collect();
            prop_assert_eq!(parse(&format(&cpus)), Some(cpus));
        }
    }
}
