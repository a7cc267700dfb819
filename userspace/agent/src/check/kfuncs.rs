// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Kernel functions that the BPF side calls, and whether a kernel's BTF offers them in a usable
//! form.
//!
//! Names changed between kernel versions. The BPF side uses the first variant that exists, so a
//! need lists alternatives, and one of them suffices.
//!
//! Malformed BTF: from 7.1 on, some functions take an implicit `struct bpf_prog_aux *aux`, which
//! the kernel build must hide. BTF then has `NAME` without it and `NAME_impl` with it. Some builds
//! (Debian's 7.1.13 and 7.2.12) used tools that do not hide it. They show it in `NAME` and lack
//! `NAME_impl`. The kernel rejects every program that calls such a function, with any arguments.

use super::btf::Btf;

/// A function of the kernel that the BPF side needs.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// Purpose of the call.
    pub purpose: &'static str,
    /// Functions that serve the purpose, newest first. One suffices.
    pub any_of: &'static [&'static str],
    /// True if the scheduler cannot be loaded without it. Otherwise a direct write replaces it, or
    /// nothing does.
    pub required: bool,
}

const fn need(purpose: &'static str, any_of: &'static [&'static str]) -> Need {
    Need { purpose, any_of, required: true }
}

const fn option(purpose: &'static str, any_of: &'static [&'static str]) -> Need {
    Need { purpose, any_of, required: false }
}

/// All functions that the BPF side calls.
pub const NEEDS: &[Need] = &[
    need("create queues", &["scx_bpf_create_dsq"]),
    need("queue a task", &["scx_bpf_dsq_insert___v2", "scx_bpf_dsq_insert", "scx_bpf_dispatch"]),
    need(
        "queue a task in order",
        &["__scx_bpf_dsq_insert_vtime", "scx_bpf_dsq_insert_vtime", "scx_bpf_dispatch_vtime"],
    ),
    need("take a task", &["scx_bpf_dsq_move_to_local___v2", "scx_bpf_dsq_move_to_local", "scx_bpf_consume"]),
    need(
        "bring tasks of a limited cgroup back",
        &["scx_bpf_dsq_move_vtime", "scx_bpf_dispatch_vtime_from_dsq"],
    ),
    need(
        "bring tasks of a limited cgroup back",
        &["scx_bpf_dsq_move_set_vtime", "scx_bpf_dispatch_from_dsq_set_vtime"],
    ),
    need("end a long wait", &["scx_bpf_dsq_move", "scx_bpf_dispatch_from_dsq"]),
    need("count waiting tasks", &["scx_bpf_dsq_nr_queued"]),
    need("look through a queue", &["bpf_iter_scx_dsq_new"]),
    need("look through a queue", &["bpf_iter_scx_dsq_next"]),
    need("look through a queue", &["bpf_iter_scx_dsq_destroy"]),
    need("wake or preempt a CPU", &["scx_bpf_kick_cpu"]),
    need("request a clock", &["scx_bpf_cpuperf_cap"]),
    need("request a clock", &["scx_bpf_cpuperf_set"]),
    need("find an idle CPU", &["scx_bpf_pick_idle_cpu"]),
    need("see which CPUs idle", &["scx_bpf_get_idle_cpumask"]),
    need("see which cores idle", &["scx_bpf_get_idle_smtmask"]),
    need("see which CPUs idle", &["scx_bpf_put_idle_cpumask"]),
    need("see which CPUs idle", &["bpf_cpumask_empty"]),
    need("claim an idle CPU", &["scx_bpf_test_and_clear_cpu_idle"]),
    need("find a task's CPU", &["scx_bpf_task_cpu"]),
    need("report errors", &["scx_bpf_error_bstr"]),
    need("write the dump", &["scx_bpf_dump_bstr"]),
    need("loop", &["bpf_iter_num_new"]),
    need("loop", &["bpf_iter_num_next"]),
    need("loop", &["bpf_iter_num_destroy"]),
    need("hold CPU masks", &["bpf_cpumask_create"]),
    need("hold CPU masks", &["bpf_cpumask_release"]),
    need("hold CPU masks", &["bpf_cpumask_set_cpu"]),
    need("hold CPU masks", &["bpf_cpumask_clear_cpu"]),
    need("hold CPU masks", &["bpf_cpumask_test_cpu"]),
    need("hold CPU masks", &["bpf_cpumask_first"]),
    need("hold CPU masks", &["bpf_cpumask_and"]),
    need("hold CPU masks", &["bpf_cpumask_intersects"]),
    need("read shared data", &["bpf_rcu_read_lock"]),
    need("read shared data", &["bpf_rcu_read_unlock"]),
    need("find the tasks of a swap", &["bpf_task_from_pid"]),
    need("find the tasks of a swap", &["bpf_task_release"]),
    need(
        "put back tasks whose CPU another class takes",
        &["scx_bpf_dsq_reenq", "scx_bpf_reenqueue_local___v2", "scx_bpf_reenqueue_local"],
    ),
    option("set a task's slice", &["scx_bpf_task_set_slice"]),
    option("set a task's place in a queue", &["scx_bpf_task_set_dsq_vtime"]),
];

/// Result of the check of one need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// The function exists and is usable.
    Present(&'static str),
    /// None of the variants exists.
    Missing,
    /// The variant that would be used shows its implicit argument, so no program can call it.
    Malformed(&'static str),
}

/// Check one need.
#[must_use]
pub fn judge(btf: &Btf, need: &Need) -> Availability {
    match need.any_of.iter().find(|name| btf.has(name)) {
        None => Availability::Missing,
        Some(name) if malformed(btf, name) => Availability::Malformed(name),
        Some(name) => Availability::Present(name),
    }
}

/// Return true if a function shows an implicit argument that the build should have hidden.
#[must_use]
pub fn malformed(btf: &Btf, name: &str) -> bool {
    let shows = |params: Vec<super::btf::Param>| {
        params.last().is_some_and(|last| last.name == "aux" && last.points_to == "bpf_prog_aux")
    };
    btf.params(name).is_some_and(shows) && !btf.has(&format!("{name}_impl"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::btf::tests::{build, parse};
    use super::*;

    const AUX: &[(&str, &str)] = &[("cpu", ""), ("aux", "bpf_prog_aux")];
    const PLAIN: &[(&str, &str)] = &[("cpu", "")];
    const KICK: Need = need("wake", &["new_kick", "scx_bpf_kick_cpu"]);

    fn verdict(functions: &[(&str, &[(&str, &str)])]) -> Availability {
        judge(&parse(&build(functions)).unwrap(), &KICK)
    }

    #[test]
    fn the_newest_variant_that_exists_counts() {
        assert_eq!(
            verdict(&[("scx_bpf_kick_cpu", PLAIN), ("new_kick", PLAIN)]),
            Availability::Present("new_kick")
        );
        assert_eq!(verdict(&[("scx_bpf_kick_cpu", PLAIN)]), Availability::Present("scx_bpf_kick_cpu"));
        assert_eq!(verdict(&[("other", PLAIN)]), Availability::Missing);
    }

    #[test]
    fn an_implicit_argument_without_its_twin_is_malformed() {
        assert_eq!(verdict(&[("scx_bpf_kick_cpu", AUX)]), Availability::Malformed("scx_bpf_kick_cpu"));
        let twin = [("scx_bpf_kick_cpu", PLAIN), ("scx_bpf_kick_cpu_impl", AUX)];
        assert_eq!(verdict(&twin), Availability::Present("scx_bpf_kick_cpu"));
    }

    #[test]
    fn everything_the_bpf_object_calls_is_in_the_table() {
        let object = include_bytes!(concat!(env!("OUT_DIR"), "/bpf.bpf.o"));
        // The object's own BTF, found by its header: magic, version 1, no flags, 24 bytes of
        // header.
        let header = [0x9f, 0xeb, 1, 0, 24, 0, 0, 0];
        let at = object.windows(header.len()).position(|window| window == header).unwrap();
        let end = |at: usize| {
            let word = |at: usize| u32::from_ne_bytes(object[at..at + 4].try_into().unwrap()) as usize;
            at + 24 + word(at + 16) + word(at + 20)
        };
        let btf = parse(&object[at..end(at)]).unwrap();
        let known: Vec<&str> = NEEDS.iter().flat_map(|need| need.any_of).copied().collect();
        let mut called = 0;
        for name in btf.functions().filter(|name| name.starts_with("scx_bpf_") || name.starts_with("bpf_")) {
            // Variants of one function carry a suffix in the object.
            let plain = name.split("___").next().unwrap();
            assert!(known.contains(&plain), "{plain} is called but not in NEEDS");
            called += 1;
        }
        assert!(called > 10);
    }

    #[test]
    fn a_structure_of_another_kind_is_not_the_implicit_argument() {
        let other = verdict(&[("scx_bpf_kick_cpu", &[("aux", "other")])]);
        assert_eq!(other, Availability::Present("scx_bpf_kick_cpu"));
    }
}
