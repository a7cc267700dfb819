// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The skeleton of the BPF object, with the types of the kernel side's structs. The build generates
//! both.

#[allow(missing_docs, clippy::all, clippy::restriction)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/bpf_skel.rs"));
}
pub(crate) use skeleton::{BpfSkel, BpfSkelBuilder, OpenBpfSkel, types};

/// Bit of a CPU's published flags (`enum run_flags` in `bpf/state.bpf.h`): a SCHED_EXT task runs
/// there.
pub(crate) const RUN_BUSY: u32 = 1 << 3;

#[cfg(test)]
mod tests {
    use super::types;
    use bias_policy::ffi;

    /// The BPF skeleton and the policy crate generate separate Rust types from one C type.
    #[test]
    fn both_sides_agree_on_the_shared_structs() {
        assert_eq!(size_of::<types::bias_cpu_info>(), size_of::<ffi::bias_cpu_info>());
        assert_eq!(size_of::<types::cpu_ctx>() % ffi::BIAS_CACHE_LINE as usize, 0);
        let bss = size_of::<types::bss>();
        assert!(bss >= ffi::BIAS_MAX_CPUS as usize * size_of::<types::cpu_ctx>());
    }
}
