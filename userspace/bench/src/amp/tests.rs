// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
use super::*;
use crate::options::Printable;

fn case(setting: &str, duty: u32, benchmark: &str, ms: u64, watts: f64) -> AmpCase {
    let mut case = AmpCase::new(setting.into(), duty, &benchmark.parse().unwrap());
    case.add(vec![ms * 1_000_000; 3], watts);
    case
}

#[test]
fn settings_are_compared_with_all_threads_by_benchmark_and_family() {
    let cases = vec![
        case("SMP-4", 8, "static", 30, 100.0),
        case("SMP-4", 8, "triad", 10, 100.0),
        case("AMP-3", 6, "static", 40, 75.0),
        case("AMP-3", 6, "triad", 10, 80.0),
    ];
    let report = AmpReport::new(3, 100, cases);
    let over = report.cases[2].over_smp.unwrap();
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(close(over.time, 4.0 / 3.0) && close(over.energy, 1.0) && close(over.energy_delay, 4.0 / 3.0));
    let all = report.means.iter().find(|mean| mean.duty == 6 && mean.family == "all").unwrap();
    assert!(close(all.over_smp.time, 7.0 / 6.0) && close(all.over_smp.energy, 0.9), "{all:?}");
    assert_eq!(report.means.len(), 6);
    let text = report.text();
    assert!(text.contains("+33.3 %") && text.contains("-20.0 %") && text.contains("75.0 %"), "{text}");
}

#[test]
fn what_does_not_fit_the_machine_is_refused() {
    let core = AmpCore::of(&cpus::allowed().unwrap(), None).unwrap();
    assert!(core.check(&[8]).is_ok());
    if crate::emulation::Emulation::find().is_none() {
        assert!(core.check(&[8, 6]).unwrap_err().to_string().contains("--duties 8"));
    }
    assert_eq!(AmpCore::of(&[0], None).err().unwrap().exit_code(), 2);
    assert_eq!(AmpCore::of(&[0, 1], Some(2)).err().unwrap().exit_code(), 2);
}
