// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `scx_bias metrics`: state of the running instance in the OpenMetrics format, for Prometheus and
//! its relatives, as text or over HTTP.
//!
//! # Problem
//! Only root may ask the running instance, and a scraper should not be root. Clients may stay
//! silent, read slowly or leave at any time.
//!
//! # Approach
//! A scraper counts and averages by itself, so everything is a total since the start or a present
//! value, in base units. The number of lines grows with the number of CPUs, never with that of
//! tasks.
//!
//! `--listen ADDRESS` makes it a server: a process of its own, so that the process of the scheduler
//! has no network. ADDRESS is HOST:PORT, or the path of a socket that a group may use. The server
//! asks the instance at each request. It serves one client after the other, with one answer per
//! connection. It uses no library, because well-kept ones bring an asynchronous runtime.
//!
//! # Invariants
//! A client takes at most [`PATIENCE`] for its request, as long again for the answer, and
//! [`HEAD_MAX`] bytes. No request changes anything. Without an instance the answer is 503 with the
//! reason, and the exporter continues.
//!
//! # Limits
//! There is no encryption and no login. Any user with access to a TCP port can read it.

use std::fs::Permissions;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bias_agent::bpf::Stats;
use bias_agent::control::StatusReport;
use bias_agent::ejections::{self, Ejection};
use bias_agent::failure::{Exit, Failure};
use bias_agent::optin::journal;
use bias_agent::recal::CpuRecal;
use bias_policy::table::{Class, Component};
use clap::Args;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Group, chown};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::tasks::BiasCounts;
use crate::cli::SocketArg;
use crate::help;
use crate::output::{complain, print};

/// Longest time for a client's request, and for its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of a request's head.
const HEAD_MAX: usize = 8192;
/// Pause after accept() failed, for example for lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// Format of the metrics.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Print the state of the running scx_bias in the OpenMetrics format, for Prometheus: totals, costs
/// of CPUs, tasks by bias. A textfile collector can read the output
#[derive(Debug, Args)]
#[command(after_help = help::exit_codes())]
pub struct MetricsArgs {
    /// Answer scrapers over HTTP at HOST:PORT, or on the socket at this absolute path, until
    /// interrupted. Any user with access to a port can read it; a socket serves root and --group
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,

    /// Group that may use the socket of --listen
    #[arg(long, value_name = "NAME", requires = "listen")]
    group: Option<String>,

    #[command(flatten)]
    socket: SocketArg,
}

impl MetricsArgs {
    pub fn run(self) -> Result<Exit> {
        let Some(address) = &self.listen else { return print(&self.text()?) };
        let exporter = Exporter::bind(address, self.group.as_deref())?;
        complain(&format!("metrics are at {}", exporter.address));
        exporter.serve(|| self.text())
    }

    /// Ask the instance, and return its state as text.
    fn text(&self) -> Result<String> {
        let mut client = self.socket.connect()?;
        let report = client.status()?;
        let tasks = client.tasks(None).ok().map(|report| BiasCounts::of(&report.tasks));
        text(&report, tasks.as_ref(), &ejections::last(Path::new(journal::DIRECTORY)))
    }
}

type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;

/// Ending of the statistics that are times.
const NS: &str = "_ns";

/// Return the state as text. `tasks` is None if tasks could not be listed.
///
/// # Errors
/// A failure of the encoder, which no state causes.
fn text(report: &StatusReport, tasks: Option<&BiasCounts>, ejections: &[Ejection]) -> Result<String> {
    let mut registry = Registry::with_prefix("scx_bias");
    registry.register("build", "Running version", Info::new(vec![("version", report.version.clone())]));
    let uptime = ConstGauge::new(report.uptime_s as f64);
    registry.register_with_unit("uptime", "Time since the scheduler was started", Unit::Seconds, uptime);
    statistics(&mut registry, &report.statistics)?;
    cpus(&mut registry, &report.recalibration.cpus);
    let changed = ConstCounter::new(report.recalibration.changed);
    registry.register("table_changes", "Entries of the capacity table that changed", changed);
    if let Some(counts) = tasks {
        biases(&mut registry, counts);
    }
    let kept = ConstGauge::new(ejections.len() as u64);
    registry.register("ejections_kept", "Ends by the kernel that status lists", kept);
    if let Some(last) = ejections.last() {
        let at = ConstGauge::new(last.at_ms as f64 / 1000.0);
        let help = "Time of the last end by the kernel, since 1970";
        registry.register_with_unit("last_ejection_timestamp", help, Unit::Seconds, at);
    }
    let mut text = String::new();
    encode(&mut text, &registry).context("cannot write the metrics")?;
    Ok(text)
}

/// Register every statistic under its name. Times are in seconds.
fn statistics(registry: &mut Registry, statistics: &Stats) -> Result<()> {
    let values = serde_json::to_value(statistics).context("cannot read the statistics")?;
    for (name, help) in Stats::ALL {
        let value = values[*name].as_u64().unwrap_or_default();
        match name.strip_suffix(NS) {
            Some(name) => {
                let seconds: Counter<f64, AtomicU64> = Counter::default();
                seconds.inc_by(value as f64 / 1e9);
                let help = help.trim_end_matches(" [ns]");
                registry.register_with_unit(name, help, Unit::Seconds, seconds);
            }
            None => registry.register(*name, *help, ConstCounter::new(value)),
        }
    }
    Ok(())
}

fn cpus(registry: &mut Registry, cpus: &[CpuRecal]) {
    let (cost, fast, age) = (Gauges::default(), Gauges::default(), Gauges::default());
    let set = |family: &Gauges, labels: Labels, value: f64| {
        family.get_or_create(&labels).set(value);
    };
    for cpu in cpus {
        let label = || ("cpu", cpu.cpu.to_string());
        for (component, permille) in Component::ALL.into_iter().zip(cpu.cost_permille) {
            let labels = vec![label(), ("component", component.name().to_owned())];
            set(&cost, labels, f64::from(permille) / 1000.0);
        }
        set(&fast, vec![label()], f64::from(u8::from(cpu.class == Class::Fast)));
        if let Some(ms) = cpu.seen_ms_ago {
            set(&age, vec![label()], ms as f64 / 1000.0);
        }
    }
    registry.register("cpu_cost_ratio", "Time of a unit of work over that on the best CPU", cost);
    registry.register("cpu_is_fast", "1 for CPUs of the fast class, else 0", fast);
    let help = "Time since a reading confirmed or changed the costs of a CPU";
    registry.register_with_unit("cpu_cost_age", help, Unit::Seconds, age);
}

fn biases(registry: &mut Registry, counts: &BiasCounts) {
    let tasks = Gauges::default();
    for (bias, count) in [
        ("fast_biased", counts.fast_biased),
        ("slow_biased", counts.slow_biased),
        ("unbiased", counts.unbiased),
        ("unknown", counts.unknown),
    ] {
        tasks.get_or_create(&vec![("bias", bias.to_owned())]).set(count as f64);
    }
    registry.register("tasks", "Known tasks by bias", tasks);
}

/// A place at which scrapers connect.
struct Exporter {
    /// Waits for a client, and returns its connection.
    accept: Box<dyn Fn() -> io::Result<OwnedFd>>,
    /// Where it listens, as a user would name it.
    address: String,
}

impl Exporter {
    /// Listen at HOST:PORT, or on a socket at an absolute path that `group` may use.
    ///
    /// # Errors
    /// Usage failure for a text that is not an address, and for a group without a socket or one
    /// that does not exist. Runtime failure if the address cannot be used.
    fn bind(address: &str, group: Option<&str>) -> Result<Self, Failure> {
        let unusable = |error: io::Error| {
            let remedy = match error.kind() {
                ErrorKind::AddrInUse => "another program uses it; give --listen another one",
                ErrorKind::PermissionDenied => "use sudo, or another address",
                _ => "give --listen HOST:PORT or the path of a socket",
            };
            let message = format!("cannot listen at {address} ({error}): {remedy}");
            // The text is not an address. A service must not try it again.
            let is_wrong = error.kind() == ErrorKind::InvalidInput;
            if is_wrong { Failure::usage(message) } else { Failure::runtime(message) }
        };
        if address.starts_with('/') {
            let path = Path::new(address);
            let listener = socket(path).map_err(unusable)?;
            if let Some(group) = group {
                share(path, group)?;
            }
            let accept = move || listener.accept().map(|(client, _)| client.into());
            return Ok(Self { accept: Box::new(accept), address: address.to_owned() });
        }
        if group.is_some() {
            return Err(Failure::usage(format!(
                "{address} is not the path of a socket that a group could own; give --listen a path, or drop --group"
            )));
        }
        let listener = TcpListener::bind(address).map_err(unusable)?;
        let address = listener.local_addr().map_err(unusable)?;
        let accept = move || listener.accept().map(|(client, _)| client.into());
        Ok(Self { accept: Box::new(accept), address: format!("http://{address}/metrics") })
    }

    /// Answer clients with `metrics` until a signal ends the program.
    fn serve(&self, metrics: impl Fn() -> Result<String>) -> ! {
        loop {
            match (self.accept)() {
                Ok(client) => serve(client.into(), &metrics),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }
}

/// Make a socket that only its owner may use. Replace one that a dead exporter left.
fn socket(path: &Path) -> io::Result<UnixListener> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    {
        std::fs::remove_file(path)?;
    }
    let before = umask(Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(path);
    umask(before);
    listener
}

/// Let the members of `group` use the socket at `path`.
fn share(path: &Path, group: &str) -> Result<(), Failure> {
    let known = Group::from_name(group).ok().flatten();
    let gid =
        known.ok_or_else(|| Failure::usage(format!("there is no group {group}; see `getent group`")))?.gid;
    let failed = |error: &dyn std::fmt::Display| {
        Failure::kernel(format!("cannot give {} to group {group} ({error}); use sudo", path.display()))
    };
    chown(path, None, Some(gid)).map_err(|error| failed(&error))?;
    std::fs::set_permissions(path, Permissions::from_mode(0o660)).map_err(|error| failed(&error))
}

/// Answer a client. One that fails or leaves gets nothing.
///
/// A TCP connection has the same operations and limits as one of a local socket.
fn serve(mut client: UnixStream, metrics: &impl Fn() -> Result<String>) {
    if let Ok(head) = head(&mut client, Instant::now() + PATIENCE) {
        let answer = answer(&head, metrics);
        let _ = send(&mut client, &answer, Instant::now() + PATIENCE);
    }
}

/// Limit the next operation of a client to what is left until `deadline`.
fn limit(client: &UnixStream, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    client.set_read_timeout(Some(left))?;
    client.set_write_timeout(Some(left))
}

/// Read a request up to the empty line that ends its head.
fn head(client: &mut UnixStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let (mut head, mut part) = (Vec::new(), [0; 1024]);
    while !head.windows(2).any(|end| end == b"\n\n") && !head.windows(4).any(|end| end == b"\r\n\r\n") {
        limit(client, deadline)?;
        let bytes = client.read(&mut part)?;
        if bytes == 0 || head.len() + bytes > HEAD_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        head.extend(part.iter().take(bytes));
    }
    Ok(head)
}

fn send(client: &mut UnixStream, mut answer: &[u8], deadline: Instant) -> io::Result<()> {
    while !answer.is_empty() {
        limit(client, deadline)?;
        match client.write(answer)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            sent => answer = answer.get(sent..).unwrap_or_default(),
        }
    }
    Ok(())
}

/// Return the answer to a request with this head.
fn answer(head: &[u8], metrics: impl Fn() -> Result<String>) -> Vec<u8> {
    let line = head.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let plain = "text/plain; charset=utf-8";
    let (status, kind, body) = match (method, target.split('?').next()) {
        ("GET" | "HEAD", Some("/metrics" | "/")) => match metrics() {
            Ok(text) => ("200 OK", OPENMETRICS, text),
            Err(error) => ("503 Service Unavailable", plain, format!("scx_bias: {error:#}\n")),
        },
        ("GET" | "HEAD", _) => ("404 Not Found", plain, "the metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", plain, "use GET\n".to_owned()),
    };
    let length = body.len();
    let body = if method == "HEAD" { "" } else { &body };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Allow: GET, HEAD\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::tests::{recalibrated, status};
    use super::*;
    use bias_agent::recal::Follows;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn sample(cpus: u32) -> StatusReport {
        let mut report = status();
        let cpu = |cpu| recalibrated(cpu, Class::Slow, [2500, 1580, 1000], Follows::Cycles);
        report.recalibration.cpus = (0..cpus).map(cpu).collect();
        report.recalibration.cpus[0].seen_ms_ago = Some(1500);
        report
    }

    fn of(cpus: u32) -> String {
        let ejections = [Ejection { at_ms: 1_800_000_000_500, reason: "runnable task \"stall\"".into() }];
        text(&sample(cpus), Some(&BiasCounts { unbiased: 3, ..BiasCounts::default() }), &ejections).unwrap()
    }

    #[test]
    fn metrics_are_in_base_units() {
        let text = of(2);
        for line in [
            "scx_bias_build_info{version=\"0.1.0\"} 1",
            "scx_bias_uptime_seconds 3725.0",
            "scx_bias_pull_total 12",
            "scx_bias_run_fast_seconds_total 7200.0",
            "scx_bias_cpu_cost_ratio{cpu=\"1\",component=\"execute\"} 2.5",
            "scx_bias_cpu_is_fast{cpu=\"0\"} 0.0",
            "scx_bias_cpu_cost_age_seconds{cpu=\"0\"} 1.5",
            "scx_bias_tasks{bias=\"unbiased\"} 3.0",
            "scx_bias_ejections_kept 1",
            "scx_bias_last_ejection_timestamp_seconds 1800000000.5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("cpu_cost_age_seconds{cpu=\"1\"}"), "it was never confirmed");
        assert!(!super::text(&sample(1), None, &[]).unwrap().contains("scx_bias_tasks{"));
    }

    #[test]
    fn the_dashboard_shows_metrics_that_exist() {
        let dashboard: serde_json::Value =
            serde_json::from_str(include_str!("../../../../docs/grafana.json")).unwrap();
        let samples = of(1);
        let targets = dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| {
            let targets = panel["targets"].as_array().unwrap();
            targets.iter().map(|target| target["expr"].as_str().unwrap().to_owned())
        });
        let mut shown = 0;
        for expression in targets {
            let part = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
            for name in expression.split(part).filter(|word| word.starts_with("scx_bias_")) {
                let is_sample = |line: &str| line.split(['{', ' ']).next() == Some(name);
                assert!(samples.lines().any(is_sample), "{name} does not exist");
                shown += 1;
            }
        }
        assert!(shown >= 9, "{shown}");
    }

    /// Check the rules of OpenMetrics 1.0 that Prometheus enforces.
    #[test]
    fn the_format_is_that_of_openmetrics() {
        let text = of(3);
        let name = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        let (mut families, mut samples) = (BTreeSet::new(), BTreeSet::new());
        let mut family = String::new();
        for line in text.strip_suffix("# EOF\n").unwrap().lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                family = rest.split_once(' ').unwrap().0.to_owned();
                assert!(name(&family) && families.insert(family.clone()), "{line}");
            } else if !line.starts_with('#') {
                let (sample, value) = line.rsplit_once(' ').unwrap();
                assert!(sample.starts_with(&family) && samples.insert(sample.to_owned()), "{line}");
                assert!(name(sample.split('{').next().unwrap()) && value.parse::<f64>().is_ok(), "{line}");
            }
        }
        assert_eq!(families.iter().filter(|family| family.ends_with("_total")).count(), 0);
        assert!(families.len() > Stats::ALL.len());
    }

    #[test]
    fn the_size_grows_with_the_number_of_cpus() {
        let lines = |cpus| of(cpus).lines().count();
        assert_eq!(lines(1024) - lines(1), 1023 * 4);
        assert!(of(1024).len() < 400_000);
    }

    fn ask(head: &str) -> String {
        String::from_utf8(answer(head.as_bytes(), || Ok("x 1\n# EOF\n".to_owned()))).unwrap()
    }

    #[test]
    fn only_metrics_are_served() {
        let found = ask("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(
            found.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"),
            "{found}"
        );
        assert!(
            found.contains("Content-Length: 10\r\n") && found.ends_with("\r\n\r\nx 1\n# EOF\n"),
            "{found}"
        );
        assert!(ask("GET /?x=1 HTTP/1.0\n\n").starts_with("HTTP/1.1 200"));
        let head = ask("HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 10\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(ask("GET /metricsx HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        let absent = answer(b"GET / HTTP/1.1\r\n\r\n", || Err(Failure::kernel("not running").into()));
        let absent = String::from_utf8(absent).unwrap();
        assert!(absent.starts_with("HTTP/1.1 503") && absent.ends_with("not running\n"), "{absent}");
    }

    #[test]
    fn silent_leaving_and_endless_clients_are_dropped() {
        let deadline = || Instant::now() + Duration::from_millis(20);
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        assert!(super::head(&mut ours, deadline()).is_err(), "a silent one");
        drop(theirs);
        assert!(super::head(&mut ours, Instant::now() + PATIENCE).is_err(), "one that left");
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&[b'x'; HEAD_MAX + 1]).unwrap();
        assert!(super::head(&mut ours, Instant::now() + PATIENCE).is_err(), "one without an end");
        assert!(send(&mut ours, &vec![b'x'; 16 << 20], deadline()).is_err(), "one that does not read");
    }

    proptest! {
        #[test]
        fn any_request_has_an_answer(head in proptest::collection::vec(any::<u8>(), 0..300)) {
            let answer = answer(&head, || Ok(String::new()));
            prop_assert!(answer.starts_with(b"HTTP/1.1 ") && answer.windows(4).any(|end| end == b"\r\n\r\n"));
        }
    }
}
