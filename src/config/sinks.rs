//! Settings of sinks: the brokers to which subscriptions may publish, from the file that `ENTENTE_SINKS_FILE` names. Secrets come
//! from the environment; the file refers to them as `${NAME}`. Without the file there are no sinks.

use std::collections::BTreeSet;
use std::fmt;

use entente_domain::webhooks::sinks::{SinkRule, is_topic};
use serde::Deserialize;

use super::Reader;
use super::templates::fill;

/// First part of the subjects by which servers wake each other, if their bus is at NATS.
pub const BUS_SUBJECTS: &str = "entente";

/// Configuration of a broker.
#[derive(Clone)]
pub struct SinkConfig {
    /// Name, by which subscriptions name it.
    pub name: String,
    /// URL, which may contain a password.
    pub url: String,
    /// Stream that takes the events.
    pub stream: String,
    /// Beginning of all topics that subscriptions may name.
    pub prefix: String,
}

impl SinkConfig {
    /// Returns what the operator allows at it.
    #[must_use]
    pub fn rule(&self) -> SinkRule {
        SinkRule { prefix: self.prefix.clone() }
    }
}

impl fmt::Debug for SinkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkConfig").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    sinks: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    url: String,
    stream: String,
    prefix: String,
}

impl Reader<'_> {
    pub(super) fn sinks(&mut self) -> Vec<SinkConfig> {
        let Some(path) = self.text("ENTENTE_SINKS_FILE") else { return Vec::new() };
        let text = std::fs::read_to_string(&path).map_err(|e| e.to_string());
        text.and_then(|text| read(&text, self.get)).unwrap_or_else(|why| {
            self.faults.push(format!("ENTENTE_SINKS_FILE={path}: {why}"));
            Vec::new()
        })
    }
}

/// Parses the file; `secret` returns a variable's value.
///
/// # Errors
/// The error in the file, without the values of secrets.
pub fn read(text: &str, secret: &dyn Fn(&str) -> Option<String>) -> Result<Vec<SinkConfig>, String> {
    let file: File = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let sinks: Vec<SinkConfig> =
        file.sinks.into_iter().map(|entry| entry.check(secret)).collect::<Result<_, _>>()?;
    let names: BTreeSet<&str> = sinks.iter().map(|sink| sink.name.as_str()).collect();
    if names.len() < sinks.len() {
        return Err("two sinks have one name".to_owned());
    }
    Ok(sinks)
}

impl Entry {
    fn check(self, secret: &dyn Fn(&str) -> Option<String>) -> Result<SinkConfig, String> {
        let Self { name, url, stream, prefix } = self;
        let of = |why: &str| format!("sink {name}: {why}");
        if !is_word(&name) {
            return Err(format!("`{name}` is no name: it consists of letters, digits, `_` and `-`"));
        }
        if !is_word(&stream) {
            return Err(of("`stream` consists of letters, digits, `_` and `-`"));
        }
        if !prefix.strip_suffix('.').is_some_and(is_topic) {
            return Err(of("`prefix` must be the beginning of topics and end with a dot, such as `events.`"));
        }
        if prefix.split('.').next() == Some(BUS_SUBJECTS) {
            return Err(of(
                "`prefix` must not begin with `entente.`: servers wake each other there, and a stream would keep it",
            ));
        }
        let url = fill(&url, secret, &mut Vec::new()).map_err(|why| of(&why))?;
        let known = url.starts_with("nats://") || url.starts_with("tls://");
        if !known || url.parse::<async_nats::ServerAddr>().is_err() {
            return Err(of("`url` must be a URL such as nats://user:password@host:4222 or tls://host:4222"));
        }
        Ok(SinkConfig { name, url, stream, prefix })
    }
}

fn is_word(text: &str) -> bool {
    !text.contains('.') && is_topic(text)
}
