//! Writes a bundle line by line: keeps the hash of the last line, the digest of the file so far and the numbers of
//! lines, whatever the length of the file.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{FORMAT, Header, PREDICATE, Section, bare, chained};
use crate::canonical::{self, Digest, Unambiguous, numbers};
use crate::identity::attestations::Statement;
use crate::identity::signatures::Signer;

/// Writes the lines of one bundle.
#[derive(Debug, Clone)]
pub struct Writer {
    intent_id: String,
    exported_at: String,
    head: Digest,
    file: Sha256,
    counts: BTreeMap<&'static str, u64>,
}

impl Writer {
    /// Begins a bundle; returns its first line too.
    ///
    /// # Errors
    /// The header has no JSON form.
    pub fn begin(header: &Header) -> Result<(Self, String), serde_json::Error> {
        let mut writer = Self {
            intent_id: header.intent.id.to_string(),
            exported_at: header.exported_at.clone(),
            head: Digest::default(),
            file: Sha256::new(),
            counts: BTreeMap::new(),
        };
        let first = writer.line(Section::Bundle, header)?;
        Ok((writer, first))
    }

    /// Returns the next line, with its end.
    ///
    /// # Errors
    /// The body has no JSON form.
    pub fn line(&mut self, section: Section, body: &impl Serialize) -> Result<String, serde_json::Error> {
        let (body, kind) = (canonical::text(body)?, section.as_str());
        self.head = chained(&self.head, &bare(section, &body));
        *self.counts.entry(kind).or_default() += 1;
        let line =
            format!("{{\"body\":{body},\"hash\":\"{}\",\"kind\":\"{kind}\"}}\n", canonical::show(&self.head));
        self.file.update(&line);
        Ok(line)
    }

    /// Returns the last line: the attestation of the digest of all lines before it.
    ///
    /// # Errors
    /// Never: an attestation has a JSON form.
    pub fn seal(self, signer: &Signer) -> Result<String, serde_json::Error> {
        let digest: Digest = self.file.finalize().into();
        let predicate = stated(&self.exported_at, &self.head, &self.counts);
        let sealed = Statement::about(&self.intent_id, &digest, PREDICATE, predicate).signed(signer);
        canonical::text(&sealed).map(|text| text + "\n")
    }
}

/// Returns the predicate of a bundle's attestation.
pub(super) fn stated(exported_at: &str, head: &Digest, counts: &BTreeMap<&'static str, u64>) -> Value {
    json!({ "counts": counts, "exported_at": exported_at, "format": FORMAT, "head": canonical::show(head) })
}

/// Puts JSON text into a body: as a value, or under `<member>_text` as a string if the canonical form would change a
/// number in it, or readers could differ on it.
pub fn put_json(body: &mut Map<String, Value>, member: &str, text: &str) {
    let exact = numbers::unheld(text.as_bytes()).is_none();
    match serde_json::from_str::<Unambiguous>(text) {
        Ok(Unambiguous(value)) if exact => body.insert(member.to_owned(), value),
        _ => body.insert(format!("{member}_text"), Value::String(text.to_owned())),
    };
}
