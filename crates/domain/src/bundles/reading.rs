//! Verifies a bundle line by line, without a server and without holding the file.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::log::{LogVerifier, TOLD};
use super::writing::stated;
use super::{FORMAT, Header, Line, PREDICATE, Section, bare, chained};
use crate::canonical::{self, Digest, Unambiguous};
use crate::identity::attestations::Attestation;
use crate::identity::signatures::PublicKey;
use crate::moments::receipts;
use crate::openintent::intents::export;

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Number of lines of each kind; empty for an export of an earlier release.
    pub counts: BTreeMap<&'static str, u64>,
    /// Faults of the file: lines that were changed, moved, added or taken away, and a seal that is not over them.
    pub damaged: Vec<String>,
    /// The report on its log.
    #[serde(flatten)]
    pub log: export::Report,
}

impl Report {
    /// Whether no fault was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.damaged.is_empty() && self.log.is_clean()
    }
}

/// Verifies a bundle, or an export of an earlier release, that is in memory.
///
/// `trusted` are the server's keys known from another source; without any, every file vouches for its own key.
///
/// # Errors
/// It is neither; the message names the fault and its position.
pub fn verify(file: &[u8], trusted: &[PublicKey]) -> Result<Report, String> {
    let mut lines = file.split_inclusive(|byte| *byte == b'\n');
    let Some(first) = lines.next().filter(|first| Reader::is_first(first)) else {
        return Ok(of_export(export::Export::verify_file(file, trusted)?));
    };
    let mut reader = Reader::new(trusted);
    reader.push(first)?;
    lines.try_for_each(|line| reader.push(line))?;
    reader.finish()
}

/// Returns the report on an export of an earlier release.
#[must_use]
pub fn of_export(log: export::Report) -> Report {
    Report { counts: BTreeMap::new(), damaged: Vec::new(), log }
}

/// Reads the lines of one bundle.
#[derive(Debug)]
pub struct Reader {
    trusted: Vec<PublicKey>,
    /// Number of lines read.
    at: usize,
    head: Digest,
    file: Sha256,
    counts: BTreeMap<&'static str, u64>,
    /// Kind of the last line, and the id of the channel or job that the next may belong to.
    section: Option<Section>,
    parent: Option<String>,
    exported_at: String,
    log: Option<LogVerifier>,
    damaged: Vec<String>,
    /// The key that signed the file, once the last line was read.
    signed_by: Option<String>,
}

impl Reader {
    /// Begins; `trusted` are the acceptable keys of the server, any if empty.
    #[must_use]
    pub fn new(trusted: &[PublicKey]) -> Self {
        Self {
            trusted: trusted.to_vec(),
            at: 0,
            head: Digest::default(),
            file: Sha256::new(),
            counts: BTreeMap::new(),
            section: None,
            parent: None,
            exported_at: String::new(),
            log: None,
            damaged: Vec::new(),
            signed_by: None,
        }
    }

    /// Returns whether this is the first line of a bundle, and not of an export of an earlier release.
    #[must_use]
    pub fn is_first(line: &[u8]) -> bool {
        Line::parse(line).is_some_and(|line| line.section == Section::Bundle)
    }

    /// Returns the first line, once it was read.
    #[must_use]
    pub fn header(&self) -> Option<&Header> {
        self.log.as_ref().map(LogVerifier::header)
    }

    /// Returns the kind of the line that was read last; `None` before the first, and after the seal.
    #[must_use]
    pub fn section(&self) -> Option<Section> {
        self.section.filter(|_| self.signed_by.is_none())
    }

    fn damage(&mut self, fault: &str) {
        if self.damaged.len() < TOLD {
            self.damaged.push(format!("line {}: {fault}", self.at));
        }
    }

    /// Reads the next line, with its end.
    ///
    /// # Errors
    /// It is no line of a bundle.
    pub fn push(&mut self, text: &[u8]) -> Result<(), String> {
        self.at += 1;
        let wrong = |at: usize, fault: &dyn std::fmt::Display| format!("line {at}: {fault}");
        if self.signed_by.is_some() {
            return Err(wrong(self.at, &"it follows the seal, which is the last"));
        }
        let Some(line) = text.strip_suffix(b"\n") else {
            return Err(wrong(self.at, &"the file ends in the middle of it"));
        };
        let Unambiguous(value) = serde_json::from_slice(line).map_err(|e| wrong(self.at, &e))?;
        if canonical::text(&value).map_or(true, |canonical| canonical.as_bytes() != line) {
            self.damage("it is not canonical JSON, as the server writes it");
        }
        if value.get("payloadType").is_some() {
            return self.seal(value).map_err(|e| wrong(self.at, &e));
        }
        let line = Line::parse(line).ok_or_else(|| wrong(self.at, &"it is no line of a bundle"))?;
        self.file.update(text);
        self.chain(&line).map_err(|e| wrong(self.at, &e))?;
        self.place(&line);
        self.take(line.section, line.body).map_err(|e| wrong(self.at, &e))
    }

    /// Checks that a line follows the one before it.
    fn chain(&mut self, line: &Line) -> Result<(), serde_json::Error> {
        let found = chained(&self.head, &bare(line.section, &canonical::text(&line.body)?));
        if canonical::show(&found) != line.hash {
            self.damage("it does not have its hash: it was changed, or the line before it is another");
        }
        self.head = canonical::read(&line.hash).unwrap_or(found);
        *self.counts.entry(line.section.as_str()).or_default() += 1;
        Ok(())
    }

    /// Checks that a line stands where its kind does, and under the channel or the job that it names.
    fn place(&mut self, line: &Line) {
        let section = line.section;
        let name = |member: &str| line.body.get(member).and_then(Value::as_str);
        let parent = self.parent.as_deref();
        let belongs = match section {
            Section::Message => parent.is_some() && parent == name("channel_id"),
            Section::JobEvent => parent.is_some() && parent == name("job_id"),
            _ => true,
        };
        let follows = self.section.is_none_or(|last| {
            last.group() < section.group() || last.group() == section.group() && section != Section::Bundle
        });
        match section {
            Section::Channel => self.parent = name("id").map(str::to_owned),
            Section::Job => self.parent = name("job_id").map(str::to_owned),
            Section::Message | Section::JobEvent => {}
            _ => self.parent = None,
        }
        if !follows || !belongs {
            self.damage("it stands in another place than the server writes it");
        }
        self.section = Some(section);
    }

    /// Takes a line's content.
    fn take(&mut self, section: Section, body: Map<String, Value>) -> Result<(), String> {
        if section == Section::Bundle {
            let header: Header = read(body)?;
            if header.format != FORMAT {
                return Err(format!("the format is `{}`, this verifier reads `{FORMAT}`", header.format));
            }
            self.exported_at.clone_from(&header.exported_at);
            self.log = Some(LogVerifier::new(header));
            return Ok(());
        }
        let log = self.log.as_mut().ok_or("a bundle begins with its intent")?;
        match section {
            Section::Deleted => {
                log.deleted(&read::<Vec<String>>(body.get("event_hashes").cloned().unwrap_or_default())?)?;
            }
            Section::Identity => log.identity(read(body)?),
            Section::Event => log.event(read(body)?),
            Section::Checkpoint => log.checkpoint(read(body)?),
            Section::Decision => {
                if let Some(fault) = receipts::fault(&body, &self.trusted) {
                    self.damage(&fault);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads the last line.
    fn seal(&mut self, value: Value) -> Result<(), String> {
        let seal: Attestation = read(value)?;
        self.signed_by = Some(seal.signatures.first().map(|one| one.keyid.clone()).unwrap_or_default());
        let statement = match seal.open(&self.trusted) {
            Ok((statement, _key)) => statement,
            Err(fault) => {
                self.damage(&format!("the seal: {fault}"));
                return Ok(());
            }
        };
        let digest: Digest = self.file.clone().finalize().into();
        let intent = self.log.as_ref().map(LogVerifier::intent_id).unwrap_or_default();
        let holds = statement.is_about(&intent, &digest)
            && statement.predicate_type == PREDICATE
            && statement.predicate == stated(&self.exported_at, &self.head, &self.counts);
        if !holds {
            self.damage("the seal is not over this file: lines were changed, added or taken away");
        }
        Ok(())
    }

    /// Judges the file, whose last line has been read.
    ///
    /// # Errors
    /// It is not whole.
    pub fn finish(self) -> Result<Report, String> {
        let log = self.log.ok_or("the file is empty")?;
        let cut = "the file ends without the server's seal: its end is missing";
        let signed_by = self.signed_by.ok_or(cut)?;
        let log = export::Report { signed_by: Some(signed_by), ..log.finish(&self.trusted) };
        Ok(Report { counts: self.counts, damaged: self.damaged, log })
    }
}

fn read<T: DeserializeOwned>(value: impl Into<Value>) -> Result<T, String> {
    serde_json::from_value(value.into()).map_err(|e| e.to_string())
}
