// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
use super::*;
use proptest::prelude::*;

/// A stage that follows a script and keeps a diary.
#[derive(Default)]
struct Scripted {
    diary: Vec<String>,
    active: Option<String>,
    /// Runs of cells so far.
    runs: usize,
    /// Arm that fails to load, from this run on.
    broken: Option<(String, usize)>,
    /// Arm that one check finds dead.
    dies: Option<String>,
    /// Arm that cannot be unloaded.
    sticks: Option<String>,
    /// Run that fails.
    fails_at: Option<usize>,
    /// Run before which the user interrupts.
    interrupt_at: Option<usize>,
    /// Time a run takes.
    run_time: Duration,
}

impl Stage for Scripted {
    fn release(&mut self, next: &Arm) -> Result<()> {
        if self.active.as_ref() == Some(&next.name) {
            return Ok(());
        }
        match self.active.take() {
            Some(name) if Some(&name) == self.sticks.as_ref() => {
                Err(Error::failed("unloading", "it does not end"))
            }
            _ => Ok(()),
        }
    }

    fn enter(&mut self, arm: &Arm) -> Result<()> {
        if let Some((name, from)) = &self.broken
            && *name == arm.name
            && self.runs >= *from
        {
            return Err(Error::failed("loading", "never enabled"));
        }
        if self.active.as_ref() != Some(&arm.name) {
            self.diary.push(format!("+{}", arm.name));
            self.active = Some(arm.name.clone());
        }
        Ok(())
    }

    fn run(&mut self, arm: &Arm, cell: usize) -> Result<Measured> {
        assert_eq!(self.active.as_ref(), Some(&arm.name), "the arm is active");
        if self.fails_at == Some(self.runs) {
            return Err(Error::failed("running", "a program was killed"));
        }
        self.runs += 1;
        self.diary.push(format!("{}{cell}", arm.name));
        Ok(Measured { metrics: BTreeMap::from([("stp".into(), 1.0)]), ..Measured::default() })
    }

    fn check(&mut self) -> Result<()> {
        match self.dies.take() {
            Some(name) if Some(&name) == self.active.as_ref() => {
                Err(Error::failed("checking", "it was ejected"))
            }
            other => {
                self.dies = other;
                Ok(())
            }
        }
    }

    fn leave(&mut self) -> Result<()> {
        self.active = None;
        self.diary.push("-".into());
        Ok(())
    }

    fn elapsed(&self) -> Duration {
        self.run_time * self.runs as u32
    }

    fn guest_elapsed(&self) -> Duration {
        self.elapsed() / 2
    }

    fn interrupted(&self) -> bool {
        self.interrupt_at.is_some_and(|at| self.runs >= at)
    }
}

#[derive(Default)]
struct Kept {
    samples: Vec<Sample>,
    ends: usize,
    last: Option<BootProgress>,
}

impl Sink for Kept {
    fn sample(&mut self, sample: &Sample) -> Result<()> {
        self.samples.push(sample.clone());
        Ok(())
    }
    fn progress(&mut self, progress: &BootProgress) {
        assert!(progress.done < progress.total, "{progress:?}");
        self.last = Some(progress.clone());
    }
    fn block_end(&mut self) -> Result<()> {
        self.ends += 1;
        Ok(())
    }
}

fn job(arms: &[&str], blocks: usize) -> Job {
    let arms = arms
        .iter()
        .map(|name| Arm { name: (*name).into(), kind: super::super::arms::ArmKind::Default })
        .collect();
    Job {
        seed: 1,
        boot: 0,
        blocks: (0..blocks as u32).collect(),
        tried: BTreeMap::new(),
        arms,
        cells: vec!["x".into(), "y".into()],
        budget: None,
        wall_per_guest: None,
    }
}

fn go(job: &Job, stage: &mut Scripted) -> (Outcome, Kept) {
    let mut kept = Kept::default();
    let outcome = run(job, stage, &mut kept).unwrap();
    assert_eq!(stage.active, None, "the stage was left");
    (outcome, kept)
}

#[test]
fn a_quiet_run_visits_arms_twice_a_block_and_reloads_only_on_change() {
    let mut stage = Scripted::default();
    let (outcome, kept) = go(&job(&["a", "b"], 3), &mut stage);
    assert_eq!((outcome.blocks_done, outcome.incomplete), (3, None));
    assert_eq!(kept.samples.len(), 3 * 4 * 2);
    assert_eq!(kept.ends, 3);
    let first: Vec<&str> = stage.diary.iter().take(11).map(String::as_str).collect();
    let (one, two) = if first[0] == "+a" { ("a", "b") } else { ("b", "a") };
    let cells = |arm: &str| [format!("{arm}0"), format!("{arm}1")];
    let expected: Vec<String> = [
        vec![format!("+{one}")],
        cells(one).into(),
        vec![format!("+{two}")],
        cells(two).into(),
        cells(two).into(),
        vec![format!("+{one}")],
        cells(one).into(),
    ]
    .concat();
    assert_eq!(first, expected);
}

#[test]
fn a_failing_arm_is_dropped_and_the_others_continue() {
    let mut stage = Scripted { broken: Some(("c".into(), 14)), ..Scripted::default() };
    let (outcome, kept) = go(&job(&["a", "b", "c"], 3), &mut stage);
    assert_eq!((outcome.blocks_done, outcome.incomplete.clone()), (3, None));
    assert!(outcome.failed_arms["c"].contains("never enabled"));
    let last = |arm: &str| kept.samples.iter().rev().find(|s| s.arm == arm).map(|s| s.block);
    assert_eq!(last("a"), Some(2));
    assert!(last("c") < Some(2));
}

#[test]
fn a_run_ends_when_its_baseline_fails() {
    let mut stage = Scripted { dies: Some("a".into()), ..Scripted::default() };
    let (outcome, kept) = go(&job(&["a", "b", "c"], 3), &mut stage);
    assert!(outcome.incomplete.unwrap().contains("ejected"));
    assert!(kept.samples.iter().all(|s| s.arm != "a"), "samples of a dead arm do not count");
}

#[test]
fn an_interrupt_keeps_complete_visits() {
    let mut stage = Scripted { interrupt_at: Some(11), ..Scripted::default() };
    let (outcome, kept) = go(&job(&["a", "b"], 5), &mut stage);
    assert_eq!((outcome.blocks_done, outcome.incomplete.as_deref()), (1, Some("interrupted")));
    assert_eq!(kept.samples.len(), 8 + 2, "whole visits only");
    assert_eq!(kept.ends, 2);
}

#[test]
fn a_failure_during_an_interrupt_does_not_count_against_the_arm() {
    let script = || Scripted { fails_at: Some(11), ..Scripted::default() };
    let mut interrupted = Scripted { interrupt_at: Some(11), ..script() };
    let (outcome, _) = go(&job(&["a", "b"], 5), &mut interrupted);
    assert_eq!((outcome.incomplete.as_deref(), outcome.failed_arms.len()), (Some(INTERRUPTED), 0));
    let (outcome, _) = go(&job(&["a", "b"], 5), &mut script());
    assert!(outcome.failed_arms.values().all(|why| why.contains("was killed")));
    assert_eq!(outcome.failed_arms.len(), 1);
}

#[test]
fn an_arm_that_cannot_be_unloaded_fails_not_its_successor() {
    let mut stage = Scripted { sticks: Some("b".into()), ..Scripted::default() };
    let (outcome, kept) = go(&job(&["a", "b", "c"], 3), &mut stage);
    assert_eq!(outcome.failed_arms.keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!((outcome.blocks_done, outcome.incomplete), (3, None));
    assert_eq!(crate::ab::sample::valid_blocks(&kept.samples).len(), 3);
}

#[test]
fn no_block_begins_that_would_exceed_the_budget() {
    let mut stage = Scripted { run_time: Duration::from_secs(1), ..Scripted::default() };
    let job = Job { budget: Some(Duration::from_secs(30)), ..job(&["a", "b"], 100) };
    let (outcome, _) = go(&job, &mut stage);
    // A block takes eight seconds. Three fit, and a fourth would end at 32.
    assert_eq!((outcome.blocks_done, outcome.guest_s), (3, 12.0));
    assert!(outcome.incomplete.unwrap().contains("budget"));
}

#[test]
fn a_repeated_block_gets_a_new_attempt_number() {
    let mut stage = Scripted::default();
    let job = Job { blocks: vec![1], tried: BTreeMap::from([(1, 2)]), ..job(&["a", "b"], 2) };
    let (outcome, kept) = go(&job, &mut stage);
    assert_eq!(outcome.blocks_done, 1);
    let attempts: std::collections::BTreeSet<u32> = kept.samples.iter().map(|s| s.attempt).collect();
    assert_eq!(attempts.into_iter().collect::<Vec<_>>(), [3]);
}

proptest! {
    /// Check that the runner and the judge of its samples agree on the complete blocks, for any
    /// failure and any interrupt.
    #[test]
    fn completed_blocks_are_exactly_the_valid_ones(broken_from in 0usize..100, interrupt_at in 0usize..100, arms in 2usize..4) {
        let names = &["a", "b", "c"][..arms];
        let mut stage = Scripted {
            broken: Some(("c".into(), broken_from)),
            interrupt_at: Some(interrupt_at),
            ..Scripted::default()
        };
        let (outcome, kept) = go(&job(names, 5), &mut stage);
        prop_assert_eq!(crate::ab::sample::valid_blocks(&kept.samples).len() as u32, outcome.blocks_done);
    }
}
