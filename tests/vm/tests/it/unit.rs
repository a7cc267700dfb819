// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The service's unit under systemd itself: started, reconfigured, hung, killed, refused, stopped,
//! and ended by the kernel.

use bias_vm::inputs;

use crate::common::{Expectations, Results, Scenario};

const SYSTEMD: &str = "/lib/systemd/systemd";

fn service(minutes: u64, script: &str) -> Results {
    assert!(std::path::Path::new(SYSTEMD).exists(), "{SYSTEMD} does not exist: install the package systemd");
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scheds/scx_bias/scx_bias.service.in");
    inputs::record([unit]).unwrap();
    Scenario::plain("6.12", "2F2S", minutes, "").alone().run(script, &[unit])
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn systemd_starts_watches_and_stops_it() {
        let results = service(5, "unit_life");
        let mut expect = Expectations::default();
        let mut is = |what: &str, file: &str, wanted: &str| {
            let got = results.text(file);
            expect.holds(&format!("{what}: {:?}, {wanted:?} is right", got.trim()), got.trim() == wanted);
        };
        let active =
            |restarts: u32| format!("ActiveState=active NRestarts={restarts} Result=success enabled");
        is("start", "start", "code 0");
        is("then", "started", &active(0));
        is("reload", "reload", "code 0 7000");
        is("reload of a broken configuration", "broken", "code 1 7000");
        is("then", "still", &active(0));
        is("hung for longer than the watchdog waits", "watched", &active(1));
        is("killed", "killed", &active(2));
        is("stopped", "stopped", "ActiveState=inactive NRestarts=0 Result=success disabled");
        is("start with a broken configuration", "refused", "code 1");
        is("is not tried again", "refused.state", "ActiveState=failed NRestarts=0 Result=exit-code disabled");
        eprintln!("{}", results.text("log"));
        expect.judge();
    }

    #[test]
    fn a_scheduler_that_the_kernel_ends_again_and_again_stays_down() {
        let results = service(9, "unit_stalls");
        let mut expect = Expectations::default();
        let mut says = |file: &str, wanted: &str| {
            let got = results.text(file);
            expect.holds(&format!("{file}: {:?} has {wanted:?}", got.trim()), got.contains(wanted));
        };
        says("end", "ActiveState=failed ExecMainStatus=5 disabled");
        says("text", "StatusText=ended by the kernel: ");
        // The first start and three restarts.
        says("ejections", "4");
        says("check", "limited  ejections  the kernel has ended scx_bias; last ");
        says("status", "scx_bias: not running; start it with `sudo scx_bias`; the kernel ended it ");
        says("status.code", "3");
        eprintln!("{}", results.text("log"));
        expect.judge();
    }
}
