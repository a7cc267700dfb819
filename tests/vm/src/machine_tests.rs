#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;

#[test]
fn presets_parse_and_have_the_documented_speeds() {
    for (name, speeds, _) in PRESETS {
        assert_eq!(Machine::parse(name), Machine::parse(speeds), "{name}");
        assert_eq!(Machine::parse(&name.to_lowercase()), Machine::parse(speeds), "{name}");
    }
    assert_eq!(Machine::parse("60x4:24x4"), Machine::parse("4F4S"));
    assert_eq!(Machine::parse("2F2S").unwrap().mips_milli, [60_000, 60_000, 24_000, 24_000]);
}

#[test]
fn options_reach_the_plugin_and_the_topology() {
    let machine = Machine::parse("2F2S,mem_ns=300,branch_ns=250:250:395:395,l2_ns=50,sockets=2").unwrap();
    assert_eq!(machine.plugin_args(), "mips=60:60:24:24,mem_ns=300,branch_ns=250:250:395:395,l2_ns=50");
    assert_eq!(machine.smp_args(), "4,sockets=2,cores=2,threads=1");
    assert_eq!(machine.total_mips_milli(), 168_000);
}

#[test]
fn every_error_is_one_line_and_names_the_part() {
    for (text, part) in [
        ("", "\"\""),
        ("fast", "fast"),
        ("60:", "60:"),
        ("0", "\"0\""),
        ("60:99999999999", "99999999999"),
        ("60.1234", "60.1234"),
        ("60x0", "repeat count"),
        ("60x65", "repeat count"),
        ("60x40:24x40", "64 CPUs"),
        ("-5", "-5"),
        ("2F2S,mem_ns", "mem_ns"),
        ("2F2S,mem_ns=x", "mem_ns"),
        ("2F2S,mem_ns=1,mem_ns=2", "twice"),
        ("2F2S,colour=red", "colour"),
        ("2F2S,branch_ns=1:2", "branch_ns"),
        ("2F2S,sockets=3", "sockets"),
        ("2F2S,threads=8", "threads"),
    ] {
        let error = Machine::parse(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
        assert!(!error.contains('\n'), "{text}: {error}");
    }
}

fn any_machine() -> impl Strategy<Value = Machine> {
    (1usize..=8, 1u32..=2, 1u32..=2).prop_flat_map(|(cores, sockets, threads)| {
        let cpus = cores * (sockets * threads) as usize;
        let list = || prop_oneof![Just(Vec::new()), prop::collection::vec(0..=MAX_PENALTY_NS, cpus)];
        (
            prop::collection::vec(MIN_MIPS_MILLI..=MAX_MIPS_MILLI, cpus),
            prop::option::of(0..=MAX_PENALTY_NS),
            prop::option::of(0..=MAX_PENALTY_NS),
            list(),
            list(),
        )
            .prop_map(move |(mips_milli, mem_ns, llc_ns, branch_ns, l2_ns)| Machine {
                mips_milli,
                mem_ns,
                llc_ns,
                branch_ns,
                l2_ns,
                sockets,
                threads,
            })
    })
}

proptest! {
    #[test]
    fn writing_and_reading_give_the_same_machine(machine in any_machine()) {
        prop_assert_eq!(Machine::parse(&machine.to_string()).unwrap(), machine);
    }

    #[test]
    fn any_text_is_a_valid_machine_or_one_line(text in "[0-9a-zA-Z:.,=x_-]{0,40}") {
        match Machine::parse(&text) {
            Ok(machine) => {
                prop_assert!((1..=MAX_CPUS).contains(&machine.cpus()));
                prop_assert!(machine.mips_milli.iter().all(|mips| (MIN_MIPS_MILLI..=MAX_MIPS_MILLI).contains(mips)));
            }
            Err(error) => prop_assert_eq!(error.to_string().lines().count(), 1),
        }
    }
}
