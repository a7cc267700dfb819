// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Programs of other projects, as Debian packages them: `program:NAME`.
//!
//! # Problem
//! Loops made for a scheduler may flatter it. Users run compilers, servers and locks.
//!
//! # Approach
//! Each program does about a second of work on eight CPUs of 600 and 240 MIPS, whose time is not
//! stretched. Programs that measure themselves are judged by their own figure, others by their
//! time. Files and libraries are in the guest's memory. Servers and their clients share a command,
//! so that both end with it.
//!
//! # Limits
//! Without the VM, the programs must be installed. Figures depend on their versions.

use super::Description;
use super::command::{AnyCommand, Around, Needs};
use std::collections::BTreeSet;

/// Entry of the programs in [`super::list`].
pub const DESCRIPTION: Description = Description {
    name: "program",
    syntax: "program:NAME such as program:xz; NAME is nginx, redis, sysbench, hackbench, xz, compile, openssl, \
             zstd, 7zip, python, sqlite, hackbench-pipes, cyclictest, switch or yield",
    measures: "a Debian program with about a second of work: its time, and its own figure if it has one",
    metrics: &["time_ms", "cpu_ms", "switches_per_s"],
    with_pmu: &[],
};

/// A program that users have.
pub struct Packaged {
    /// Name of the cell after `program:`.
    pub name: &'static str,
    needs: Needs,
    /// Command that makes its input, once.
    prepare: &'static str,
    command: &'static str,
    /// Figures in its output, in the syntax of --metric.
    metrics: &'static [&'static str],
}

/// Data to compress: libraries of the root.
const DATA: &str = "[ -e /tmp/data ] || cat /usr/lib/*/lib[a-m]*.so.* | head -c 6000000 >/tmp/data";

/// Configuration of nginx, written once.
const NGINX: &str = "[ -e /tmp/nginx.conf ] || echo 'worker_processes 4; pid /tmp/nginx.pid; daemon off; \
    error_log /tmp/nginx.log; events { worker_connections 256; } http { access_log off; \
    server { listen 8080; location / { return 200 \"hello\"; } } }' >/tmp/nginx.conf";

/// Twelve C files, written once.
const C_FILES: &str = "[ -d /tmp/c ] || { mkdir /tmp/c && for i in 1 2 3 4 5 6 7 8 9 10 11 12; do \
    { echo '#include <stdio.h>'; for j in 1 2 3 4 5 6 7 8; do \
    echo \"int f$j(int n) { int s = 0; for (int i = 0; i < n; i++) s += i % ($j + 3) * printf(\\\"%d\\\", s); return s; }\"; \
    done; } >/tmp/c/$i.c; done; }";

/// All programs, those of the quick suite first.
pub const PROGRAMS: &[Packaged] = &[
    Packaged {
        name: "nginx",
        needs: Needs { runs: &["nginx", "wrk"], packages: &["nginx", "wrk"] },
        prepare: NGINX,
        command: "nginx -c /tmp/nginx.conf & sleep 0.3; wrk -t2 -c16 -d1s --latency http://127.0.0.1:8080/ | \
            sed -E 's/ ([0-9.]+)us$/ \\1 us/; s/ ([0-9]+)[.]([0-9][0-9])ms$/ \\1\\20 us/'",
        metrics: &[
            r"Requests/sec: +(?<requests>[0-9.]+):better=higher",
            r"99% +(?<p99_us>[0-9.]+) us:better=lower",
        ],
    },
    Packaged {
        name: "redis",
        needs: Needs {
            runs: &["redis-server", "redis-benchmark"],
            packages: &["redis-server", "redis-tools"],
        },
        prepare: "true",
        command: "redis-server --port 7000 --save '' >/dev/null & sleep 0.3; \
            redis-benchmark -p 7000 -c 16 -n 15000 -t set,get --csv",
        metrics: &[r#""SET","(?<set>[0-9.]+)":better=higher"#, r#""GET","(?<get>[0-9.]+)":better=higher"#],
    },
    Packaged {
        name: "sysbench",
        needs: Needs { runs: &["sysbench"], packages: &["sysbench"] },
        prepare: "true",
        command: "sysbench threads --threads=8 --events=600 --time=0 run",
        metrics: &[r"total time: +(?<seconds>[0-9.]+)s:better=lower"],
    },
    Packaged {
        name: "hackbench",
        needs: Needs { runs: &["hackbench"], packages: &["rt-tests"] },
        prepare: "true",
        command: "hackbench -g 2 -l 400 -f 8",
        metrics: &[],
    },
    Packaged {
        name: "xz",
        needs: Needs { runs: &["xz"], packages: &["xz-utils"] },
        prepare: DATA,
        command: "xz -T4 --block-size=500000 -1 -c /tmp/data >/dev/null",
        metrics: &[],
    },
    Packaged {
        name: "compile",
        needs: Needs { runs: &["gcc"], packages: &["gcc", "libc6-dev"] },
        prepare: C_FILES,
        command: "cd /tmp/c && ls *.c | xargs -P6 -n1 gcc -O2 -c -o /dev/null",
        metrics: &[],
    },
    Packaged {
        name: "openssl",
        needs: Needs { runs: &["openssl"], packages: &["openssl"] },
        prepare: DATA,
        command: "for i in 1 2 3 4 5 6; do openssl dgst -sha256 /tmp/data & done; wait",
        metrics: &[],
    },
    Packaged {
        name: "zstd",
        needs: Needs { runs: &["zstd"], packages: &["zstd"] },
        prepare: DATA,
        command: "zstd -q -T4 -B500000 -9 -c /tmp/data >/dev/null",
        metrics: &[],
    },
    Packaged {
        name: "7zip",
        needs: Needs { runs: &["7zz"], packages: &["7zip"] },
        prepare: "true",
        command: "7zz b 1 -md18 -mmt4",
        metrics: &[r"Tot: +[0-9]+ +[0-9]+ +(?<mips>[0-9]+):better=higher"],
    },
    Packaged {
        name: "python",
        needs: Needs { runs: &["python3"], packages: &["python3-minimal"] },
        prepare: "true",
        command: "for i in 1 2 3 4; do python3 -c 'print(sum(i * i % 7 for i in range(300000)))' & done; wait",
        metrics: &[],
    },
    Packaged {
        name: "sqlite",
        needs: Needs { runs: &["sqlite3"], packages: &["sqlite3"] },
        prepare: "true",
        command: "for i in 1 2 3 4; do sqlite3 :memory: 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 \
            FROM n WHERE i < 60000) SELECT count(*), sum(i * 7919 % 5000) FROM n;' & done; wait",
        metrics: &[],
    },
    Packaged {
        name: "hackbench-pipes",
        needs: Needs { runs: &["hackbench"], packages: &["rt-tests"] },
        prepare: "true",
        command: "hackbench -p -g 2 -l 400 -f 8",
        metrics: &[],
    },
    Packaged {
        name: "cyclictest",
        needs: Needs { runs: &["cyclictest"], packages: &["rt-tests"] },
        prepare: "true",
        command: "cyclictest -q -t 4 -i 1000 -l 800 --policy=other | sort -t: -k2 | tail -n 1",
        metrics: &[r"Avg: +(?<mean_us>[0-9]+):better=lower", r"Max: +(?<most_us>[0-9]+):better=lower"],
    },
    Packaged {
        name: "switch",
        needs: Needs { runs: &["stress-ng"], packages: &["stress-ng"] },
        prepare: "true",
        command: "stress-ng --switch 4 -t 1 --metrics",
        metrics: &[r"switch +[0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +(?<switches>[0-9.]+):better=higher"],
    },
    Packaged {
        name: "yield",
        needs: Needs { runs: &["stress-ng"], packages: &["stress-ng"] },
        prepare: "true",
        command: "stress-ng --yield 8 -t 1 --metrics",
        metrics: &[r"yield +[0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +(?<yields>[0-9.]+):better=higher"],
    },
];

/// Return the program of a cell.
fn named(text: &str) -> Option<&'static Packaged> {
    let name = text.strip_prefix("program:")?;
    PROGRAMS.iter().find(|program| program.name == name)
}

/// Parse the text form.
pub fn parse(text: &str) -> Option<AnyCommand> {
    let program = named(text)?;
    let metrics = program.metrics.iter().filter_map(|text| text.parse().ok()).collect();
    let around = Around { prepare: Some(program.prepare.into()), metrics, ..Around::default() };
    Some(AnyCommand::packaged(text, program.command, around, program.needs))
}

/// Return the packages of the programs among these workloads.
pub fn packages<'a>(workloads: impl Iterator<Item = &'a str>) -> Vec<String> {
    let all: BTreeSet<&str> = workloads.filter_map(named).flat_map(|it| it.needs.packages).copied().collect();
    all.into_iter().map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::super::command::Printed;
    use super::*;

    #[test]
    fn every_program_parses_and_is_listed() {
        for program in PROGRAMS {
            let figures = program.metrics.iter().filter(|text| text.parse::<Printed>().is_ok()).count();
            assert_eq!(figures, program.metrics.len(), "{}", program.name);
            let Needs { runs, packages } = program.needs;
            assert!(!packages.is_empty() && !runs.is_empty(), "{}", program.name);
            assert!(DESCRIPTION.syntax.contains(program.name), "{}", program.name);
        }
        let found = |text: &str, output: &str| text.parse::<Printed>().unwrap().find(output);
        let redis = &PROGRAMS[1].metrics;
        assert_eq!(found(redis[0], "\"SET\",\"34482.76\",\"0.2\"\n\"GET\",\"1.5\""), Some(34_482.76));
        assert_eq!(found(PROGRAMS[0].metrics[1], "     99%  760.00 us\n"), Some(760.0));
    }

    #[test]
    fn packages_are_those_of_the_programs() {
        let cells = ["program:redis", "4compute", "program:hackbench", "program:hackbench-pipes"];
        assert_eq!(packages(cells.into_iter()), ["redis-server", "redis-tools", "rt-tests"]);
    }
}
