//! Detects deadlocks: cycles of parties that wait for each other.

use std::collections::BTreeMap;

/// Returns the cycles among these waits, each as a sorted list of names, largest first.
///
/// A party that waits for itself forms a cycle of one.
#[must_use]
pub fn circles(waits: &[(&str, &str)]) -> Vec<Vec<String>> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (waiting, awaited) in waits {
        places.insert(waiting, 0);
        places.insert(awaited, 0);
    }
    let names: Vec<&str> = places.keys().copied().collect();
    places.values_mut().zip(0..).for_each(|(place, at)| *place = at);
    let mut graph = Graph { next: vec![Vec::new(); names.len()], back: vec![Vec::new(); names.len()] };
    for (waiting, awaited) in waits {
        let (from, to) = (places[waiting], places[awaited]);
        graph.next[from].push(to);
        graph.back[to].push(from);
    }
    let mut circles: Vec<Vec<String>> = graph
        .knots()
        .into_iter()
        .filter(|knot| knot.len() > 1 || knot.iter().any(|at| graph.next[*at].contains(at)))
        .map(|knot| knot.into_iter().map(|at| names[at].to_owned()).collect())
        .collect();
    circles.sort_by_key(|circle: &Vec<String>| std::cmp::Reverse(circle.len()));
    circles
}

struct Graph {
    next: Vec<Vec<usize>>,
    back: Vec<Vec<usize>>,
}

impl Graph {
    /// Returns the strongly connected components (Kosaraju's algorithm), without recursion, because chains may be long.
    fn knots(&self) -> Vec<Vec<usize>> {
        let mut order = Vec::with_capacity(self.next.len());
        let mut seen = vec![false; self.next.len()];
        for start in 0..self.next.len() {
            walk(&self.next, start, &mut seen, |done| order.push(done));
        }
        let mut seen = vec![false; self.next.len()];
        let mut knots = Vec::new();
        for start in order.into_iter().rev() {
            let mut knot = Vec::new();
            walk(&self.back, start, &mut seen, |done| knot.push(done));
            if !knot.is_empty() {
                knot.sort_unstable();
                knots.push(knot);
            }
        }
        knots
    }
}

/// Visits all unseen nodes reachable from `start`, and reports each in postorder.
fn walk(next: &[Vec<usize>], start: usize, seen: &mut [bool], mut tell: impl FnMut(usize)) {
    let mut path = vec![(start, 0)];
    if std::mem::replace(&mut seen[start], true) {
        return;
    }
    while let Some((at, turn)) = path.last_mut() {
        if let Some(to) = next[*at].get(*turn) {
            *turn += 1;
            if !std::mem::replace(&mut seen[*to], true) {
                path.push((*to, 0));
            }
        } else {
            tell(*at);
            path.pop();
        }
    }
}
