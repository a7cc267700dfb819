// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Decoder of the few x86 instructions that the model must distinguish.

use ampvm_abi::PUBLISH_NOP;

use crate::account::RDTSC_CYCLES;

/// How a translation block's last instruction chooses its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Branch {
    /// Jcc, LOOPcc, JrCXZ: taken or not.
    Conditional,
    /// JMP or CALL through a register or memory.
    Indirect,
    /// Any other instruction, which is always predicted.
    Other,
}

/// Longest x86 instruction in bytes.
pub const MAX_INSN_BYTES: usize = 15;

/// Classify a 64-bit mode instruction.
pub fn branch(bytes: &[u8]) -> Branch {
    let is_prefix =
        |b: &u8| matches!(b, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3 | 0x40..=0x4f);
    let at = bytes.iter().position(|b| !is_prefix(b)).unwrap_or(bytes.len());
    match bytes.get(at..).unwrap_or_default() {
        [0x70..=0x7f | 0xe0..=0xe3, ..] | [0x0f, 0x80..=0x8f, ..] => Branch::Conditional,
        // ModRM's middle field selects a near or far call (2, 3) or jump (4, 5).
        [0xff, modrm, ..] if (2..=5).contains(&(modrm >> 3 & 7)) => Branch::Indirect,
        _ => Branch::Other,
    }
}

/// Return true if the instruction requests a publication of the counters.
pub fn is_publish(bytes: &[u8]) -> bool {
    bytes == PUBLISH_NOP
}

/// Return true for PAUSE, which code that spins uses to wait. QEMU leaves its execution loop at
/// every PAUSE. At one cycle each, a spinning vCPU would keep its host's core busy for long.
pub fn is_pause(bytes: &[u8]) -> bool {
    bytes == [0xf3, 0x90]
}

/// Return the cycles of an instruction in addition to its own, apart from PAUSE. Only RDTSC(P) has
/// any.
pub fn extra_cycles(bytes: &[u8]) -> u64 {
    match bytes {
        [0x0f, 0x31] | [0x0f, 0x01, 0xf9] => RDTSC_CYCLES,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_recognised_with_and_without_prefixes() {
        for (bytes, kind) in [
            (&[0x74, 0x05][..], Branch::Conditional),
            (&[0x3e, 0x74, 0x05], Branch::Conditional),
            (&[0x0f, 0x85, 1, 2, 3, 4], Branch::Conditional),
            (&[0xf2, 0x0f, 0x8c, 1, 2, 3, 4], Branch::Conditional),
            (&[0xe2, 0xfe], Branch::Conditional),
            (&[0xff, 0xe0], Branch::Indirect),
            (&[0x41, 0xff, 0xd3], Branch::Indirect),
            (&[0x3e, 0xff, 0xe2], Branch::Indirect),
            (&[0xff, 0x24, 0xc5, 0, 0, 0, 0], Branch::Indirect),
            (&[0xff, 0xc0], Branch::Other),
            (&[0xff, 0x30], Branch::Other),
            (&[0xe9, 1, 2, 3, 4], Branch::Other),
            (&[0xe8, 1, 2, 3, 4], Branch::Other),
            (&[0xc3], Branch::Other),
            (&[0x0f, 0x05], Branch::Other),
            (&[0x66; 15], Branch::Other),
            (&[], Branch::Other),
        ] {
            assert_eq!(branch(bytes), kind, "{bytes:02x?}");
        }
    }

    #[test]
    fn only_pause_and_rdtsc_take_long() {
        assert!(is_pause(&[0xf3, 0x90]) && !is_pause(&[0x90]) && !is_pause(&[0xf3, 0x90, 0x90]));
        assert_eq!(
            (extra_cycles(&[0x0f, 0x31]), extra_cycles(&[0x0f, 0x01, 0xf9])),
            (RDTSC_CYCLES, RDTSC_CYCLES)
        );
        for plain in [&[0x90][..], &[0xf3, 0x90], &[0xf3, 0x0f, 0x1e, 0xfa], &[0x0f, 0x01, 0xd0]] {
            assert_eq!(extra_cycles(plain), 0);
        }
    }

    #[test]
    fn only_the_exact_nop_publishes() {
        assert!(is_publish(&PUBLISH_NOP));
        assert!(!is_publish(&PUBLISH_NOP[..7]));
        assert!(!is_publish(&[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0]));
    }
}
