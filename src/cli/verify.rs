//! `entente verify`: checks an exported intent without a server, and `entente openapi`: prints the document.

use std::fs::File;
use std::io::{self, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use entente_core::export::{Export, Report};

use super::Done;
use super::output::print_json;
use crate::http::openapi::Document;

/// Check an exported intent: its hash chain, and that its log makes it what it is
#[derive(Debug, Args)]
pub(super) struct Verify {
    /// What `entente intent export` wrote; `-` for standard input
    file: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(super) fn run(&self) -> Done {
        let from: Box<dyn Read> = if self.file == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(&self.file).map_err(|e| format!("{}: {e}", self.file.display()))?)
        };
        let export: Export = serde_json::from_reader(BufReader::new(from)).map_err(|e| {
            format!(
                "{} is no export of an intent ({e}). `entente intent export` writes one",
                self.file.display()
            )
        })?;
        let report = export.verify();
        if self.json {
            print_json(&serde_json::to_value(&report)?)?;
        } else {
            print(&report)?;
        }
        if report.is_clean() {
            return Ok(());
        }
        Err("the export is not what the server wrote, or the server's log was changed".into())
    }
}

fn print(report: &Report) -> Done {
    let mut out = io::stdout().lock();
    writeln!(out, "{}: {} events", report.intent_id, report.event_count)?;
    for fault in &report.breaks {
        writeln!(out, "  event {}: {}", fault.sequence, fault.reason)?;
    }
    for fault in &report.contradictions {
        writeln!(out, "  {fault}")?;
    }
    if report.is_clean() {
        writeln!(
            out,
            "every event is in its place and unchanged; head {}",
            report.head.as_deref().unwrap_or("-")
        )?;
    }
    Ok(())
}

/// Prints the OpenAPI document.
pub(super) fn openapi() -> Done {
    io::stdout().lock().write_all(Document::collect().json.as_bytes())?;
    Ok(())
}
