//! The asymmetric VM's own account of itself, seen from inside.
//!
//! Problem: the emulation cannot always keep its promise, and a figure from an interval in which it did not is void.
//! And loading a scheduler at 60 MIPS takes ten seconds that nobody measures.
//!
//! Approach: `ampctl follow` prints each vCPU's busy and lacking time when it is asked; two readings around an interval tell
//! whether it counts. (Starting a program for each reading would be seen in the interval: starting and ending
//! programs is what the emulation is slowest at.) `ampctl stop` and `start` suspend the pacing.
//!
//! [`undisturbed`] repeats a measurement until it counts.
//!
//! Limits: one program runs beside the measurement, asleep but for the two readings.

use crate::{Error, Result};
use serde::Deserialize;
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Lacking time, in thousandths of busy time, above which an interval is void. The same as for whole runs of the VM.
pub const OVERRUN_LIMIT_PERMILLE: u64 = 20;
/// Lacking time that never voids an interval, in thousandths of the interval.
const GRACE_PERMILLE: u64 = 10;
/// The same for a CPU that is busy for less than [`IDLE_PERMILLE`] of it: it wakes late now and then for work that is not
/// measured, and lacks more than it is busy.
const IDLE_GRACE_PERMILLE: u64 = 50;
const IDLE_PERMILLE: u64 = 100;
/// The same, nanoseconds: the emulation itself lets a vCPU catch up 8 ms without a word.
const GRACE_NS: u64 = 5_000_000;

/// One vCPU's account.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Account {
    /// The vCPU.
    pub cpu: usize,
    /// Instructions it executed.
    pub instructions: u64,
    /// Time it should have been busy.
    pub model_ns: u64,
    /// Time it lacked.
    pub overrun_ns: u64,
}

/// Every vCPU's account at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// When, since any fixed moment.
    at: Duration,
    accounts: Vec<Account>,
}

#[derive(Deserialize)]
struct Counters {
    vcpus: Vec<Account>,
}

/// The control program of the VM this runs in.
pub struct Emulation {
    ampctl: PathBuf,
    begun: Instant,
    reader: RefCell<Reader>,
}

/// A running `ampctl follow`; ends when its input does.
struct Reader {
    child: Child,
    answers: BufReader<ChildStdout>,
}

/// Pacing is suspended while this lives.
pub struct Suspended<'a>(&'a Emulation);

impl Emulation {
    /// The VM's, if this is one: its path is in `AMPCTL`.
    pub fn find() -> Result<Option<Self>> {
        let Some(path) = std::env::var_os("AMPCTL").filter(|path| !path.is_empty()) else { return Ok(None) };
        let ampctl = PathBuf::from(path);
        let failed = |why: String| Error::failed(format!("{} follow", ampctl.display()), why);
        let mut command = Command::new(&ampctl);
        command.arg("follow").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| failed(e.to_string()))?;
        let stdout = child.stdout.take().ok_or_else(|| failed("no standard output".into()))?;
        let reader = RefCell::new(Reader { child, answers: BufReader::new(stdout) });
        let emulation = Emulation { ampctl, begun: Instant::now(), reader };
        emulation.read()?;
        Ok(Some(emulation))
    }

    fn control(&self, command: &str) -> Result<String> {
        let failed = |why: String| Error::failed(format!("{} {command}", self.ampctl.display()), why);
        let output = Command::new(&self.ampctl).arg(command).output().map_err(|e| failed(e.to_string()))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_string())),
        }
    }

    /// Every vCPU's account so far.
    pub fn read(&self) -> Result<Reading> {
        let text = self.reader.borrow_mut().ask()?;
        let counters: Counters =
            serde_json::from_str(&text).map_err(|e| Error::failed("reading the emulation's counters", e))?;
        Ok(Reading { at: self.begun.elapsed(), accounts: counters.vcpus })
    }

    /// Lets all vCPUs run as fast as the host can, until the result is dropped.
    pub fn suspend(&self) -> Result<Suspended<'_>> {
        self.control("stop")?;
        Ok(Suspended(self))
    }
}

impl Reader {
    fn ask(&mut self) -> Result<String> {
        let failed = |e: std::io::Error| Error::failed("asking ampctl for the counters", e);
        let input = self.child.stdin.as_mut().ok_or_else(|| failed(std::io::ErrorKind::BrokenPipe.into()))?;
        input.write_all(b"\n").map_err(failed)?;
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(failed)?;
        Ok(line)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Drop for Suspended<'_> {
    fn drop(&mut self) {
        // A VM that stays unpaced shows as vCPUs without busy time, which voids what follows.
        if let Err(e) = self.0.control("start") {
            eprintln!("bias-bench: {e}");
        }
    }
}

/// How often a measurement is repeated before the host is called too slow.
const TRIES: usize = 3;

/// Measures, again if the emulation did not keep its promise meanwhile. Returns the result and how many were thrown away
/// before it; on a real machine the first counts.
pub fn undisturbed<T>(measure: impl FnMut() -> Result<T>) -> Result<(T, usize)> {
    let emulation = Emulation::find()?;
    repeat(|| emulation.as_ref().map(Emulation::read).transpose(), measure)
}

fn repeat<T>(
    mut read: impl FnMut() -> Result<Option<Reading>>,
    mut measure: impl FnMut() -> Result<T>,
) -> Result<(T, usize)> {
    let mut why = String::new();
    for thrown_away in 0..TRIES {
        let before = read()?;
        let result = measure()?;
        match before.zip(read()?).and_then(|(before, after)| overrun(&before, &after)) {
            None => return Ok((result, thrown_away)),
            Some(reason) => why = reason,
        }
    }
    Err(Error::Void(format!(
        "void {TRIES} times in a row ({why}); stop other work on the host, or choose slower CPUs (--machine)"
    )))
}

/// Why an interval between two readings must not be judged; None if it may.
pub fn overrun(before: &Reading, after: &Reading) -> Option<String> {
    let interval_ns = after.at.saturating_sub(before.at).as_nanos() as u64;
    let mut busiest = 0;
    for account in &after.accounts {
        let start = before.accounts.iter().find(|a| a.cpu == account.cpu).cloned().unwrap_or_default();
        let busy = account.model_ns.saturating_sub(start.model_ns);
        let lacked = account.overrun_ns.saturating_sub(start.overrun_ns);
        busiest = busiest.max(busy);
        let idle = busy < interval_ns / 1000 * IDLE_PERMILLE;
        let grace_permille = if idle { IDLE_GRACE_PERMILLE } else { GRACE_PERMILLE };
        let grace_ns = GRACE_NS.max(interval_ns / 1000 * grace_permille);
        if lacked > grace_ns && lacked.saturating_mul(1000) > busy.saturating_mul(OVERRUN_LIMIT_PERMILLE) {
            let ms = |ns: u64| ns / 1_000_000;
            return Some(format!("overrun: vCPU {} lacked {} of {} ms", account.cpu, ms(lacked), ms(busy)));
        }
    }
    (busiest == 0).then(|| "the emulation did not pace".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(cpu: usize, busy_ms: u64, lacked_ms: u64) -> Account {
        Account { cpu, instructions: 0, model_ns: busy_ms * 1_000_000, overrun_ns: lacked_ms * 1_000_000 }
    }

    #[test]
    fn an_interval_counts_if_every_cpu_had_its_time() {
        let at =
            |ms, accounts: &[Account]| Reading { at: Duration::from_millis(ms), accounts: accounts.to_vec() };
        let start = [account(0, 100, 50), account(1, 0, 0)];
        let before = at(0, &start);
        let overrun = |before: &Reading, accounts: &[Account]| super::overrun(before, &at(1000, accounts));
        assert_eq!(overrun(&before, &[account(0, 1100, 60), account(1, 1000, 19)]), None);
        let why = overrun(&before, &[account(0, 1100, 71), account(1, 1000, 0)]).unwrap();
        assert!(why.contains("vCPU 0 lacked 21 of 1000 ms"), "{why}");
        assert_eq!(overrun(&before, &[account(0, 110, 54)]), None, "a few milliseconds never count");
        let long = at(4000, &[account(0, 105, 57), account(1, 4000, 0)]);
        let late = at(4000, &[account(0, 140, 250), account(1, 4000, 0)]);
        assert_eq!(super::overrun(&before, &late), None, "5 % of the interval on a CPU that idles");
        assert_eq!(super::overrun(&before, &long), None, "nor does an idle CPU that wakes late now and then");
        assert!(overrun(&before, &start).unwrap().contains("did not pace"));
    }

    #[test]
    fn a_disturbed_measurement_is_repeated_and_counted() {
        // Lacking time grows by the script's value at each second reading.
        let run = |script: &[u64]| {
            let (mut total, mut readings, mut lacked) = (0, 0, script.iter());
            let read = || {
                readings += 1;
                let more = if readings % 2 == 0 { *lacked.next().unwrap() } else { 0 };
                total += more;
                Ok(Some(Reading {
                    at: Duration::from_secs(readings),
                    accounts: vec![account(0, 1000 * readings, total)],
                }))
            };
            let mut measured = 0;
            repeat(read, || {
                measured += 1;
                Ok(measured)
            })
        };
        assert_eq!(run(&[0]).unwrap(), (1, 0));
        assert_eq!(run(&[500, 300, 3]).unwrap(), (3, 2));
        assert!(run(&[500; TRIES]).unwrap_err().to_string().contains("void 3 times"));
        assert_eq!(repeat(|| Ok(None), || Ok(7)).unwrap(), (7, 0), "a real machine has no account");
    }

    #[test]
    fn the_control_programs_output_is_read() {
        let text = r#"{"state":"modelling","enabled":true,"vcpus":[
 {"cpu":0,"instructions":5,"cycles":9,"model_ns":7,"overrun_ns":1,"slept_ns":0,"mips_milli":60000}]}"#;
        let counters: Counters = serde_json::from_str(text).unwrap();
        assert_eq!(counters.vcpus, [Account { cpu: 0, instructions: 5, model_ns: 7, overrun_ns: 1 }]);
    }
}
