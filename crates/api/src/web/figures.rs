//! Figures, drawn on the server: the graph of waits and the timeline. The page also lists their data as text.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::clock::Timestamp;
use entente_kernel::overview::{Entry, Lane};

use super::words::{When, shortened};

/// Maximum number of names on the oval; more are drawn in two columns.
const NAMES: usize = 24;
/// Maximum number of names in a column; the list contains all of them.
const COLUMN: usize = 64;
/// Distance of two names in a column.
const LINE: u32 = 20;
/// Size of the figure of waits, in its own units.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
/// Radius of a dot.
const DOT: f64 = 7.0;

/// The graph of waits between agents.
#[derive(Debug, Default)]
pub struct Waits {
    /// Agents that wait or are awaited.
    pub nodes: Vec<Node>,
    /// Waits between them.
    pub edges: Vec<Edge>,
    /// Height of the figure.
    pub height: u32,
}

/// An agent that waits or is awaited.
#[derive(Debug)]
pub struct Node {
    /// Name of the agent.
    pub name: String,
    /// Horizontal position of the dot.
    pub x: String,
    /// Vertical position of the dot.
    pub y: String,
    /// Horizontal position of the name.
    pub text_x: String,
    /// Vertical position of the name.
    pub text_y: String,
    /// Alignment of the name: `start`, `middle`, `end`.
    pub anchor: &'static str,
    /// Whether the agent is part of a cycle.
    pub stuck: bool,
}

/// A wait, from the waiting agent to the awaited one.
#[derive(Debug)]
pub struct Edge {
    /// Path of the curve.
    pub path: String,
    /// Description as text.
    pub title: String,
    /// Whether the wait is part of a cycle.
    pub stuck: bool,
}

/// A position in a figure, in the figure's units.
#[derive(Debug, Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
}

/// Draws the graph of waits, each given by the waiting agent and the awaited one; `circles` are the agents of deadlocks.
pub fn waits<'a>(waits: impl Iterator<Item = (&'a str, &'a str)>, circles: &'a [Vec<String>]) -> Waits {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for wait in waits {
        *counts.entry(wait).or_default() += 1;
    }
    let circle_of = |name: &str| circles.iter().position(|circle| circle.iter().any(|one| one == name));
    let names = ordered(&counts, circles);
    if names.len() > NAMES {
        return columns(&counts, &names, circle_of);
    }
    let places: BTreeMap<&str, Point> =
        names.iter().zip(0_u32..).map(|(name, at)| (*name, place(at, names.len()))).collect();
    let nodes = places.iter().map(|(name, at)| node(name, *at, circle_of(name).is_some())).collect();
    let edges = counts.iter().filter_map(|((from, to), count)| {
        let (start, end) = (places.get(from)?, places.get(to)?);
        let stuck = circle_of(from).is_some() && circle_of(from) == circle_of(to);
        Some(Edge { path: curve(*start, *end), title: wait_title(from, to, *count), stuck })
    });
    Waits { nodes, edges: edges.collect(), height: 300 }
}

fn wait_title(from: &str, to: &str, count: usize) -> String {
    let what = if count == 1 { String::new() } else { format!(", {count} times") };
    format!("{from} waits for {to}{what}")
}

/// Draws those who wait on the left and whom they wait for on the right: readable with many names, of which one that does both
/// is on both sides.
fn columns<'a>(
    counts: &BTreeMap<(&'a str, &'a str), usize>,
    names: &[&'a str],
    circle_of: impl Fn(&str) -> Option<usize>,
) -> Waits {
    let waiting: BTreeSet<&str> = counts.keys().map(|pair| pair.0).collect();
    let left: Vec<&str> = names.iter().copied().filter(|name| waiting.contains(name)).take(COLUMN).collect();
    // Beside the middle of those who wait for it, so that few lines cross.
    let middle = |name: &str| {
        let rows: Vec<u32> =
            counts.keys().filter(|pair| pair.1 == name).filter_map(|pair| row(&left, pair.0)).collect();
        rows.iter().sum::<u32>() * 100 / u32::try_from(rows.len()).unwrap_or(1).max(1)
    };
    let awaited: BTreeSet<&str> = counts.keys().map(|pair| pair.1).collect();
    let mut right: Vec<&str> =
        names.iter().copied().filter(|name| awaited.contains(name)).take(COLUMN).collect();
    right.sort_by_cached_key(|name| middle(name));
    let y = |at: u32| f64::from(LINE) * (f64::from(at) + 0.5);
    let point = |x: f64, at: u32| Point { x, y: y(at) };
    let draw = |column: &[&str], x: f64| -> Vec<Node> {
        let all = column.iter().zip(0_u32..);
        all.map(|(name, at)| node(name, point(x, at), circle_of(name).is_some())).collect()
    };
    let edges = counts.iter().filter_map(|(pair, count)| {
        let (from, to) = (row(&left, pair.0)?, row(&right, pair.1)?);
        let stuck = circle_of(pair.0).is_some() && circle_of(pair.0) == circle_of(pair.1);
        let (from, to) = (short(y(from)), short(y(to)));
        let path = format!("M239 {from} C320 {from} 320 {to} 399 {to}");
        Some(Edge { path, title: wait_title(pair.0, pair.1, *count), stuck })
    });
    let rows = u32::try_from(left.len().max(right.len())).unwrap_or(0);
    let (mut nodes, others) = (draw(&left, 230.0), draw(&right, 410.0));
    nodes.extend(others);
    Waits { nodes, edges: edges.collect(), height: LINE * rows }
}

/// Returns the row of a name in a column.
fn row(column: &[&str], name: &str) -> Option<u32> {
    column.iter().zip(0_u32..).find(|(one, _)| **one == name).map(|(_, at)| at)
}

/// Returns the names to draw: those in a cycle first, then those with the most connections.
fn ordered<'a>(counts: &BTreeMap<(&'a str, &'a str), usize>, circles: &'a [Vec<String>]) -> Vec<&'a str> {
    let mut degrees: BTreeMap<&str, usize> = BTreeMap::new();
    for (from, to) in counts.keys() {
        *degrees.entry(from).or_default() += 1;
        *degrees.entry(to).or_default() += 1;
    }
    let mut names: Vec<&str> = circles.iter().flatten().map(String::as_str).collect();
    let drawn: BTreeSet<&str> = names.iter().copied().collect();
    let mut others: Vec<(&str, usize)> =
        degrees.into_iter().filter(|(name, _)| !drawn.contains(name)).collect();
    others.sort_by_key(|(_, degree)| std::cmp::Reverse(*degree));
    names.extend(others.into_iter().map(|(name, _)| name));
    names
}

/// Returns a position on an oval, starting from its left.
fn place(at: u32, of: usize) -> Point {
    let of = f64::from(u32::try_from(of).unwrap_or(u32::MAX)).max(1.0);
    let turn = std::f64::consts::PI + std::f64::consts::TAU * f64::from(at) / of;
    Point { x: WIDTH / 2.0 + 190.0 * turn.cos(), y: HEIGHT / 2.0 + 104.0 * turn.sin() }
}

fn node(name: &str, at: Point, stuck: bool) -> Node {
    let Point { x, y } = at;
    let aside = x - WIDTH / 2.0;
    let (anchor, text_x, text_y) = if aside.abs() < 30.0 {
        ("middle", x, if y < HEIGHT / 2.0 { y - 14.0 } else { y + 24.0 })
    } else if aside < 0.0 {
        ("end", x - 13.0, y + 4.5)
    } else {
        ("start", x + 13.0, y + 4.5)
    };
    // The list beside the figure has the whole name.
    let name = shortened(name, 24);
    Node { name, x: short(x), y: short(y), text_x: short(text_x), text_y: short(text_y), anchor, stuck }
}

/// Returns the path of a curve between two dots.
fn curve(from: Point, to: Point) -> String {
    let (Point { x: x1, y: y1 }, Point { x: x2, y: y2 }) = (from, to);
    let (dx, dy) = (x2 - x1, y2 - y1);
    let length = dx.hypot(dy);
    if length < 1.0 {
        // An agent that waits for itself.
        return format!("M{} {} c-26 -40 26 -40 5 -3", short(x1 - 5.0), short(y1 - DOT));
    }
    let (ux, uy) = (dx / length, dy / length);
    // Bent to one side, so that mutual waits appear as two lines.
    let (mx, my) = (x1.midpoint(x2) - uy * 26.0, y1.midpoint(y2) + ux * 26.0);
    let toward = |x: f64, y: f64, gap: f64| {
        let (vx, vy) = (mx - x, my - y);
        let far = vx.hypot(vy).max(1.0);
        (short(x + vx / far * gap), short(y + vy / far * gap))
    };
    let ((ax, ay), (bx, by)) = (toward(x1, y1, DOT + 2.0), toward(x2, y2, DOT + 5.0));
    format!("M{ax} {ay} Q{} {} {bx} {by}", short(mx), short(my))
}

fn short(number: f64) -> String {
    format!("{number:.1}")
}

/// The timeline of an intent.
#[derive(Debug, Default)]
pub struct Strip {
    /// The lanes.
    pub lanes: Vec<LaneLine>,
    /// Entries.
    pub dots: Vec<Dot>,
    /// Start and end of the timeline.
    pub ends: Option<(When, When)>,
}

/// A lane of the timeline.
#[derive(Debug)]
pub struct LaneLine {
    /// Name of the lane.
    pub name: &'static str,
    /// Vertical position.
    pub y: u32,
}

/// An entry of the timeline.
#[derive(Debug)]
pub struct Dot {
    /// Horizontal position, from the time.
    pub x: String,
    /// Vertical position of the lane.
    pub y: u32,
    /// Name of the lane.
    pub lane: &'static str,
    /// Description of the entry.
    pub title: String,
}

/// Returns the lane's name.
pub fn lane_name(lane: Lane) -> &'static str {
    match lane {
        Lane::Messages => "messages",
        Lane::Events => "events",
        Lane::Jobs => "jobs",
        Lane::Decisions => "decisions",
    }
}

/// Draws entries, given newest first, on a timeline that ends now.
pub fn strip(entries: &[Entry], now: Timestamp) -> Strip {
    const LANES: [Lane; 4] = [Lane::Messages, Lane::Events, Lane::Jobs, Lane::Decisions];
    let y_of =
        |lane: Lane| 22 + 34 * LANES.iter().zip(0..).find(|(one, _)| **one == lane).map_or(0, |(_, at)| at);
    let (Some(first), Some(last)) = (entries.last(), entries.first()) else { return Strip::default() };
    let end = last.at.max(now);
    let millis = |from: Timestamp, to: Timestamp| {
        f64::from(i32::try_from((to - from).num_milliseconds()).unwrap_or(i32::MAX)).max(0.0)
    };
    let (span, steps) = (millis(first.at, end).max(1.0), entries.len().saturating_sub(1).max(1));
    let dots = entries.iter().rev().zip(0_u32..).map(|(entry, step)| {
        // Position is the mean of time and rank: bursts stay distinguishable, and pauses stay visible.
        let turn = f64::from(step) / f64::from(u32::try_from(steps).unwrap_or(u32::MAX));
        let place = f64::midpoint(millis(first.at, entry.at) / span, turn);
        Dot {
            x: short(110.0 + 830.0 * place),
            y: y_of(entry.lane),
            lane: lane_name(entry.lane),
            title: format!("{} {} {}", entry.at.format("%H:%M:%S"), entry.who, entry.what),
        }
    });
    Strip {
        dots: dots.collect(),
        lanes: LANES.map(|lane| LaneLine { name: lane_name(lane), y: y_of(lane) }).into(),
        ends: Some((When::new(first.at, now), When::new(end, now))),
    }
}
