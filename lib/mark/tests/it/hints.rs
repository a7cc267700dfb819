// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A marked C program with a fake agent, which records the library's requests.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread::JoinHandle;

use crate::program::{compile, complaints, run};
use bias_mark::wire::{self, REQUEST_BYTES, Request, Status};

/// Accept `processes` connections, give each this answer, and return the requests.
fn agent(path: &Path, processes: usize, answer: Vec<u8>) -> JoinHandle<Vec<Request>> {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        let serve = |_| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = [0; REQUEST_BYTES];
            stream.read_exact(&mut bytes).unwrap();
            stream.write_all(&answer).unwrap();
            // The connection lasts as long as the process.
            let end = std::thread::spawn(move || stream.read(&mut [0]).unwrap());
            (Request::decode(&bytes).unwrap(), end)
        };
        let clients: Vec<_> = (0..processes).map(serve).collect();
        clients.into_iter().map(|(request, end)| (request, end.join().unwrap()).0).collect()
    })
}

/// Measure the program, and set the values in its profile so that the threshold divides them.
fn profile(program: &Path, odd: f64) -> PathBuf {
    run(program, &[], &[("BIAS_MARK", "measure")]);
    let path = program.with_extension("toml");
    let mut profile: toml::Table = std::fs::read_to_string(&path).unwrap().parse().unwrap();
    for section in profile["section"].as_array_mut().unwrap() {
        let value = if section["name"].as_str().unwrap() == "even" { 0.0 } else { odd };
        section.as_table_mut().unwrap().insert("misses_per_instruction".into(), value.into());
    }
    profile.insert("threshold".into(), 0.01.into());
    std::fs::write(&path, profile.to_string()).unwrap();
    path
}

fn hinted(program: &Path, arguments: &[&str], profile: &Path) -> Output {
    let socket = program.with_extension("socket");
    let environment = [
        ("BIAS_MARK", "hint"),
        ("BIAS_MARK_PROFILE", profile.to_str().unwrap()),
        ("BIAS_MARK_SOCKET", socket.to_str().unwrap()),
    ];
    run(program, arguments, &environment)
}

#[test]
fn every_process_names_its_table() {
    let (_directory, program) = compile(&[]);
    let profile = profile(&program, 0.02);
    let served = agent(&program.with_extension("socket"), 2, wire::answer(Status::Accepted, [0, 1]).into());
    assert_eq!(complaints(&hinted(&program, &["fork"], &profile)), [""; 0]);
    let requests = served.join().unwrap();
    assert_ne!(requests[0].pid, requests[1].pid, "a child has a connection of its own");
    assert!(requests.iter().all(|request| request.table != 0), "{requests:?}");
}

#[test]
fn without_an_agent_one_line_says_so() {
    let (_directory, program) = compile(&[]);
    let profile = profile(&program, 0.02);
    let said = complaints(&hinted(&program, &["fork"], &profile));
    assert!(said.len() == 1 && said[0].contains("is it running"), "{said:?}");
}

#[test]
fn a_refusal_is_reported_in_one_line() {
    let (_directory, program) = compile(&[]);
    let profile = profile(&program, 0.02);
    for (status, cause) in [(Status::Full, "too many"), (Status::Namespace, "pid namespace")] {
        let socket = program.with_extension("socket");
        let served = agent(&socket, 1, wire::answer(status, []).into());
        let said = complaints(&hinted(&program, &[], &profile));
        assert!(said.len() == 1 && said[0].contains(cause), "{said:?}");
        served.join().unwrap();
        std::fs::remove_file(socket).unwrap();
    }
}

#[test]
fn an_unusable_profile_is_reported_in_one_line() {
    let (_directory, program) = compile(&[]);
    let path = profile(&program, 0.02);
    let good = std::fs::read_to_string(&path).unwrap();
    for (bad, cause) in [
        (good.replace("build_id = \"", "build_id = \"0"), "another build"),
        (good[..good.len() / 3].to_owned() + "[", "damaged"),
        (good.replace("threshold = 0.01\n", ""), "alike"),
        ("\u{0}\u{1}".to_owned(), "damaged"),
    ] {
        std::fs::write(&path, bad).unwrap();
        let said = complaints(&hinted(&program, &[], &path));
        assert!(said.len() == 1 && said[0].contains(cause), "{said:?}");
    }
    let said = complaints(&hinted(&program, &[], Path::new("/nowhere")));
    assert!(said.len() == 1 && said[0].contains("/nowhere"), "{said:?}");
}

/// The kernel side has the same layout.
#[test]
fn the_library_and_the_kernel_side_agree() {
    assert_eq!(wire::SLOTS, bias_policy::ffi::BIAS_HINT_SLOTS as usize);
    assert_eq!(wire::MAX_CPUS, bias_policy::ffi::BIAS_MAX_CPUS as usize);
    let hints = [
        bias_policy::ffi::BIAS_HINT_NONE,
        bias_policy::ffi::BIAS_HINT_FAST,
        bias_policy::ffi::BIAS_HINT_SLOW,
    ];
    use bias_mark::profile::Class;
    assert_eq!(hints, [Class::Neutral as u32, Class::Fast as u32, Class::Slow as u32]);
}
