// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the screen: its text at each size, and its keys.
#![allow(clippy::unwrap_used)]

use bias_agent::bpf::{Bias, Reason, TaskReport};
use bias_agent::control::{CpuClass, Machine};
use bias_policy::table::Class;
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};

use super::super::tasks::{Snapshot, TopRow};
use super::super::tests::{row, snapshot};
use super::cpus::Loads;
use super::screen::{App, Reaction, View, draw};
use super::style::Look;

const PLAIN: Look = Look { has_colour: false, has_blocks: false };
const RICH: Look = Look { has_colour: true, has_blocks: true };

/// Draw the state at this size. Return the screen and the number of tasks that became text.
fn drawn(app: &mut App, width: u16, height: u16, look: Look) -> (Buffer, usize) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut tasks = 0;
    terminal.draw(|frame| tasks = draw(frame, app, look)).unwrap();
    (terminal.backend().buffer().clone(), tasks)
}

/// Return the lines of a screen, without blanks at their ends, each after a line break.
fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width.max(1));
    let line = |cells: &[ratatui::buffer::Cell]| {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        format!("\n{}", line.trim_end())
    };
    buffer.content.chunks(width).map(line).collect()
}

fn shown(app: &mut App, width: u16, height: u16) -> String {
    text(&drawn(app, width, height, PLAIN).0)
}

fn press(app: &mut App, codes: &[KeyCode]) {
    for code in codes {
        assert_eq!(app.key(KeyEvent::new(*code, KeyModifiers::NONE)), Reaction::Continue, "{code}");
    }
}

fn loads() -> Loads {
    Loads::from([(0, 1000), (1, 640), (2, 120)])
}

fn answered() -> App {
    let mut app = App::default();
    app.answer(snapshot(), loads());
    app
}

/// Return an answer with many tasks, each with its pid as share and gain.
fn crowd(tasks: u32) -> Snapshot {
    let task = |pid: u32| TopRow {
        task: TaskReport {
            pid,
            name: format!("task{pid}"),
            speedup_permille: Some(pid),
            ..TaskReport::default()
        },
        share_permille: 500,
        on_fast_permille: 0,
    };
    Snapshot { tasks: (0..tasks).map(task).collect(), ..snapshot() }
}

/// Return an app that was answered several times, with the task `render` opened.
fn opened() -> App {
    let mut app = App::default();
    for second in 0..100u32 {
        let mut answer = snapshot();
        if let Some(render) = answer.tasks.first_mut() {
            let (cpu, reason) = if second < 60 { (2, Reason::Yield) } else { (0, Reason::Gain) };
            let on_fast = if second < 60 { 0 } else { 1000 };
            let gain = 1500 + second * 9;
            let execute = second * 9;
            *render = row(
                4711,
                "render",
                (998, on_fast),
                Some((Bias::FastBiased, gain, [execute, 1000 - execute, 0])),
                reason,
            );
            render.task.cpu = cpu;
            render.task.windows = 12;
            render.task.fast_ms = f64::from(second);
        }
        app.answer(answer, loads());
    }
    press(&mut app, &[KeyCode::Enter]);
    app
}

#[test]
fn a_screen_of_80_columns() {
    let expected = "
2 fast, 2 slow CPUs; average speedup 1.79x; 5 tasks: 1 fast-biased, 1
slow-biased, 1 unbiased, 2 unknown
fast    0 [||||||||||||||||||||||||] 100%    1 [|||||||||||||||         ]  64%
slow    2 [|||                     ]  12%    3 [                        ]    ?
    PID NAME            SHARE BIAS   GAIN EXE INT EXT FAST MOVED          CPU
   4711 render           100% fast  2.41x  94   5   1 100% gains more       3
   4712 sort              61% -     1.79x  53  30  17  55% rotation         0
   4713 chase             61% slow  1.07x   5   2  93   0% gave way         1
4194303 a?[2Jname too l   12% ?         ?   ?   ?   ? 100% idle fast CPU    3
      9 ksoftirqd/0       <1% ?         ?   ?   ?   ?  50% -                1













1/5 by SHARE  ? keys  q quit  Enter history  s sort  / filter  p pause";
    assert_eq!(shown(&mut answered(), 80, 24), expected);
}

#[test]
fn a_screen_of_40_columns() {
    let expected = "
2 fast, 2 slow CPUs; average speedup
fast    0 [||||] 100%    1 [||| ]  64%
slow    2 [    ]  12%    3 [    ]    ?
    PID NAME           SHARE BIAS   GAIN
   4711 render          100% fast  2.41x
   4712 sort             61% -     1.79x
   4713 chase            61% slow  1.07x
4194303 a?[2Jname too    12% ?         ?
      9 ksoftirqd/0      <1% ?         ?
1/5 by SHARE  ? keys  q quit";
    assert_eq!(shown(&mut answered(), 40, 10), expected);
}

#[test]
fn a_large_screen_has_longer_bars_and_the_same_table() {
    let large = shown(&mut answered(), 200, 60);
    assert!(large.contains("3 [                          ]    ?\n    PID NAME"), "{large}");
    assert!(
        large.contains("  12% ?         ?   ?   ?   ? 100% idle fast CPU    3\n      9 ksoft"),
        "{large}"
    );
    assert_eq!(large.lines().count(), 61);
}

#[test]
fn a_history_of_80_columns() {
    let expected = "
4711 render: fast-biased, gain 2.39x
100% of CPU 0 fast, 12 windows so far
EXE   [||||||||||||||||||||||||||||||||||||||||||||||||||||||||||||       ]  89%
INT   [|||||||                                                            ]  11%
EXT   [                                                                   ]   0%
2.39x                                                 1111222233344445555666677#
                         11122223333444455566667777#############################
      444455556667777###########################################################
1.00x ##########################################################################
EXE   .1111111111111112222222222333333333344444444444555555555566666666666777777
INT   88888777777777776666666666555555555544444444444333333333322222222222111111
EXT   ..........................................................................
SHARE 88888888888888888888888888888888888888888888888888888888888888888888888888
FAST  .............................................88888888888888888888888888888
                                1 min 39 s ago to now
1 migration, the newest first
2 slow -> 0 fast gains more    39 s ago






? keys  q quit  Esc back  p pause";
    assert_eq!(shown(&mut opened(), 80, 24), expected);
}

#[test]
fn a_history_of_40_columns() {
    let expected = "
4711 render: fast-biased, gain 2.39x
100% of CPU 0 fast, 12 windows so far
EXE   [||||||||||||||||||||||||   ]  89%
INT   [|||                        ]  11%
EXT   [                           ]   0%
2.39x 333344444445555555566666667777777#
FAST  ....................88888888888888
1 migration, the newest first
2 slow -> 0 fast gains more    39 s ago
? keys  q quit  Esc back  p pause";
    assert_eq!(shown(&mut opened(), 40, 10), expected);
}

#[test]
fn a_terminal_that_is_too_small_says_so() {
    let small = shown(&mut answered(), 29, 8);
    assert_eq!(small.trim_end(), "\nThe terminal has 29 x 8; top\nneeds 30 x 8.");
    assert!(shown(&mut answered(), 30, 7).contains("30 x 7"));
    assert!(!shown(&mut answered(), 30, 8).contains("needs"));
}

#[test]
fn any_size_and_view_is_drawn() {
    let views = [App::default as fn() -> App, answered, opened, || {
        let mut app = answered();
        press(&mut app, &[KeyCode::Char('?')]);
        app
    }];
    for view in views {
        let mut app = view();
        for (width, height) in
            (0..120).step_by(17).flat_map(|width| (0..26).map(move |height| (width, height)))
        {
            assert!(drawn(&mut app, width, height, RICH).1 <= usize::from(height), "{width} x {height}");
        }
    }
}

#[test]
fn only_visible_tasks_become_text_and_an_answer_is_sorted_once() {
    let mut app = App::default();
    app.answer(crowd(10_000), loads());
    let (screen, tasks) = drawn(&mut app, 80, 24, PLAIN);
    // The summary, the CPUs, the head and the footer take the other lines.
    assert_eq!(tasks, 24 - 6, "{}", text(&screen));
    for code in [KeyCode::Down, KeyCode::PageDown, KeyCode::End, KeyCode::Up, KeyCode::Home, KeyCode::Enter] {
        press(&mut app, &[code]);
        assert!(drawn(&mut app, 80, 24, PLAIN).1 <= tasks);
    }
    assert_eq!(app.sorts, 1);
    app.answer(crowd(10_000), loads());
    assert_eq!(app.sorts, 2);
}

#[test]
fn with_256_cpus_each_cpu_has_a_mark_and_tasks_have_most_lines() {
    let class = |class, cpus: std::ops::Range<u32>| CpuClass {
        class,
        cpus: cpus.collect(),
        cost_permille: [1000; 3],
    };
    let classes = vec![class(Class::Fast, 0..64), class(Class::Slow, 64..256)];
    let mut app = App::default();
    let loads: Loads = (0..256).map(|cpu| (cpu, 1000)).collect();
    app.answer(Snapshot { machine: Machine { classes }, ..crowd(100) }, loads);
    let (screen, tasks) = drawn(&mut app, 80, 24, PLAIN);
    let marks: usize = text(&screen).lines().skip(3).take(4).map(|line| line.matches('8').count()).sum();
    assert_eq!(marks, 256, "{}", text(&screen));
    assert!(tasks >= 15, "{tasks}");
    assert!(shown(&mut app, 40, 10).contains("a mark: 7 CPUs;"));
}

#[test]
fn a_bias_is_a_word_and_coloured_only_where_that_is_allowed() {
    let coloured = |look| {
        let screen = drawn(&mut answered(), 80, 24, look).0;
        screen.content.iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    assert_eq!(coloured(PLAIN), 0);
    assert!(coloured(RICH) > 0);
    let screen = shown(&mut answered(), 30, 8);
    assert!(screen.contains(" fast") && screen.contains(" slow") && screen.contains(" -"), "{screen}");
}

#[test]
fn the_guide_shows_a_history_as_it_is_drawn() {
    let guide = include_str!("../../../../../docs/guides/bias.md");
    let screen = text(&drawn(&mut opened(), 80, 24, RICH).0);
    let body = screen.trim_start().lines().take_while(|line| !line.is_empty());
    let sample: String = body.map(|line| format!("    {line}\n")).collect();
    assert!(guide.contains(&sample), "{sample}");
}

fn type_text(app: &mut App, text: &str) {
    press(app, &text.chars().map(KeyCode::Char).collect::<Vec<_>>());
}

/// Return the pid of the selected task.
fn selected(app: &App) -> Option<u32> {
    app.row(app.cursor).map(|row| row.task.pid)
}

#[test]
fn the_selected_task_is_reversed_and_followed() {
    let mut app = answered();
    press(&mut app, &[KeyCode::Down, KeyCode::Down]);
    assert_eq!(selected(&app), Some(4713));
    let screen = drawn(&mut app, 80, 24, PLAIN).0;
    let reversed = |y: u16| (0..80).all(|x| screen[(x, y)].modifier.contains(Modifier::REVERSED));
    assert_eq!((0..24).filter(|y| reversed(*y)).collect::<Vec<_>>(), [7]);
    // It keeps its task in another order, and while it sleeps, its place.
    press(&mut app, &[KeyCode::Char('s'), KeyCode::Char('s'), KeyCode::Char('S')]);
    assert_eq!(selected(&app), Some(4713));
    let mut without = snapshot();
    without.tasks.retain(|row| row.task.pid != 4713);
    app.answer(without, loads());
    assert!(selected(&app).is_some_and(|pid| pid != 4713));
    app.answer(snapshot(), loads());
    assert_eq!(selected(&app), Some(4713));
    press(&mut app, &[KeyCode::Home]);
    press(&mut app, &[KeyCode::Char('S')]);
    assert_eq!((app.cursor, selected(&app)), (0, Some(4711)));
}

#[test]
fn the_key_steps_through_all_columns() {
    let mut app = answered();
    for title in ["SHARE", "BIAS", "GAIN", "EXE INT EXT", "FAST", "MOVED", "CPU", "PID", "NAME", "SHARE"] {
        assert!(shown(&mut app, 80, 24).contains(&format!("1/5 by {title}  ")));
        press(&mut app, &[KeyCode::Char('s')]);
    }
}

#[test]
fn a_filter_applies_while_it_is_typed() {
    let mut app = answered();
    type_text(&mut app, "/slow");
    assert_eq!((app.shown.len(), selected(&app)), (1, Some(4713)));
    assert!(shown(&mut app, 80, 24).ends_with("\n/slow_  Enter keeps it  Esc clears it"));
    press(&mut app, &[KeyCode::Enter]);
    assert!(shown(&mut app, 80, 24).contains("\n1/1 by SHARE /slow  ? keys"));
    app.answer(snapshot(), loads());
    assert_eq!(app.shown.len(), 1);
    type_text(&mut app, "/q");
    assert_eq!((app.shown.len(), selected(&app)), (0, None));
    // There is nothing to select or to open.
    press(&mut app, &[KeyCode::Enter, KeyCode::Enter, KeyCode::Down]);
    assert_eq!(app.view, View::Table);
    press(&mut app, &[KeyCode::Char('/'), KeyCode::Backspace, KeyCode::Esc]);
    assert_eq!((app.shown.len(), app.filter.0.as_str()), (5, ""));
}

#[test]
fn keys_quit_pause_and_change_the_view() {
    let quits = |app: &mut App, code, modifiers| app.key(KeyEvent::new(code, modifiers)) == Reaction::Quit;
    let mut app = answered();
    assert!(quits(&mut app, KeyCode::Char('q'), KeyModifiers::NONE));
    assert!(quits(&mut app, KeyCode::Esc, KeyModifiers::NONE));
    assert!(!quits(&mut app, KeyCode::Char('c'), KeyModifiers::NONE));
    press(&mut app, &[KeyCode::Char('p')]);
    assert!(app.paused && shown(&mut app, 80, 24).contains("\nPAUSED 1/5 by SHARE"));
    press(&mut app, &[KeyCode::Char(' '), KeyCode::Enter, KeyCode::Char('?')]);
    assert!(shown(&mut app, 40, 10).contains("\nq, Esc, ^C   quit"));
    press(&mut app, &[KeyCode::Esc]);
    assert_eq!(app.view, View::Task);
    press(&mut app, &[KeyCode::Esc]);
    assert_eq!((app.view, app.paused), (View::Table, false));
    type_text(&mut app, "/");
    assert!(quits(&mut app, KeyCode::Char('c'), KeyModifiers::CONTROL));
}

#[test]
fn an_opened_task_that_sleeps_stays_open() {
    let mut app = opened();
    let mut without = snapshot();
    without.tasks.remove(0);
    app.answer(without, loads());
    let screen = shown(&mut app, 80, 24);
    assert!(screen.contains("did not run for 1 s, last on CPU 0 fast"), "{screen}");
    assert!(screen.contains("1 min 40 s ago to 1 s ago"), "{screen}");
}

fn any_key() -> impl Strategy<Value = KeyCode> {
    let plain = [
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Backspace,
    ];
    prop_oneof![
        prop::sample::select(plain.to_vec()),
        prop::sample::select(vec!['s', 'S', '/', '?', 'p', '1', 'q']).prop_map(KeyCode::Char)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// After any answers and keys the cursor is on a visible task, and each frame fits.
    #[test]
    fn the_cursor_is_visible(
        steps in prop::collection::vec((any_key(), prop::option::of(0u32..60), 8u16..30), 1..30),
    ) {
        let mut app = App::default();
        for (code, tasks, height) in steps {
            if let Some(tasks) = tasks {
                app.answer(crowd(tasks), loads());
            }
            app.key(KeyEvent::new(code, KeyModifiers::NONE));
            let rows = drawn(&mut app, 80, height, RICH).1;
            prop_assert!(rows <= usize::from(height));
            prop_assert!(app.cursor < app.shown.len().max(1));
            if app.view == View::Table && !app.shown.is_empty() && app.snapshot.is_some() {
                let visible = app.fit(rows);
                prop_assert!(visible.contains(&app.cursor), "{visible:?} {}", app.cursor);
                prop_assert!(visible.len() == rows);
            }
        }
    }
}
