// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Arms: the schedulers and placements that a run compares.
//!
//! # Problem
//! One command line must name the default scheduler, scx_bias, a fixed placement and third-party
//! schedulers. On a machine whose time is stretched, all their time constants must be stretched
//! alike.
//!
//! # Approach
//! | arm | loads | effect |
//! |---|---|---|
//! | `default`, `default-*` | nothing | the kernel's own scheduler |
//! | `cfs`, `eevdf` | nothing | the same as `default`; CFS is the name before Linux 6.6 |
//! | `default-hybrid` | nothing | the same, in a kernel that knows its unequal cores |
//! | `best-static`, `worst-static` | nothing | pins tasks as [`super::placement`] computes |
//! | `golden-run` | nothing | pins tasks as `scx_bias exec` does |
//! | `eater-30` | nothing | slows all tasks down by a known amount |
//! | `scx_bias` | the program next to this one | a sched_ext scheduler |
//! | `NAME=COMMAND` | that command | any sched_ext scheduler |
//!
//! In a command, `{us:1000}` (also `ms`, `ns`) is a knob: its value is that time multiplied by the
//! run's stretch factor. The default scheduler has its own knobs in debugfs (see [`super::stage`]).
//!
//! # Invariants
//! Names are unique, and safe in file names and reports. An arm without a knob is recorded as
//! unstretched.

use serde::{Deserialize, Serialize};

/// Times of scx_bias that a stretch applies to, with their defaults. The gaps scale with the slice:
/// they decide how often running tasks rotate, and how far tasks of one bias may lag behind those
/// of the other.
const BIAS_TIMES_US: [(&str, u32); 4] = [
    ("--slice-us", 10_000),
    ("--rotate-gap-us", 40_000),
    ("--steal-lag-us", 40_000),
    ("--unfair-gap-us", 320_000),
];
/// Maximum length of an arm's name, characters.
const MAX_NAME: usize = 40;
/// Name of the arm whose kernel knows its unequal cores.
const HYBRID: &str = "default-hybrid";

/// Name of the default scheduler since Linux 6.6.
const EEVDF: &str = "eevdf";
/// Name of the default scheduler before Linux 6.6.
const CFS: &str = "cfs";

/// Effect of an arm on the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArmKind {
    /// The kernel's own scheduler, with free tasks.
    Default,
    /// The kernel's own scheduler, in a kernel that knows its unequal cores.
    DefaultHybrid,
    /// The kernel's own scheduler, with every task of a mix pinned where predicted throughput is
    /// best.
    BestStatic,
    /// As `BestStatic`, but where predicted throughput is worst.
    WorstStatic,
    /// The kernel's own scheduler, with every task of a mix pinned to a CPU that `scx_bias exec`
    /// chooses: golden-run of \[Reif20\].
    GoldenRun,
    /// The kernel's own scheduler, plus processes that use this share of every CPU [permille]: a
    /// known slowdown.
    Eater(u32),
    /// A sched_ext scheduler, loaded by this command, which may hold knobs in braces.
    Command(String),
}

/// One arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// Name in samples and reports.
    pub name: String,
    /// Effect of the arm.
    pub kind: ArmKind,
}

impl Arm {
    /// Return the arm that all others are compared with by default.
    pub fn baseline() -> Self {
        Arm { name: "default".into(), kind: ArmKind::Default }
    }

    /// Parse `default`, `default-hybrid`, `best-static`, `worst-static`, `golden-run`, `scx_bias`,
    /// `NAME=scx_bias OPTIONS` or `NAME=COMMAND`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, command) = match text.split_once('=') {
            Some((name, command)) => (name.trim(), Some(command.trim())),
            None => (text.trim(), None),
        };
        let valid = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(valid) {
            return Err(format!(
                "'{name}' cannot name an arm; use letters, digits, '.', '_' and '-', {MAX_NAME} at most"
            ));
        }
        let kind = match (name, command) {
            (_, Some("")) => return Err(format!("arm '{name}' has no command; write NAME='COMMAND'")),
            (_, Some(command)) => {
                stretched(command, 1.0)?;
                ArmKind::Command(with_times(command))
            }
            // An A/A comparison is written as the same arm under two names.
            ("default" | EEVDF | CFS, None) => ArmKind::Default,
            ("best-static", None) => ArmKind::BestStatic,
            ("worst-static", None) => ArmKind::WorstStatic,
            ("golden-run", None) => ArmKind::GoldenRun,
            // The host's own configuration of scx_bias must not influence the comparison.
            ("scx_bias", None) => ArmKind::Command(with_times("scx_bias --no-config")),
            (HYBRID, None) => ArmKind::DefaultHybrid,
            (other, None) if other.strip_prefix(HYBRID).is_some_and(|rest| rest.starts_with('-')) => {
                ArmKind::DefaultHybrid
            }
            (other, None) if other.starts_with("default-") => ArmKind::Default,
            (other, None) => match other.strip_prefix("eater-").map(str::parse) {
                Some(Ok(permille @ 1..=500)) => ArmKind::Eater(permille),
                Some(_) => {
                    return Err(format!(
                        "'{other}': an eater takes 1 to 500 thousandths of every CPU, e.g. eater-30"
                    ));
                }
                None => {
                    return Err(format!(
                        "unknown arm '{other}'; known are default (also default-2, ... for an A/A), cfs and eevdf (the default as well), default-hybrid (in a kernel that knows its unequal cores), scx_bias, best-static, worst-static, golden-run (pinned as scx_bias exec would), eater-30 (the default with 30 thousandths of every CPU eaten), and any scheduler as NAME='COMMAND'"
                    ));
                }
            },
        };
        Ok(Arm { name: name.into(), kind })
    }

    /// Return a remark on a name that may mislead the user, or None.
    pub fn remark(&self) -> Option<&'static str> {
        (self.name == CFS && self.kind == ArmKind::Default)
            .then_some("arm 'cfs' is the kernel's default scheduler: EEVDF, which replaced CFS in Linux 6.6")
    }

    /// Return the command with its knobs replaced. None for arms that load nothing.
    pub fn command(&self, stretch: f64) -> Option<String> {
        match &self.kind {
            // `parse` has checked the command. A wrong command from an edited file stays unchanged.
            ArmKind::Command(command) => {
                Some(stretched(command, stretch).unwrap_or_else(|_| command.clone()))
            }
            _ => None,
        }
    }

    /// Return true if the arm's time constants follow the stretch factor.
    pub fn has_knob(&self) -> bool {
        match &self.kind {
            ArmKind::Command(command) => command.contains('{'),
            _ => true,
        }
    }

    /// Return true if the arm pins the tasks of mixes. Such an arm can run mixes only.
    pub fn is_static(&self) -> bool {
        matches!(self.kind, ArmKind::BestStatic | ArmKind::WorstStatic | ArmKind::GoldenRun)
    }
}

/// Append the times to a command that runs scx_bias, unless it sets one itself.
fn with_times(command: &str) -> String {
    let program = command.split_whitespace().next().unwrap_or_default();
    let ours = program == "scx_bias" || program.ends_with("/scx_bias");
    let chosen = BIAS_TIMES_US.iter().any(|(option, _)| command.contains(option));
    let mut command = command.to_string();
    if ours && !chosen {
        for (option, us) in BIAS_TIMES_US {
            command += &format!(" {option} {{us:{us}}}");
        }
    }
    command
}

/// Replace every `{us:N}`, `{ms:N}` and `{ns:N}` by N times `stretch`, rounded, in the same unit.
fn stretched(command: &str, stretch: f64) -> Result<String, String> {
    let wrong = |knob: &str| {
        format!(
            "'{{{knob}}}' is not a knob; write a time to be stretched as {{us:1000}}, {{ms:5}} or {{ns:1000000}}"
        )
    };
    let mut out = String::new();
    let mut rest = command;
    while let Some(start) = rest.find('{') {
        let (before, knob) = (&rest[..start], &rest[start + 1..]);
        let end = knob.find('}').ok_or_else(|| wrong(knob))?;
        let number = match knob[..end].split_once(':') {
            Some(("us" | "ms" | "ns", number)) => number.parse::<u64>().map_err(|_| wrong(&knob[..end]))?,
            _ => return Err(wrong(&knob[..end])),
        };
        out.push_str(before);
        out.push_str(&((number as f64 * stretch).round() as u64).to_string());
        rest = &knob[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Parse several arms. The first one is the baseline. Return an error for equal names.
pub fn parse_all(texts: &[String]) -> Result<Vec<Arm>, String> {
    let arms: Vec<Arm> = texts.iter().map(|text| Arm::parse(text)).collect::<Result<_, _>>()?;
    for (i, arm) in arms.iter().enumerate() {
        if arms[..i].iter().any(|other| other.name == arm.name) {
            return Err(format!(
                "two arms are named '{}'; rename one with NAME='COMMAND' (default-2 for an A/A)",
                arm.name
            ));
        }
    }
    if arms.len() < 2 {
        return Err("a comparison needs two arms or more, e.g. --arms default,scx_bias".into());
    }
    Ok(arms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_arms_and_commands() {
        assert_eq!(Arm::parse("default").unwrap().kind, ArmKind::Default);
        assert_eq!(Arm::parse("default-2").unwrap().kind, ArmKind::Default);
        let remarks = ["cfs", "eevdf", "default"].map(|name| {
            let arm = Arm::parse(name).unwrap();
            assert_eq!((arm.name.as_str(), &arm.kind), (name, &ArmKind::Default));
            arm.remark()
        });
        assert_eq!(
            remarks.map(|remark| remark.is_some_and(|text| text.contains("EEVDF"))),
            [true, false, false]
        );
        assert_eq!(Arm::parse("cfs=scx_flash").unwrap().remark(), None);
        for (name, kind) in [
            ("default-hybrid", ArmKind::DefaultHybrid),
            ("default-hybrid-2", ArmKind::DefaultHybrid),
            ("default-hybrids", ArmKind::Default),
        ] {
            assert_eq!(Arm::parse(name).unwrap().kind, kind, "{name}");
        }
        let hybrid = Arm::parse("default-hybrid").unwrap();
        assert!(hybrid.has_knob() && !hybrid.is_static() && hybrid.command(1.0).is_none());
        for pinned in ["worst-static", "golden-run"] {
            assert!(Arm::parse(pinned).unwrap().is_static());
        }
        assert_eq!(Arm::parse("eater-30").unwrap().kind, ArmKind::Eater(30));
        let ours = Arm::parse("scx_bias").unwrap();
        assert_eq!(
            ours.command(5.0).unwrap(),
            "scx_bias --no-config --slice-us 50000 --rotate-gap-us 200000 --steal-lag-us 200000 --unfair-gap-us 1600000"
        );
        let own = Arm::parse("v2=/opt/scx_bias --slice-us 3 --x").unwrap();
        assert_eq!(own.command(5.0).unwrap(), "/opt/scx_bias --slice-us 3 --x");
        assert!(!own.has_knob() && ours.has_knob());
        let lavd = Arm::parse("lavd=scx_lavd --slice-max-us {us:5000} --x {ms:2}").unwrap();
        assert_eq!(lavd.command(10.0).unwrap(), "scx_lavd --slice-max-us 50000 --x 20");
    }

    #[test]
    fn mistakes_are_named_with_the_remedy() {
        for (text, remedy) in [
            ("lavd", "known are default"),
            ("a b=x", "cannot name an arm"),
            ("x=", "NAME='COMMAND'"),
            ("x=y {us:z}", "is not a knob"),
            ("x=y {us:1", "is not a knob"),
            ("x=y {}", "is not a knob"),
            ("eater-0", "1 to 500"),
            ("eater-x", "1 to 500"),
        ] {
            let error = Arm::parse(text).unwrap_err();
            assert!(error.contains(remedy) && !error.contains('\n'), "{text}: {error}");
        }
        let texts = |list: &[&str]| list.iter().map(|s| s.to_string()).collect::<Vec<_>>();
        assert!(parse_all(&texts(&["default"])).unwrap_err().contains("two arms or more"));
        assert!(parse_all(&texts(&["default", "default"])).unwrap_err().contains("two arms are named"));
        assert_eq!(parse_all(&texts(&["default", "default-2"])).unwrap().len(), 2);
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "\\PC{0,40}") {
            let _ = Arm::parse(&text);
        }

        #[test]
        fn no_stretch_changes_nothing(number in 0u64..1 << 40) {
            prop_assert_eq!(stretched(&format!("x {{us:{number}}} y"), 1.0), Ok(format!("x {number} y")));
        }
    }
}
