//! Test that tasks keep running while the scheduler's process is stopped, flooded with requests, or
//! killed.
//!
//! # Approach
//! Tasks work all the time, and the test watches how long a task goes without progress. It does the
//! following, in this order:
//!
//! * It loads the scheduler, which must report READY=1 as to a service manager.
//! * It stops the scheduler's process for a while and continues it.
//! * It floods the socket with clients that stay silent, send requests without reading the answers,
//!   send invalid requests, or never end one. Meanwhile one more client asks as a user's program
//!   would.
//! * It reads the descriptors and the memory of the process at the end of the flood.
//! * It kills the process, and starts the scheduler once more.
//!
//! # Limits
//! Progress is read every [`POLL`], so shorter waits are not seen. Descriptors and memory are those
//! of the started process, so the command must not fork.

use crate::sched::{Loaded, SchedExt};
use crate::spec::Mix;
use crate::task::Group;
use crate::{Error, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Longest time of watching before the first event.
const CALM: Duration = Duration::from_secs(5);
/// Time between two reads of the tasks' progress.
const POLL: Duration = Duration::from_millis(20);
/// Socket on which scx schedulers answer requests.
const SOCKET: &str = "/var/run/scx/root/stats";
/// Threads that share the clients.
const FLOODERS: usize = 4;
/// Request of a user's program, and the pause between two of them.
const QUESTION: &[u8] = b"{\"req\":\"stats\",\"args\":{\"target\":\"status\"}}\n";
const ASK: Duration = Duration::from_millis(200);
/// Longest time for the process to release what the clients held.
const SETTLE: Duration = Duration::from_secs(5);

/// Scheduler, tasks and times of a test.
#[derive(Debug, Clone)]
pub struct Options {
    /// Command that loads the scheduler and stays in the foreground.
    pub scheduler: String,
    /// Longest time that the scheduler may take to load.
    pub timeout: Duration,
    /// Time for which the scheduler's process is stopped.
    pub stop: Duration,
    /// Clients that flood the socket.
    pub clients: usize,
    /// Length of the flood.
    pub flood: Duration,
    /// The tasks.
    pub tasks: Mix,
}

/// Figures of a test.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Format of this report.
    pub schema: &'static str,
    /// First message that the service manager got.
    pub told: String,
    /// Time from the start to that message, seconds.
    pub ready_s: f64,
    /// Longest time of a task without progress before the first event, seconds.
    pub calm_gap_s: f64,
    /// Longest time of a task without progress while the process was stopped, seconds.
    pub stopped_gap_s: f64,
    /// Longest time of a task without progress while the socket was flooded, seconds.
    pub flooded_gap_s: f64,
    /// Connections that clients made.
    pub connections: usize,
    /// Requests of the client that asks as a user's program would.
    pub asked: u32,
    /// Answered requests among `asked`.
    pub answered: u32,
    /// Longest wait for an answer to one of them, seconds.
    pub longest_answer_s: f64,
    /// Descriptors of the process before and after the flood.
    pub descriptors: [usize; 2],
    /// Resident memory of the process before and after the flood, kB.
    pub memory_kb: [u64; 2],
    /// Part of a CPU that the process used during the flood.
    pub flooded_cpu_share: f64,
    /// Time from SIGKILL until every task was back on the default scheduler, seconds. None if the
    /// kernel does not report a task's scheduler.
    pub returned_s: Option<f64>,
    /// Time from SIGKILL until the kernel had disabled sched_ext, seconds.
    pub kill_s: f64,
    /// Time that the second load took, seconds.
    pub again_s: f64,
}

/// Run the whole test. Fail at the first error.
pub fn run(options: &Options) -> Result<Report> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |e| Error::failed(what.clone(), e)
    };
    let path = PathBuf::from(format!("/run/bias-bench-notify-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let manager = UnixDatagram::bind(&path).map_err(failed("making a socket to be notified on"))?;
    manager.set_read_timeout(Some(options.timeout)).map_err(failed("making a socket to be notified on"))?;
    let kinds = options.tasks.tasks();
    let group = Group::start(&kinds, &[])?;
    group.work();
    let start = Instant::now();
    let command = format!("env NOTIFY_SOCKET={} {}", path.display(), options.scheduler);
    let mut loaded = Loaded::start(SchedExt::system(), &command, options.timeout)?;
    let told = first_word(&manager)?;
    let ready_s = start.elapsed().as_secs_f64();
    let pid = loaded.pid();
    let calm_gap_s = longest_gap(&group, options.stop.min(CALM))?;

    signal(pid, Signal::SIGSTOP)?;
    let stopped = longest_gap(&group, options.stop);
    signal(pid, Signal::SIGCONT)?;
    let stopped_gap_s = stopped?;
    loaded.check()?;

    let before = Holdings::of(pid)?;
    let (over, made, began) = (AtomicBool::new(false), AtomicUsize::new(0), Instant::now());
    let part = options.clients.div_ceil(FLOODERS);
    let (flooded_gap_s, asker) = std::thread::scope(|scope| {
        for _ in 0..FLOODERS {
            scope.spawn(|| Flood::default().run(part, &over, &made));
        }
        let asker = scope.spawn(|| Asker::default().run(&over));
        while made.load(Relaxed) < options.clients && began.elapsed() < options.timeout {
            std::thread::sleep(POLL);
        }
        let gap = longest_gap(&group, options.flood);
        over.store(true, Relaxed);
        (gap, asker.join().unwrap_or_default())
    });
    let flooded = Holdings::of(pid)?;
    let flooded_cpu_share = (flooded.cpu_s - before.cpu_s) / began.elapsed().as_secs_f64();
    let after = settled(pid, &before)?;
    loaded.check()?;

    let (returned_s, kill_s) = end(pid, &group, options.timeout)?;
    loaded.crash()?;
    let start = Instant::now();
    let again = Loaded::start(SchedExt::system(), &options.scheduler, options.timeout)?;
    let again_s = start.elapsed().as_secs_f64();
    again.stop()?;
    group.finish()?;
    let _ = std::fs::remove_file(&path);
    Ok(Report {
        schema: "bias-bench.control/1",
        told,
        ready_s,
        calm_gap_s,
        stopped_gap_s,
        flooded_gap_s: flooded_gap_s?,
        connections: made.into_inner(),
        asked: asker.asked,
        answered: asker.answered,
        longest_answer_s: asker.longest_s,
        descriptors: [before.descriptors, after.descriptors],
        memory_kb: [before.memory_kb, after.memory_kb],
        flooded_cpu_share,
        returned_s,
        kill_s,
        again_s,
    })
}

/// Kill the scheduler's process. Return two times in seconds: until every task was back on the
/// default scheduler (None if the kernel does not report it), and until the kernel had disabled
/// sched_ext.
fn end(pid: Pid, group: &Group, timeout: Duration) -> Result<(Option<f64>, f64)> {
    let tells = group.is_on_ext().is_some();
    let mut returned_s = None;
    let start = Instant::now();
    signal(pid, Signal::SIGKILL)?;
    loop {
        let disabled = SchedExt::system().state()? == "disabled";
        if tells && returned_s.is_none() && group.is_on_ext() == Some(false) {
            returned_s = Some(start.elapsed().as_secs_f64());
        }
        if disabled || start.elapsed() >= timeout {
            return Ok((returned_s, start.elapsed().as_secs_f64()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Return the first message that the service manager gets.
fn first_word(manager: &UnixDatagram) -> Result<String> {
    let mut text = [0; 4096];
    let length = manager.recv(&mut text).map_err(|e| Error::failed("waiting for READY=1", e))?;
    Ok(String::from_utf8_lossy(&text[..length]).into_owned())
}

fn signal(pid: Pid, signal: Signal) -> Result<()> {
    kill(pid, signal).map_err(|e| Error::failed(format!("sending {signal}"), e))
}

/// Return the longest time within `window` that some task went without progress, seconds.
fn longest_gap(group: &Group, window: Duration) -> Result<f64> {
    let start = Instant::now();
    let mut last: Vec<(u64, Instant)> = group.units().into_iter().map(|units| (units, start)).collect();
    let mut longest = Duration::ZERO;
    while start.elapsed() < window {
        std::thread::sleep(POLL);
        let now = Instant::now();
        for (last, units) in last.iter_mut().zip(group.units()) {
            longest = longest.max(now - last.1);
            if last.0 != units {
                *last = (units, now);
            }
        }
    }
    group.check_alive()?;
    Ok(longest.as_secs_f64())
}

/// Resources of a process.
#[derive(Debug, Clone, Copy, Default)]
struct Holdings {
    descriptors: usize,
    memory_kb: u64,
    cpu_s: f64,
}

impl Holdings {
    fn of(pid: Pid) -> Result<Self> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let failed = |e| Error::failed(format!("looking at process {pid}"), e);
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).map_err(failed);
        let status = read("status")?;
        let memory = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
        // User and system time are the 14th and 15th field, in hundredths of a second. The name,
        // the 2nd field, may contain spaces.
        let stat = read("stat")?;
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
        let descriptors = std::fs::read_dir(folder.join("fd")).map_err(failed)?.count();
        Ok(Self { descriptors, memory_kb: memory.unwrap_or(0), cpu_s: ticks / 100.0 })
    }
}

/// Return the resources of the process once it has closed the clients' connections, or after
/// [`SETTLE`].
fn settled(pid: Pid, before: &Holdings) -> Result<Holdings> {
    let start = Instant::now();
    loop {
        let now = Holdings::of(pid)?;
        if now.descriptors <= before.descriptors || start.elapsed() > SETTLE {
            return Ok(now);
        }
        std::thread::sleep(POLL);
    }
}

/// Clients of all kinds that misbehave.
#[derive(Default)]
struct Flood {
    streams: Vec<UnixStream>,
}

impl Flood {
    /// Flood until `over`. Add the number of connections made to `made`.
    fn run(mut self, clients: usize, over: &AtomicBool, made: &AtomicUsize) {
        while !over.load(Relaxed) {
            made.fetch_add(self.go_on(clients), Relaxed);
            std::thread::sleep(POLL);
        }
    }

    /// Connect a part of the clients, or connect them again. Then let all clients misbehave in
    /// their way. Return the number of new connections.
    fn go_on(&mut self, clients: usize) -> usize {
        let mut made = 0;
        for _ in 0..clients.div_ceil(20) {
            // The oldest connection makes room for a new one.
            if self.streams.len() >= clients {
                drop(self.streams.remove(0));
            }
            let Ok(stream) = UnixStream::connect(SOCKET) else { break };
            if stream.set_nonblocking(true).is_ok() {
                self.streams.push(stream);
                made += 1;
            }
        }
        let tasks = b"{\"req\":\"stats\",\"args\":{\"target\":\"tasks\"}}\n".repeat(4);
        for (at, mut stream) in self.streams.iter().enumerate() {
            // A write fails if the server closed the connection, or if the client does not read its
            // answers.
            let _ = match at % 4 {
                0 => Ok(0),
                1 => stream.write(&tasks),
                2 => stream.write(&[b'['; 4096]),
                _ => stream.write(b"{\"req\":\xff\n\0\n{}\n"),
            };
        }
        made
    }
}

/// A client that behaves.
#[derive(Default)]
struct Asker {
    asked: u32,
    answered: u32,
    longest_s: f64,
}

impl Asker {
    fn run(mut self, over: &AtomicBool) -> Self {
        while !over.load(Relaxed) {
            self.ask();
            std::thread::sleep(ASK);
        }
        self
    }

    fn ask(&mut self) {
        let start = Instant::now();
        self.asked += 1;
        // A client whose connection was closed asks again, as `scx_bias status` does.
        let answered =
            (0..2).any(|_| once(Path::new(SOCKET)).is_some_and(|answer| answer.contains("\"errno\":0")));
        self.answered += u32::from(answered);
        self.longest_s = self.longest_s.max(start.elapsed().as_secs_f64());
    }
}

/// Ask once on a new connection and return the answer.
fn once(path: &Path) -> Option<String> {
    let mut stream = UnixStream::connect(path).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(QUESTION).ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    Some(line)
}

impl Report {
    /// Return the report as text.
    pub fn text(&self) -> String {
        let returned =
            self.returned_s.map_or_else(|| "at an unknown time".to_owned(), |s| format!("in {s:.3} s"));
        format!(
            "ready after {:.2} s; longest wait for progress {:.2} s, {:.2} s while it was stopped, {:.2} s while its socket was flooded by {} \
             connections; then {} of {} questions were answered, the slowest in {:.2} s, and it took {:.1} % of a CPU; descriptors {} -> {}, \
             memory {} -> {} kB; after SIGKILL default scheduler {returned}, all taken down in {:.3} s, loaded again in {:.2} s\n",
            self.ready_s,
            self.calm_gap_s,
            self.stopped_gap_s,
            self.flooded_gap_s,
            self.connections,
            self.answered,
            self.asked,
            self.longest_answer_s,
            self.flooded_cpu_share * 100.0,
            self.descriptors[0],
            self.descriptors[1],
            self.memory_kb[0],
            self.memory_kb[1],
            self.kill_s,
            self.again_s
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_waits_makes_a_gap_and_one_that_works_makes_none_as_long() {
        let tasks: Mix = "2compute".parse().unwrap();
        let group = Group::start(&tasks.tasks(), &[]).unwrap();
        let window = Duration::from_millis(300);
        assert!(longest_gap(&group, window).unwrap() >= 0.3);
        group.work();
        // Even on a busy machine, one of the tasks runs before a minute is over.
        let mut looks = 0;
        while longest_gap(&group, window).unwrap() >= 0.3 && looks < 200 {
            looks += 1;
        }
        assert!(looks < 200);
        group.finish().unwrap();
    }

    #[test]
    fn what_a_process_has_is_seen() {
        let own = Pid::this();
        let before = Holdings::of(own).unwrap();
        let held: Vec<_> = (0..50).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let after = Holdings::of(own).unwrap();
        assert!(after.descriptors >= before.descriptors + 50 - 10 && before.memory_kb > 100);
        drop(held);
    }
}
