//! The first steps.
#![allow(missing_docs, clippy::unwrap_used)]

use bias_sim::case::{Case, TaskSpec};
use bias_sim::kernel::Kernel;
use bias_sim::load::{Program, stacks};
use bias_sim::unit::Image;

#[test]
fn two_tasks_take_the_fast_cpus() {
    let mut case = Case::new("2F2S", 1);
    case.tasks = vec![
        TaskSpec::new(Program::busy(stacks::COMPUTE)).on(2),
        TaskSpec::new(Program::busy(stacks::COMPUTE)).on(3),
    ];
    case.trace = true;
    let kernel = Kernel::new(case, Image::Plain).unwrap();
    let result = kernel.run();
    println!("{}", kernel.trace_text());
    result.unwrap();
}
