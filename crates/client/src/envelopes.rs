//! `entente envelope`: envelopes (AEE 1) from a terminal. Validation, signing and verification need no
//! server: they use the same domain rules as the server does. `envelopes/post.rs` sends and fetches.

mod keys;
mod past;
mod post;
pub(super) mod schemas;

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use entente_domain::aee::envelopes::signing::{Scope, Sig, VerifyingKey, check_numbers, sign};
use entente_domain::aee::envelopes::{ENVELOPE_BYTES, Warning, check, hash, members, read};
use entente_domain::clock::{Clock as _, rfc3339};
use entente_domain::identity::signatures::PublicKey;
use entente_domain::refusal::{Code, FieldError, Refusal};
use entente_runtime::environment::SystemClock;
use serde::Serialize;
use serde_json::{Map, Value};

use super::output::print_json;
use super::remote::Remote;
use super::verify::read_key;
use super::{Done, Failure};

/// Bytes read from one file at most: many envelopes, one per line.
const MOST: u64 = 1024 * ENVELOPE_BYTES as u64;

/// Envelopes (AEE 1): validate, sign, verify, send and fetch them
#[derive(Debug, Args)]
pub(super) struct Envelopes {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Validate envelopes, and list errors and warnings; needs no server
    Validate(Validate),
    /// Create a signing key, in a file that only you can read
    Keygen(keys::Keygen),
    /// Sign an envelope by the profile aee-jcs-1, and print it; one without `ts` gets the time of now. Needs no server
    Sign(Sign),
    /// Verify the signatures of envelopes; needs no server
    Verify(Verify),
    /// Print the past of an intent as envelopes, one per line, from its bundle; needs no server
    Past(past::PastOf),
    /// Send envelopes, byte for byte as they are
    Send(post::Send),
    /// Fetch a mailbox, or one envelope again
    Fetch(post::Fetch),
    /// List the tasks that wait for your approval; `entente decide` answers them
    Held(post::Held),
}

impl Envelopes {
    pub(super) async fn run(self) -> Done {
        let Self { remote, verb } = self;
        match verb {
            Verb::Validate(validate) => validate.run(remote.json),
            Verb::Keygen(keygen) => keygen.run(remote.json),
            Verb::Sign(sign) => sign.run(),
            Verb::Verify(verify) => verify.run(remote.json),
            Verb::Past(past) => past.run(),
            Verb::Send(send) => send.run(&remote).await,
            Verb::Fetch(fetch) => fetch.run(&remote).await,
            Verb::Held(held) => held.run(&remote).await,
        }
    }
}

/// Input files of a command.
#[derive(Debug, Args)]
struct Given {
    /// Files with an envelope each; `-` for standard input
    #[arg(default_value = "-", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Read each line as one envelope
    #[arg(long)]
    lines: bool,
}

/// An envelope and its origin: `letters.json`, or `letters.ndjson:3`.
struct Found {
    place: String,
    bytes: Vec<u8>,
}

impl Given {
    fn read(&self) -> Result<Vec<Found>, Failure> {
        let mut all = Vec::new();
        for file in &self.files {
            let (place, bytes) = (file.display().to_string(), bytes(file)?);
            if !self.lines {
                all.push(Found { place, bytes });
                continue;
            }
            let lines = bytes.split(|byte| *byte == b'\n').enumerate();
            let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
            all.extend(lines.map(|(n, line)| Found {
                place: format!("{place}:{}", n + 1),
                bytes: line.trim_ascii().to_vec(),
            }));
        }
        Ok(all)
    }
}

fn bytes(file: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        io::stdin().lock().take(MOST).read_to_end(&mut bytes)?;
    } else {
        let read = File::open(file).and_then(|open| open.take(MOST).read_to_end(&mut bytes));
        read.map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(bytes)
}

/// A warning about a valid envelope.
#[derive(Debug, Serialize)]
struct Remark {
    code: Warning,
    message: &'static str,
}

/// Result of validating one envelope.
#[derive(Debug, Serialize)]
struct Finding {
    file: String,
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The hash by which other envelopes refer to it (AEE §10.2).
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Code>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    errors: Vec<FieldError>,
    warnings: Vec<Remark>,
}

impl Finding {
    fn new(found: Found) -> Self {
        let Found { place: file, bytes } = found;
        match read(&bytes) {
            Ok(envelope) => Self {
                file,
                valid: true,
                hash: Some(hash(&envelope.members)),
                id: Some(envelope.id),
                code: None,
                message: None,
                errors: Vec::new(),
                warnings: envelope
                    .warnings
                    .iter()
                    .map(|code| Remark { code: *code, message: code.meaning() })
                    .collect(),
            },
            Err(refusal) => Self {
                file,
                valid: false,
                id: None,
                hash: None,
                code: Some(refusal.code),
                message: Some(refusal.message),
                errors: refusal.errors,
                warnings: Vec::new(),
            },
        }
    }

    fn print(&self, out: &mut impl io::Write) -> io::Result<()> {
        match (&self.id, &self.message) {
            (Some(id), _) => writeln!(out, "{}: {id} is valid", self.file)?,
            (None, Some(message)) => writeln!(out, "{}: {message}", self.file)?,
            (None, None) => {}
        }
        print_errors(&self.errors, out)?;
        for Remark { code, message } in &self.warnings {
            writeln!(out, "  warning {}: {message}", code.as_str())?;
        }
        Ok(())
    }
}

fn print_errors(errors: &[FieldError], out: &mut impl io::Write) -> io::Result<()> {
    errors.iter().try_for_each(|error| {
        let place = error.loc.get(1..).unwrap_or_default().join("/");
        writeln!(out, "  {place} ({}): {}", error.kind, error.msg)
    })
}

#[derive(Debug, Args)]
struct Validate {
    #[command(flatten)]
    given: Given,
    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
}

impl Validate {
    fn run(&self, json: bool) -> Done {
        let findings: Vec<Finding> = self.given.read()?.into_iter().map(Finding::new).collect();
        let bad = |one: &&Finding| !one.valid || (self.strict && !one.warnings.is_empty());
        let bad = findings.iter().filter(bad).count();
        if json {
            print_json(&serde_json::to_value(&findings)?)?;
        } else {
            let mut out = io::stdout().lock();
            findings.iter().try_for_each(|finding| finding.print(&mut out))?;
        }
        match (bad, findings.len()) {
            (_, 0) => Err("there is no envelope".into()),
            (0, _) => Ok(()),
            (bad, all) => Err(format!("{bad} of {all} not as they should be").into()),
        }
    }
}

#[derive(Debug, Args)]
struct Sign {
    /// A file with the envelope; `-` for standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// A file with your key, in the format of `entente envelope keygen`: 32 bytes in base64, or `hs256:` and
    /// a shared secret
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The id of your key at `/api/v1/aee/keys`
    #[arg(long)]
    kid: String,
}

impl Sign {
    fn run(&self) -> Done {
        let key = keys::read(&self.key)?;
        let text = bytes(&self.file)?;
        let mut members = members(&text)?;
        members.remove("sig");
        // Required (AEE §6, rule 1).
        members.entry("ts").or_insert_with(|| rfc3339(SystemClock.now()).into());
        // An envelope that every receiver would refuse is not signed either.
        if let Err(refusal) = check(members.clone()) {
            print_errors(&refusal.errors, &mut io::stderr().lock())?;
            return Err(refusal.into());
        }
        check_numbers(&text, Scope::Whole)?;
        sign(&mut members, &self.kid, &key)?;
        writeln!(io::stdout().lock(), "{}", Value::from(members))?;
        Ok(())
    }
}

#[derive(Debug, Args)]
#[group(id = "by", required = true, multiple = false, args = ["public_key", "key"])]
struct Verify {
    #[command(flatten)]
    given: Given,
    /// The sender's public key: `ed25519:…`, or a `did:key`
    #[arg(long, value_name = "KEY", value_parser = read_key)]
    public_key: Option<PublicKey>,
    /// A file with the signing key, or with the shared secret
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

/// Result of verifying one signature.
#[derive(Debug, Serialize)]
struct Verdict {
    file: String,
    verified: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    kid: Option<String>,
    /// Part that the signature covers: `whole`, or `core` for the ten members of AEE §8.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Code>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl Verdict {
    fn new(found: Found, key: &VerifyingKey) -> Self {
        let judged = members(&found.bytes).and_then(|members| {
            let sig = verified(&members, key)?;
            check_numbers(&found.bytes, sig.scope)?;
            Ok((sig, hash(&members)))
        });
        let none = Self {
            file: found.place,
            verified: false,
            kid: None,
            scope: None,
            hash: None,
            code: None,
            message: None,
        };
        match judged {
            Ok((sig, hash)) => {
                let scope = if sig.scope == Scope::Core { "core" } else { "whole" };
                Self { verified: true, kid: Some(sig.kid), scope: Some(scope), hash: Some(hash), ..none }
            }
            Err(refusal) => Self { code: Some(refusal.code), message: Some(refusal.message), ..none },
        }
    }

    fn print(&self, out: &mut impl io::Write) -> io::Result<()> {
        let Self { file, .. } = self;
        match (&self.kid, &self.message) {
            (Some(kid), _) if self.scope == Some("core") => {
                writeln!(out, "{file}: signed with `{kid}`: the ten members of AEE §8, and nothing else")
            }
            (Some(kid), _) => writeln!(out, "{file}: signed with `{kid}`, all of it"),
            (None, Some(message)) => writeln!(out, "{file}: {message}"),
            (None, None) => Ok(()),
        }
    }
}

fn verified(members: &Map<String, Value>, key: &VerifyingKey) -> Result<Sig, Refusal> {
    let missing = || Refusal::field(Code::SignatureRequired, "sig", "missing", "It has no signature.");
    let sig = Sig::read(members)?.ok_or_else(missing)?;
    sig.verify(members, key)?;
    Ok(sig)
}

impl Verify {
    fn run(&self, json: bool) -> Done {
        let key = match (self.public_key, &self.key) {
            (Some(key), _) => VerifyingKey::Ed25519(key),
            (None, Some(file)) => keys::check_of(&keys::read(file)?),
            (None, None) => return Err("name a key with --public-key or --key".into()),
        };
        let verdicts: Vec<Verdict> =
            self.given.read()?.into_iter().map(|found| Verdict::new(found, &key)).collect();
        if json {
            print_json(&serde_json::to_value(&verdicts)?)?;
        } else {
            let mut out = io::stdout().lock();
            verdicts.iter().try_for_each(|verdict| verdict.print(&mut out))?;
        }
        match (verdicts.iter().filter(|verdict| !verdict.verified).count(), verdicts.len()) {
            (_, 0) => Err("there is no envelope".into()),
            (0, _) => Ok(()),
            (bad, all) => Err(format!("{bad} of {all} not signed by this key").into()),
        }
    }
}
