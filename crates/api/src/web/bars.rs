//! Stacked bars by day, drawn on the server. The page also has their numbers as a table.

use std::collections::BTreeMap;

/// Series drawn by themselves; those after them are summed up.
const SERIES: usize = 5;
/// Edges of the drawing, in its own units.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 950.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 172.0;

/// A chart.
pub struct Chart {
    /// Id of its part of the page.
    pub id: String,
    /// Its heading.
    pub heading: String,
    /// Text if there is nothing to show.
    pub empty: &'static str,
    /// The bars, each a part of a day's stack.
    pub bars: Vec<Bar>,
    /// The lines of the scale.
    pub lines: Vec<ScaleLine>,
    /// Names of the series.
    pub series: Vec<String>,
    /// The numbers, as text.
    pub rows: Vec<DayRow>,
    /// The first day.
    pub first: String,
    /// The last day.
    pub last: String,
}

/// A bar.
pub struct Bar {
    /// Number of its series.
    pub series: usize,
    /// Left edge.
    pub x: String,
    /// Upper edge.
    pub y: String,
    /// Width.
    pub width: String,
    /// Height.
    pub height: String,
    /// Description.
    pub title: String,
}

/// A line of the scale.
pub struct ScaleLine {
    /// Vertical position.
    pub y: String,
    /// Its value.
    pub text: String,
}

/// The numbers of a day.
pub struct DayRow {
    /// The day.
    pub day: String,
    /// One text for each series.
    pub cells: Vec<String>,
}

/// Numbers by series and day.
#[derive(Default)]
pub struct Sums(BTreeMap<String, BTreeMap<String, f64>>);

impl Sums {
    /// Adds a number.
    pub fn add(&mut self, series: &str, day: &str, number: f64) {
        *self.0.entry(series.to_owned()).or_default().entry(day.to_owned()).or_default() += number;
    }

    /// Returns the series with the largest sums, largest first, and the sum of all others.
    fn largest(self) -> Vec<(String, BTreeMap<String, f64>)> {
        let mut all: Vec<(String, BTreeMap<String, f64>)> = self.0.into_iter().collect();
        let sum = |days: &BTreeMap<String, f64>| days.values().sum::<f64>();
        all.sort_by(|a, b| sum(&b.1).total_cmp(&sum(&a.1)));
        if all.len() > SERIES + 1 {
            let mut others: BTreeMap<String, f64> = BTreeMap::new();
            for (day, number) in all.split_off(SERIES).into_iter().flat_map(|(_, days)| days) {
                *others.entry(day).or_default() += number;
            }
            all.push(("others".to_owned(), others));
        }
        all
    }
}

/// Draws numbers over all of these days, in order.
pub fn draw(id: String, heading: String, empty: &'static str, sums: Sums, days: &[String]) -> Chart {
    let series = sums.largest();
    let number = |days: &BTreeMap<String, f64>, day: &String| days.get(day).copied().unwrap_or(0.0);
    let total = |day: &String| series.iter().map(|(_, days)| number(days, day)).sum::<f64>();
    let most = days.iter().map(total).fold(0.0, f64::max);
    let mut bars = Vec::new();
    let step = (RIGHT - LEFT) / f64::from(u32::try_from(days.len()).unwrap_or(u32::MAX)).max(1.0);
    for (day, at) in days.iter().zip(0_u32..) {
        let mut floor = BOTTOM;
        for (index, (name, by_day)) in series.iter().enumerate() {
            let value = number(by_day, day);
            if value <= 0.0 || most <= 0.0 {
                continue;
            }
            let height = (BOTTOM - TOP) * value / most;
            floor -= height;
            bars.push(Bar {
                series: index,
                x: format!("{:.1}", LEFT + step * f64::from(at) + step * 0.1),
                y: format!("{floor:.1}"),
                width: format!("{:.1}", step * 0.8),
                height: format!("{height:.1}"),
                title: format!("{day} {name}: {}", figure(value)),
            });
        }
    }
    let line = |share: f64| ScaleLine {
        y: format!("{:.1}", BOTTOM - (BOTTOM - TOP) * share),
        text: figure(most * share),
    };
    let row = |day: &String| DayRow {
        day: day.clone(),
        cells: series.iter().map(|(_, by_day)| figure(number(by_day, day))).collect(),
    };
    Chart {
        id,
        heading,
        empty,
        bars,
        lines: [0.0, 0.5, 1.0].into_iter().map(line).collect(),
        rows: days.iter().rev().map(row).collect(),
        first: days.first().cloned().unwrap_or_default(),
        last: days.last().cloned().unwrap_or_default(),
        series: series.into_iter().map(|(name, _)| name).collect(),
    }
}

/// Formats a number with as many decimals as are of use.
fn figure(number: f64) -> String {
    let text = if number.abs() < 10.0 { format!("{number:.2}") } else { format!("{number:.0}") };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
