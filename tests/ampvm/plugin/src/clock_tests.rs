// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Properties of [`super::Clock`], driven as the gate drives it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;
use proptest::prelude::*;

const QUANTUM: i64 = 1000;
const CPUS: usize = 4;

/// An event that may happen next. The host decides the order.
#[derive(Debug, Clone)]
enum Act {
    /// A vCPU executes one step of this length if it may.
    Step(usize, i64),
    /// A vCPU halts.
    Halt(usize),
    /// A vCPU kicks another one.
    Kick(usize, usize),
    /// A kicked vCPU's thread runs: true if it has work.
    Wake(usize, bool),
    /// The main loop polls, with its next timer this far away.
    Poll(i64),
    /// An idle machine's time advances by this much.
    Idle(i64),
    /// A device that the host serves kicks a vCPU.
    Device(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let cpu = 0..CPUS;
    prop_oneof![
        6 => (cpu.clone(), 1_i64..400).prop_map(|(c, n)| Act::Step(c, n)),
        1 => cpu.clone().prop_map(Act::Halt),
        1 => (cpu.clone(), cpu.clone()).prop_map(|(a, b)| Act::Kick(a, b)),
        2 => (cpu.clone(), any::<bool>()).prop_map(|(c, b)| Act::Wake(c, b)),
        3 => (1_i64..5000).prop_map(Act::Poll),
        1 => (1_i64..5000).prop_map(Act::Idle),
        1 => cpu.prop_map(Act::Device),
    ]
}

/// Do the gate's part after each act: end and open quanta as far as possible.
fn settle(clock: &mut Clock) {
    while clock.end_quantum().is_some() {
        if !clock.open_quantum() {
            break;
        }
    }
    if !clock.is_idle() {
        clock.open_quantum();
    }
}

fn perform(clock: &mut Clock, act: &Act) {
    match *act {
        Act::Step(c, n) if clock.state(c) == State::Running && clock.local(c) < clock.limit() => {
            let local = clock.local(c) + n;
            clock.arrive(c, local);
        }
        Act::Halt(c) if clock.state(c) == State::Running => clock.halt(c, clock.local(c)),
        Act::Kick(a, b) if clock.state(a) == State::Running => clock.wake(b, clock.local(a)),
        Act::Wake(c, true) if clock.state(c) == State::Waking => {
            clock.resume(c);
        }
        Act::Wake(c, false) => clock.sleep_again(c),
        Act::Poll(n) => clock.set_main(MainLoop::Polling(clock.now() + n)),
        Act::Idle(n) => clock.idle_to(clock.now() + n),
        Act::Device(c) => clock.wake(c, clock.now()),
        _ => {}
    }
    // A timer that is due makes the main loop busy until it polls again.
    if clock.is_due() {
        clock.set_main(MainLoop::Busy);
    }
    settle(clock);
}

proptest! {
    #[test]
    fn time_never_goes_back_and_no_vcpu_leaves_the_others_behind(acts in prop::collection::vec(act(), 1..400)) {
        let mut clock = Clock::new(CPUS, QUANTUM);
        let mut before = (0, [0; CPUS]);
        for act in &acts {
            perform(&mut clock, act);
            let locals: [i64; CPUS] = std::array::from_fn(|c| clock.local(c));
            prop_assert!(clock.now() >= before.0);
            for (c, (local, earlier)) in locals.iter().zip(before.1).enumerate() {
                prop_assert!(*local >= earlier, "{:?}", act);
                if clock.state(c) == State::Running {
                    prop_assert!(*local >= clock.now());
                    // A vCPU may exceed the limit by one step.
                    prop_assert!(*local < clock.now() + QUANTUM + 400, "{} at {}", local, clock.now());
                }
            }
            before = (clock.now(), locals);
        }
    }

    /// A timer fires when the machine's time has reached it, at most one quantum late.
    #[test]
    fn a_timer_fires_in_time(acts in prop::collection::vec(act(), 1..400)) {
        let mut clock = Clock::new(CPUS, QUANTUM);
        let mut deadline = i64::MAX;
        for act in acts {
            // The main loop polls with its earliest timer, so a later poll does not postpone one.
            let act = match act {
                Act::Poll(n) => Act::Poll(n.min(deadline - clock.now())),
                other => other,
            };
            let before = clock.now();
            perform(&mut clock, &act);
            if let Act::Poll(n) = act {
                deadline = before + n;
            }
            prop_assert!(clock.now() - deadline.min(clock.now()) <= QUANTUM);
            if clock.main() == MainLoop::Busy {
                deadline = i64::MAX;
            }
        }
    }

    /// After any history, time advances if the host runs every thread.
    #[test]
    fn no_history_deadlocks(acts in prop::collection::vec(act(), 0..300)) {
        let mut clock = Clock::new(CPUS, QUANTUM);
        for act in &acts {
            perform(&mut clock, act);
        }
        let start = clock.now();
        for _ in 0..20_000 {
            for c in 0..CPUS {
                perform(&mut clock, &Act::Wake(c, true));
                perform(&mut clock, &Act::Step(c, 100));
            }
            if clock.main() == MainLoop::Busy {
                perform(&mut clock, &Act::Poll(3000));
            }
            perform(&mut clock, &Act::Idle(500));
            if clock.now() > start + 10 * QUANTUM {
                return Ok(());
            }
        }
        prop_assert!(false, "stuck at {}", clock.now());
    }

    /// Busy shares add up to the time that a vCPU ran.
    #[test]
    fn busy_time_is_neither_lost_nor_counted_twice(runs in prop::collection::vec((1_i64..3000, 1_i64..3000), 1..20)) {
        let mut clock = Clock::new(1, QUANTUM);
        clock.set_main(MainLoop::Polling(i64::MAX));
        // Shares are whole thousandths, so each loses up to a thousandth of its time.
        let (mut ran, mut counted, mut rounding) = (0.0, 0.0, 1.0);
        for (busy, idle) in runs {
            clock.resume(0);
            let until = clock.local(0) + busy;
            clock.open_quantum();
            while clock.local(0) < until {
                let to = until.min(clock.limit().max(clock.local(0) + 1));
                ran += (to - clock.local(0)) as f64;
                clock.arrive(0, to);
                while let Some(elapsed) = clock.end_quantum() {
                    counted += f64::from(clock.take_busy_permille(0, elapsed)) * elapsed as f64 / 1000.0;
                    rounding += elapsed as f64 / 1000.0;
                    clock.open_quantum();
                }
            }
            clock.halt(0, clock.local(0));
            clock.set_main(MainLoop::Polling(i64::MAX));
            let from = clock.now();
            clock.idle_to(from + QUANTUM + idle);
            let elapsed = clock.now() - from;
            counted += f64::from(clock.take_busy_permille(0, elapsed)) * elapsed as f64 / 1000.0;
            rounding += elapsed as f64 / 1000.0;
        }
        prop_assert!((ran - counted).abs() <= rounding + ran * 0.05, "{} of {}", counted, ran);
    }
}

#[test]
fn a_vcpu_resumes_at_the_time_of_its_kick() {
    let mut clock = Clock::new(2, QUANTUM);
    clock.set_main(MainLoop::Polling(i64::MAX));
    clock.resume(0);
    clock.open_quantum();
    clock.arrive(0, 600);
    clock.wake(1, 600);
    clock.arrive(0, 1000);
    assert!(!clock.is_over(), "time waits for the thread of the kicked vCPU");
    assert_eq!(clock.resume(1), 600);
    clock.arrive(1, 1000);
    assert_eq!(clock.end_quantum(), Some(1000));
}

#[test]
fn a_quantum_ends_at_the_next_timer() {
    let mut clock = Clock::new(1, QUANTUM);
    clock.resume(0);
    clock.set_main(MainLoop::Polling(300));
    assert!(clock.open_quantum());
    assert_eq!(clock.limit(), 300);
    clock.arrive(0, 310);
    clock.end_quantum();
    assert!(clock.is_due() && !clock.open_quantum(), "the main loop runs the timer first");
    clock.set_main(MainLoop::Polling(301));
    assert!(clock.open_quantum());
    assert_eq!(clock.limit(), 300 + QUANTUM / 8, "but quanta do not become tiny");
}
