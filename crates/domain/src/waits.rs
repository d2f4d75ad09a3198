//! Who waits for whom: the circles in which everybody waits for somebody who waits for them (a deadlock).

use std::collections::BTreeMap;

/// The circles among these waits, each as the names in it, in the order of the names; the largest first. Whoever waits for
/// himself is a circle of one.
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
    /// The sets of those who all reach each other (Kosaraju's two walks), without recursion: a chain may be long.
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

/// Walks from `start` to everybody who was not seen, and tells of each when all behind him was walked.
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
