//! Defects of the kernel side that are known and not repaired. Each case fails. A repair removes
//! `ignore`.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::rc::Rc;

use bias_sim::case::{Case, TaskSpec};
use bias_sim::kernel::Kernel;
use bias_sim::load::{Program, stacks};
use bias_sim::unit::Image;

fn run(case: Case) -> Rc<Kernel> {
    let kernel = Kernel::new(case, Image::Plain).unwrap();
    assert_eq!(kernel.run(), Ok(()));
    kernel
}

fn busy() -> TaskSpec {
    TaskSpec::new(Program::busy(stacks::COMPUTE))
}

/// Two halves of a machine in unequal demand. Weights above that of nice 0 count in neither.
#[test]
#[ignore = "there is one global vtime (bias/clock.h)"]
fn weights_hold_in_every_partition() {
    let mut case = Case::new("4P", 1);
    case.duration_ns = 6_000_000_000;
    case.tasks = (0..16)
        .map(|at| if at < 4 { busy().within([0, 1]).on(0) } else { busy().within([2, 3]).on(2) })
        .collect();
    for task in [0, 1, 4, 5, 6] {
        case.tasks[task].weight = 300;
    }
    let kernel = run(case);
    let ran = |tasks: std::ops::Range<usize>| {
        tasks.clone().map(|task| kernel.figures(task).ran_ns as f64).sum::<f64>() / tasks.len() as f64
    };
    let (less, more) = (ran(0..2) / ran(2..4), ran(4..7) / ran(7..16));
    println!("weight 300 over 100: {less:.2} in the less crowded half, {more:.2} in the more crowded one");
    assert!((2.7..3.3).contains(&less) && (2.7..3.3).contains(&more), "{less} {more}");
}
