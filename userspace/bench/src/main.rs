//! Workloads with known behaviour, and the comparison of schedulers.

fn main() {}
