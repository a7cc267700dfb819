// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The skeleton of the BPF object, with the types of the kernel side's structs. The build generates
//! both.

#[allow(missing_docs, clippy::all, clippy::restriction, clippy::too_many_lines)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/bpf_skel.rs"));
}
pub(crate) use skeleton::{BpfSkel, BpfSkelBuilder, OpenBpfSkel, types};

/// Bit of a CPU's published flags (`enum run_flags` in `bpf/state.bpf.h`): a SCHED_EXT task runs
/// there.
pub(crate) const RUN_BUSY: u32 = 1 << 3;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::types;
    use bias_policy::ffi;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The BPF skeleton and the policy crate generate separate Rust types from one C type.
    #[test]
    fn both_sides_agree_on_the_shared_structs() {
        assert_eq!(size_of::<types::bias_cpu_info>(), size_of::<ffi::bias_cpu_info>());
        assert_eq!(size_of::<types::cpu_ctx>() % ffi::BIAS_CACHE_LINE as usize, 0);
        let bss = size_of::<types::bss>();
        assert!(bss >= ffi::BIAS_MAX_CPUS as usize * size_of::<types::cpu_ctx>());
    }

    /// Architectures that the kernel side compiles for.
    const ARCHITECTURES: [&str; 5] = ["arm64", "powerpc", "riscv", "s390", "x86"];

    /// Return the names of the structs, unions and enums that C text defines.
    fn defined(text: &str) -> BTreeSet<String> {
        let heads = text.lines().filter_map(|line| line.strip_suffix(" {"));
        let words = heads.filter_map(|head| head.split_once(' '));
        words
            .filter(|(kind, name)| ["struct", "union", "enum"].contains(kind) && !name.contains(' '))
            .map(|(_, name)| name.to_owned())
            .collect()
    }

    #[test]
    fn no_kernel_defines_a_type_with_one_of_our_names() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut ours = BTreeSet::new();
        for directory in ["bpf", "include/bias"] {
            for entry in std::fs::read_dir(here.join(directory)).unwrap() {
                ours.extend(defined(&std::fs::read_to_string(entry.unwrap().path()).unwrap()));
            }
        }
        assert!(ours.contains("cpu_ctx"), "{ours:?}");
        let headers = Path::new(env!("OUT_DIR")).join("scx_utils-bpf_h/arch");
        for architecture in ARCHITECTURES {
            let kernel = std::fs::read_to_string(headers.join(architecture).join("vmlinux.h")).unwrap();
            let kernel = defined(&kernel);
            assert!(kernel.contains("task_struct"), "{architecture}");
            let both: Vec<_> = ours.intersection(&kernel).collect();
            assert!(both.is_empty(), "{architecture}: {both:?}");
        }
    }
}
