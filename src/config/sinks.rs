//! Settings of sinks: the brokers to which subscriptions may publish, from the file that `ENTENTE_SINKS_FILE` names. Secrets come
//! from the environment; the file refers to them as `${NAME}`. Without the file there are no sinks.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use entente_domain::webhooks::sinks::{SinkRule, is_topic};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::Reader;
use super::templates::fill;

/// First part of the subjects by which servers wake each other, if their bus is at NATS.
pub const BUS_SUBJECTS: &str = "entente";

/// Port of a Kafka broker without one in its address.
const KAFKA_PORT: u16 = 9_092;

/// Configuration of a sink.
#[derive(Clone)]
pub struct SinkConfig {
    /// Name, by which subscriptions name it.
    pub name: String,
    /// Kind and address.
    pub broker: BrokerConfig,
    /// Beginning of all topics that subscriptions may name.
    pub prefix: String,
}

/// Kind and address of a broker.
#[derive(Clone)]
pub enum BrokerConfig {
    /// `JetStream` of NATS.
    JetStream {
        /// URL, which may contain a password.
        url: String,
        /// Stream that takes the events.
        stream: String,
    },
    /// A cluster that speaks Kafka's protocol.
    Kafka(KafkaConfig),
}

/// Address of a cluster that speaks Kafka's protocol.
#[derive(Clone)]
pub struct KafkaConfig {
    /// Names and ports of brokers to begin with.
    pub hosts: Vec<(String, u16)>,
    /// Whether connections use TLS.
    pub tls: bool,
    /// User and password (SASL/PLAIN).
    pub login: Option<(String, String)>,
}

impl SinkConfig {
    /// Returns the topics that the operator allows at it.
    #[must_use]
    pub fn rule(&self) -> SinkRule {
        let keyed = matches!(self.broker, BrokerConfig::Kafka(_));
        SinkRule { prefix: self.prefix.clone(), keyed }
    }
}

impl KafkaConfig {
    /// Parses `kafka://user:password@host:9092,host:9092`, or `kafkas://` for TLS; `None` if it is something else.
    fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (login, hosts) =
            rest.rsplit_once('@').map_or((None, rest), |(login, hosts)| (Some(login), hosts));
        let plain = |text: &str| percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned);
        let login = match login {
            None => None,
            Some(login) => {
                let (user, password) = login.split_once(':')?;
                Some((plain(user)?, plain(password)?))
            }
        };
        let host = |text: &str| {
            let (host, port) = match text.rsplit_once(':') {
                // The colons of an IPv6 address are in brackets.
                Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
                _ => (text, KAFKA_PORT),
            };
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let fits = !host.is_empty() && !host.contains(['/', '?', '#', ' ']);
            fits.then(|| (host.to_owned(), port))
        };
        let hosts: Vec<(String, u16)> =
            hosts.trim_end_matches('/').split(',').map(host).collect::<Option<_>>()?;
        match scheme {
            "kafka" | "kafkas" => Some(Self { hosts, tls: scheme == "kafkas", login }),
            _ => None,
        }
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
    #[serde(default)]
    stream: Option<String>,
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
        let url = fill(&url, secret, &mut Vec::new()).map_err(|why| of(&why))?;
        let broker = match stream {
            None if url.starts_with("kafka") => match KafkaConfig::parse(&url) {
                Some(config) => BrokerConfig::Kafka(config),
                None => {
                    return Err(of(
                        "`url` must be a URL such as kafka://user:password@host:9092,host:9092 or, with TLS, kafkas://host:9093",
                    ));
                }
            },
            Some(_) if url.starts_with("kafka") => {
                return Err(of("a Kafka broker has no `stream`; leave it out"));
            }
            Some(stream) if is_word(&stream) => {
                let known = url.starts_with("nats://") || url.starts_with("tls://");
                if !known || url.parse::<async_nats::ServerAddr>().is_err() {
                    return Err(of(
                        "`url` must be a URL such as nats://user:password@host:4222 or tls://host:4222",
                    ));
                }
                BrokerConfig::JetStream { url, stream }
            }
            _ => {
                return Err(of(
                    "`stream` names the stream of NATS, and consists of letters, digits, `_` and `-`",
                ));
            }
        };
        let whole = match broker {
            BrokerConfig::JetStream { .. } => prefix.strip_suffix('.'),
            BrokerConfig::Kafka(_) => Some(prefix.strip_suffix('.').unwrap_or(&prefix)),
        };
        if !whole.is_some_and(is_topic) {
            return Err(of(
                "`prefix` must be the beginning of topics, such as `events.`, and at NATS end with a dot",
            ));
        }
        let jet_stream = matches!(broker, BrokerConfig::JetStream { .. });
        if jet_stream && prefix.split('.').next() == Some(BUS_SUBJECTS) {
            return Err(of(
                "`prefix` must not begin with `entente.`: servers wake each other there, and a stream would keep it",
            ));
        }
        Ok(SinkConfig { name, broker, prefix })
    }
}

fn is_word(text: &str) -> bool {
    !text.contains('.') && is_topic(text)
}
