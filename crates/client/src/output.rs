//! Output of answers: as text for people, or as JSON.

pub(super) mod exit;
pub(super) mod people;

use std::io::{self, Write};

use serde_json::Value;

use super::Done;

/// Row of a table.
#[derive(Debug)]
pub(super) struct TableRow<'a>(Vec<std::borrow::Cow<'a, str>>);

impl<'a> TableRow<'a> {
    /// Returns the row of an object's members in `columns`.
    pub(super) fn of(object: &'a Value, columns: &[&str]) -> Self {
        Self(columns.iter().map(|column| cell(&object[*column])).collect())
    }
}

/// Renders a value compactly.
pub(super) fn cell(value: &Value) -> std::borrow::Cow<'_, str> {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.as_str().into(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",").into()
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string().into(),
    }
}

/// Writes a line to standard error, where it does not mix with the answer; a closed standard error is ignored.
pub(super) fn note(text: &str) {
    let _written = writeln!(io::stderr(), "{text}");
}

/// Prints rows under headings, with each column as wide as its widest cell.
///
/// # Errors
/// Standard output cannot be written to.
pub(super) fn print_table(columns: &[&str], rows: &[TableRow<'_>]) -> Done {
    let width = |index: usize| {
        let cells = rows.iter().filter_map(|row| row.0.get(index)).map(|cell| cell.chars().count());
        cells.chain([columns[index].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |cells: &[&str]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let headings: Vec<String> =
        columns.iter().map(|column| column.to_uppercase().replace('_', " ")).collect();
    let mut out = io::stdout().lock();
    writeln!(out, "{}", line(&headings.iter().map(String::as_str).collect::<Vec<_>>()))?;
    for row in rows {
        writeln!(out, "{}", line(&row.0.iter().map(AsRef::as_ref).collect::<Vec<_>>()))?;
    }
    Ok(())
}

/// Prints the members of a record that have a value, one per line.
///
/// # Errors
/// Standard output cannot be written to.
pub(super) fn print_record(record: &Value) -> Done {
    let mut out = io::stdout().lock();
    let Value::Object(members) = record else {
        writeln!(out, "{record}")?;
        return Ok(());
    };
    let width = members.keys().map(String::len).max().unwrap_or(0);
    for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        writeln!(out, "{name:<width$}  {}", cell(value))?;
    }
    Ok(())
}

/// Prints JSON.
///
/// # Errors
/// Standard output cannot be written to.
pub(super) fn print_json(value: &Value) -> Done {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    Ok(())
}
