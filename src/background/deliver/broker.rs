//! Interface of sinks to a broker of any kind: the end of its log, the events behind a place, and a publication that it
//! takes once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use entente_domain::clock::Timestamp;
use entente_domain::ids::EndpointId;
use entente_kernel::webhooks::deliveries::Number;
use entente_runtime::tls::Authorities;

use super::jetstream::JetStream;
use super::kafka::{Kafka, Numbering};
use crate::config::sinks::{BrokerConfig, SinkConfig};

/// Where the broker's log ends, by the part of it that has an order of its own (a subject of NATS, a partition of Kafka).
pub(super) type Ends = HashMap<String, u64>;

/// A search for events that may have arrived, in one part of the log.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The part of the log.
    pub log: String,
    /// The place up to which it has looked.
    pub at: u64,
    /// Names of events that were not found yet.
    pub wanted: HashSet<String>,
    /// Names of those that were.
    pub found: HashSet<String>,
}

/// A delivery on its way to a broker.
#[derive(Debug)]
pub(super) struct Event {
    /// The delivery.
    pub id: i64,
    /// Its subscription.
    pub subscription: EndpointId,
    /// Number of earlier attempts.
    pub attempts: u32,
    /// Its name at the broker: the event and the subscription, because two of them may publish an event to one stream.
    pub name: String,
    /// Its topic.
    pub topic: String,
    /// Its key: events with the same one are in order.
    pub key: String,
    /// The part of the log in which it is to be.
    pub log: String,
    /// When this attempt began.
    pub at: Timestamp,
    /// Where the log ended before its first attempt, if there was one.
    pub position: Option<u64>,
    /// Its number at a Kafka broker.
    pub number: Option<Number>,
    /// Whether the place and the number are still to be stored.
    pub is_new: bool,
    /// Names and values of the headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
}

/// Reason that a broker did not take an event.
#[derive(Debug)]
pub(super) enum Fault {
    /// It may take it later, or took it and did not say so.
    Away(String),
    /// It never will.
    Refused(String),
    /// It does not have it and takes it under another number only.
    Unnumbered(String),
}

/// State of a broker that must be known before a batch is published to it.
pub(super) struct Prepared {
    /// Where its log ends.
    pub ends: Ends,
    /// The numbers that the batch has taken, to be kept once they are committed.
    pub numbering: Option<Numbering>,
}

/// A broker.
pub(super) enum Broker {
    /// `JetStream` of NATS.
    JetStream(JetStream),
    /// A cluster that speaks Kafka's protocol.
    Kafka(Kafka),
}

impl Broker {
    fn new(config: &SinkConfig, limit: Duration, authorities: &Authorities) -> Self {
        match &config.broker {
            BrokerConfig::JetStream { url, stream } => {
                Self::JetStream(JetStream::new(url, stream, &config.prefix, limit))
            }
            BrokerConfig::Kafka(kafka) => {
                Self::Kafka(Kafka::new(kafka, &config.prefix, limit, authorities.clone()))
            }
        }
    }

    /// Whether its topics are few, and the key orders the events of an intent.
    pub fn is_keyed(&self) -> bool {
        matches!(self, Self::Kafka(_))
    }

    /// Finds out where the log ends for these events; for Kafka chooses their partitions and numbers, too, and leaves out those
    /// from the first one on whose topic cannot be had now.
    pub async fn prepare(&self, events: &mut Vec<Event>) -> Result<Prepared, Fault> {
        match self {
            Self::JetStream(broker) => Ok(Prepared { ends: broker.ends(events).await?, numbering: None }),
            Self::Kafka(broker) => broker.prepare(events).await,
        }
    }

    /// Keeps the numbers of a batch that were committed: those after them are the next batch's.
    pub fn keep(&self, numbering: Option<Numbering>) {
        if let (Self::Kafka(broker), Some(numbering)) = (self, numbering) {
            broker.keep(numbering);
        }
    }

    /// Looks for events for up to `time`; returns whether that was all.
    pub async fn search(&self, search: &mut Search, time: Duration) -> Result<bool, Fault> {
        match self {
            Self::JetStream(broker) => broker.search(search, time).await,
            Self::Kafka(broker) => broker.search(search, time).await,
        }
    }

    /// Publishes an event that the broker does not have.
    pub async fn publish(&self, event: &Event, ends: &mut Ends) -> Result<(), Fault> {
        match self {
            Self::JetStream(broker) => broker.publish(event, ends).await,
            Self::Kafka(broker) => broker.publish(event, ends).await,
        }
    }

    async fn check(&self) -> Result<(), String> {
        match self {
            Self::JetStream(broker) => broker.check().await,
            Self::Kafka(broker) => broker.check().await,
        }
    }
}

/// The brokers of the operator's settings, by name.
pub struct Sinks(BTreeMap<String, Broker>);

impl Sinks {
    /// Prepares the brokers; each is connected when it is first needed.
    #[must_use]
    pub fn new(configs: &[SinkConfig], limit: Duration, authorities: &Authorities) -> Self {
        let named = |config: &SinkConfig| (config.name.clone(), Broker::new(config, limit, authorities));
        Self(configs.iter().map(named).collect())
    }

    /// Returns a broker by its name.
    pub(super) fn get(&self, name: &str) -> Option<&Broker> {
        self.0.get(name)
    }

    /// Asks each broker whether events can be published to it; returns the sinks with their faults.
    pub async fn check(&self) -> Vec<(String, Result<(), String>)> {
        let mut checked = Vec::new();
        for (name, broker) in &self.0 {
            checked.push((name.clone(), broker.check().await));
        }
        checked
    }
}
