//! Sinks: topics of the operator's brokers, to which a subscription publishes its events as `CloudEvents` instead of sending them to
//! a URL. The operator names the brokers and the beginning of their topics; a subscription names a broker and a topic.

use serde::{Deserialize, Serialize};

use crate::ids::IntentId;
use crate::refusal::{Code, Refusal};
use crate::webhooks::own_types;

/// Scheme of a sink's address, by which an endpoint stores it. No URL of a receiver has it.
const SCHEME: &str = "sink://";

/// Longest topic, before its placeholders are filled in.
const LONGEST: usize = 200;

/// Longest name of a topic at Kafka.
const KAFKA_LONGEST: usize = 249;

/// Placeholders of a topic.
const INTENT: &str = "{intent_id}";
const TYPE: &str = "{type}";

/// Part of a topic for events that belong to no intent.
const NO_INTENT: &str = "server";

/// Part of a topic for the types that clients invent, where topics are few.
const POSTED: &str = "posted";

/// A broker and a topic at it, with placeholders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sink {
    /// The broker's name in the operator's settings.
    pub name: String,
    /// The topic (a subject of NATS, a topic of Kafka): `{intent_id}` and `{type}` are those of each event.
    pub topic: String,
}

/// Topics that the operator allows at a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkRule {
    /// Beginning of all its topics.
    pub prefix: String,
    /// Whether its topics are few and the events of an intent have their order by a key, as with Kafka.
    pub keyed: bool,
}

impl Sink {
    /// Returns the address by which an endpoint stores it.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{SCHEME}{}/{}", self.name, self.topic)
    }

    /// Parses an address; `None` for URLs of receivers.
    #[must_use]
    pub fn parse(address: &str) -> Option<Self> {
        let (name, topic) = address.strip_prefix(SCHEME)?.split_once('/')?;
        Some(Self { name: name.to_owned(), topic: topic.to_owned() })
    }

    /// Checks the topic.
    ///
    /// # Errors
    /// The operator does not allow it, or a broker could not have it.
    pub fn check(&self, rule: &SinkRule) -> Result<(), Refusal> {
        let refuse =
            |reason, message: String| Err(Refusal::field(Code::Unprocessable, "topic", reason, message));
        if self.topic.len() > LONGEST {
            return refuse("too_long", format!("`topic` has more than {LONGEST} bytes."));
        }
        if !self.topic.starts_with(&rule.prefix) {
            return refuse(
                "prefix",
                format!("The sink `{}` takes topics that begin with `{}`.", self.name, rule.prefix),
            );
        }
        if rule.keyed && self.topic.contains(INTENT) {
            return refuse(
                "topic",
                format!(
                    "The sink `{}` takes no `{INTENT}`: a topic per intent would be too many for Kafka. The intent is the key of each record, so \
                     its events stay in order.",
                    self.name
                ),
            );
        }
        let longest = own_types().map(str::len).max().unwrap_or_default();
        if rule.keyed && self.topic.replace(TYPE, &"x".repeat(longest)).len() > KAFKA_LONGEST {
            return refuse(
                "too_long",
                format!(
                    "`topic` can have more than {KAFKA_LONGEST} bytes with a type in it, the most at Kafka."
                ),
            );
        }
        let plain = self.topic.replace(INTENT, "x").replace(TYPE, "x");
        if !is_topic(&plain) {
            return refuse(
                "topic",
                format!(
                    "`topic` consists of letters, digits, `_`, `-`, `{INTENT}` and `{TYPE}`, with single dots between."
                ),
            );
        }
        Ok(())
    }

    /// Returns the key of an event, by which those of an intent stay in order where a topic has several parts.
    #[must_use]
    pub fn key_of(intent: Option<IntentId>) -> String {
        intent.map_or_else(|| NO_INTENT.to_owned(), |id| id.to_string())
    }

    /// Returns the topic of an event. Characters of its type that no topic has become `_`. Where topics are few (`keyed`), the
    /// types that clients invent share one.
    #[must_use]
    pub fn topic_of(&self, kind: &str, intent: Option<IntentId>, keyed: bool) -> String {
        let intent = Self::key_of(intent);
        let kind = if keyed && own_types().all(|own| own != kind) { POSTED } else { kind };
        let tokens = kind.split('.').map(|token| {
            let fit = |c: char| if is_letter(c) { c } else { '_' };
            if token.is_empty() { "_".to_owned() } else { token.chars().map(fit).collect() }
        });
        let kind = tokens.collect::<Vec<String>>().join(".");
        self.topic.replace(INTENT, &intent).replace(TYPE, &kind)
    }
}

/// Whether a text can be a topic of every kind of broker.
#[must_use]
pub fn is_topic(text: &str) -> bool {
    text.split('.').all(|token| !token.is_empty() && token.chars().all(is_letter))
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}
