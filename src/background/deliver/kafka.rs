//! A cluster that speaks Kafka's protocol as a broker: an idempotent producer whose numbers are committed before they are used.
//!
//! A producer's id and a number in the partition belong to one event for good. The partition's leader takes a number once and only in
//! sequence, whichever server sends it, so a server that lost its lease writes nothing that its successor does not write, too.

mod partitions;
mod records;
mod wire;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use entente_domain::ids::EndpointId;
use entente_kernel::webhooks::deliveries::Number;
use entente_runtime::tls::Authorities;
use kafka_protocol::ResponseError;
use kafka_protocol::error::ParseResponseErrorCode as _;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    FetchRequest, InitProducerIdRequest, ListOffsetsRequest, MetadataRequest, ProduceRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use self::partitions::partition_of;
use self::records::{batches, encoded};
use self::wire::{Request, Wire};
use super::broker::{Ends, Event, Fault, Prepared, Search};
use crate::config::sinks::KafkaConfig;

/// Bytes of records that a search asks for at once.
const PAGE: i32 = 1 << 20;

/// Idle connections kept for each broker.
const IDLE: usize = 8;

/// Timestamps that stand for the end and the beginning of a partition.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;

/// Newest versions of the requests that are written here; the broker may know only older ones.
mod versions {
    pub const METADATA: i16 = 8;
    pub const LIST_OFFSETS: i16 = 5;
    pub const FETCH: i16 = 11;
    pub const INIT_PRODUCER_ID: i16 = 4;
    pub const PRODUCE: i16 = 8;
}

/// A broker of the cluster: where to begin, or one that the cluster named.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Node {
    host: String,
    port: u16,
}

/// The partitions of a topic, and their leaders.
#[derive(Debug, Default)]
struct Topic {
    leaders: HashMap<i32, Node>,
}

/// A subscription's producer, and the numbers that come next.
#[derive(Debug)]
struct Producer {
    id: i64,
    next: HashMap<String, i32>,
}

/// The numbers that a batch has taken.
pub(super) struct Numbering {
    subscription: EndpointId,
    producer: Producer,
}

/// A cluster.
pub(super) struct Kafka {
    config: KafkaConfig,
    prefix: String,
    /// Time limit of an answer.
    limit: Duration,
    authorities: Authorities,
    topics: Mutex<HashMap<String, Arc<Topic>>>,
    producers: Mutex<HashMap<EndpointId, Producer>>,
    idle: Mutex<HashMap<Node, Vec<Wire>>>,
}

/// Locks data that is changed in single steps only.
fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn log_of(topic: &str, partition: i32) -> String {
    format!("{topic}/{partition}")
}

/// Parses a name from [`log_of`].
fn topic_of(log: &str) -> Result<(&str, i32), Fault> {
    let parsed = log.rsplit_once('/').and_then(|(topic, partition)| Some((topic, partition.parse().ok()?)));
    parsed.ok_or_else(|| Fault::Away(format!("`{log}` is no partition")))
}

fn name_of(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

fn away(what: &str, error: ResponseError) -> Fault {
    Fault::Away(format!("{what}: {error}"))
}

impl Kafka {
    /// Prepares a cluster with topics of this prefix.
    pub(super) fn new(config: &KafkaConfig, prefix: &str, limit: Duration, authorities: Authorities) -> Self {
        Self {
            config: config.clone(),
            prefix: prefix.to_owned(),
            limit,
            authorities,
            topics: Mutex::default(),
            producers: Mutex::default(),
            idle: Mutex::default(),
        }
    }

    /// Chooses partitions and numbers for the events that have none, and returns the ends of their partitions. The events from
    /// the first one on that has no partition now are left out, so that they do not delay those before them.
    pub(super) async fn prepare(&self, events: &mut Vec<Event>) -> Result<Prepared, Fault> {
        let mut ends = Ends::new();
        for at in 0..events.len() {
            let Some(event) = events.get_mut(at) else { break };
            match self.place(event, &mut ends).await {
                Ok(()) => {}
                Err(fault) if at == 0 => return Err(fault),
                Err(_later) => {
                    events.truncate(at);
                    break;
                }
            }
        }
        let numbering = self.number(events).await?;
        Ok(Prepared { ends, numbering })
    }

    /// Chooses an event's partition, and notes its end.
    async fn place(&self, event: &mut Event, ends: &mut Ends) -> Result<(), Fault> {
        // A topic that was made anew may have fewer partitions.
        let topic = self.topic(&event.topic).await?;
        event.number = event.number.filter(|number| topic.leaders.contains_key(&number.partition));
        let partition = match event.number {
            Some(number) => number.partition,
            None => partition_of(&event.key, topic.leaders.len())
                .ok_or_else(|| Fault::Away(format!("the topic {} has no partition", event.topic)))?,
        };
        event.log = log_of(&event.topic, partition);
        if !ends.contains_key(&event.log) {
            ends.insert(event.log.clone(), self.offset(&event.topic, partition, LATEST).await?);
        }
        Ok(())
    }

    /// Gives numbers to those events that have none; the producer stays away until they are committed.
    async fn number(&self, events: &mut [Event]) -> Result<Option<Numbering>, Fault> {
        let is_numbered = |event: &Event| event.number.is_some_and(|number| number.producer.is_some());
        let Some(subscription) =
            events.iter().find(|event| !is_numbered(event)).map(|event| event.subscription)
        else {
            return Ok(None);
        };
        let kept = locked(&self.producers).remove(&subscription);
        let mut producer = match kept {
            Some(producer) => producer,
            None => Producer { id: self.producer_id().await?, next: HashMap::new() },
        };
        for event in events.iter_mut().filter(|event| !is_numbered(event)) {
            let (_, partition) = topic_of(&event.log)?;
            let next = producer.next.entry(event.log.clone()).or_default();
            event.number = Some(Number { producer: Some(producer.id), partition, sequence: *next });
            event.is_new = true;
            *next = next.checked_add(1).unwrap_or(0);
        }
        Ok(Some(Numbering { subscription, producer }))
    }

    /// Keeps the numbers that were committed.
    pub(super) fn keep(&self, numbering: Numbering) {
        locked(&self.producers).insert(numbering.subscription, numbering.producer);
    }

    /// Looks for events for up to `time`; returns whether that was all.
    pub(super) async fn search(&self, search: &mut Search, time: Duration) -> Result<bool, Fault> {
        let began = Instant::now();
        let (topic, partition) = topic_of(&search.log)?;
        let end = self.offset(topic, partition, LATEST).await?;
        while !search.wanted.is_empty() && search.at < end {
            if began.elapsed() >= time {
                return Ok(false);
            }
            let Some(records) = self.fetch(topic, partition, search.at).await? else {
                // The first ones were deleted.
                search.at = self.offset(topic, partition, EARLIEST).await?.max(search.at + 1);
                continue;
            };
            let before = search.at;
            for batch in batches(records) {
                for name in batch.names()? {
                    if search.wanted.remove(&name) {
                        search.found.insert(name);
                    }
                }
                search.at = search.at.max(batch.next);
            }
            if search.at == before {
                return Err(Fault::Away(format!("it returns nothing of {} at {before}", search.log)));
            }
        }
        Ok(true)
    }

    /// Publishes an event that the partition does not have.
    pub(super) async fn publish(&self, event: &Event, ends: &Ends) -> Result<(), Fault> {
        let Some(Number { producer: Some(producer), partition, sequence }) = event.number else {
            return Err(Fault::Unnumbered("the event has no number".to_owned()));
        };
        let records = encoded(event, producer, sequence)?;
        let Some(error) = self.produce(&event.topic, partition, records).await? else { return Ok(()) };
        match error {
            // It has the number, and so the event.
            ResponseError::DuplicateSequenceNumber => Ok(()),
            ResponseError::OutOfOrderSequenceNumber
            | ResponseError::UnknownProducerId
            | ResponseError::InvalidProducerEpoch
            | ResponseError::InvalidProducerIdMapping
            | ResponseError::ProducerFenced => {
                // An old number, of which the partition's leader keeps only the last five, or a gap.
                let end = ends.get(&event.log).copied().unwrap_or_default();
                let place = event.position.map_or(end, |place| place.min(end));
                let wanted = HashSet::from([event.name.clone()]);
                let mut search = Search { log: event.log.clone(), at: place, wanted, ..Search::default() };
                if !self.search(&mut search, self.limit).await? {
                    return Err(Fault::Away("the search for the event takes too long".to_owned()));
                }
                if search.wanted.is_empty() {
                    return Ok(());
                }
                locked(&self.producers).remove(&event.subscription);
                Err(Fault::Unnumbered(format!("{}, number {sequence}: {error}", event.log)))
            }
            ResponseError::MessageTooLarge
            | ResponseError::RecordListTooLarge
            | ResponseError::InvalidRecord => {
                Err(Fault::Refused(format!("the topic {} does not take it: {error}", event.topic)))
            }
            error => {
                self.forget(&event.topic);
                Err(away(&event.topic, error))
            }
        }
    }

    /// Asks whether the cluster answers and gives numbers to producers.
    pub(super) async fn check(&self) -> Result<(), String> {
        let topic = format!("{}entente-doctor", self.prefix);
        let checked = async {
            match self.metadata(&topic, false).await? {
                // It need not exist: only the cluster's answer counts.
                Ok(_) | Err(ResponseError::UnknownTopicOrPartition) => self.producer_id().await,
                Err(error) => Err(away(&topic, error)),
            }
        };
        match checked.await {
            Ok(_) => Ok(()),
            Err(Fault::Away(why) | Fault::Refused(why) | Fault::Unnumbered(why)) => Err(why),
        }
    }

    async fn topic(&self, topic: &str) -> Result<Arc<Topic>, Fault> {
        if let Some(known) = locked(&self.topics).get(topic) {
            return Ok(Arc::clone(known));
        }
        let known = self.metadata(topic, true).await?.map_err(|error| match error {
            ResponseError::UnknownTopicOrPartition => {
                Fault::Away(format!("the topic {topic} does not exist, and the broker does not create it"))
            }
            // No broker ever has it, and the events behind it shall not wait for that.
            ResponseError::InvalidTopicException => {
                Fault::Refused(format!("{topic} cannot be the name of a topic: {error}"))
            }
            error => away(topic, error),
        })?;
        let known = Arc::new(known);
        locked(&self.topics).insert(topic.to_owned(), Arc::clone(&known));
        Ok(known)
    }

    /// Forgets a topic's leaders, which change when a partition moves.
    fn forget(&self, topic: &str) {
        locked(&self.topics).remove(topic);
    }

    async fn metadata(&self, topic: &str, create: bool) -> Result<Result<Topic, ResponseError>, Fault> {
        let wanted = MetadataRequestTopic::default().with_name(Some(name_of(topic)));
        let ask =
            MetadataRequest::default().with_topics(Some(vec![wanted])).with_allow_auto_topic_creation(create);
        let mut fault = Fault::Away("no host".to_owned());
        for (host, port) in &self.config.hosts {
            let node = Node { host: host.clone(), port: *port };
            let told = match self.ask(&node, &ask, versions::METADATA).await {
                Ok(told) => told,
                Err(why) => {
                    fault = why;
                    continue;
                }
            };
            let brokers: HashMap<_, _> = told.brokers.iter().map(|one| (one.node_id, one)).collect();
            let Some(found) = told.topics.into_iter().next() else {
                return Err(Fault::Away("its answer names no topic".to_owned()));
            };
            if let Some(error) = found.error_code.err() {
                return Ok(Err(error));
            }
            let mut leaders = HashMap::new();
            for partition in found.partitions {
                // One without a leader stays in the count, by which keys are spread.
                let leader = brokers.get(&partition.leader_id);
                let node = leader.map_or(node.clone(), |leader| Node {
                    host: leader.host.to_string(),
                    port: u16::try_from(leader.port).unwrap_or_default(),
                });
                leaders.insert(partition.partition_index, node);
            }
            return Ok(Ok(Topic { leaders }));
        }
        Err(fault)
    }

    /// Asks the leader of a partition.
    async fn ask_leader<R: Request>(
        &self,
        topic: &str,
        partition: i32,
        request: &R,
        version: i16,
    ) -> Result<R::Response, Fault> {
        let known = self.topic(topic).await?;
        let Some(node) = known.leaders.get(&partition) else {
            self.forget(topic);
            return Err(Fault::Away(format!("the topic {topic} has no partition {partition}")));
        };
        let told = self.ask(node, request, version).await;
        if told.is_err() {
            self.forget(topic);
        }
        told
    }

    /// Asks a broker, over a connection of which nobody else waits for an answer.
    async fn ask<R: Request>(&self, node: &Node, request: &R, version: i16) -> Result<R::Response, Fault> {
        let asked = async {
            let idle = locked(&self.idle).get_mut(node).and_then(Vec::pop);
            if let Some(mut wire) = idle {
                // A broker closes a connection that was idle for long. Each request may be repeated, a numbered
                // record too.
                if let Ok(told) = wire.ask(request, version).await {
                    self.leave(node, wire);
                    return Ok(told);
                }
                locked(&self.idle).remove(node);
            }
            let mut wire = Wire::open(&self.config, &node.host, node.port, &self.authorities).await?;
            let told = wire.ask(request, version).await?;
            self.leave(node, wire);
            Ok(told)
        };
        let answered = tokio::time::timeout(self.limit, asked).await;
        let answered = answered.unwrap_or_else(|_late| Err("no answer in time".to_owned()));
        answered.map_err(|why| {
            // The others may be as old as the one that failed.
            locked(&self.idle).remove(node);
            Fault::Away(format!("{}:{}: {why}", node.host, node.port))
        })
    }

    /// Leaves a connection to the next request.
    fn leave(&self, node: &Node, wire: Wire) {
        let mut idle = locked(&self.idle);
        let idle = idle.entry(node.clone()).or_default();
        if idle.len() < IDLE {
            idle.push(wire);
        }
    }

    /// Returns the end or the beginning of a partition.
    async fn offset(&self, topic: &str, partition: i32, which: i64) -> Result<u64, Fault> {
        let wanted = ListOffsetsPartition::default().with_partition_index(partition).with_timestamp(which);
        let wanted = ListOffsetsTopic::default().with_name(name_of(topic)).with_partitions(vec![wanted]);
        let ask = ListOffsetsRequest::default().with_replica_id((-1).into()).with_topics(vec![wanted]);
        let told = self.ask_leader(topic, partition, &ask, versions::LIST_OFFSETS).await?;
        let found = told.topics.into_iter().flat_map(|topic| topic.partitions).next();
        let Some(found) = found else { return Err(Fault::Away("its answer names no offset".to_owned())) };
        if let Some(error) = found.error_code.err() {
            self.forget(topic);
            return Err(away(topic, error));
        }
        Ok(u64::try_from(found.offset).unwrap_or_default())
    }

    /// Returns a new producer's id.
    async fn producer_id(&self) -> Result<i64, Fault> {
        let ask = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1)
            .with_transaction_timeout_ms(i32::MAX);
        let mut fault = Fault::Away("no host".to_owned());
        for (host, port) in &self.config.hosts {
            let node = Node { host: host.clone(), port: *port };
            match self.ask(&node, &ask, versions::INIT_PRODUCER_ID).await {
                Ok(told) => {
                    return match (told.error_code.err(), told.producer_epoch) {
                        (None, 0) => Ok(*told.producer_id),
                        // That of another producer with the same id.
                        (None, epoch) => Err(Fault::Away(format!("a new producer has the epoch {epoch}"))),
                        (Some(error), _) => Err(away("a number for a producer", error)),
                    };
                }
                Err(why) => fault = why,
            }
        }
        Err(fault)
    }

    /// Reads records from an offset on; `None` if there are none so early.
    async fn fetch(&self, topic: &str, partition: i32, from: u64) -> Result<Option<Bytes>, Fault> {
        let offset = i64::try_from(from).unwrap_or(i64::MAX);
        let wanted = FetchPartition::default()
            .with_partition(partition)
            .with_fetch_offset(offset)
            .with_partition_max_bytes(PAGE);
        let wanted = FetchTopic::default().with_topic(name_of(topic)).with_partitions(vec![wanted]);
        let ask = FetchRequest::default()
            .with_replica_id((-1).into())
            .with_max_bytes(PAGE)
            .with_min_bytes(1)
            .with_max_wait_ms(100)
            .with_session_epoch(-1)
            .with_topics(vec![wanted]);
        let told = self.ask_leader(topic, partition, &ask, versions::FETCH).await?;
        if let Some(error) = told.error_code.err() {
            return Err(away(topic, error));
        }
        let found = told.responses.into_iter().flat_map(|topic| topic.partitions).next();
        let Some(found) = found else { return Ok(Some(Bytes::new())) };
        match found.error_code.err() {
            None => Ok(Some(found.records.unwrap_or_default())),
            Some(ResponseError::OffsetOutOfRange) => Ok(None),
            Some(error) => {
                self.forget(topic);
                Err(away(topic, error))
            }
        }
    }

    /// Writes records to a partition, and returns its error.
    async fn produce(
        &self,
        topic: &str,
        partition: i32,
        records: Bytes,
    ) -> Result<Option<ResponseError>, Fault> {
        let wanted = PartitionProduceData::default().with_index(partition).with_records(Some(records));
        let wanted = TopicProduceData::default().with_name(name_of(topic)).with_partition_data(vec![wanted]);
        let ask = ProduceRequest::default()
            .with_transactional_id(None)
            // All replicas that are in step have it.
            .with_acks(-1)
            .with_timeout_ms(i32::try_from(self.limit.as_millis()).unwrap_or(i32::MAX))
            .with_topic_data(vec![wanted]);
        let told = self.ask_leader(topic, partition, &ask, versions::PRODUCE).await?;
        let found = told.responses.into_iter().flat_map(|topic| topic.partition_responses).next();
        match found {
            Some(found) => Ok(found.error_code.err()),
            None => Err(Fault::Away("its answer names no partition".to_owned())),
        }
    }
}
