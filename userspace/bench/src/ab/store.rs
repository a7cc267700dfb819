// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Files of a run: `samples.jsonl`, which only grows, and `run.json`, which is replaced as a whole.
//!
//! # Problem
//! A run takes hours. A crash, Ctrl-C or a full disk must cost at most the current measurement.
//!
//! # Approach
//! A sample is one line and is written immediately. The end of a block syncs the file to the disk.
//! `run.json` is written to a temporary file next to it and renamed, so it is always the old
//! version or the new one. A last line without its end is the trace of a crash. Readers skip that
//! line, and [`Store::open`] removes it before it appends.
//!
//! # Invariants
//! Every line except the last is a whole sample or blank. Otherwise the file is refused, and the
//! error names the line.
//!
//! # Limits
//! A run has one writer at a time. Sample files of more than 1 GiB are refused.

use super::sample::{RUN_SCHEMA, Run, SAMPLE_SCHEMA, Sample};
use crate::{Error, Result, files};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Seek, Write};
use std::path::{Path, PathBuf};

/// File of samples in the directory of a run.
pub const SAMPLES_FILE: &str = "samples.jsonl";
/// File with the description of a run.
pub const RUN_FILE: &str = "run.json";
/// File with the plan of a run, from which another run can start.
pub const PLAN_FILE: &str = "plan.toml";
/// Maximum size of a file of samples.
const MAX_SAMPLES_BYTES: u64 = 1 << 30;
/// Maximum size of the description of a run.
const MAX_RUN_BYTES: u64 = 16 << 20;

/// A run that is being written.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    samples: File,
}

/// A run that was read back.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Description of the run.
    pub run: Run,
    /// All samples, in the order of writing.
    pub samples: Vec<Sample>,
    /// True if a crash has cut the last line short. That line is skipped.
    pub torn: bool,
}

impl Store {
    /// Start a run in `dir`, and create the directory if it is missing. Return an error if the
    /// directory holds a run.
    pub fn create(dir: &Path, run: &Run) -> Result<Store> {
        std::fs::create_dir_all(dir).map_err(|e| io_error(dir, &e))?;
        let path = dir.join(SAMPLES_FILE);
        let opened = OpenOptions::new().append(true).create_new(true).open(&path);
        let samples = opened.map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => Error::Usage(format!(
                "{} holds a run already: continue it with --resume, or name another directory",
                dir.display()
            )),
            _ => io_error(&path, &e),
        })?;
        let store = Store { dir: dir.to_path_buf(), samples };
        store.write_run(run)?;
        Ok(store)
    }

    /// Open a run to continue it, and return its content. Remove a last line that a crash has cut
    /// short.
    pub fn open(dir: &Path) -> Result<(Store, Stored)> {
        let stored = load(dir)?;
        let path = dir.join(SAMPLES_FILE);
        let opened = OpenOptions::new().append(true).read(true).create(true).open(&path);
        let mut samples = opened.map_err(|e| io_error(&path, &e))?;
        if stored.torn {
            let whole = read_samples(&path)?.whole_bytes;
            samples.set_len(whole).map_err(|e| io_error(&path, &e))?;
        }
        samples.seek(std::io::SeekFrom::End(0)).map_err(|e| io_error(&path, &e))?;
        Ok((Store { dir: dir.to_path_buf(), samples }, stored))
    }

    /// Append one sample immediately.
    pub fn append(&mut self, sample: &Sample) -> Result<()> {
        let mut line = serde_json::to_vec(sample).map_err(|e| Error::failed("writing a sample", e))?;
        line.push(b'\n');
        self.samples.write_all(&line).map_err(|e| io_error(&self.dir.join(SAMPLES_FILE), &e))
    }

    /// End a block. All appended samples are on the disk when this returns.
    pub fn end_block(&mut self) -> Result<()> {
        self.samples.sync_data().map_err(|e| io_error(&self.dir.join(SAMPLES_FILE), &e))
    }

    /// Replace the description of the run as a whole.
    pub fn write_run(&self, run: &Run) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(run).map_err(|e| Error::failed("writing the run", e))?;
        text.push(b'\n');
        write_whole(&self.dir.join(RUN_FILE), &text)
    }

    /// Return the directory of the run.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Read a run back. A run without a file of samples has no samples.
pub fn load(dir: &Path) -> Result<Stored> {
    let path = dir.join(RUN_FILE);
    if !path.exists() {
        return Err(Error::Usage(format!(
            "{}: no run here, {RUN_FILE} is missing; name a directory that --out created",
            dir.display()
        )));
    }
    let text = files::read_small_file(&path, MAX_RUN_BYTES)?;
    let wrong = |why: String| Error::Usage(format!("{}: {why}", path.display()));
    let run: Run = serde_json::from_str(&text)
        .map_err(|e| wrong(format!("not a run ({e}); measure again, or restore the file")))?;
    check_schema(&run.schema, RUN_SCHEMA).map_err(wrong)?;
    let samples_path = dir.join(SAMPLES_FILE);
    let lines = if samples_path.exists() { read_samples(&samples_path)? } else { Lines::default() };
    Ok(Stored { run, samples: lines.samples, torn: lines.torn })
}

/// Content of a file of samples.
#[derive(Debug, Default)]
struct Lines {
    samples: Vec<Sample>,
    /// Length without a last line that was cut short.
    whole_bytes: u64,
    torn: bool,
}

fn read_samples(path: &Path) -> Result<Lines> {
    let usage = |why: String| Error::Usage(format!("{}: {why}", path.display()));
    let meta = std::fs::metadata(path).map_err(|e| io_error(path, &e))?;
    if !meta.is_file() {
        return Err(usage("not a regular file".into()));
    }
    if meta.len() > MAX_SAMPLES_BYTES {
        return Err(usage(format!("{} bytes; at most {MAX_SAMPLES_BYTES} are read", meta.len())));
    }
    let mut reader = BufReader::new(File::open(path).map_err(|e| io_error(path, &e))?);
    let mut lines = Lines::default();
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        let length = reader.read_until(b'\n', &mut line).map_err(|e| io_error(path, &e))?;
        lines.torn = line.last().is_some_and(|&last| last != b'\n');
        if length == 0 || lines.torn {
            break;
        }
        lines.whole_bytes += length as u64;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let wrong = |why: String| {
            usage(format!("line {number}: {why}; remove the line, its block then counts as incomplete"))
        };
        let sample: Sample = serde_json::from_slice(&line).map_err(|e| wrong(e.to_string()))?;
        check_schema(&sample.schema, SAMPLE_SCHEMA).map_err(wrong)?;
        lines.samples.push(sample);
    }
    Ok(lines)
}

fn check_schema(found: &str, known: &str) -> std::result::Result<(), String> {
    if found == known {
        return Ok(());
    }
    Err(format!("format '{found}' is not {known}; read it with the version that wrote it"))
}

/// Write a file atomically: after a crash it has the old content or the new. The new content goes
/// to a temporary file in the same directory, is synced, and is renamed.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    write().map_err(|e| {
        let _ = std::fs::remove_file(&beside);
        io_error(path, &e)
    })
}

/// Return the system's reason as an error, with the usual remedy if there is one.
fn io_error(path: &Path, error: &std::io::Error) -> Error {
    let remedy = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "; free some space, then continue with --resume: the samples so far are kept"
        }
        ErrorKind::FileTooLarge => {
            "; raise the limit on the size of files (ulimit -f), then continue with --resume: the samples so far are kept"
        }
        ErrorKind::PermissionDenied => "; name a directory that you may read and write",
        ErrorKind::ReadOnlyFilesystem => "; name a directory on a writable file system",
        _ => "",
    };
    Error::failed(path.display(), format!("{error}{remedy}"))
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::sample;
    use super::*;

    fn one(block: u32) -> Sample {
        sample([0, block, 0, 1], "a", "c", &[("stp", 1.5), ("antt", f64::INFINITY)])
    }

    #[test]
    fn a_written_run_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("new/run");
        let mut run = Run { suite: "quick".into(), seed: 7, ..Run::default() };
        let mut store = Store::create(&dir, &run).unwrap();
        store.append(&one(0)).unwrap();
        store.end_block().unwrap();
        run.complete = true;
        store.write_run(&run).unwrap();
        assert_eq!(load(&dir).unwrap(), Stored { run, samples: vec![one(0)], torn: false });
        let again = Store::create(&dir, &Run::default()).unwrap_err().to_string();
        assert!(again.contains("--resume"), "{again}");
    }

    #[test]
    fn a_torn_last_line_is_skipped_and_removed_before_appending() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create(dir.path(), &Run::default()).unwrap();
        store.append(&one(0)).unwrap();
        // The crash happens in the middle of a character.
        store.samples.write_all(b"{\"schema\":\"bias-bench.sample/2\",\"arm\":\"\xc3").unwrap();
        drop(store);
        let stored = load(dir.path()).unwrap();
        assert_eq!((stored.samples.len(), stored.torn), (1, true));
        let (mut store, _) = Store::open(dir.path()).unwrap();
        store.append(&one(1)).unwrap();
        let stored = load(dir.path()).unwrap();
        assert_eq!((stored.samples, stored.torn), (vec![one(0), one(1)], false));
    }

    #[test]
    fn every_error_names_the_place_and_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let message = || load(dir.path()).unwrap_err().to_string();
        assert!(message().contains("no run here"), "{}", message());
        std::fs::write(dir.path().join(RUN_FILE), "{\"schema\":\"bias-bench.run/9\"}").unwrap();
        assert!(message().contains("format 'bias-bench.run/9'"), "{}", message());
        std::fs::write(dir.path().join(RUN_FILE), "{").unwrap();
        assert!(message().contains("not a run"), "{}", message());
        drop(std::fs::remove_file(dir.path().join(RUN_FILE)));
        drop(Store::create(dir.path(), &Run::default()).unwrap());
        std::fs::write(dir.path().join(SAMPLES_FILE), "\n{\"schema\":1}\n").unwrap();
        assert!(message().contains("line 2:") && !message().contains('\n'), "{}", message());
        std::fs::remove_file(dir.path().join(SAMPLES_FILE)).unwrap();
        nix::unistd::mkfifo(&dir.path().join(SAMPLES_FILE), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(message().contains("not a regular file"), "{}", message());
    }

    #[test]
    fn a_full_disk_is_named_with_its_remedy() {
        if !Path::new("/dev/full").exists() {
            return;
        }
        let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let mut store = Store { dir: PathBuf::from("d"), samples: full };
        let error = store.append(&one(0)).unwrap_err().to_string();
        assert!(error.contains("--resume"), "{error}");
    }
}
