// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Linear programs: the maximum of a linear objective under linear bounds.
//!
//! # Approach
//!
//! The simplex method (Dantzig 1951) on a condensed tableau. All limits are at least 0, so the
//! origin is a first solution. Bland's rule (1977) picks the pivots, so the method ends.

/// A bound: the sum of these terms, each a variable and its factor, is at most `limit`.
#[derive(Debug, Clone)]
pub struct Bound {
    /// Variables and their factors.
    pub terms: Vec<(usize, f64)>,
    /// The limit, at least 0.
    pub limit: f64,
}

/// Values below it count as 0.
const EPSILON: f64 = 1e-9;

/// Maximum number of pivots. A program that needs more is too large.
const MAX_PIVOTS: usize = 20_000;

/// The tableau: each row expresses a basic variable by the others.
struct Tableau {
    rows: Vec<Vec<f64>>,
    limits: Vec<f64>,
    gains: Vec<f64>,
    value: f64,
    /// Names of the variables of rows and of columns.
    basic: Vec<usize>,
    free: Vec<usize>,
}

impl Tableau {
    fn new(gains: &[f64], bounds: &[Bound]) -> Self {
        let row = |bound: &Bound| {
            let mut row = vec![0.0; gains.len()];
            bound.terms.iter().for_each(|(variable, factor)| row[*variable] += factor);
            row
        };
        Self {
            rows: bounds.iter().map(row).collect(),
            limits: bounds.iter().map(|bound| bound.limit).collect(),
            gains: gains.to_vec(),
            value: 0.0,
            basic: (gains.len()..gains.len() + bounds.len()).collect(),
            free: (0..gains.len()).collect(),
        }
    }

    /// Return the column to bring in: of those that gain, the one of the first name.
    fn entering(&self) -> Option<usize> {
        let gaining = (0..self.free.len()).filter(|column| self.gains[*column] > EPSILON);
        gaining.min_by_key(|column| self.free[*column])
    }

    /// Return the row that bounds `column` most, of several the one of the first name.
    fn leaving(&self, column: usize) -> Option<usize> {
        let bounding = (0..self.rows.len()).filter(|row| self.rows[*row][column] > EPSILON);
        let ratio = |row: usize| self.limits[row] / self.rows[row][column];
        bounding.min_by(|a, b| {
            let differ = ratio(*a) - ratio(*b);
            if differ.abs() < EPSILON { self.basic[*a].cmp(&self.basic[*b]) } else { differ.total_cmp(&0.0) }
        })
    }

    fn pivot(&mut self, row: usize, column: usize) {
        let inverse = 1.0 / self.rows[row][column];
        self.rows[row].iter_mut().for_each(|entry| *entry *= inverse);
        self.rows[row][column] = inverse;
        self.limits[row] *= inverse;
        let (pivot, limit) = (self.rows[row].clone(), self.limits[row]);
        let subtract = |entries: &mut [f64], rest: &mut f64| {
            let factor = std::mem::take(&mut entries[column]);
            if factor != 0.0 {
                entries.iter_mut().zip(&pivot).for_each(|(entry, by)| *entry -= factor * by);
                *rest -= factor * limit;
            }
        };
        for (at, (entries, rest)) in self.rows.iter_mut().zip(&mut self.limits).enumerate() {
            if at != row {
                subtract(entries, rest);
                *rest = rest.max(0.0);
            }
        }
        let mut negative = -self.value;
        subtract(&mut self.gains, &mut negative);
        self.value = -negative;
        std::mem::swap(&mut self.basic[row], &mut self.free[column]);
    }
}

/// Return the largest sum of `gains` times variables of at least 0 within `bounds`. None if there
/// is no maximum, or if it takes too long to find.
#[must_use]
pub fn maximum(gains: &[f64], bounds: &[Bound]) -> Option<f64> {
    let mut tableau = Tableau::new(gains, bounds);
    for _ in 0..MAX_PIVOTS {
        let Some(column) = tableau.entering() else { return Some(tableau.value) };
        let row = tableau.leaving(column)?;
        tableau.pivot(row, column);
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn bound(terms: &[(usize, f64)], limit: f64) -> Bound {
        Bound { terms: terms.to_vec(), limit }
    }

    #[test]
    fn a_program_of_two_variables() {
        let bounds = [bound(&[(0, 1.0)], 4.0), bound(&[(1, 2.0)], 12.0), bound(&[(0, 3.0), (1, 2.0)], 18.0)];
        assert!((maximum(&[3.0, 5.0], &bounds).unwrap() - 36.0).abs() < 1e-9);
    }

    /// Beale's program (1955), in which the largest gain would pivot for ever.
    #[test]
    fn degenerate_programs_end() {
        let bounds = [
            bound(&[(0, 0.25), (1, -60.0), (2, -0.04), (3, 9.0)], 0.0),
            bound(&[(0, 0.5), (1, -90.0), (2, -0.02), (3, 3.0)], 0.0),
            bound(&[(2, 1.0)], 1.0),
        ];
        assert!((maximum(&[0.75, -150.0, 0.02, -6.0], &bounds).unwrap() - 0.05).abs() < 1e-9);
    }

    #[test]
    fn a_program_without_bounds_has_no_maximum() {
        assert_eq!(maximum(&[1.0], &[]), None);
        assert_eq!(maximum(&[-1.0], &[]), Some(0.0));
    }
}
