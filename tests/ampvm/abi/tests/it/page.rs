// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Accesses of the host side to a page, and their errors.

use ampvm_abi::{Page, PageError};
use std::sync::atomic::Ordering::Relaxed;

#[test]
fn two_mappings_of_one_file_see_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shm");
    let host = Page::create(&path).unwrap();
    let guest = Page::open(&path).unwrap();
    assert!(matches!(guest.check(), Err(PageError::NotReady)));
    host.init(&[60_000, 24_000]);
    guest.check().unwrap();
    guest.header.enable.store(1, Relaxed);
    assert_eq!(host.header.enable.load(Relaxed), 1);
    host.set_speed(1, 12_500).unwrap();
    assert_eq!(guest.json()["vcpus"][1]["mips_milli"], 12_500);
}

#[test]
fn a_page_of_another_version_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let page = Page::create(&directory.path().join("shm")).unwrap();
    page.init(&[60_000]);
    page.header.version.store(7, Relaxed);
    assert!(matches!(page.check(), Err(PageError::WrongVersion(7))));
}

#[test]
fn short_missing_and_special_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let short = directory.path().join("short");
    std::fs::write(&short, "x").unwrap();
    assert!(matches!(Page::open(&short), Err(PageError::TooShort(_, 1))));
    assert!(matches!(Page::open(&directory.path().join("none")), Err(PageError::Map(..))));
    assert!(matches!(Page::open(directory.path()), Err(PageError::Map(..))));
}

#[test]
fn json_lists_every_vcpu_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let page = Page::create(&directory.path().join("shm")).unwrap();
    page.init(&[60_000, 24_000]);
    page.vcpus[1].counters[0].store(42, Relaxed);
    let json = page.json();
    assert_eq!(
        (&json["state"], &json["enabled"], &json["virtual_ns"]),
        (&"light".into(), &false.into(), &0.into())
    );
    assert_eq!(json["vcpus"].as_array().unwrap().len(), 2);
    assert_eq!(json["vcpus"][1]["instructions"], 42);
    assert_eq!(json["vcpus"][0].as_object().unwrap().len(), 15, "two speeds, the number and each counter");
}

fn ampctl(args: &[&str]) -> std::process::Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_ampctl")).args(args).output().unwrap()
}

#[test]
fn ampctl_changes_speeds_and_refuses_nonsense_with_the_documented_codes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shm");
    let page = Page::create(&path).unwrap();
    let file = path.to_str().unwrap();
    assert_eq!(ampctl(&["--page", file, "counters"]).status.code(), Some(1), "not set up yet");
    page.init(&[60_000, 24_000]);
    assert_eq!(ampctl(&["--page", file, "speed", "1", "12.5"]).status.code(), Some(0));
    assert_eq!(page.json()["vcpus"][1]["mips_milli"], 12_500);
    for bad in
        [&["speed", "1", "0"][..], &["speed", "1", "-4"], &["speed", "1", "NaN"], &["speed", "9", "10"]]
    {
        let args = [&["--page", file], bad].concat();
        let out = ampctl(&args);
        assert_eq!(out.status.code(), Some(2), "{bad:?}");
        assert_eq!(String::from_utf8_lossy(&out.stderr).lines().count(), 1, "{bad:?}");
    }
    assert_eq!(ampctl(&[]).status.code(), Some(2));
    assert_eq!(ampctl(&["--help"]).status.code(), Some(0));
    assert_eq!(page.json()["vcpus"][1]["mips_milli"], 12_500, "a refused speed changes nothing");
}
