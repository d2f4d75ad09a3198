//! `entente verify`: checks an exported intent without a server.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use entente_domain::identity::signatures::PublicKey;
use entente_domain::openintent::intents::export::{Export, Report};

use super::Done;
use super::output::print_json;

/// Check an exported intent: its hash chain, its checkpoints, the proofs in it, that its log produces its
/// state, and that the server signed all of it
#[derive(Debug, Args)]
pub(super) struct Verify {
    /// The export, as written by `entente intent export`; `-` for standard input
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

impl Verify {
    pub(super) fn run(&self) -> Done {
        let mut text = Vec::new();
        if self.file == Path::new("-") {
            io::stdin().lock().read_to_end(&mut text)?;
        } else {
            let open = File::open(&self.file).and_then(|mut file| file.read_to_end(&mut text));
            open.map_err(|e| format!("{}: {e}", self.file.display()))?;
        }
        let report = Export::verify_file(&text, &self.server_keys).map_err(|e| {
            format!(
                "{} is no export of an intent ({e}). `entente intent export` writes one",
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

    fn print(&self, report: &Report) -> Done {
        let mut out = io::stdout().lock();
        let (events, checkpoints) = (report.event_count, report.checkpoint_count);
        writeln!(out, "{}: {events} events, {checkpoints} checkpoints", report.intent_id)?;
        if report.deleted_count > 0 {
            writeln!(out, "the {} events before them were deleted by retention", report.deleted_count)?;
        }
        for fault in &report.breaks {
            writeln!(out, "  event {}: {}", fault.sequence, fault.reason)?;
        }
        for fault in report.contradictions.iter().chain(&report.unsigned) {
            writeln!(out, "  {fault}")?;
        }
        if !report.is_clean() {
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
