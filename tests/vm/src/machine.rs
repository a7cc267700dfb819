//! What the asymmetric VM looks like: one speed per CPU, the price of a miss, the topology.
//!
//! Problem: every scenario, the demo and the command line must name the same machines in the same
//! words, and a typing error must not become a strange measurement.
//!
//! Approach: a machine is a short text, `60:60:24:24,mem_ns=300`, or a preset, `2F2S,mem_ns=300`.
//! [`Machine::parse`] is the only way in, and [`Machine`]'s `Display` writes the text back.
//!
//! Invariants (property-tested): parsing the written form gives the same machine; every machine has 1 to
//! [`MAX_CPUS`] CPUs, each between [`MIN_MIPS_MILLI`] and [`MAX_MIPS_MILLI`].
//!
//! Limits: the text does not tell how long the host takes for a second of the machine: the faster
//! its CPUs, the longer.

use std::fmt;

/// Most vCPUs a machine may have: the size of the page shared with the guest.
pub const MAX_CPUS: usize = 64;
/// Slowest vCPU, in thousandths of a MIPS: below this the guest's own timer tick eats the CPU.
pub const MIN_MIPS_MILLI: u32 = 1_000;
/// Fastest vCPU, in thousandths of a MIPS: no emulation reaches this with every access modelled.
pub const MAX_MIPS_MILLI: u32 = 10_000_000;
/// Longest penalty of one miss, in nanoseconds.
pub const MAX_PENALTY_NS: u32 = 1_000_000;

/// Named machines: name, speeds, what it is for.
pub const PRESETS: &[(&str, &str, &str)] = &[
    ("2F2S", "60:60:24:24", "two fast, two slow: the usual machine"),
    ("1F3S", "60:24:24:24", "one fast, three slow"),
    ("1F2S", "60:24:24", "one fast, two slow"),
    ("4F4S", "60:60:60:60:24:24:24:24", "four fast, four slow; takes twice as long as 2F2S"),
    ("NEAR", "60:58:56:54", "a symmetric part whose cores differ by a few percent"),
    ("SYM", "60:60:60:60", "all equal: the scheduler must find one class"),
];

/// A machine the emulation can be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Speed of each vCPU, in thousandths of a million instructions per second.
    pub mips_milli: Vec<u32>,
    /// Time of a load that misses every cache, in nanoseconds; `None` leaves the plugin's default.
    pub mem_ns: Option<u32>,
    /// Time of a load that hits the last-level cache, in nanoseconds; `None` leaves the default.
    pub llc_ns: Option<u32>,
    /// Time of a mispredicted branch in nanoseconds, one for all vCPUs or one each; empty leaves the default.
    pub branch_ns: Vec<u32>,
    /// Time of a load that hits the vCPU's L2, in nanoseconds, one for all or one each; empty leaves the default.
    pub l2_ns: Vec<u32>,
    /// Number of sockets; the vCPUs are dealt out evenly, in order.
    pub sockets: u32,
    /// Hardware threads a core.
    pub threads: u32,
}

/// What is wrong with a machine's text, in one line that says how to mend it.
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

impl Machine {
    /// Reads a machine's text: `MIPS[:MIPS...]` or a preset, then optional `,key=value`.
    ///
    /// Speeds take up to three decimals and a repeat count (`60x4` is four times 60). Keys: `mem_ns`,
    /// `llc_ns` (one value), `branch_ns`, `l2_ns` (one value or one per CPU, separated by `:`), `sockets`, `threads`.
    ///
    /// # Errors
    /// Anything else, in one line naming the part that is wrong.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parts = text.split(',');
        let speeds = parts.next().unwrap_or_default().trim();
        let preset = PRESETS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(speeds));
        let mut machine = Self {
            mips_milli: parse_speeds(preset.map_or(speeds, |(_, speeds, _)| speeds))?,
            mem_ns: None,
            llc_ns: None,
            branch_ns: Vec::new(),
            l2_ns: Vec::new(),
            sockets: 1,
            threads: 1,
        };
        let mut seen = Vec::new();
        for part in parts {
            let Some((key, value)) = part.trim().split_once('=') else {
                return fail(format!(
                    "machine option \"{part}\" is not key=value; write for example mem_ns=300"
                ));
            };
            if seen.contains(&key) {
                return fail(format!("machine option {key} is given twice; keep one"));
            }
            seen.push(key);
            machine.set(key, value)?;
        }
        machine.check_topology()?;
        Ok(machine)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let cpus = self.mips_milli.len();
        match key {
            "mem_ns" => self.mem_ns = Some(parse_number(key, value, 0, MAX_PENALTY_NS)?),
            "llc_ns" => self.llc_ns = Some(parse_number(key, value, 0, MAX_PENALTY_NS)?),
            "branch_ns" => self.branch_ns = parse_list(key, value, cpus)?,
            "l2_ns" => self.l2_ns = parse_list(key, value, cpus)?,
            "sockets" => self.sockets = parse_number(key, value, 1, 64)?,
            "threads" => self.threads = parse_number(key, value, 1, 8)?,
            _ => {
                return fail(format!(
                    "machine option \"{key}\" is unknown; known: mem_ns, llc_ns, branch_ns, l2_ns, sockets, threads"
                ));
            }
        }
        Ok(())
    }

    fn check_topology(&self) -> Result<()> {
        let cpus = self.mips_milli.len();
        if !cpus.is_multiple_of((self.sockets * self.threads) as usize) {
            return fail(format!(
                "{cpus} CPUs cannot be dealt out to {} socket(s) of {}-thread cores; sockets x threads must divide {cpus}",
                self.sockets, self.threads
            ));
        }
        Ok(())
    }

    /// Number of vCPUs.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.mips_milli.len()
    }

    /// Sum of the vCPUs' speeds, in thousandths of a MIPS: what the host executes for a second of
    /// the busy machine.
    #[must_use]
    pub fn total_mips_milli(&self) -> u64 {
        self.mips_milli.iter().map(|&mips| u64::from(mips)).sum()
    }

    /// The machine as arguments of the QEMU plugin, beginning with `mips=`.
    #[must_use]
    pub fn plugin_args(&self) -> String {
        let mut args = format!("mips={}", join(self.mips_milli.iter().map(|&mips| text_mips(mips))));
        for (key, value) in [("mem_ns", self.mem_ns), ("llc_ns", self.llc_ns)] {
            if let Some(value) = value {
                args += &format!(",{key}={value}");
            }
        }
        for (key, list) in [("branch_ns", &self.branch_ns), ("l2_ns", &self.l2_ns)] {
            if !list.is_empty() {
                args += &format!(",{key}={}", join(list.iter().map(u32::to_string)));
            }
        }
        args
    }

    /// The machine as the value of QEMU's `-smp`.
    #[must_use]
    pub fn smp_args(&self) -> String {
        let cpus = self.cpus();
        let cores = cpus / (self.sockets * self.threads) as usize;
        format!("{cpus},sockets={},cores={cores},threads={}", self.sockets, self.threads)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args = self.plugin_args();
        f.write_str(args.strip_prefix("mips=").unwrap_or(&args))?;
        if self.sockets != 1 {
            write!(f, ",sockets={}", self.sockets)?;
        }
        if self.threads != 1 {
            write!(f, ",threads={}", self.threads)?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Machine {
    type Err = SpecError;
    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

fn join(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(":")
}

/// A speed as text: `60`, `57.5`.
pub(crate) fn text_mips(mips_milli: u32) -> String {
    let (whole, rest) = (mips_milli / 1000, mips_milli % 1000);
    if rest == 0 { whole.to_string() } else { format!("{whole}.{rest:03}").trim_end_matches('0').to_string() }
}

fn check_speed(mips_milli: u32, text: &str) -> Result<()> {
    if (MIN_MIPS_MILLI..=MAX_MIPS_MILLI).contains(&mips_milli) {
        return Ok(());
    }
    fail(format!(
        "CPU speed \"{text}\" is outside {} to {} MIPS",
        MIN_MIPS_MILLI / 1000,
        MAX_MIPS_MILLI / 1000
    ))
}

fn parse_speeds(text: &str) -> Result<Vec<u32>> {
    let mut speeds = Vec::new();
    for item in text.split(':') {
        let (speed, count) = item.split_once('x').unwrap_or((item, "1"));
        let count = parse_number("repeat count", count, 1, 64)?;
        let Some(mips_milli) = parse_milli(speed) else {
            let names: Vec<_> = PRESETS.iter().map(|(name, ..)| *name).collect();
            return fail(format!(
                "\"{item}\" in machine \"{text}\" is neither a speed in MIPS (such as 60) nor a preset ({})",
                names.join(", ")
            ));
        };
        check_speed(mips_milli, speed)?;
        speeds.extend(std::iter::repeat_n(mips_milli, count as usize));
        if speeds.len() > MAX_CPUS {
            return fail(format!("machine \"{text}\" has more than {MAX_CPUS} CPUs; name fewer"));
        }
    }
    Ok(speeds)
}

/// Reads a decimal number with up to three decimals, in thousandths.
fn parse_milli(text: &str) -> Option<u32> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(whole) || !all_digits(decimals) || decimals.len() > 3 {
        return None;
    }
    let whole: u32 = whole.parse().ok()?;
    let decimals: u32 = format!("{decimals:0<3}").parse().ok()?;
    whole.checked_mul(1000)?.checked_add(decimals)
}

fn parse_number(key: &str, text: &str, min: u32, max: u32) -> Result<u32> {
    match text.trim().parse() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => fail(format!("{key} \"{text}\" is not a whole number from {min} to {max}")),
    }
}

fn parse_list(key: &str, text: &str, cpus: usize) -> Result<Vec<u32>> {
    let list: Vec<_> =
        text.split(':').map(|item| parse_number(key, item, 0, MAX_PENALTY_NS)).collect::<Result<_>>()?;
    if list.len() != 1 && list.len() != cpus {
        return fail(format!("{key} names {} values for {cpus} CPUs; give one, or one per CPU", list.len()));
    }
    Ok(list)
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
