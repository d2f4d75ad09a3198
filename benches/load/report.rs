//! Report of the benchmark: a table for the terminal and for a file.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::scale;

/// A row: a figure, its target, and how it was measured; or the reason for its absence.
struct Line {
    name: &'static str,
    figure: String,
    aim: &'static str,
    detail: String,
}

/// The report.
pub struct Report(Vec<Line>);

impl Report {
    /// Creates an empty report.
    pub fn new() -> Self {
        if !scale::is_small() {
            println!("Entente's load bench on {}\n", machine());
        }
        Self(Vec::new())
    }

    /// Adds a figure, and prints it at once, except those of small numbers.
    pub fn add(
        &mut self,
        name: &'static str,
        mut figure: String,
        aim: &'static str,
        met: bool,
        detail: String,
    ) {
        if !scale::is_small() {
            println!("{} {name}: {figure} (aim {aim})\n     {detail}\n", if met { "met " } else { "MISS" });
        }
        figure.insert_str(0, "**");
        figure.push_str(if met { "** (met)" } else { "** (missed)" });
        self.0.push(Line { name, figure, aim, detail });
    }

    /// Returns those of the rows that have not been added.
    pub fn missing(&self, rows: &[&'static str]) -> Vec<&'static str> {
        rows.iter().copied().filter(|row| self.0.iter().all(|line| line.name != *row)).collect()
    }

    /// Adds those of the rows that have not been added, with a mark in place of the figure and the aim.
    pub fn mark(&mut self, rows: &[&'static str], mark: &str, reason: &str) {
        for name in self.missing(rows) {
            // A bar would begin another cell.
            let detail = reason.replace('|', "/");
            self.0.push(Line { name, figure: format!("**{mark}**"), aim: "", detail });
        }
    }

    /// Writes the report's file.
    pub fn finish(self) {
        let mut text =
            format!("Machine: {}\n\n| Figure | Measured | Aim | |\n|---|---|---|---|\n", machine());
        for Line { name, figure, aim, detail } in &self.0 {
            writeln!(text, "| {name} | {figure} | {aim} | {detail} |").unwrap();
        }
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench-results");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("latest.md"), &text).unwrap();
        println!("written to bench-results/latest.md");
    }
}

/// Describes the machine.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory.lines().next().and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    format!(
        "{cores} cores ({}), {} GiB, load generator, server and PostgreSQL on the same machine",
        model.map_or("unknown", |(_, name)| name),
        kib.unwrap_or(0) / 1024 / 1024
    )
}

/// Returns the median.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
