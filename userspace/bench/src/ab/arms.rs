//! Arms: what is compared.
//!
//! Problem: the default scheduler, scx_bias, a fixed placement and somebody else's scheduler must all be named on one
//! command line, and time constants must be stretched alike where a machine's time is stretched.
//!
//! Approach: an arm is one of five kinds. `default` loads nothing. `default-hybrid` is the same in a kernel that
//! was told of its unequal cores. `best-static` and `worst-static` load nothing and pin
//! the tasks of a mix where [`super::placement`] says. `eater-30` loads nothing and slows everything down by a known amount. Everything else is a command that loads a sched_ext scheduler:
//! `scx_bias` stands for the program beside this one, and `NAME=COMMAND` for any other. In a command `{us:1000}`
//! (also `ms`, `ns`) becomes that time multiplied by the run's stretch factor: the arm's knob. The default scheduler
//! has its own knobs in debugfs (see [`super::stage`]).
//!
//! Invariant: names are unique and safe in file names and reports. An arm that has no knob is known as unstretched.

use serde::{Deserialize, Serialize};

/// The slice of scx_bias without stretch, in microseconds: its default.
const BIAS_SLICE_US: u32 = 10_000;
/// Longest name of an arm.
const MAX_NAME: usize = 40;
/// The arm of a kernel that knows of its unequal cores.
const HYBRID: &str = "default-hybrid";

/// What an arm does to the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The kernel's own scheduler, tasks free.
    Default,
    /// The same in a kernel that knows of its unequal cores.
    DefaultHybrid,
    /// The kernel's own scheduler, every task of a mix pinned where throughput is predicted to be best.
    BestStatic,
    /// The same, where it is predicted to be worst.
    WorstStatic,
    /// The kernel's own scheduler beside processes that eat this share of every CPU, thousandths: a known slowdown.
    Eater(u32),
    /// A sched_ext scheduler, loaded by this command (with knobs in braces).
    Command(String),
}

/// One arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// Name in samples and reports.
    pub name: String,
    /// What it does.
    pub kind: Kind,
}

impl Arm {
    /// The arm everything is compared with unless told otherwise.
    pub fn baseline() -> Self {
        Arm { name: "default".into(), kind: Kind::Default }
    }

    /// Reads `default`, `default-hybrid`, `best-static`, `worst-static`, `scx_bias`, `NAME=scx_bias OPTIONS` or `NAME=COMMAND`.
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
                Kind::Command(with_slice(command))
            }
            // Twice the same arm under two names is how an A/A is written.
            ("default", None) => Kind::Default,
            ("best-static", None) => Kind::BestStatic,
            ("worst-static", None) => Kind::WorstStatic,
            // Whatever this machine is configured to run it with is not what is compared.
            ("scx_bias", None) => Kind::Command(with_slice("scx_bias --no-config")),
            (HYBRID, None) => Kind::DefaultHybrid,
            (other, None) if other.strip_prefix(HYBRID).is_some_and(|rest| rest.starts_with('-')) => {
                Kind::DefaultHybrid
            }
            (other, None) if other.starts_with("default-") => Kind::Default,
            (other, None) => match other.strip_prefix("eater-").map(str::parse) {
                Some(Ok(permille @ 1..=500)) => Kind::Eater(permille),
                Some(_) => {
                    return Err(format!(
                        "'{other}': an eater takes 1 to 500 thousandths of every CPU, e.g. eater-30"
                    ));
                }
                None => {
                    return Err(format!(
                        "unknown arm '{other}'; known are default (also default-2, ... for an A/A), default-hybrid (in a kernel that knows of its unequal cores), scx_bias, best-static, worst-static, eater-30 (the default with 30 thousandths of every CPU eaten), and any scheduler as NAME='COMMAND'"
                    ));
                }
            },
        };
        Ok(Arm { name: name.into(), kind })
    }

    /// The command with its knobs set; None for arms that load nothing.
    pub fn command(&self, stretch: f64) -> Option<String> {
        match &self.kind {
            // Checked when it was parsed; as it stands if it came from a file that somebody changed since.
            Kind::Command(command) => Some(stretched(command, stretch).unwrap_or_else(|_| command.clone())),
            _ => None,
        }
    }

    /// Whether the arm's time constants follow the stretch factor.
    pub fn has_knob(&self) -> bool {
        match &self.kind {
            Kind::Command(command) => command.contains('{'),
            _ => true,
        }
    }

    /// Whether it pins the tasks of mixes, and so has a meaning for mixes only.
    pub fn is_static(&self) -> bool {
        matches!(self.kind, Kind::BestStatic | Kind::WorstStatic)
    }
}

/// scx_bias without a slice gets the knob for it.
fn with_slice(command: &str) -> String {
    let program = command.split_whitespace().next().unwrap_or_default();
    let ours = program == "scx_bias" || program.ends_with("/scx_bias");
    if ours && !command.contains("--slice-us") {
        format!("{command} --slice-us {{us:{BIAS_SLICE_US}}}")
    } else {
        command.to_string()
    }
}

/// Replaces every `{us:N}`, `{ms:N}` and `{ns:N}` by N times `stretch`, in the same unit, rounded.
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

/// Reads several arms; the first is what the others are compared with. Names must differ.
pub fn parse_all(texts: &[String]) -> Result<Vec<Arm>, String> {
    let arms: Vec<Arm> = texts.iter().map(|text| Arm::parse(text)).collect::<Result<_, _>>()?;
    for (i, arm) in arms.iter().enumerate() {
        if arms[..i].iter().any(|other| other.name == arm.name) {
            return Err(format!(
                "two arms are named '{}'; give one another name with NAME='COMMAND' (default-2 for an A/A)",
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
        assert_eq!(Arm::parse("default").unwrap().kind, Kind::Default);
        assert_eq!(Arm::parse("default-2").unwrap().kind, Kind::Default);
        for (name, kind) in [
            ("default-hybrid", Kind::DefaultHybrid),
            ("default-hybrid-2", Kind::DefaultHybrid),
            ("default-hybrids", Kind::Default),
        ] {
            assert_eq!(Arm::parse(name).unwrap().kind, kind, "{name}");
        }
        let hybrid = Arm::parse("default-hybrid").unwrap();
        assert!(hybrid.has_knob() && !hybrid.is_static() && hybrid.command(1.0).is_none());
        assert!(Arm::parse("worst-static").unwrap().is_static());
        assert_eq!(Arm::parse("eater-30").unwrap().kind, Kind::Eater(30));
        let ours = Arm::parse("scx_bias").unwrap();
        assert_eq!(ours.command(5.0).unwrap(), "scx_bias --no-config --slice-us 50000");
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
