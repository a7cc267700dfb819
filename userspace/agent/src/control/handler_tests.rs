// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::bpf::TaskReport;
use crate::control::Reply;
use crate::options::reload::ReloadReport;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};

/// Number of malformed requests that are tried.
const TRIES: u32 = 1_000_000;

/// Make a handler that answers everything and counts its requests.
fn handler(asked: &mut u64) -> Handler<impl FnMut(Request) -> Option<Answer>> {
    Handler::new(move |request| {
        *asked += 1;
        Some(match request {
            Request::Top => Answer::Stats(Box::new(Stats { moved: *asked, ..Stats::default() })),
            Request::Status | Request::Tasks(_) => {
                Answer::Other(Box::new(vec![TaskReport { name: "seven".into(), ..TaskReport::default() }]))
            }
            _ => Answer::Other(Box::new(Reply::Done(ReloadReport::default()))),
        })
    })
}

const WELL_FORMED: [&str; 8] = [
    r#"{"req":"stats"}"#,
    r#"{"req":"stats_meta","args":{}}"#,
    r#"{"req":"stats","args":{"target":"top"}}"#,
    r#"{"req":"stats","args":{"target":"status"}}"#,
    r#"{"req":"stats","args":{"target":"tasks"}}"#,
    r#"{"req":"stats","args":{"target":"cgroups","request":"{\"add\":\"/sys/fs/cgroup/a\"}"}}"#,
    r#"{"req":"stats","args":{"target":"reload"}}"#,
    r#"{"req":"stats","args":{"target":"swaps","from":"7"}}"#,
];

/// Fragments that tend to break parsers.
const PIECES: [&[u8]; 14] = [
    b"\"",
    b"\\",
    b"\\u",
    b"\\ud800",
    b"{",
    b"[",
    b"}",
    b"null",
    b"-",
    b"1e999999",
    b"\xff\xfe",
    b"\0",
    b"\"args\":",
    b"\"target\":{}",
];

fn malformed(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut line = match rng.random_range(0..20) {
        0 => (0..rng.random_range(0..200)).map(|_| rng.random()).collect(),
        // Nest deeper than the stack of a parser should go.
        1 => vec![*b"[{".choose(rng).unwrap_or(&b'['); rng.random_range(1..500)],
        2 => vec![b' '; rng.random_range(0..100)],
        _ => WELL_FORMED[rng.random_range(0..WELL_FORMED.len())].as_bytes().to_vec(),
    };
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(0..=line.len());
        match rng.random_range(0..5) {
            0 => line.truncate(at),
            1 if at < line.len() => line[at] = rng.random(),
            2 if at < line.len() => line[at] ^= 1 << rng.random_range(0..8),
            3 => {
                let other = WELL_FORMED[rng.random_range(0..WELL_FORMED.len())];
                line.splice(at.., other.bytes().skip(at / 2));
            }
            _ => {
                let piece = PIECES[rng.random_range(0..PIECES.len())];
                line.splice(at..at, piece.iter().copied());
            }
        }
    }
    // The socket has removed newlines.
    line.retain(|byte| *byte != b'\n');
    line
}

#[test]
fn whatever_the_bytes_there_is_one_line_of_json() {
    let (mut asked, mut understood, mut refused) = (0, 0u32, 0u32);
    let mut handler = handler(&mut asked);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut session = Session::default();
    for attempt in 0..TRIES {
        let line = malformed(&mut rng);
        let bytes = handler.answer(&mut session, &line).unwrap();
        if line.trim_ascii().is_empty() {
            assert!(bytes.is_empty());
            continue;
        }
        assert_eq!(bytes.iter().position(|byte| *byte == b'\n'), Some(bytes.len() - 1), "{line:?}");
        let fine = bytes.ends_with(b",\"errno\":0}\n");
        // Parsing every answer would take longer than giving it.
        if attempt % 64 == 0 {
            let answer: StatsResponse = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(answer.errno == 0, fine, "{line:?}");
            assert!(answer.args.contains_key("resp"));
        }
        understood += u32::from(fine);
        refused += u32::from(!fine);
        assert!(handler.known.len() <= MAX_KNOWN);
    }
    // Most requests are invalid, but some are still valid: the test covers both cases.
    assert!(refused > TRIES / 2 && understood > TRIES / 100, "{refused} refused, {understood} understood");
    drop(handler);
    assert!(asked > 0 && asked <= 2 * u64::from(understood));
}

#[test]
fn what_many_ask_is_asked_once_until_something_is_commanded() {
    let mut asked = 0;
    let mut handler = handler(&mut asked);
    let start = Instant::now();
    let mut ask = |after: Duration, at: usize| {
        let line = WELL_FORMED[at].as_bytes();
        handler.answer_by(|| start + after, &mut Session::default(), line).unwrap()
    };
    let first = ask(Duration::ZERO, 4);
    for part in 0..100 {
        assert!(Arc::ptr_eq(&ask(FRESH * part / 100, 4), &first), "{part} % of the time");
    }
    let fresh = ask(FRESH, 4);
    assert!(!Arc::ptr_eq(&fresh, &first));
    ask(FRESH, 6);
    assert!(!Arc::ptr_eq(&ask(FRESH, 4), &fresh));
}

#[test]
fn statistics_are_since_the_clients_last_question() {
    let mut asked = 0;
    let mut handler = handler(&mut asked);
    let (mut one, mut other) = (Session::default(), Session::default());
    // The first question of each session asks twice, to have a difference to report.
    let mut moved = |session: &mut Session| {
        let bytes = handler.answer(session, WELL_FORMED[0].as_bytes()).unwrap();
        let answer: StatsResponse = serde_json::from_slice(&bytes).unwrap();
        answer.args["resp"]["moved"].as_u64().unwrap()
    };
    assert_eq!([moved(&mut one), moved(&mut other), moved(&mut other), moved(&mut one)], [1, 1, 1, 4]);
}

#[test]
fn every_request_is_read_and_listed() {
    let refusal = Request::read("stat", &BTreeMap::new()).unwrap_err().to_string();
    for target in Request::TARGETS {
        assert!(refusal.split([' ', ',']).any(|word| word == *target), "{refusal}");
        // An argument may be missing, but the target is known.
        let refused = Request::read(target, &BTreeMap::new()).err().map(|error| error.to_string());
        assert!(refused.is_none_or(|error| error.contains("argument")), "{target}");
    }
    assert!(WELL_FORMED.iter().all(|line| understand(line.as_bytes()).is_ok()));
    let swaps = understand(br#"{"req":"stats","args":{"target":"swaps"}}"#);
    assert!(matches!(swaps, Ok(Line::Asks(Request::Swaps(None)))));
}
