// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The C header and the Rust structs have one layout: a C program prints its sizes and offsets.

use ampvm_abi::{
    COUNTERS, Header, MAGIC, MAX_VCPUS, NR_EVENTS, PAGE_BYTES, PCI_ID, PUBLISH_NOP, Shared, VERSION, Vcpu,
};
use std::mem::{align_of, offset_of, size_of};
use std::path::Path;
use std::process::Command;

/// Return pairs of a C expression and its value in Rust.
fn expectations() -> Vec<(String, u64)> {
    macro_rules! fields {
        ($list:ident, $c:literal, $rust:ty, $($field:ident)*) => {
            $( $list.push((
                format!("offsetof(struct {}, {})", $c, stringify!($field)),
                offset_of!($rust, $field) as u64,
            )); )*
            $list.push((format!("sizeof(struct {})", $c), size_of::<$rust>() as u64));
            $list.push((format!("_Alignof(struct {})", $c), align_of::<$rust>() as u64));
        };
    }
    let mut list = vec![
        ("AMP_MAGIC".into(), MAGIC),
        ("AMP_VERSION".into(), VERSION.into()),
        ("AMP_MAX_VCPUS".into(), MAX_VCPUS as u64),
        ("AMP_PAGE_BYTES".into(), PAGE_BYTES as u64),
        ("AMP_NR_EVENTS".into(), NR_EVENTS as u64),
        ("AMP_PCI_VENDOR".into(), PCI_ID.0.into()),
        ("AMP_PCI_DEVICE".into(), PCI_ID.1.into()),
    ];
    let events = COUNTERS.iter().zip(0..NR_EVENTS as u64);
    list.extend(events.map(|(name, index)| (format!("AMP_{}", name.to_uppercase()), index)));
    fields!(list, "amp_header", Header, magic version nr_vcpus enable state virtual_ns);
    fields!(list, "amp_vcpu", Vcpu, counters mips_milli wanted_mips_milli);
    fields!(list, "amp_shared", Shared, header vcpus);
    list
}

#[test]
fn c_and_rust_agree_on_every_offset() {
    let list = expectations();
    let lines: String =
        list.iter().map(|(c, _)| format!("printf(\"%llu\\n\", (unsigned long long)({c}));\n")).collect();
    let source = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include \"amp_shared.h\"\nint main(void)\n{{\n{lines}return 0;\n}}\n"
    );
    let directory = tempfile::tempdir().unwrap();
    let (c, exe) = (directory.path().join("layout.c"), directory.path().join("layout"));
    std::fs::write(&c, source).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest");
    let cc = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let built = Command::new(cc)
        .args(["-std=gnu11", "-I"])
        .arg(include)
        .arg(&c)
        .arg("-o")
        .arg(&exe)
        .status()
        .unwrap();
    assert!(built.success(), "the C side does not compile");
    let out = String::from_utf8(Command::new(&exe).output().unwrap().stdout).unwrap();
    let found: Vec<u64> = out.lines().map(|l| l.parse().unwrap()).collect();
    assert_eq!(found.len(), list.len());
    for ((expression, rust), c) in list.iter().zip(&found) {
        assert_eq!(rust, c, "{expression}: Rust {rust}, C {c}");
    }
}

#[test]
fn the_c_header_names_the_same_instruction() {
    let header = include_str!("../../../guest/amp_shared.h");
    let bytes: Vec<String> = PUBLISH_NOP.iter().map(|b| format!("{b:#04x}")).collect();
    assert!(header.contains(&bytes.join(", ")), "AMP_PUBLISH_NOP differs from PUBLISH_NOP");
}
