// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Named machines and the help text on machines. [`crate::Machine::parse`] accepts what both
//! describe.

/// Named machines: name, text, purpose.
pub const PRESETS: &[(&str, &str, &str)] = &[
    ("2F2S", "60:60:24:24", "two fast, two slow: the usual machine"),
    ("1F3S", "60:24:24:24", "one fast, three slow"),
    ("1F2S", "60:24:24", "one fast, two slow"),
    ("4F4S", "60x4:24x4", "four fast, four slow"),
    ("NEAR", "60:58:56:54", "a symmetric part whose cores differ by a few percent"),
    ("SYM", "60x4", "all equal: the scheduler must find one class"),
    ("P2E4", "60x4:24:-:24:-:24:-:24:-,threads=2", "two fast cores with two threads each, four slow cores"),
    ("PELP", "60x2:36x4:18x2", "three types of core: two, four and two"),
    ("SPLIT", "60x4:24x4,llcs=2", "four fast under one last-level cache, four slow under another"),
    ("2S", "60x8,nodes=2,remote_ns=360", "two nodes of four CPUs"),
    ("2S4", "60x4:57.6x4,nodes=2,remote_ns=360", "two nodes, one 4 % slower"),
    ("BIG", "60x32:24x32,llcs=2", "64 CPUs: 32 fast, 32 slow"),
    ("DVFS", "60:60:24:24,branch_cycles=15,l2_cycles=3", "slow CPUs are fast ones at a lower clock"),
    (
        "1UOP",
        "60:60:24:24,branch_ns=250,l2_ns=50",
        "slow CPUs have the fast ones' clock and retire one micro-operation per cycle",
    ),
    (
        "INORDER",
        "60:60:24:24,branch_ns=150,l2_ns=50:50:125:125,llc_ns=150:150:250:250,mem_ns=600:600:840:840",
        "slow CPUs execute in order: short pipelines, but no load is hidden behind others",
    ),
];

/// Help text on the syntax of a machine.
pub const SPEC_HELP: &str = "\
SPEC is speeds in MIPS or a preset, then any of the options below, separated by commas.

  60:57.5:24x2        one speed per CPU; 24x2 is 24:24; - is a thread that its core does not have
  NAME_cycles=N       penalty in cycles of the CPU's clock: a lower clock makes it longer
  NAME_ns=N           penalty in ns, whatever the clock. One value, or one per CPU (600:600:840:840). NAME:
                        pause     a PAUSE, which code that spins repeats              (140 cycles)
                        branch    a mispredicted branch                     (15 cycles; less on slower CPUs)
                        l2        an access that misses L1 and hits L2      (3 cycles; less on slower CPUs)
                        llc       an access that hits the last-level cache  (150 ns at 60 MIPS, 15 at 600)
                        mem       an access to memory                       (600 ns at 60 MIPS, 80 at 450)
                        remote    additional cost of another node's memory  (0)
                        transfer  a line from another CPU's cache. Tracks every access, which takes the host
                                  several times as long; amp/transfers/ counts them. 0 only counts
  l1= l2= llc=        BYTES/WAYS of the caches (8192/4, 65536/8, 262144/16); llc= one value, or one per cache
  llcs=N              last-level caches (one a node), or the number of cores that each has (2+10). The guest sees
                      each as a socket
  threads=N           hardware threads of a core (1); they share L1 and L2
  smt_share=X         speed of a thread whose sibling is busy, of its own (0.62)
  boost=X[:X...]      speed of the CPUs, of their own, while 1, 2, ... of them are busy (1)
  nodes=N             nodes with memory of their own (1)
  bandwidth_mb_s=N    bandwidth of each node's memory, million bytes a second (0: no limit)
  quantum_us=N        quantum of virtual time, the delay of interrupts between running CPUs (12000 instructions of
                      the fastest CPU, 20 to 200 us). Shorter is finer and takes the host longer";
