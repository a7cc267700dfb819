//! The README commands: demo, test, vm.

fn main() {}
