//! Defects of `bpf/` that a campaign found. Each case failed before the repair.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use bias_sim::campaign;
use bias_sim::case::{Case, Disturb, Disturbance, TaskSpec};
use bias_sim::load::{Program, stacks};
use bias_sim::unit::Image;

fn busy() -> TaskSpec {
    TaskSpec::new(Program::busy(stacks::COMPUTE))
}

/// A waiting task gets another affinity. set_cpus_allowed_ptr() enqueues it twice: once on its old
/// CPU, which it may no longer use, and then on a new one. The first time, bias_enqueue() claims
/// an idle CPU and inserts into its local DSQ. The kernel defers that insertion, and the second
/// time cancels it. Without a kick the claimed CPU would stay idle without its mark.
#[test]
fn a_claimed_cpu_is_woken_though_its_task_goes_elsewhere() {
    let mut case = Case::new("4P", 1);
    case.tasks = vec![busy().within([3]).on(3)];
    case.disturbances = vec![
        Disturb { at_ns: 10_000_000, what: Disturbance::RealTime { cpu: 3, ns: 1_000_000 } },
        Disturb { at_ns: 10_500_000, what: Disturbance::Affinity { task: 0, cpus: vec![0, 1, 2] } },
    ];
    case.duration_ns = 100_000_000;
    assert_eq!(campaign::run(&case, Image::Plain).unwrap(), None);
}

/// The kernel leaves the idle mark of a CPU that goes offline. bias_enqueue() claims it and inserts
/// into its local DSQ. The kernel would find the CPU offline and insert into the global DSQ
/// instead. Nothing wakes a CPU for that.
#[test]
fn an_offline_cpu_gets_no_task() {
    let mut case = Case::new("4P", 1);
    case.tasks = vec![busy().on(0)];
    case.disturbances = vec![
        Disturb { at_ns: 5_000_000, what: Disturbance::Offline { cpu: 1 } },
        Disturb { at_ns: 10_000_000, what: Disturbance::RealTime { cpu: 0, ns: 50_000_000 } },
    ];
    case.duration_ns = 100_000_000;
    assert_eq!(campaign::run(&case, Image::Plain).unwrap(), None);
}

/// A task is put back behind one that preempts it. Between its search for an idle CPU and the
/// insertion, another CPU finds the DSQ empty and idles. A tick of the successor wakes that CPU.
#[test]
fn a_cpu_that_idles_during_the_insertion_is_woken() {
    let case = Case::parse(include_str!("../cases/put_back_beside_idle.json")).unwrap();
    assert_eq!(campaign::run(&case, Image::Plain).unwrap(), None);
}
