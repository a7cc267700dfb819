// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Defects of `bpf/` that a campaign found. Each case failed before the repair.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use bias_sim::case::{Case, Disturb, Disturbance, Interleave, TaskSpec};
use bias_sim::kernel::Kernel;
use bias_sim::load::{Op, Program, stacks};
use bias_sim::rng::Rng;
use bias_sim::unit::Image;
use bias_sim::{campaign, scenario};

/// Cases of a family in every test run.
const SEEDS: u64 = 30;

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
        // After ops.cpu_offline, which comes a grace period later.
        Disturb { at_ns: 20_000_000, what: Disturbance::RealTime { cpu: 0, ns: 50_000_000 } },
    ];
    case.duration_ns = 100_000_000;
    assert_eq!(campaign::run(&case, Image::Plain).unwrap(), None);
}

/// The kernel leaves the idle mark of CPU 3, where a task slept. The wakeup claimed that CPU, and
/// the kernel put the task into the local DSQ of CPU 0, which is busy. It waited there beside idle
/// CPUs.
#[test]
fn a_wakee_of_an_offline_cpu_goes_to_an_idle_one() {
    for period_ns in [5_000_000, 20_000_000, 50_000_000] {
        let mut case = Case::new("4P", 1);
        let sleeper = TaskSpec::new(Program::periodic(stacks::COMPUTE, 50_000, period_ns));
        case.tasks = vec![busy().within([0]).on(0), sleeper.on(3)];
        case.disturbances = vec![Disturb { at_ns: 12_000_000, what: Disturbance::Offline { cpu: 3 } }];
        case.duration_ns = 200_000_000;
        let kernel = Kernel::new(case, Image::Plain).unwrap();
        assert_eq!(kernel.run(), Ok(()), "period of {period_ns} ns");
        let longest_ns = kernel.figures(1).longest_wait_ns;
        assert!(longest_ns < 1_000_000, "period of {period_ns} ns: {longest_ns} ns");
    }
}

/// A task is put back behind one that preempts it. Between its search for an idle CPU and the
/// insertion, another CPU finds the DSQ empty and idles. A tick of the successor wakes that CPU.
#[test]
fn a_cpu_that_idles_during_the_insertion_is_woken() {
    let case = Case::parse(include_str!("../cases/put_back_beside_idle.json")).unwrap();
    assert_eq!(campaign::run(&case, Image::Plain).unwrap(), None);
}

/// A real-time task takes the CPU of a task. Just before that task is queued, the idle CPU finds
/// the DSQ empty, and has no idle mark yet. No CPU ticks with a task of scx_bias until then.
#[test]
fn an_idling_cpu_is_woken_for_a_task_that_lost_its_cpu_to_real_time() {
    let case = Case::parse(include_str!("../cases/real_time_beside_idle.json")).unwrap();
    assert_eq!(campaign::run(&case, Image::Plain).unwrap(), None);
}

/// A task pinned to CPU 3 wakes while that CPU is offline. Just before, a task wakes that is pinned
/// to CPU 4. That leaves the idle mark of CPU 4, which was picked for the first task, too. It would
/// wait for a tick while CPU 1 idles.
#[test]
fn a_wakee_wakes_no_cpu_that_has_a_task() {
    let case = Case::parse(include_str!("../cases/wakee_beside_pinned.json")).unwrap();
    assert_eq!(campaign::run(&case, Image::Plain).unwrap(), None);
}

/// Check the first `seeds` cases of a family.
fn holds_in_all(family: &str, seeds: u64) {
    let families = scenario::families();
    let family = families.iter().find(|one| one.name == family).unwrap();
    for seed in 0..seeds {
        assert_eq!(campaign::reach(&family.with(seed), Image::Plain).unwrap(), None, "seed {seed}");
    }
}

/// An idle CPU awaits a task that it pulls, and another CPU sends it one that was preempted. Or the
/// kick of a task that is sent arrives before the task, so that the CPU idles again and is claimed
/// for another one. The second task to arrive would wait until a tick, 10 ms here.
#[test]
fn one_task_at_a_time_is_on_its_way_to_an_idle_cpu() {
    holds_in_all("servers", SEEDS);
}

/// A CPU that a wakeup had claimed took another task from a DSQ before the wakee came. The wakee
/// waited there until a tick, up to 8 ms, while other CPUs idled.
#[test]
fn a_wakee_does_not_wait_behind_another_task() {
    holds_in_all("equal-servers", 10 * SEEDS);
}

/// Real-time work kept a kernel thread waiting, and behind it a task that came later or that was
/// enqueued again, while other CPUs idled.
#[test]
fn no_task_waits_behind_a_waiting_kernel_thread() {
    holds_in_all("newcomer-behind-kthread", 4);
    holds_in_all("freed-behind-kthread", 4);
}

/// A task waited beside an idle CPU, because its new affinity was set on the CPU that real-time
/// work had taken from it: ops.enqueue took it for one that was put back, and woke no CPU.
#[test]
fn a_task_that_is_freed_on_a_taken_cpu_wakes_another() {
    holds_in_all("freed-beside-real-time", 4);
}

/// Four tasks wake at the same time beside a busy task on each of four CPUs. Wakees preempted one
/// CPU twice: the second one waited 2 ms for the first.
#[test]
fn a_broadcast_to_four_tasks_uses_four_cpus() {
    for seed in 0..4 {
        let mut case = Case::new("4P", seed);
        case.duration_ns = 2_000_000_000;
        case.tasks = (0..4).map(|cpu| busy().on(cpu)).collect();
        let ops = vec![
            Op::Sleep { ns: 50_000_000 },
            Op::Run { stack: stacks::COMPUTE, work_ns: 20_000 },
            Op::WakeAll { tasks: (5..9).collect() },
        ];
        case.tasks.push(TaskSpec::new(Program { ops, repeat: true }));
        let work = Op::Run { stack: stacks::COMPUTE, work_ns: 1_000_000 };
        let wakee = TaskSpec::new(Program { ops: vec![Op::Wait, work], repeat: true });
        case.tasks.extend((0..4).map(|_| wakee.clone()));
        let kernel = Kernel::new(case, Image::Plain).unwrap();
        assert_eq!(kernel.run(), Ok(()), "seed {seed}");
        let longest_ns = (5..9).map(|task| kernel.figures(task).longest_wait_ns).max();
        assert!(longest_ns.is_some_and(|ns| ns < 500_000), "seed {seed}: {longest_ns:?}");
    }
}

/// The kick arrives up to 50 us before the task, because the kernel inserts in a later interrupt.
/// The kicked CPU would take a busy task from a DSQ meanwhile. Or, in a rotation, it would keep its
/// own task, because a server has taken the other CPU.
#[test]
fn a_cpu_takes_no_other_task_before_the_one_on_its_way() {
    holds_in_all("late-insertions", SEEDS);
}

/// A kthread preempts a busy task while another one is on its way to the same CPU, or already in
/// its local DSQ. The first task stayed there for the kthread and then waited for the other one
/// until a tick, although CPUs idled.
#[test]
fn a_task_that_a_kthread_preempts_does_not_wait_for_another() {
    holds_in_all("servers-and-kthreads", SEEDS);
}

/// CPUs see each other's actions up to 150 us late. The announcement of a task on its way ended
/// before the task came, or a CPU had begun to dispatch before the announcement. The CPU then had
/// two tasks, one of which waited for a tick while CPUs idled.
#[test]
fn the_second_of_two_arriving_tasks_is_rescued() {
    holds_in_all("late-sight", SEEDS);
}

/// The pinned task wakes while a busy task is on its way to the idle CPU, or that CPU was still
/// marked idle, so that a busy task was sent. The busy task waited for the pinned one until a tick,
/// although CPUs idled. Or a server preempts a busy task, a CPU idles between the task's search for
/// one and its insertion, and the pinned task follows the server.
#[test]
fn a_task_on_its_way_does_not_wait_for_a_pinned_one() {
    holds_in_all("servers-and-pinned", SEEDS);
}

/// A task draws a frame of 6 ms every 16.7 ms beside four or five busy tasks. While no task waits,
/// the global vtime is that of the task that lags most. The wakee was compared with it only, waited
/// for a tick although the task of another CPU was far ahead, and then took 15 ms on a slow CPU.
/// Beside eight, it lagged by too little to preempt.
#[test]
fn frames_beside_rotating_tasks_are_in_time() {
    let with_seed = |seed| [(4, 178, seed), (5, 178, seed), (8, 172, seed)];
    for (busy_tasks, least, seed) in (0..40).flat_map(with_seed) {
        let mut case = Case::new("240:240:96:96", seed);
        (case.tick_ns, case.duration_ns, case.ipi_ns) = (10_000_000, 3_000_000_000, (500, 20_000));
        case.interleave = Some(Interleave { permille: 20, longest_ns: 50_000, memory: false });
        case.tasks = (0..busy_tasks).map(|task| busy().on(task % 4)).collect();
        let frame = Op::Run { stack: stacks::COMPUTE, work_ns: 6_000_000 };
        let ops = vec![Op::SleepUntil { period_ns: 16_666_667 }, frame];
        case.tasks.push(TaskSpec::new(Program { ops, repeat: true }));
        let kernel = Kernel::new(case, Image::Plain).unwrap();
        assert_eq!(kernel.run(), Ok(()), "seed {seed}");
        // Each period that a frame exceeds costs one of the 179 that fit.
        let rounds = kernel.figures(busy_tasks).rounds;
        assert!(rounds >= least, "{busy_tasks} busy tasks, seed {seed}: {rounds} frames in time");
    }
}

/// Equal tasks outnumber the CPUs. A fast CPU has other tasks to take at the end of its slices, and
/// must not forget those that stay on slow CPUs.
#[test]
fn tasks_on_slow_cpus_rotate_while_others_wait() {
    for (machine, cpus, tasks) in
        [("2F2S", 4, 5), ("2F2S", 4, 6), ("SPLIT", 8, 9), ("SPLIT", 8, 12), ("P2E4", 8, 9)]
    {
        let mut case = Case::new(machine, 1);
        case.duration_ns = 10_000_000_000;
        case.tasks = (0..tasks).map(|at| busy().on(at % cpus)).collect();
        let kernel = Kernel::new(case, Image::Plain).unwrap();
        assert_eq!(kernel.run(), Ok(()), "{machine}, {tasks} tasks");
        let work: Vec<u64> = (0..tasks).map(|task| kernel.figures(task).work_ns / 1_000_000).collect();
        let (least, most) = (work.iter().min().unwrap(), work.iter().max().unwrap());
        assert!(*most as f64 <= 1.03 * *least as f64, "{machine}: {work:?} ms");
    }
}

/// A server that is pinned to a fast CPU wakes every 7 ms. The busy task there got a new slice each
/// time, so none ended, and it never made room for a task that lagged on a slow CPU. With servers
/// of 1 ms in 13 ms, rotations are in step with them, and some of the lag is lost in the DSQ.
#[test]
fn a_task_that_a_server_interrupts_rotates() {
    for (period_ns, work_ns, least_share) in
        [(7_000_000, 200_000, 0.95), (3_000_000, 100_000, 0.95), (13_000_000, 1_000_000, 0.75)]
    {
        for servers in 1..=2 {
            let mut case = Case::new("2F2S", 1);
            case.duration_ns = 10_000_000_000;
            case.tasks = (0..4).map(|cpu| busy().on(cpu)).collect();
            let server = TaskSpec::new(Program::periodic(stacks::COMPUTE, work_ns, period_ns));
            case.tasks.extend((0..servers).map(|cpu| server.clone().on(cpu).within([cpu])));
            let kernel = Kernel::new(case, Image::Plain).unwrap();
            assert_eq!(kernel.run(), Ok(()), "{servers} servers, {period_ns} ns");
            let work: Vec<u64> = (0..4).map(|task| kernel.figures(task).work_ns / 1_000_000).collect();
            let (least, most) = (work.iter().min().unwrap(), work.iter().max().unwrap());
            assert!(*least as f64 >= least_share * *most as f64, "{servers}, {period_ns} ns: {work:?} ms");
        }
    }
}

/// The tasks in one DSQ are behind those in the other. A server started a slice behind the global
/// vtime, which is between both, and waited for 44 to 180 ms behind a crowd. Or its bias changed
/// while it lagged, and it waited in the other DSQ. Or it waited in a DSQ of a class that its LLC
/// did not have.
#[test]
fn servers_do_not_wait_behind_a_crowd() {
    holds_in_all("servers-of-two-classes", 6);
}

/// Two halves of a machine in unequal demand, each with tasks of two weights. All tasks of the
/// emptier half are ahead of the global vtime, and were cut to the same limit: a weight of 300
/// counted 1.6 times one of 100. Servers without an affinity and others of the emptier half come in
/// between, and wait behind none of them for long.
#[test]
fn weights_hold_in_every_partition() {
    for (machine, half) in [("4P", 2), ("8P,llcs=2", 4), ("2P+2E", 2), ("8P,nodes=2", 4), ("72P", 4)] {
        let mut case = Case::new(machine, 1);
        case.duration_ns = 4_000_000_000;
        // On the large machine, the halves are beyond the first 64 CPUs.
        let first = if machine == "72P" { 64 } else { 0 };
        let (emptier, other) = (first..first + half, first + half..first + 2 * half);
        let in_emptier = || busy().within(emptier.clone()).on(first);
        let in_other = || busy().within(other.clone()).on(first + half);
        case.tasks = (0..2 * half).map(|_| in_emptier()).chain((0..6 * half).map(|_| in_other())).collect();
        for task in [0, 1, 2 * half, 2 * half + 1, 2 * half + 2] {
            case.tasks[task].weight = 300;
        }
        let busy_tasks = case.tasks.len();
        let server = TaskSpec::new(Program::periodic(stacks::COMPUTE, 100_000, 20_000_000));
        let start_ns = Some(3_000_000_000);
        case.tasks.push(TaskSpec { start_ns, ..server.clone().on(first) });
        case.tasks.push(TaskSpec { start_ns, ..server.within(emptier.clone()).on(first) });
        let kernel = Kernel::new(case, Image::Plain).unwrap();
        assert_eq!(kernel.run(), Ok(()), "{machine}");
        let mean = |tasks: std::ops::Range<usize>| {
            tasks.clone().map(|task| kernel.figures(task).work_ns as f64).sum::<f64>() / tasks.len() as f64
        };
        let less = mean(0..2) / mean(2..2 * half);
        let more = mean(2 * half..2 * half + 3) / mean(2 * half + 3..busy_tasks);
        println!("{machine}: {less:.2} in the emptier half, {more:.2} in the other");
        assert!((2.7..3.3).contains(&less) && (2.7..3.3).contains(&more), "{machine}: {less} {more}");
        let waits = [busy_tasks, busy_tasks + 1].map(|task| kernel.figures(task).longest_wait_ns);
        println!("{machine}: servers wait {waits:?} ns");
        assert!(waits.iter().all(|ns| *ns < 30_000_000), "{machine}: {waits:?}");
    }
}

/// Eight tasks on eight CPUs, beside kernel threads and short real-time work. Rotation lets tasks
/// lead by more than two slices. A task that was preempted then lost its lead, and the work behind
/// it counted for nothing: the slowest task had 0.89 of the fastest.
#[test]
fn a_preempted_task_keeps_its_lead() {
    for seed in 0..120 {
        let rng = Rng::new(seed);
        let mut case = Case::new("P2E4", seed);
        (case.tick_ns, case.duration_ns) = (10_000_000, 4_300_000_000);
        let before = Op::Run { stack: stacks::COMPUTE, work_ns: 1_200_000_000 };
        let before = Program { ops: vec![before], repeat: false };
        case.tasks = (0..5).map(|cpu| TaskSpec::new(before.clone()).on(cpu)).collect();
        let start_ns = |at: u64| Some(2_300_000_000 + at * 300_000);
        case.tasks.extend((0..8).map(|at| TaskSpec { start_ns: start_ns(at), ..busy().on(0) }));
        let mut at_ns = rng.within(5_000_000, 60_000_000);
        while at_ns < 4_200_000_000 {
            let what =
                Disturbance::RealTime { cpu: rng.below(8) as usize, ns: rng.within(100_000, 4_000_000) };
            case.disturbances.push(Disturb { at_ns, what });
            at_ns += rng.within(5_000_000, 60_000_000);
        }
        for cpu in 0..8 {
            let (work_ns, sleep_ns) = (rng.within(50_000, 500_000), rng.within(20_000_000, 200_000_000));
            let kthread = TaskSpec::new(Program::periodic(stacks::COMPUTE, work_ns, sleep_ns)).within([cpu]);
            case.tasks.push(TaskSpec { kthread: true, ..kthread.on(cpu) });
        }
        let kernel = Kernel::new(case, Image::Plain).unwrap();
        assert_eq!(kernel.run(), Ok(()), "seed {seed}");
        let work: Vec<u64> = (5..13).map(|task| kernel.figures(task).work_ns).collect();
        let (least, most) = (work.iter().min().unwrap(), work.iter().max().unwrap());
        assert!(*least as f64 >= 0.91 * *most as f64, "seed {seed}: {work:?}");
    }
}

/// A CPU idles between the search for an idle CPU and the insertion of task 0. The next tick wakes
/// it, although the head of the DSQ is task 7, which may not run there.
#[test]
fn a_restricted_head_hides_no_task() {
    let case = Case::parse(include_str!("../cases/restricted_head.json")).unwrap();
    assert_eq!(campaign::run(&case, Image::Traced).unwrap(), None);
}

/// All 64 slow CPUs that a search visited were those of the first node. On the second one, where
/// fast CPUs and slow ones have caches of their own, idle fast CPUs found no task to pull.
#[test]
fn a_fast_cpu_finds_the_tasks_of_its_node() {
    fast_cpus_beyond_the_first_64_pull(busy().on(99));
}

/// A CPU published the first 64 CPUs of an affinity only. A task that may use others was not
/// pulled, where the machine has more CPUs.
#[test]
fn a_restricted_task_is_pulled_to_any_cpu_that_it_may_use() {
    fast_cpus_beyond_the_first_64_pull(busy().on(99).within([70, 99]));
}

/// Start `task` on the slow CPU 99 while tasks occupy all fast CPUs of its node, for 50 ms.
fn fast_cpus_beyond_the_first_64_pull(task: TaskSpec) {
    let mut case = Case::new("66E+33P+33E,llcs=4,nodes=2", 1);
    case.duration_ns = 500_000_000;
    let work = Op::Run { stack: stacks::COMPUTE, work_ns: 50_000_000 };
    let short = Program { ops: vec![work], repeat: false };
    case.tasks = (66..99).map(|cpu| TaskSpec::new(short.clone()).on(cpu).within([cpu])).collect();
    case.tasks.push(TaskSpec { start_ns: Some(10_000_000), ..task });
    let kernel = Kernel::new(case, Image::Plain).unwrap();
    assert_eq!(kernel.run(), Ok(()));
    let slow_ns = kernel.figures(33).slow_ns;
    assert!((30_000_000..100_000_000).contains(&slow_ns), "{slow_ns} ns on slow CPUs");
}

/// Machines with three and four types of cores, the worse ones first. Tasks ran on low-power cores
/// beside idle ones of a better type, because both types are slow: 2.8 instead of 3.2 times the
/// work of one task.
#[test]
fn equal_tasks_take_the_best_types_of_cores() {
    for (machine, mips) in [("24x4:60x2:36x2", [60, 60, 36, 36]), ("48x3:24x2:60x1", [60, 48, 48, 48])] {
        for nr in 1..=4 {
            let mut case = Case::new(machine, 1);
            case.duration_ns = 3_000_000_000;
            case.tasks = (0..nr).map(|_| busy()).collect();
            let kernel = Kernel::new(case, Image::Plain).unwrap();
            assert_eq!(kernel.run(), Ok(()), "{nr} on {machine}");
            let work_ns: u64 = (0..nr).map(|task| kernel.figures(task).work_ns).sum();
            let best_ns: u64 = mips[..nr].iter().map(|mips| mips * 3_000_000_000 / 60).sum();
            assert!(work_ns * 100 > best_ns * 99, "{nr} on {machine}: {work_ns} of {best_ns}");
        }
    }
}

/// Of three types of cores, two are fast. The best ones ran as many slow-biased tasks of a full
/// system as those between, though only tasks of fast bias gain there: 6.52 instead of 6.72 times
/// the work of one task. Equal progress allows 6.86.
#[test]
fn middle_cores_serve_tasks_of_both_classes() {
    let mut case = Case::new("PELP", 1);
    case.duration_ns = 5_000_000_000;
    let tasks = |stack| (0..6).map(move |_| TaskSpec::new(Program::busy(stack)));
    case.tasks = tasks(stacks::COMPUTE).chain(tasks(stacks::CHASE)).collect();
    let kernel = Kernel::new(case, Image::Plain).unwrap();
    assert_eq!(kernel.run(), Ok(()));
    let work_ns: u64 = (0..12).map(|task| kernel.figures(task).work_ns).sum();
    assert!(work_ns > 5_000_000_000 * 665 / 100, "{work_ns}");
}
