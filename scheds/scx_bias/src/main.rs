//! A sched_ext scheduler for machines with unequal cores.

fn main() {}
