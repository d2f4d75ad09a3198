//! `entente envelope past`: the past of an intent as envelopes, from a bundle that is verified first.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, Write as _};
use std::path::PathBuf;

use clap::Args;
use entente_domain::bundles::Line;
use entente_domain::bundles::past::Past;
use entente_domain::canonical::text;
use entente_domain::identity::signatures::PublicKey;

use crate::Done;
use crate::verify::{self, read_key};

#[derive(Debug, Args)]
pub(super) struct PastOf {
    /// The bundle, as written by `entente intent export`
    file: PathBuf,
    /// A trusted key of the server; repeatable. Without it the file's own key is trusted
    #[arg(long = "server-key", value_name = "DID", value_parser = read_key)]
    server_keys: Vec<PublicKey>,
}

impl PastOf {
    pub(super) fn run(&self) -> Done {
        let mut file = File::open(&self.file).map_err(|e| format!("{}: {e}", self.file.display()))?;
        let report = verify::read(BufReader::new(&file), &self.server_keys)?;
        if !report.is_clean() {
            return Err("the bundle is not what the server wrote: see `entente verify`".into());
        }
        if report.counts.is_empty() {
            return Err(
                "the file is an export of an earlier release, which has a log only: export the intent again"
                    .into(),
            );
        }
        // The same file, also if another one has its name by now.
        file.rewind()?;
        let (mut out, mut past) = (io::stdout().lock(), Past::default());
        for (at, line) in BufReader::new(&file).split(b'\n').enumerate() {
            let Some(line) = Line::parse(&line?) else { continue };
            let envelopes = past.envelopes(&line).map_err(|e| format!("line {}: {e}", at + 1))?;
            for envelope in envelopes {
                writeln!(out, "{}", text(&envelope.members)?)?;
            }
        }
        Ok(())
    }
}
