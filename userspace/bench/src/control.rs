//! Does scheduling go on whatever becomes of the scheduler's process and its socket?
//!
//! Approach: tasks work all the time. The scheduler is loaded and must report READY=1 as to a service manager; its process is stopped for a
//! while and continued; its socket is flooded by clients that stay silent, ask without reading, send what is no request and never end one,
//! while another asks as any user would; then it is killed, and started once more. All the time it is watched how long a task goes without
//! progress, and at the end of the flood what the process holds.
//!
//! Limits: progress is looked at each [`POLL`], so shorter waits are not seen. Descriptors and memory are those of the process that was started, so the
//! command must not fork.

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

/// How long it is watched before anything is done, at most.
const CALM: Duration = Duration::from_secs(5);
/// Time between two looks at the tasks' progress.
const POLL: Duration = Duration::from_millis(20);
/// Where scx schedulers can be asked.
const SOCKET: &str = "/var/run/scx/root/stats";
/// Threads that the clients share.
const FLOODERS: usize = 4;
/// What a user's program would ask, and the pause between.
const QUESTION: &[u8] = b"{\"req\":\"stats\",\"args\":{\"target\":\"status\"}}\n";
const ASK: Duration = Duration::from_millis(200);
/// How long what clients held may take to be given back.
const SETTLE: Duration = Duration::from_secs(5);

/// What to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// Command that loads the scheduler and stays in the foreground.
    pub scheduler: String,
    /// Longest time it may take to load.
    pub timeout: Duration,
    /// How long its process is stopped.
    pub stop: Duration,
    /// Clients that flood its socket.
    pub clients: usize,
    /// For how long.
    pub flood: Duration,
    /// The tasks.
    pub tasks: Mix,
}

/// What happened.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Format of this report.
    pub schema: &'static str,
    /// What the service manager was told first, and when after the start, seconds.
    pub told: String,
    /// See `told`.
    pub ready_s: f64,
    /// Longest time a task went without progress before anything was done.
    pub calm_gap_s: f64,
    /// The same while the process was stopped.
    pub stopped_gap_s: f64,
    /// The same while the socket was flooded.
    pub flooded_gap_s: f64,
    /// Connections that clients made.
    pub connections: usize,
    /// Questions of the one that asks as a user would, and those that were answered.
    pub asked: u32,
    /// See `asked`.
    pub answered: u32,
    /// The longest it waited for an answer.
    pub longest_answer_s: f64,
    /// Descriptors of the process before and after the flood.
    pub descriptors: [usize; 2],
    /// Its memory before and after the flood, kB.
    pub memory_kb: [u64; 2],
    /// Part of a CPU that it took during the flood.
    pub flooded_cpu_share: f64,
    /// Time from SIGKILL until every task was back on the default scheduler; None if the kernel does not tell.
    pub returned_s: Option<f64>,
    /// The same until the kernel had taken down all of the other one.
    pub kill_s: f64,
    /// Time it took to load again.
    pub again_s: f64,
}

/// Runs everything; the first failure ends it.
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

/// Kills the scheduler's process: after how long every task was back on the default scheduler, if that is told, and after how long the kernel had
/// taken down all of the other one, seconds.
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

/// What the service manager is told first.
fn first_word(manager: &UnixDatagram) -> Result<String> {
    let mut text = [0; 4096];
    let length = manager.recv(&mut text).map_err(|e| Error::failed("waiting for READY=1", e))?;
    Ok(String::from_utf8_lossy(&text[..length]).into_owned())
}

fn signal(pid: Pid, signal: Signal) -> Result<()> {
    kill(pid, signal).map_err(|e| Error::failed(format!("sending {signal}"), e))
}

/// Longest time within `window` that some task went without progress, seconds.
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

/// What a process has.
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
        // User and system time, in hundredths of a second, are the 14th and 15th field; the name may have spaces.
        let stat = read("stat")?;
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
        let descriptors = std::fs::read_dir(folder.join("fd")).map_err(failed)?.count();
        Ok(Self { descriptors, memory_kb: memory.unwrap_or(0), cpu_s: ticks / 100.0 })
    }
}

/// What it has once it noticed that the clients have gone.
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

/// Clients of all bad kinds.
#[derive(Default)]
struct Flood {
    streams: Vec<UnixStream>,
}

impl Flood {
    /// Goes on until it is over; the connections that were made are added up in `made`.
    fn run(mut self, clients: usize, over: &AtomicBool, made: &AtomicUsize) {
        while !over.load(Relaxed) {
            made.fetch_add(self.go_on(clients), Relaxed);
            std::thread::sleep(POLL);
        }
    }

    /// A part of them comes, or comes again; all do what is in their nature.
    fn go_on(&mut self, clients: usize) -> usize {
        let mut made = 0;
        for _ in 0..clients.div_ceil(20) {
            // Those that were sent away make room for new ones.
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
            // It fails for those that were sent away, or do not read what they are told.
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

/// One that behaves.
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
        // One that was displaced asks again, as `scx_bias status` does.
        let answered =
            (0..2).any(|_| once(Path::new(SOCKET)).is_some_and(|answer| answer.contains("\"errno\":0")));
        self.answered += u32::from(answered);
        self.longest_s = self.longest_s.max(start.elapsed().as_secs_f64());
    }
}

/// An answer on a connection of its own.
fn once(path: &Path) -> Option<String> {
    let mut stream = UnixStream::connect(path).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(QUESTION).ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    Some(line)
}

impl Report {
    /// For people.
    pub fn text(&self) -> String {
        let returned =
            self.returned_s.map_or_else(|| "at a time not told".to_owned(), |s| format!("in {s:.3} s"));
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
        // However busy the machine is, one of them runs before a minute is over.
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
