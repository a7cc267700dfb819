// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
use super::*;
use crate::ab::metric;
use crate::solo::example::unequal;

/// The `/proc` and `/sys` of a machine, as far as energy needs them.
struct Fake(tempfile::TempDir);

impl Fake {
    fn new(stat: &str) -> Self {
        let fake = Fake(tempfile::tempdir().unwrap());
        fake.put("proc/stat", stat);
        fake
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn domain(&self, directory: &str, name: &str, energy_uj: u64) {
        self.put(&format!("sys/class/powercap/{directory}/name"), &format!("{name}\n"));
        self.put(&format!("sys/class/powercap/{directory}/energy_uj"), &format!("{energy_uj}\n"));
        self.put(&format!("sys/class/powercap/{directory}/max_energy_range_uj"), "1000000000\n");
    }

    fn meter(&self) -> EnergyMeter {
        EnergyMeter::find(self.0.path(), &unequal(&[]))
    }
}

fn stat(idle: [u64; 2]) -> String {
    format!(
        "cpu  1 2 3 4 5 6 7 8 9 0\ncpu0 10 0 5 {} 5 0 1 7 0 0\ncpu1 10 0 5 {} 0 0 1 7 0 0\nintr 1 2 3\n",
        idle[0], idle[1]
    )
}

/// Return a reading with an exact time.
fn read(meter: &EnergyMeter, ms: u64) -> Reading {
    Reading { at: Duration::from_millis(ms), ..meter.read().unwrap() }
}

fn known(name: &str, value: f64) -> BTreeMap<String, f64> {
    BTreeMap::from([(name.to_string(), value)])
}

#[track_caller]
fn assert_metrics(found: &BTreeMap<String, f64>, expected: &[(&str, f64)]) {
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (name, value) in expected {
        assert!((found[*name] - value).abs() < 1e-9 * value, "{name}: {found:?}");
        assert_eq!(metric::lookup(name).unwrap().direction, metric::Direction::Lower);
    }
}

#[test]
fn packages_are_summed_once_and_their_parts_left_out() {
    let fake = Fake::new("");
    for (directory, name) in [
        ("intel-rapl:0", "package-0"),
        ("intel-rapl:0:0", "core"),
        ("intel-rapl:0:1", "dram"),
        ("intel-rapl:1", "package-1"),
        ("intel-rapl:2", "psys"),
        ("intel-rapl-mmio:0", "package-0"),
    ] {
        fake.domain(directory, name, 5_000_000);
    }
    fake.put("sys/class/powercap/intel-rapl/enabled", "1");
    let meter = fake.meter();
    let before = read(&meter, 1000);
    fake.domain("intel-rapl:0", "package-0", 65_000_000);
    fake.domain("intel-rapl:1", "package-1", 45_000_000);
    fake.domain("intel-rapl:2", "psys", 900_000_000);
    // The packages use 60 + 40 J in 2 s. The MMIO counter of the first package does not change.
    let found = meter.metrics(&before, &read(&meter, 3000), &known("stp", 2.5));
    assert_metrics(&found, &[("energy_j", 50.0 / 2.5), ("energy_delay_js", 50.0 / 6.25)]);
}

#[test]
fn the_platform_counts_only_without_packages_and_may_wrap_around() {
    let fake = Fake::new("");
    fake.domain("intel-rapl:0", "psys", 999_000_000);
    let meter = fake.meter();
    let before = read(&meter, 0);
    fake.domain("intel-rapl:0", "psys", 4_000_000);
    // The platform uses 5 J in 0.5 s. A repetition of 200 ms takes 2 J.
    let found = meter.metrics(&before, &read(&meter, 500), &known("time_ms", 200.0));
    assert_metrics(&found, &[("energy_j", 2.0), ("energy_delay_js", 0.4)]);
    let still = meter.metrics(&before, &Reading { at: Duration::from_secs(1), ..before.clone() }, &found);
    assert!(still.is_empty(), "a counter that stands still gives no energy");
}

#[test]
fn without_counters_busy_time_is_weighed_by_the_square_of_speed() {
    let fake = Fake::new(&stat([1000, 2000]));
    let meter = fake.meter();
    assert_eq!(meter.note, None);
    let before = read(&meter, 0);
    // In 2 s, CPU 0 idles for 0.5 s and CPU 1 for 1.5 s.
    fake.put("proc/stat", &stat([1050, 2150]));
    let watts = 26.95 * 0.75 + 5.88 * 0.25 + 0.16 * (26.95 * 0.25 + 5.88 * 0.75);
    let found = meter.metrics(&before, &read(&meter, 2000), &known("throughput_per_s", 10.0));
    assert_metrics(&found, &[("energy_model_j", watts / 10.0), ("energy_delay_model_js", watts / 100.0)]);
    // The workload sets the pace, so the metric is the energy of a second.
    let found = meter.metrics(&before, &read(&meter, 2000), &known("latency_p50_us", 3.0));
    assert_metrics(&found, &[("energy_model_j", watts)]);
}

#[test]
fn unreadable_counters_are_named_and_replaced_by_the_model() {
    let fake = Fake::new(&stat([0, 0]));
    fake.domain("intel-rapl:0", "package-0", 1);
    std::fs::remove_file(fake.0.path().join("sys/class/powercap/intel-rapl:0/energy_uj")).unwrap();
    let meter = fake.meter();
    let note = meter.note.as_deref().unwrap_or_default();
    assert!(note.contains("energy_uj") && note.contains("energy_model_j") && !note.contains('\n'), "{note}");
    assert!(matches!(meter.source, Source::Model(_)));
}

#[test]
fn zero_work_costs_infinite_energy_and_idle_time_is_capped() {
    let fake = Fake::new(&stat([0, 0]));
    let meter = fake.meter();
    let before = read(&meter, 0);
    fake.put("proc/stat", &stat([101, 101]));
    let found = meter.metrics(&before, &read(&meter, 1000), &known("stp", 0.0));
    assert_eq!(found["energy_model_j"], f64::INFINITY);
    let found = meter.metrics(&before, &read(&meter, 1000), &known("stp", 1.0));
    assert!((found["energy_model_j"] - 1.16 * IDLE_W).abs() < 1e-9);
}

#[test]
fn this_machine_has_a_source() {
    let solo = Solo {
        cpu_speed: crate::cpus::online().unwrap().0.iter().map(|&cpu| (cpu, 1.0)).collect(),
        ..unequal(&[])
    };
    let meter = EnergyMeter::find(Path::new("/"), &solo);
    let before = meter.read().unwrap();
    std::thread::sleep(Duration::from_millis(30));
    let found = meter.metrics(&before, &meter.read().unwrap(), &known("stp", 1.0));
    assert_eq!(found.len(), 2, "{found:?}");
}
