//! Description of an asymmetric VM: speeds and penalties of its CPUs, caches, cores, sockets and
//! nodes.
//!
//! # Problem
//!
//! Scenarios, the demo, the command line and the plugin must use the same names for the same
//! machines. A typing error must not lead to a strange measurement.
//!
//! # Approach
//!
//! A machine is a short text, `60:60:24:24,mem_ns=300`, or a preset, `2F2S,mem_ns=300`.
//! [`Machine::parse`] is the only constructor. `Display` writes the text with the preset spelt out,
//! and the plugin gets this form.
//!
//! A *slot* is a hardware thread that the topology has room for. QEMU's cores all have the same
//! number of threads. A `-` leaves a slot empty, so that fast cores can have two threads and slow
//! ones one. The guest numbers the slots that are not empty.
//!
//! # Invariants
//!
//! These are tested, most of them as properties.
//!
//! * Parsing the written form gives the same machine.
//! * Slots are divided evenly among cores, caches, sockets and nodes.
//! * The threads of a core are equal.
//! * Each number is within the range that its message states.

use std::fmt;
use std::str::FromStr;

use crate::presets::PRESETS;
use crate::{MAX_MIPS_MILLI, MAX_VCPUS};

/// Lowest speed of a CPU, in thousandths of a MIPS. On a slower CPU the guest's own timer tick
/// would take all of the time.
pub const MIN_SPEC_MIPS_MILLI: u32 = 1_000;
/// Longest penalty in ns. With a longer one a CPU would miss its own watchdogs.
const MAX_PENALTY_NS: u32 = 1_000_000;
/// Longest penalty in cycles.
const MAX_PENALTY_CYCLES: u32 = 1_000_000;
/// Size of a cache line in bytes.
pub const LINE_BYTES: usize = 64;
/// Maximum number of ways of a cache. The search for a victim is linear.
pub const MAX_WAYS: usize = 32;
const MAX_CACHE_BYTES: usize = 64 << 20;

/// Default penalties of the fastest CPU, in thousandths of a cycle.
const BRANCH_MILLI: f64 = 15_000.0;
const L2_MILLI: f64 = 3_000.0;
/// Default penalties in ns: the value at 60 MIPS and the minimum. They shrink with the cycle of the
/// fastest CPU, down to a minimum that real machines need.
const LLC_NS: (f64, f64) = (150.0, 15.0);
const MEM_NS: (f64, f64) = (600.0, 80.0);
/// Speed to which the default penalties apply [MIPS].
const BASE_MIPS: f64 = 60.0;
/// Default length of a quantum in instructions of the fastest CPU, and the range of that default in
/// us.
const QUANTUM_INSNS: u32 = 12_000;
const QUANTUM_US: std::ops::RangeInclusive<u32> = 20..=200;

/// Cost of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Penalty {
    /// Cycles of the CPU's clock. A lower clock makes the penalty longer.
    Cycles {
        /// Thousandths of a cycle.
        milli: u32,
    },
    /// Nanoseconds, independent of the clock.
    Ns(u32),
}

/// Size and associativity of one cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Size in bytes.
    pub bytes: usize,
    /// Ways of each set.
    pub ways: usize,
}

impl Geometry {
    /// Return the number of sets, a power of two for every parsed geometry.
    #[must_use]
    pub fn sets(self) -> usize {
        self.bytes / LINE_BYTES / self.ways.max(1)
    }
}

/// Speed and penalties of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VcpuSpec {
    /// Speed in MIPS/1000.
    pub mips_milli: u32,
    /// Penalty of a mispredicted branch.
    pub branch: Penalty,
    /// Penalty of an L1 miss that hits L2.
    pub l2: Penalty,
    /// Penalty of an L2 miss that hits the last-level cache.
    pub llc: Penalty,
    /// Penalty of a last-level miss.
    pub mem: Penalty,
    /// Additional penalty of a miss that another node's memory serves.
    pub remote: Penalty,
    /// Penalty of a line that comes from another CPU's cache.
    pub transfer: Penalty,
}

/// A machine that the emulation can model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    text: String,
    /// One entry per slot; `None` where a core lacks this thread.
    pub slots: Vec<Option<VcpuSpec>>,
    /// First-level cache, one per core.
    pub l1: Geometry,
    /// Second-level cache, one per core.
    pub l2: Geometry,
    /// Last-level cache, one per group.
    pub llc: Geometry,
    /// Number of sockets.
    pub sockets: usize,
    /// Number of groups of slots with a last-level cache of their own.
    pub llcs: usize,
    /// Number of nodes with memory of their own.
    pub nodes: usize,
    /// Slots per core.
    pub threads: usize,
    /// Speed of a thread while its sibling is busy, in thousandths of its own.
    pub smt_share_permille: u32,
    /// Bandwidth of each node's memory in million bytes per second; 0 for no limit.
    pub bandwidth_mb_s: u32,
    /// Whether every access is tracked to find lines that CPUs take from each other.
    pub transfers: bool,
    /// Length of a quantum of virtual time in ns.
    pub quantum_ns: u32,
}

/// Error in a machine's text, in one line that also says how to correct it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError(String);

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SpecError {}

type Result<T> = std::result::Result<T, SpecError>;

fn fail<T>(text: String) -> Result<T> {
    Err(SpecError(text))
}

const KEYS: &[&str] = &[
    "branch_cycles",
    "branch_ns",
    "l2_cycles",
    "l2_ns",
    "llc_cycles",
    "llc_ns",
    "mem_cycles",
    "mem_ns",
    "remote_cycles",
    "remote_ns",
    "transfer_cycles",
    "transfer_ns",
    "l1",
    "l2",
    "llc",
    "threads",
    "smt_share",
    "sockets",
    "llcs",
    "nodes",
    "bandwidth_mb_s",
    "quantum_us",
];

/// The options of one text.
struct Options<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Options<'a> {
    fn read(parts: impl Iterator<Item = &'a str>) -> Result<Self> {
        let mut list: Vec<(&str, &str)> = Vec::new();
        for part in parts {
            let Some((key, value)) = part.trim().split_once('=') else {
                return fail(format!(
                    "machine option \"{part}\" is not key=value; write for example mem_ns=300"
                ));
            };
            if !KEYS.contains(&key) {
                return fail(format!("machine option \"{key}\" is unknown; known: {}", KEYS.join(", ")));
            }
            // The user's value replaces that of a preset.
            list.retain(|(known, _)| *known != key);
            list.push((key, value));
        }
        Ok(Self(list))
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }

    fn number(&self, key: &str, least: u32, most: u32) -> Result<Option<u32>> {
        self.get(key).map(|value| number(key, value, least, most)).transpose()
    }

    /// Return one penalty per slot from `NAME_cycles` or `NAME_ns`, which has one value or one per
    /// slot.
    fn penalties(&self, name: &str, slots: usize) -> Result<Option<Vec<Penalty>>> {
        let (cycles, ns) = (format!("{name}_cycles"), format!("{name}_ns"));
        let (key, value) = match (self.get(&cycles), self.get(&ns)) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                return fail(format!("machine options {cycles} and {ns} exclude each other; keep one"));
            }
            (Some(value), None) => (&cycles, value),
            (None, Some(value)) => (&ns, value),
        };
        let one = |text| match key == &ns {
            true => number(key, text, 0, MAX_PENALTY_NS).map(Penalty::Ns),
            false => match milli(text).filter(|milli| *milli <= MAX_PENALTY_CYCLES * 1000) {
                Some(milli) => Ok(Penalty::Cycles { milli }),
                None => fail(format!(
                    "machine option {key}={text} is not a number of cycles, 0 to {MAX_PENALTY_CYCLES}"
                )),
            },
        };
        let list = value.split(':').map(one).collect::<Result<Vec<_>>>()?;
        match list.as_slice() {
            [single] => Ok(Some(vec![*single; slots])),
            many if many.len() == slots => Ok(Some(list)),
            many => fail(format!("machine option {key} has {} values; give one, or {slots}", many.len())),
        }
    }

    fn geometry(&self, key: &str, bytes: usize, ways: usize) -> Result<Geometry> {
        let Some(value) = self.get(key) else { return Ok(Geometry { bytes, ways }) };
        let parsed = value.split_once('/').and_then(|(bytes, ways)| {
            Some(Geometry { bytes: bytes.parse().ok()?, ways: ways.parse().ok()? })
        });
        let whole = |g: &Geometry| {
            (1..=MAX_WAYS).contains(&g.ways)
                && g.bytes <= MAX_CACHE_BYTES
                && g.sets().is_power_of_two()
                && g.sets() * g.ways * LINE_BYTES == g.bytes
        };
        match parsed.filter(whole) {
            Some(geometry) => Ok(geometry),
            None => fail(format!(
                "machine option {key}={value} is not BYTES/WAYS with a power of two of 64-byte sets, e.g. {key}=65536/8"
            )),
        }
    }
}

impl Machine {
    /// Parse a machine's text: `MIPS[:MIPS...]` or a preset, then optional `,key=value`.
    ///
    /// [`SPEC_HELP`] explains speeds and keys.
    ///
    /// # Errors
    ///
    /// One line that names the part that is wrong.
    pub fn parse(text: &str) -> Result<Self> {
        let (first, rest) = text.split_once(',').unwrap_or((text, ""));
        let preset = PRESETS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(first.trim()));
        let full = preset.map_or(first.trim(), |(_, text, _)| text);
        let (speeds, preset_options) = full.split_once(',').unwrap_or((full, ""));
        let parts = preset_options.split(',').chain(rest.split(',')).filter(|part| !part.trim().is_empty());
        let options = Options::read(parts)?;
        let written: Vec<_> = options.0.iter().map(|(key, value)| format!(",{key}={value}")).collect();
        let mips = parse_speeds(speeds)?;
        Self::build(format!("{speeds}{}", written.concat()), &mips, &options)
    }

    fn build(text: String, mips: &[Option<u32>], options: &Options<'_>) -> Result<Self> {
        let fastest = mips.iter().flatten().copied().max().unwrap_or(MIN_SPEC_MIPS_MILLI);
        let quantum_us = options.number("quantum_us", 1, 10_000)?;
        let nodes = options.number("nodes", 1, MAX_VCPUS as u32)?.unwrap_or(1) as usize;
        let sockets = options.number("sockets", 1, MAX_VCPUS as u32)?.map_or(nodes, |n| n as usize);
        let machine = Self {
            text,
            slots: slots(mips, fastest, options)?,
            l1: options.geometry("l1", 8 << 10, 4)?,
            l2: options.geometry("l2", 64 << 10, 8)?,
            llc: options.geometry("llc", 256 << 10, 16)?,
            sockets,
            llcs: options.number("llcs", 1, MAX_VCPUS as u32)?.map_or(sockets, |n| n as usize),
            nodes,
            threads: options.number("threads", 1, 8)?.unwrap_or(1) as usize,
            smt_share_permille: share(options.get("smt_share").unwrap_or("0.62"))?,
            bandwidth_mb_s: options.number("bandwidth_mb_s", 0, 1_000_000)?.unwrap_or(0),
            transfers: options.penalties("transfer", 1)?.is_some(),
            quantum_ns: 1000 * quantum_us.unwrap_or_else(|| default_quantum_us(fastest)),
        };
        machine.check_topology()?;
        Ok(machine)
    }

    fn check_topology(&self) -> Result<()> {
        let slots = self.slots.len();
        for (what, groups) in
            [("node", self.nodes), ("socket", self.sockets), ("last-level cache", self.llcs)]
        {
            if !slots.is_multiple_of(groups * self.threads) {
                return fail(format!(
                    "{slots} CPUs cannot be dealt out to {groups} {what}(s) of {}-thread cores; their product must divide {slots}",
                    self.threads
                ));
            }
        }
        if !self.sockets.is_multiple_of(self.nodes) || !self.llcs.is_multiple_of(self.sockets) {
            return fail(format!(
                "{} nodes, {} sockets and {} last-level caches do not nest; each number must be a multiple of the one before",
                self.nodes, self.sockets, self.llcs
            ));
        }
        for (number, core) in self.slots.chunks(self.threads).enumerate() {
            let Some(Some(first)) = core.first() else {
                return fail(format!(
                    "core {number} has no first thread; only later threads can be left out with -"
                ));
            };
            if core.iter().flatten().any(|thread| thread != first) {
                return fail(format!(
                    "the threads of core {number} differ; give siblings one speed and the same penalties"
                ));
            }
        }
        if self.cpus() < slots && self.nodes > 1 {
            return fail("a machine with several nodes cannot leave threads out; drop - or nodes".into());
        }
        Ok(())
    }

    /// Return the number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Return the sum of the CPUs' speeds in thousandths of a MIPS. The host executes this much for
    /// each virtual second of full load.
    #[must_use]
    pub fn total_mips_milli(&self) -> u64 {
        self.slots.iter().flatten().map(|cpu| u64::from(cpu.mips_milli)).sum()
    }

    /// Return the machine as arguments of the QEMU plugin.
    #[must_use]
    pub fn plugin_args(&self) -> String {
        format!("mips={}", self.text)
    }

    /// Return the topology as the value of QEMU's `-smp`. If slots are empty, only the first CPU is
    /// present from the start; see [`Machine::cpu_devices`].
    #[must_use]
    pub fn smp_args(&self) -> String {
        let slots = self.slots.len();
        let dies = self.llcs / self.sockets;
        let cores = slots / (self.llcs * self.threads);
        let cpus = if self.cpus() == slots { format!("{slots}") } else { format!("1,maxcpus={slots}") };
        format!("{cpus},sockets={},dies={dies},cores={cores},threads={}", self.sockets, self.threads)
    }

    /// Return QEMU's `-device` values for the CPUs that `-smp` does not create. These are all but
    /// the first if slots are empty, else none.
    #[must_use]
    pub fn cpu_devices(&self, model: &str) -> Vec<String> {
        if self.cpus() == self.slots.len() {
            return Vec::new();
        }
        let per_die = self.slots.len() / self.llcs;
        let dies = self.llcs / self.sockets;
        let device = |slot: usize| {
            let (die, within) = (slot / per_die, slot % per_die);
            format!(
                "{model}-x86_64-cpu,socket-id={},die-id={},core-id={},thread-id={}",
                die / dies,
                die % dies,
                within / self.threads,
                within % self.threads
            )
        };
        let present = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_some());
        present.skip(1).map(|(slot, _)| device(slot)).collect()
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Machine {
    type Err = SpecError;
    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

/// Return the CPUs of all slots. A slower core is usually also simpler, and a flush or an L2 hit
/// costs it less than its speed suggests. By default those penalties therefore shrink in cycles
/// with the square root of the ratio of the speeds.
fn slots(mips: &[Option<u32>], fastest: u32, options: &Options<'_>) -> Result<Vec<Option<VcpuSpec>>> {
    let count = mips.len();
    let simpler = |base: f64| {
        let one = |mips: &Option<u32>| f64::from(mips.unwrap_or(fastest)) / f64::from(fastest);
        mips.iter()
            .map(|m| Penalty::Cycles { milli: (base * one(m).sqrt()).round() as u32 })
            .collect::<Vec<_>>()
    };
    let ns = |(base, least): (f64, f64)| {
        let scaled = base * BASE_MIPS * 1000.0 / f64::from(fastest);
        vec![Penalty::Ns(scaled.clamp(least, base).round() as u32); count]
    };
    let given = |name| options.penalties(name, count);
    let branch = given("branch")?.unwrap_or_else(|| simpler(BRANCH_MILLI));
    let l2 = given("l2")?.unwrap_or_else(|| simpler(L2_MILLI));
    let llc = given("llc")?.unwrap_or_else(|| ns(LLC_NS));
    let mem = given("mem")?.unwrap_or_else(|| ns(MEM_NS));
    let none = || vec![Penalty::Ns(0); count];
    let (remote, transfer) = (given("remote")?.unwrap_or_else(none), given("transfer")?.unwrap_or_else(none));
    let at = |list: &[Penalty], slot: usize| list.get(slot).copied().unwrap_or(Penalty::Ns(0));
    let one = |(slot, mips): (usize, &Option<u32>)| {
        mips.map(|mips_milli| VcpuSpec {
            mips_milli,
            branch: at(&branch, slot),
            l2: at(&l2, slot),
            llc: at(&llc, slot),
            mem: at(&mem, slot),
            remote: at(&remote, slot),
            transfer: at(&transfer, slot),
        })
    };
    Ok(mips.iter().enumerate().map(one).collect())
}

fn default_quantum_us(fastest_mips_milli: u32) -> u32 {
    let us = u64::from(QUANTUM_INSNS) * 1000 / u64::from(fastest_mips_milli.max(1));
    (us as u32).clamp(*QUANTUM_US.start(), *QUANTUM_US.end())
}

fn share(text: &str) -> Result<u32> {
    match milli(text).filter(|permille| (1..=1000).contains(permille)) {
        Some(permille) => Ok(permille),
        None => fail(format!("machine option smt_share={text} is not a share, 0.001 to 1")),
    }
}

fn number(key: &str, value: &str, least: u32, most: u32) -> Result<u32> {
    match value.trim().parse().ok().filter(|n| (least..=most).contains(n)) {
        Some(n) => Ok(n),
        None => fail(format!("machine option {key}={value} is not a number from {least} to {most}")),
    }
}

/// Return a number with up to three decimals, in thousandths.
fn milli(text: &str) -> Option<u32> {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 3 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let thousandths: u32 = format!("{fraction:0<3}").parse().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(1000)?.checked_add(thousandths)
}

fn parse_speeds(text: &str) -> Result<Vec<Option<u32>>> {
    let mut speeds = Vec::new();
    for item in text.split(':') {
        let (speed, count) = item.split_once('x').unwrap_or((item, "1"));
        let count = number("repeat count", count, 1, MAX_VCPUS as u32)?;
        let mips = match speed.trim() {
            "-" => None,
            _ => Some(parse_speed(speed, item, text)?),
        };
        speeds.extend(std::iter::repeat_n(mips, count as usize));
    }
    if speeds.len() > MAX_VCPUS {
        return fail(format!("the machine has {} CPUs; at most {MAX_VCPUS} are possible", speeds.len()));
    }
    Ok(speeds)
}

fn parse_speed(speed: &str, item: &str, text: &str) -> Result<u32> {
    match milli(speed) {
        Some(mips) if (MIN_SPEC_MIPS_MILLI..=MAX_MIPS_MILLI).contains(&mips) => Ok(mips),
        Some(_) => fail(format!(
            "CPU speed \"{speed}\" is outside {} to {} MIPS",
            MIN_SPEC_MIPS_MILLI / 1000,
            MAX_MIPS_MILLI / 1000
        )),
        None => {
            let names: Vec<_> = PRESETS.iter().map(|(name, ..)| *name).collect();
            fail(format!(
                "\"{item}\" in machine \"{text}\" is neither a speed in MIPS (such as 60) nor a preset ({})",
                names.join(", ")
            ))
        }
    }
}
