//! Signing keys for envelopes, in files: 32 bytes in base64 (Ed25519), or `hs256:` and a shared secret in
//! base64. A key is never an argument, because every user of the machine can read a command line.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use entente_domain::aee::envelopes::signing::{SHARED_BYTES, SigningKey, VerifyingKey, decode, encode};
use entente_domain::identity::signatures::{Signer, parse_seed};
use entente_domain::ids::Chance as _;
use entente_runtime::environment::OsChance;
use serde_json::json;

use super::super::output::{print_json, print_record};
use super::super::{Done, Failure};

/// Prefix of a shared secret.
const SHARED: &str = "hs256:";

/// Reads a key from a file.
///
/// # Errors
/// The file cannot be read or holds no key. The error does not repeat the file's content.
pub(super) fn read(file: &Path) -> Result<SigningKey, Failure> {
    let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let text = text.trim();
    let key = match text.strip_prefix(SHARED) {
        Some(secret) => {
            decode(secret).filter(|secret| SHARED_BYTES.contains(&secret.len())).map(SigningKey::Hs256)
        }
        None => parse_seed(text).map(|seed| SigningKey::Ed25519(Box::new(Signer::from_seed(&seed)))),
    };
    key.ok_or_else(|| {
        let (least, most) = SHARED_BYTES.into_inner();
        format!(
            "{} holds no key: 32 bytes in base64, or `{SHARED}` and {least} to {most} bytes in base64. \
             `entente envelope keygen` makes one",
            file.display()
        )
        .into()
    })
}

/// Returns the key that verifies this key's signatures.
pub(super) fn check_of(key: &SigningKey) -> VerifyingKey {
    match key {
        SigningKey::Ed25519(signer) => VerifyingKey::Ed25519(signer.public_key()),
        SigningKey::Hs256(secret) => VerifyingKey::Hs256(secret.clone()),
    }
}

#[derive(Debug, Args)]
pub(super) struct Keygen {
    /// The file to create; an existing file is never overwritten
    file: PathBuf,
    /// Create a secret to share with the server, instead of a key pair
    #[arg(long)]
    hs256: bool,
}

impl Keygen {
    pub(super) fn run(&self, json: bool) -> Done {
        let chance = OsChance::default();
        let bits = [chance.bits(), chance.bits()];
        let mut seed = [0; 32];
        let (front, back) = seed.split_at_mut(16);
        front.copy_from_slice(&bits[0].to_be_bytes());
        back.copy_from_slice(&bits[1].to_be_bytes());
        let prefix = if self.hs256 { SHARED } else { "" };
        let mut open = OpenOptions::new();
        open.write(true).create_new(true).mode(0o600);
        let written = open.open(&self.file).and_then(|mut file| writeln!(file, "{prefix}{}", encode(&seed)));
        written.map_err(|e: io::Error| format!("{}: {e}", self.file.display()))?;
        let file = self.file.display().to_string();
        let made = if self.hs256 {
            json!({ "algorithm": "HS256", "key_file": file })
        } else {
            let key = Signer::from_seed(&seed).public_key();
            json!({ "algorithm": "ed25519", "public_key": key, "did": key.did(), "key_file": file })
        };
        if json { print_json(&made) } else { print_record(&made) }
    }
}
