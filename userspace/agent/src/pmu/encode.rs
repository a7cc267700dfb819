// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Encoding of an event from the fields in a manual to the kernel's `config`.
//!
//! # Problem
//! Manuals publish events as fields (event, unit mask, counter mask and so on). The kernel takes
//! one number, and each vendor packs it differently. That number alone cannot be checked against
//! the manual.
//!
//! # Approach
//! The table keeps the fields, and these formulas pack them. A test compares the result with the
//! table's own `config`.
//!
//! # Invariants
//! A field that does not fit is an error and is never truncated.

use serde::Deserialize;

/// Formula by which a vendor packs an event's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Formula {
    /// event, umask << 8, edge << 18, inv << 23, cmask << 24, with 8 bits each of event and unit
    /// mask.
    Intel,
    /// Like Intel, with bits 8 to 11 of the event at bit 32.
    Amd,
    /// The event alone, 16 bits.
    Arm,
    /// No formula: the event has a name in the PMU's sysfs directory.
    Sysfs,
}

/// An event as its manual gives it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fields {
    /// Event code.
    pub event: u32,
    /// Unit mask: selects the event's variants.
    pub umask: u32,
    /// Counter mask: count cycles with at least this number of occurrences.
    pub cmask: u32,
    /// Count transitions.
    pub edge: bool,
    /// Invert the comparison with the counter mask.
    pub inv: bool,
}

/// Encode an event as `config`.
///
/// # Errors
/// One sentence when a field is too large or the vendor has no such field.
pub fn encode(formula: Formula, fields: Fields) -> Result<u64, String> {
    let too_large = |name: &str, value: u32, most: u32| match value > most {
        true => Err(format!("{name}={value:#x} is more than the {most:#x} that fits")),
        false => Ok(u64::from(value)),
    };
    let max_event = match formula {
        Formula::Intel => 0xff,
        Formula::Amd => 0xfff,
        Formula::Arm => 0xffff,
        Formula::Sysfs => {
            return Err("events of this PMU have names, not numbers; leave out event".to_owned());
        }
    };
    let event = too_large("event", fields.event, max_event)?;
    if formula == Formula::Arm {
        return match (Fields { event: 0, ..fields }) == Fields::default() {
            true => Ok(event),
            false => Err("Arm events have no umask, cmask, edge or inv; leave them out".to_owned()),
        };
    }
    let umask = too_large("umask", fields.umask, 0xff)?;
    let cmask = too_large("cmask", fields.cmask, 0xff)?;
    let flags = u64::from(fields.edge) << 18 | u64::from(fields.inv) << 23;
    Ok((event & 0xff) | umask << 8 | flags | cmask << 24 | (event >> 8) << 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(event: u32, umask: u32, cmask: u32) -> Fields {
        Fields { event, umask, cmask, ..Fields::default() }
    }

    #[test]
    fn formulas_agree_with_published_numbers() {
        assert_eq!(encode(Formula::Intel, fields(0xa3, 6, 6)), Ok(0x0600_06a3));
        assert_eq!(encode(Formula::Amd, fields(0x1a0, 1, 0)), Ok(0x1_0000_01a0));
        assert_eq!(encode(Formula::Arm, fields(0x4005, 0, 0)), Ok(0x4005));
        // IDQ_BUBBLES.CYCLES_FE_WAS_OK: inverted.
        let inverted = Fields { inv: true, ..fields(0x9c, 1, 1) };
        assert_eq!(encode(Formula::Intel, inverted), Ok(0x0180_019c));
        assert_eq!(encode(Formula::Intel, Fields { edge: true, ..fields(0xa3, 0, 0) }), Ok(0x4_00a3));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(encode(Formula::Intel, fields(0x1a0, 0, 0)).is_err());
        assert!(encode(Formula::Amd, fields(0x1000, 0, 0)).is_err());
        assert!(encode(Formula::Arm, fields(0x11, 1, 0)).is_err());
        assert!(encode(Formula::Sysfs, fields(0, 0, 0)).is_err());
    }

    proptest! {
        #[test]
        fn no_two_events_share_a_number(
            one in (0u32..0x1000, 0u32..0x100, 0u32..0x100, any::<bool>(), any::<bool>()),
            two in (0u32..0x1000, 0u32..0x100, 0u32..0x100, any::<bool>(), any::<bool>()),
        ) {
            let number = |(event, umask, cmask, edge, inv)| encode(Formula::Amd, Fields { event, umask, cmask, edge, inv });
            prop_assert_eq!(number(one) == number(two), one == two);
        }

        #[test]
        fn no_fields_panic(event: u32, umask: u32, cmask: u32, edge: bool, inv: bool) {
            for formula in [Formula::Intel, Formula::Amd, Formula::Arm, Formula::Sysfs] {
                let _ = encode(formula, Fields { event, umask, cmask, edge, inv });
            }
        }
    }
}
