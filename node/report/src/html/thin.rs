// SPDX-License-Identifier: GPL-2.0-only
//! More points than a picture has columns: of each column the first, the least, the most and the
//! last are kept, in their order, so that no peak is lost and no line is smoothed. A point on the
//! straight line between its neighbours is left out as well: it changes nothing.
//!
//! Points are in tenths of the picture's units, which is finer than a screen.

/// A spot on the picture.
pub(super) type Point = (i32, i32);

/// Width of a column.
const COLUMN: i32 = 20;
/// Dots nearer than this are one dot.
const DOT: i32 = 15;

/// Points to draw of a line without gaps.
pub(super) fn thin_line(points: &[Point]) -> Vec<Point> {
    let mut kept: Vec<Point> = Vec::new();
    let mut rest = points;
    while let Some(first) = rest.first() {
        let column = first.0.div_euclid(COLUMN);
        let count = rest.partition_point(|point| point.0.div_euclid(COLUMN) <= column);
        let (here, after) = rest.split_at(count.max(1));
        let lowest = (0..here.len()).min_by_key(|at| here[*at].1).unwrap_or(0);
        let highest = (0..here.len()).max_by_key(|at| here[*at].1).unwrap_or(0);
        let mut some = [0, lowest, highest, here.len() - 1];
        some.sort_unstable();
        for at in some {
            if kept.last() != Some(&here[at]) {
                kept.push(here[at]);
            }
        }
        rest = after;
    }
    drop_straight_points(&kept)
}

fn drop_straight_points(points: &[Point]) -> Vec<Point> {
    let mut kept: Vec<Point> = Vec::with_capacity(points.len());
    for point in points {
        if let [.., a, b] = kept[..] {
            if is_between(a, b, *point) {
                kept.pop();
            }
        }
        kept.push(*point);
    }
    kept
}

/// `b` is on the way from `a` to `c`.
fn is_between(a: Point, b: Point, c: Point) -> bool {
    let wide = |one: i32, other: i32| i64::from(one) - i64::from(other);
    let cross = wide(b.0, a.0) * wide(c.1, a.1) - wide(b.1, a.1) * wide(c.0, a.0);
    let forth = wide(b.0, a.0) * wide(c.0, b.0) >= 0 && wide(b.1, a.1) * wide(c.1, b.1) >= 0;
    cross == 0 && forth
}

/// Points to draw of dots: one for all in the same spot.
pub(super) fn thin_dots(points: &[Point]) -> Vec<Point> {
    let mut taken = std::collections::BTreeSet::new();
    points
        .iter()
        .filter(|(x, y)| taken.insert((x.div_euclid(DOT), y.div_euclid(DOT))))
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_peak_is_lost() {
        let mut points: Vec<Point> = (0..100_000).map(|n| (n / 14, n % 3)).collect();
        points[54_321].1 = 900;
        points[54_322].1 = -900;
        let kept = thin_line(&points);
        assert!(
            kept.len() <= 4 * 7143 / COLUMN as usize + 4,
            "{}",
            kept.len()
        );
        for peak in [900, -900] {
            assert!(kept.iter().any(|point| point.1 == peak), "{peak}");
        }
        assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
        assert!(kept.is_sorted_by_key(|point| point.0));
    }

    #[test]
    fn what_changes_nothing_is_left_out() {
        let straight: Vec<Point> = (0..50).map(|n| (n * 100, n * 10)).collect();
        assert_eq!(thin_line(&straight), [(0, 0), (4900, 490)]);
        let bent = [(0, 0), (100, 10), (200, 0)];
        assert_eq!(thin_line(&bent), bent);
        let back = [(0, 0), (0, 10), (0, 4)];
        assert_eq!(drop_straight_points(&back), back, "a peak on one column");
        assert_eq!(thin_line(&[]), []);
    }

    #[test]
    fn dots_in_one_spot_are_one() {
        assert_eq!(
            thin_dots(&[(0, 0), (3, 4), (100, 0), (0, 1)]),
            [(0, 0), (100, 0)]
        );
    }
}
