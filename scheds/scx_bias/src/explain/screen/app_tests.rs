// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the keys: what they do to the state, and what the user sees of it.

use proptest::prelude::*;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Modifier;

use super::super::tests::snapshot;
use super::app::{App, Reaction, View};
use super::sorting::SORTS;
use super::tests::{PLAIN, RICH, answered, crowd, drawn, loads, opened, press, shown};

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
    for column in SORTS.iter().chain(&SORTS[..1]) {
        assert!(shown(&mut app, 80, 24).contains(&format!("1/5 by {}  ", column.title)));
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

    /// Whatever happens, the cursor is on a visible task, and each frame fits.
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
