//! Answers who asks over scx_stats' socket, which is private to root.
//!
//! Problem. Clients come, stay silent, stop reading and go whenever they like; what they ask for belongs to the thread that watches
//! the scheduler.
//!
//! Approach. The library has a thread for each client and hands their questions on one at a time. The watching thread waits for questions
//! beside everything else it waits for, and answers at once. Writing to a client is that client's thread's business. Targets:
//!
//! | target | answer |
//! |---|---|
//! | `top` (the default) | [`Stats`] since the client's last question |
//! | `status` | [`StatusReport`] |
//! | `tasks` | a list of [`TaskReport`] |
//! | `cgroups`, with `request` a [`Request`] as JSON | [`CgroupAnswer`] |
//!
//! Invariants. Every question gets exactly one answer, an error if need be: the library's hand waits for it, and takes two for a bug.
//! Nothing here is on the way of scheduling, which goes on while this process sleeps.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use crossbeam::channel::{Receiver, Sender};
use scx_stats::prelude::*;
use serde::{Deserialize, Serialize};

use super::report::TaskReport;
use super::stats::Stats;
use super::status::StatusReport;
use crate::failure::{Exit, Failure};
use crate::optin::{Report, Request};

/// Where the answers come from.
pub(super) trait Source {
    fn stats(&self) -> Stats;
    fn status(&self) -> StatusReport;
    fn tasks(&self) -> Result<Vec<TaskReport>>;
    fn cgroups(&self, request: &Request) -> Result<Report, Failure>;
}

/// What is answered about opted-in cgroups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupAnswer {
    /// It was done, and this is so now.
    Done(Report),
    /// It was not.
    Refused {
        /// Exit code.
        exit: u8,
        /// Cause and remedy.
        message: String,
    },
}

impl From<Result<Report, Failure>> for CgroupAnswer {
    fn from(result: Result<Report, Failure>) -> Self {
        let refused = |failure: Failure| Self::Refused { exit: failure.exit as u8, message: failure.message };
        result.map_or_else(refused, Self::Done)
    }
}

impl From<CgroupAnswer> for Result<Report, Failure> {
    fn from(answer: CgroupAnswer) -> Self {
        match answer {
            CgroupAnswer::Done(report) => Ok(report),
            CgroupAnswer::Refused { exit, message } => {
                let exits = [Exit::Usage, Exit::Kernel, Exit::OtherScheduler];
                let exit = exits.into_iter().find(|known| *known as u8 == exit);
                Err(Failure::new(exit.unwrap_or(Exit::Runtime), message))
            }
        }
    }
}

/// What a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    Stats,
    Status,
    Tasks,
    Cgroups(Request),
}

/// What it gets.
pub(super) enum Answer {
    Stats(Stats),
    Status(Box<StatusReport>),
    Tasks(Result<Vec<TaskReport>, String>),
    Cgroups(CgroupAnswer),
}

type Questions = Sender<Question>;
type Answers = Receiver<Answer>;
type Opener = Box<dyn StatsOpener<Question, Answer>>;
type Reader = Box<dyn StatsReader<Question, Answer>>;

/// The socket and its threads; they end when it is dropped.
pub(super) struct Server {
    inner: StatsServer<Question, Answer>,
    questions: Receiver<Question>,
}

impl Server {
    /// Serves on the usual socket, or on `path`.
    pub(super) fn launch(path: Option<&Path>) -> Result<Self> {
        let data = StatsServerData::new()
            .add_meta(Stats::meta())
            .add_ops("top", ops(Box::new(open_stats)))
            .add_ops("status", ops(Box::new(|_| Ok(Box::new(read_status) as Reader))))
            .add_ops("tasks", ops(Box::new(|_| Ok(Box::new(read_tasks) as Reader))))
            .add_ops("cgroups", ops(Box::new(|_| Ok(Box::new(read_cgroups) as Reader))));
        let server = StatsServer::new(data);
        let server = match path {
            Some(path) => server.set_path(path),
            None => server,
        };
        let inner = server.launch().context("cannot open the statistics socket")?;
        let (_, questions) = inner.channels();
        Ok(Self { inner, questions })
    }

    /// Where questions come in.
    pub(super) fn questions(&self) -> &Receiver<Question> {
        &self.questions
    }

    /// Answers a question that was received.
    pub(super) fn answer(&self, question: Question, source: &dyn Source) {
        let answer = match question {
            Question::Stats => Answer::Stats(source.stats()),
            Question::Status => Answer::Status(Box::new(source.status())),
            Question::Tasks => Answer::Tasks(source.tasks().map_err(|error| format!("{error:#}"))),
            Question::Cgroups(request) => Answer::Cgroups(source.cgroups(&request).into()),
        };
        // It fails only when the threads have ended, and then nobody waits.
        let _ = self.inner.channels().0.send(answer);
    }
}

fn ops(open: Opener) -> StatsOps<Question, Answer> {
    StatsOps { open, close: None }
}

fn ask(question: Question, (questions, answers): (&Questions, &Answers)) -> Result<Answer> {
    questions.send(question)?;
    Ok(answers.recv()?)
}

fn ask_stats(channels: (&Questions, &Answers)) -> Result<Stats> {
    match ask(Question::Stats, channels)? {
        Answer::Stats(stats) => Ok(stats),
        _ => bail!("got another answer than asked for; please report this"),
    }
}

/// Each answer tells what came since the last one.
fn open_stats(channels: (&Questions, &Answers)) -> Result<Reader> {
    let mut last = ask_stats(channels)?;
    Ok(Box::new(move |_args, channels| {
        let now = ask_stats(channels)?;
        let delta = now.since(&last);
        last = now;
        delta.to_json()
    }))
}

type Arguments = std::collections::BTreeMap<String, String>;

fn read_status(_: &Arguments, channels: (&Questions, &Answers)) -> Result<serde_json::Value> {
    match ask(Question::Status, channels)? {
        Answer::Status(report) => Ok(serde_json::to_value(report)?),
        _ => bail!("got another answer than asked for; please report this"),
    }
}

fn read_tasks(_: &Arguments, channels: (&Questions, &Answers)) -> Result<serde_json::Value> {
    match ask(Question::Tasks, channels)? {
        Answer::Tasks(tasks) => Ok(serde_json::to_value(tasks.map_err(|error| anyhow!(error))?)?),
        _ => bail!("got another answer than asked for; please report this"),
    }
}

fn read_cgroups(arguments: &Arguments, channels: (&Questions, &Answers)) -> Result<serde_json::Value> {
    let request = arguments.get("request").context("the question has no request")?;
    let request = serde_json::from_str(request).context("the request is of another version")?;
    match ask(Question::Cgroups(request), channels)? {
        Answer::Cgroups(answer) => Ok(serde_json::to_value(answer)?),
        _ => bail!("got another answer than asked for; please report this"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::explain::Client;
    use crate::optin::CgroupReport;
    use crate::sched::RunOptions;
    use crate::sched::status::{Band, State};
    use bias_policy::table::CapacityTable;
    use std::cell::Cell;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    #[derive(Default)]
    struct Fake {
        asked: Cell<u64>,
        refuses: bool,
    }

    impl Source for Fake {
        fn stats(&self) -> Stats {
            self.asked.set(self.asked.get() + 1);
            Stats { moved: 10 * self.asked.get(), ..Stats::default() }
        }

        fn status(&self) -> StatusReport {
            let options = RunOptions::new(CapacityTable::default());
            StatusReport::new(
                &options,
                State::default(),
                Duration::ZERO,
                Band::default(),
                Vec::new(),
                self.stats(),
            )
        }

        fn cgroups(&self, request: &Request) -> Result<Report, Failure> {
            if self.refuses {
                return Err(Failure::usage("no such cgroup; name another"));
            }
            let path = format!("{request:?}");
            Ok(Report {
                cgroups: vec![CgroupReport { path, ..CgroupReport::default() }],
                ..Report::default()
            })
        }

        fn tasks(&self) -> Result<Vec<TaskReport>> {
            if self.refuses {
                bail!("no iterator");
            }
            Ok(vec![TaskReport { pid: 7, name: "seven".into(), ..TaskReport::default() }])
        }
    }

    /// Serves `fake` on a socket while `clients` runs.
    fn served<T: Send>(fake: &Fake, clients: impl FnOnce(&Path) -> T + Send) -> T {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/stats");
        let server = Server::launch(Some(&path)).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // A failed client must end the test, not leave it waiting.
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| clients(&path)));
                done.store(true, Ordering::Relaxed);
                result
            });
            while !done.load(Ordering::Relaxed) {
                if let Ok(question) = server.questions().recv_timeout(Duration::from_millis(20)) {
                    server.answer(question, fake);
                }
            }
            thread.join().unwrap().unwrap()
        })
    }

    #[test]
    fn every_target_is_answered() {
        served(&Fake::default(), |path| {
            let mut client = Client::connect(Some(path)).unwrap();
            assert_eq!(client.tasks().unwrap()[0].name, "seven");
            assert_eq!(client.status().unwrap().version, env!("CARGO_PKG_VERSION"));
            for request in [Request::List, Request::Add("/a b".into()), Request::Remove("/\"".into())] {
                let report = client.cgroups(&request).unwrap();
                assert_eq!(report.cgroups[0].path, format!("{request:?}"));
            }
            let mut raw = StatsClient::new().set_path(path).connect(Some(5000)).unwrap();
            for _ in 0..3 {
                assert_eq!(raw.request::<Stats>("stats", vec![]).unwrap().moved, 10);
            }
            let unknown = vec![("target".to_owned(), "swaps".to_owned())];
            assert!(raw.request::<Stats>("stats", unknown).is_err());
        });
    }

    #[test]
    fn a_source_that_fails_is_an_answer_too() {
        served(&Fake { refuses: true, ..Fake::default() }, |path| {
            let mut client = Client::connect(Some(path)).unwrap();
            assert!(client.tasks().unwrap_err().to_string().contains("no iterator"));
            let refused = client.cgroups(&Request::List).unwrap_err();
            assert_eq!(refused, Failure::usage("no such cgroup; name another"));
            let raw = vec![("target".to_owned(), "cgroups".to_owned())];
            let mut stranger = StatsClient::new().set_path(path).connect(Some(5000)).unwrap();
            assert!(stranger.request::<CgroupAnswer>("stats", raw).is_err());
            assert!(client.status().is_ok());
        });
    }

    #[test]
    fn clients_that_go_hang_or_talk_nonsense_disturb_nobody() {
        let question = b"{\"req\":\"stats\",\"args\":{\"target\":\"tasks\"}}\n";
        served(&Fake::default(), |path| {
            let mut silent: Vec<UnixStream> = (0..50).map(|_| UnixStream::connect(path).unwrap()).collect();
            for stream in &mut silent[..25] {
                // Never read.
                stream.write_all(&question.repeat(20)).unwrap();
            }
            for stream in &mut silent[25..] {
                stream.write_all(b"{\"req\":\xff nonsense\n\n").unwrap();
            }
            drop(silent.drain(..10));
            for _ in 0..20 {
                let mut gone = UnixStream::connect(path).unwrap();
                gone.write_all(question).unwrap();
            }
            std::thread::scope(|scope| {
                for _ in 0..20 {
                    scope.spawn(|| {
                        let mut client = Client::connect(Some(path)).unwrap();
                        for _ in 0..5 {
                            assert_eq!(client.tasks().unwrap().len(), 1);
                        }
                    });
                }
            });
        });
    }

    #[test]
    fn a_server_that_has_gone_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stats");
        drop(Server::launch(Some(&path)).unwrap());
        std::thread::sleep(Duration::from_millis(50));
        assert!(Client::connect(Some(&path)).err().unwrap().message.contains("not running"));
        // Its successor takes the socket over.
        let _again = Server::launch(Some(&path)).unwrap();
        assert!(Client::connect(Some(&path)).is_ok());
    }
}
