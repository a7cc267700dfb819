// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The core type of a CPU, as the event table names it.
//!
//! On x86 it is vendor, family and model of `/proc/cpuinfo`. Both core types of a hybrid part have
//! the same values there, and the PMU distinguishes them. On Arm it is implementer and part of the
//! MIDR in sysfs, else of `/proc/cpuinfo`. Any other core is unnamed, and the kernel's generic
//! events serve it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Type of a core.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// Vendor as the table names it; `arm` for every Arm core.
    pub vendor: String,
    /// Family, or Arm implementer.
    pub family: u32,
    /// Model, or Arm part number.
    pub model: u32,
}

impl Identity {
    /// Decode the fields of Arm's main ID register.
    fn from_midr(midr: u64) -> Self {
        let family = (midr >> 24) as u32 & 0xff;
        Self { vendor: "arm".to_owned(), family, model: (midr >> 4) as u32 & 0xfff }
    }

    /// Return true for an x86 core.
    #[must_use]
    pub fn is_x86(&self) -> bool {
        !self.vendor.is_empty() && self.vendor != "arm"
    }
}

/// Core types of the CPUs of the machine below `root`.
pub struct Identities {
    listed: BTreeMap<u32, Identity>,
    root: std::path::PathBuf,
}

impl Identities {
    /// Read the file that lists all CPUs.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let cpuinfo = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
        Self { listed: parse(&cpuinfo), root: root.to_owned() }
    }

    /// Return the core type of one CPU; unnamed when nothing is known.
    #[must_use]
    pub fn of(&self, cpu: u32) -> Identity {
        let midr = self.root.join(format!("sys/devices/system/cpu/cpu{cpu}/regs/identification/midr_el1"));
        match fs::read_to_string(midr).ok().and_then(|text| number(text.trim())) {
            Some(midr) => Identity::from_midr(midr),
            None => self.listed.get(&cpu).cloned().unwrap_or_default(),
        }
    }
}

/// Parse the text of `/proc/cpuinfo` to core types by CPU.
fn parse(cpuinfo: &str) -> BTreeMap<u32, Identity> {
    let mut kinds = BTreeMap::new();
    for block in cpuinfo.split("\n\n") {
        let pairs = block.lines().filter_map(|line| line.split_once(':'));
        let values: BTreeMap<&str, &str> = pairs.map(|(key, value)| (key.trim(), value.trim())).collect();
        let get = |key: &str| values.get(key).copied();
        let get_number = |key: &str| get(key).and_then(number).and_then(|value| u32::try_from(value).ok());
        let Some(cpu) = get_number("processor") else { continue };
        let kind = if let Some(vendor) = get("vendor_id") {
            let (family, model) = (get_number("cpu family"), get_number("model"));
            family.zip(model).map(|(family, model)| Identity { vendor: vendor.to_owned(), family, model })
        } else {
            let (family, model) = (get_number("CPU implementer"), get_number("CPU part"));
            family.zip(model).map(|(family, model)| Identity { vendor: "arm".to_owned(), family, model })
        };
        kinds.extend(kind.map(|kind| (cpu, kind)));
    }
    kinds
}

/// Parse a decimal number, or a hexadecimal one after `0x`.
#[must_use]
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        // from_str_radix accepts a sign.
        Some(digits) if digits.starts_with('+') => None,
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn x86_and_arm_are_told_by_their_files() {
        let x86 = parse("processor\t: 3\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 183\n\n");
        assert_eq!(x86[&3], Identity { vendor: "GenuineIntel".into(), family: 6, model: 0xb7 });
        assert!(x86[&3].is_x86());
        let arm = parse("processor: 0\nCPU implementer: 0x41\nCPU part: 0xd05\n\nprocessor: 1\nisa: rv64\n");
        assert_eq!(arm[&0], Identity { vendor: "arm".into(), family: 0x41, model: 0xd05 });
        assert!(!arm[&0].is_x86() && !arm.contains_key(&1));
    }

    #[test]
    fn the_register_comes_before_the_list() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("sys/devices/system/cpu/cpu1/regs/identification");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("midr_el1"), "0x00000000410fd461\n").unwrap();
        let kinds = Identities::read(root.path());
        assert_eq!(kinds.of(1), Identity { vendor: "arm".into(), family: 0x41, model: 0xd46 });
        assert_eq!(kinds.of(0), Identity::default());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,80}", lines in prop::collection::vec("(processor|model|vendor_id|CPU part): [0-9a-fx+-]{0,9}", 0..8)) {
            let _ = parse(&text);
            let _ = parse(&lines.join("\n"));
            let _ = number(&text);
        }
    }
}
