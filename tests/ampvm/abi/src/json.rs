//! The page as JSON, for scripts. It has only numbers and fixed keys, so no JSON library is needed.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use crate::{Page, state};

/// Return the whole page as one JSON object with these keys:
///
/// * `state`: "light", "starting" or "modelling".
/// * `enabled`: whether the guest has virtual time enabled.
/// * `virtual_ns`: the virtual clock.
/// * `vcpus`: an array of objects with `cpu` and the fields of [`crate::Counters`] as keys.
pub fn counters_json(page: &Page) -> String {
    let state = match page.header.state.load(Ordering::Relaxed) {
        state::LIGHT => "light",
        state::STARTING => "starting",
        _ => "modelling",
    };
    let enabled = page.header.enable.load(Ordering::Relaxed) != 0;
    let mut out = format!(
        "{{\"state\":\"{state}\",\"enabled\":{enabled},\"virtual_ns\":{},\"vcpus\":[",
        page.header.virtual_ns.load(Ordering::Relaxed)
    );
    for cpu in 0..page.nr_vcpus() {
        let Ok(c) = page.counters(cpu) else { continue };
        let comma = if cpu == 0 { "" } else { "," };
        // A write to a String cannot fail.
        let _ = write!(
            out,
            "{comma}\n {{\"cpu\":{cpu},\"instructions\":{},\"cycles\":{},\"stall_external\":{},\"stall_internal\":{},\
             \"llc_misses\":{},\"transfers\":{},\"branch_misses\":{},\"l2_hits\":{},\"llc_hits\":{},\"model_ns\":{},\
             \"remote_misses\":{},\"queued_ns\":{},\"mips_milli\":{},\"wanted_mips_milli\":{}}}",
            c.instructions,
            c.cycles,
            c.stall_external,
            c.stall_internal,
            c.llc_misses,
            c.transfers,
            c.branch_misses,
            c.l2_hits,
            c.llc_hits,
            c.model_ns,
            c.remote_misses,
            c.queued_ns,
            c.mips_milli,
            c.wanted_mips_milli
        );
    }
    out.push_str("]}");
    out
}
