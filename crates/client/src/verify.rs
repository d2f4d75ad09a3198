//! `entente verify`: checks the bundle of an intent without a server, line by line, or an export of an earlier release.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use entente_domain::bundles::{LINE_BYTES, Reader, Report, of_export};
use entente_domain::identity::signatures::PublicKey;
use entente_domain::openintent::intents::export::Export;

use super::Done;
use super::output::print_json;

/// Check the bundle of an intent: that the server signed every line of it, the hash chain of its log, its checkpoints, the
/// proofs in it, that its log produces its state, and the receipts of its decisions
#[derive(Debug, Args)]
pub(super) struct Verify {
    /// The bundle, as written by `entente intent export`, or an export of an earlier release; `-` for standard input
    file: PathBuf,
    /// A trusted key of the server, noted earlier from `GET /api/v1/server/keys`; repeatable. Without it the
    /// file's own key is trusted
    #[arg(long = "server-key", value_name = "DID", value_parser = read_key)]
    server_keys: Vec<PublicKey>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Parses a public key given as an argument.
///
/// # Errors
/// The text is not a public key.
pub(super) fn read_key(text: &str) -> Result<PublicKey, String> {
    let key = PublicKey::of_did(text).or_else(|_no| PublicKey::parse(text));
    key.map_err(|e| format!("{e}; it begins with `did:key:z6Mk` or with `ed25519:`"))
}

/// Verifies a file as it is read.
///
/// # Errors
/// It is no whole bundle, and no export of an earlier build.
pub(super) fn read(mut file: impl BufRead, trusted: &[PublicKey]) -> Result<Report, String> {
    let next = |file: &mut dyn BufRead| {
        let mut line = Vec::new();
        file.take(LINE_BYTES as u64).read_until(b'\n', &mut line).map_err(|e| e.to_string())?;
        Ok::<_, String>(line)
    };
    let mut line = next(&mut file)?;
    if !Reader::is_first(&line) {
        file.read_to_end(&mut line).map_err(|e| e.to_string())?;
        return Export::verify_file(&line, trusted).map(of_export);
    }
    let mut reader = Reader::new(trusted);
    while !line.is_empty() {
        reader.push(&line)?;
        line = next(&mut file)?;
    }
    reader.finish()
}

impl Verify {
    pub(super) fn run(&self) -> Done {
        let report = if self.file == Path::new("-") {
            read(io::stdin().lock(), &self.server_keys)
        } else {
            let open = File::open(&self.file).map_err(|e| format!("{}: {e}", self.file.display()))?;
            read(BufReader::new(open), &self.server_keys)
        };
        let report = report.map_err(|e| {
            format!(
                "{} is no whole export of an intent ({e}). `entente intent export` writes one",
                self.file.display()
            )
        })?;
        if self.json {
            print_json(&serde_json::to_value(&report)?)?;
        } else {
            self.print(&report)?;
        }
        if report.is_clean() {
            return Ok(());
        }
        Err("the export is not what the server wrote, or the server's log was changed".into())
    }

    fn print(&self, bundle: &Report) -> Done {
        let mut out = io::stdout().lock();
        let report = &bundle.log;
        let (events, checkpoints) = (report.event_count, report.checkpoint_count);
        writeln!(out, "{}: {events} events, {checkpoints} checkpoints", report.intent_id)?;
        if report.deleted_count > 0 {
            writeln!(out, "the {} events before them were deleted by retention", report.deleted_count)?;
        }
        let others =
            bundle.counts.iter().filter(|(kind, _)| !matches!(**kind, "bundle" | "event" | "checkpoint"));
        let others: Vec<String> = others.map(|(kind, count)| format!("{count} × {kind}")).collect();
        if !others.is_empty() {
            writeln!(out, "besides: {}", others.join(", "))?;
        }
        for fault in &bundle.damaged {
            writeln!(out, "  {fault}")?;
        }
        for fault in &report.breaks {
            writeln!(out, "  event {}: {}", fault.sequence, fault.reason)?;
        }
        for fault in report.contradictions.iter().chain(&report.unsigned) {
            writeln!(out, "  {fault}")?;
        }
        if !bundle.is_clean() {
            return Ok(());
        }
        let head = report.head.as_deref().unwrap_or("-");
        writeln!(out, "every event is in its place and unchanged; head {head}")?;
        if report.deleted_count > 0 {
            writeln!(
                out,
                "a checkpoint covers the hashes of the deleted ones; the seal covers the state that they made"
            )?;
        }
        match &report.signed_by {
            Some(key) if self.server_keys.is_empty() => {
                writeln!(
                    out,
                    "signed by {key}; compare that with the server's, or give it with --server-key"
                )?;
            }
            Some(key) => writeln!(out, "signed by the server, {key}")?,
            None => writeln!(out, "not signed: the file is of an older form")?,
        }
        Ok(())
    }
}
