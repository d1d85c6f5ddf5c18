//! Pairs of edges that lie near each other, found in bounded time.

use std::ops::ControlFlow;

use rstar::{AABB, RTree, RTreeObject};

use crate::error::TooIntricate;
use crate::grid::{Edge, Meeting, Point};

/// Steps (pairs of edges looked at, or edges passed by a ray) that one answer may take: some tenths of a second.
const STEPS: u64 = 40_000_000;
/// Crossings that an overlay may have to compute.
const CROSSINGS: u64 = 200_000;
/// Up to so many pairs, looking at all of them is faster than building a tree.
const FEW_PAIRS: usize = 20_000;

/// What may still be done for one answer.
pub(crate) struct Budget {
    steps: u64,
    crossings: u64,
}

impl Budget {
    pub fn new() -> Self {
        Self { steps: STEPS, crossings: CROSSINGS }
    }

    pub fn steps(&mut self, steps: usize) -> Result<(), TooIntricate> {
        self.steps = self.steps.checked_sub(steps as u64).ok_or(TooIntricate)?;
        Ok(())
    }

    pub fn crossing(&mut self) -> Result<(), TooIntricate> {
        self.crossings = self.crossings.checked_sub(1).ok_or(TooIntricate)?;
        Ok(())
    }
}

/// The box of an edge in a tree, in floating point because the tree multiplies the sides of boxes.
struct Boxed {
    index: usize,
    bounds: AABB<[f64; 2]>,
}

impl RTreeObject for Boxed {
    type Envelope = AABB<[f64; 2]>;

    fn envelope(&self) -> Self::Envelope {
        self.bounds
    }
}

fn tree(edges: &[Edge]) -> RTree<Boxed> {
    let corner = |point: Point| [point.x as f64, point.y as f64];
    let boxed = edges.iter().enumerate().map(|(index, edge)| {
        let [low, high] = edge.corners();
        Boxed { index, bounds: AABB::from_corners(corner(low), corner(high)) }
    });
    RTree::bulk_load(boxed.collect())
}

/// Calls `visit` with the indices of each edge of `a` and each of `b` whose boxes meet, until it breaks; says whether it did.
pub(crate) fn for_each_near_pair(
    a: &[Edge],
    b: &[Edge],
    budget: &mut Budget,
    mut visit: impl FnMut(usize, usize, &mut Budget) -> Result<ControlFlow<()>, TooIntricate>,
) -> Result<bool, TooIntricate> {
    if a.len().saturating_mul(b.len()) <= FEW_PAIRS {
        budget.steps(a.len() * b.len())?;
        for (index, edge) in a.iter().enumerate() {
            for (other_index, other) in b.iter().enumerate() {
                if edge.boxes_meet(other) && visit(index, other_index, budget)?.is_break() {
                    return Ok(true);
                }
            }
        }
        return Ok(false);
    }
    budget.steps(a.len() + b.len())?;
    for (one, other) in tree(a).intersection_candidates_with_other_tree(&tree(b)) {
        budget.steps(1)?;
        if visit(one.index, other.index, budget)?.is_break() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether no two of the edges meet except neighbours of one ring at their common end. `rings` are the lengths of the rings, in order.
/// Where they do meet, the crossings are counted against the budget.
pub(crate) fn are_simple(edges: &[Edge], rings: &[usize], budget: &mut Budget) -> Result<bool, TooIntricate> {
    // for each edge, the one that follows it in its ring
    let mut next = Vec::with_capacity(edges.len());
    for length in rings {
        let start = next.len();
        next.extend((start + 1..start + length).chain([start]));
    }
    let follows = |one: usize, other: usize| next.get(one) == Some(&other);
    let mut simple = true;
    for_each_near_pair(edges, edges, budget, |one, other, budget| {
        let (Some(edge), Some(other_edge)) = (edges.get(one), edges.get(other)) else { return Ok(ControlFlow::Continue(())) };
        if one < other {
            match edge.meeting(other_edge) {
                Meeting::Apart => {}
                Meeting::Touching if follows(one, other) || follows(other, one) => {}
                Meeting::Touching | Meeting::Overlapping => simple = false,
                Meeting::Crossing => {
                    simple = false;
                    budget.crossing()?;
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(simple)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::edges_of_ring;

    fn ring(points: &[(i64, i64)]) -> Vec<Edge> {
        let points: Vec<Point> = points.iter().map(|(x, y)| Point { x: *x, y: *y }).collect();
        edges_of_ring(&points).collect()
    }

    #[test]
    fn a_ring_that_touches_itself_is_not_simple() {
        let simple = |points: &[(i64, i64)]| are_simple(&ring(points), &[points.len()], &mut Budget::new());
        assert_eq!(simple(&[(0, 0), (4, 0), (4, 4), (0, 4)]), Ok(true));
        assert_eq!(simple(&[(0, 0), (4, 0), (0, 4), (4, 4)]), Ok(false));
        assert_eq!(simple(&[(0, 0), (4, 0), (4, 4), (2, 0), (0, 4)]), Ok(false));
        assert_eq!(simple(&[(0, 0), (4, 0), (0, 0), (4, 4)]), Ok(false));
    }

    #[test]
    fn a_tree_finds_the_same_pairs_as_comparing_all() {
        let zigzag = |count: i64| (0..count).map(|index| (index * 10, if index % 2 == 0 { 0 } else { 5_000 }));
        let comb: Vec<(i64, i64)> = zigzag(400).chain([(5_000, 9_000), (-5_000, 9_000)]).collect();
        assert_eq!(are_simple(&ring(&comb), &[comb.len()], &mut Budget::new()), Ok(true));
        let mut crossed = comb.clone();
        crossed.push((-6_000, 100));
        crossed.push((6_000, 101));
        assert_eq!(are_simple(&ring(&crossed), &[crossed.len()], &mut Budget::new()), Ok(false));
    }

    #[test]
    fn too_many_crossings_are_refused() {
        let star: Vec<(i64, i64)> = (0..2_001).map(|index| (index * 997 % 2_001 * 1_000, if index % 2 == 0 { 0 } else { 900_000 })).collect();
        assert_eq!(are_simple(&ring(&star), &[star.len()], &mut Budget::new()), Err(TooIntricate));
    }
}
