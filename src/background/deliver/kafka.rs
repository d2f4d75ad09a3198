//! A cluster that speaks Kafka's protocol as a broker: an idempotent producer whose numbers are committed before they are used.
//!
//! A producer's id and a number in the partition belong to one event for good. The partition's leader takes a number once and only in
//! sequence, whichever server sends it, so a server that lost its lease writes nothing that its successor does not write, too.

mod wire;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
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
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, Record, RecordBatchDecoder, RecordBatchEncoder,
    RecordEncodeOptions, TimestampType,
};

use self::wire::{Request, Wire};
use super::broker::{Ends, Event, Fault, Prepared, Search};
use crate::config::sinks::KafkaConfig;

/// Header by which a search recognises an event.
const NAME: &str = "entente-delivery";

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

/// Locks what is changed in single steps only.
fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn log_of(topic: &str, partition: i32) -> String {
    format!("{topic}/{partition}")
}

/// Parses what [`log_of`] made.
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

    /// Chooses partitions and numbers for the events that have none, and returns the ends of their partitions.
    pub(super) async fn prepare(&self, events: &mut [Event]) -> Result<Prepared, Fault> {
        let mut ends = Ends::new();
        for event in events.iter_mut() {
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
        }
        let numbering = self.number(events).await?;
        Ok(Prepared { ends, numbering })
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
                // It need not exist: that the cluster answers is what counts.
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
            error => away(topic, error),
        })?;
        let known = Arc::new(known);
        locked(&self.topics).insert(topic.to_owned(), Arc::clone(&known));
        Ok(known)
    }

    /// Forgets what changes when a partition moves.
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
                // A broker closes what was idle for long. Each request may be repeated, a numbered record too.
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

/// Returns an event as a batch of one record.
fn encoded(event: &Event, producer: i64, sequence: i32) -> Result<Bytes, Fault> {
    let mut record = Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
        producer_id: producer,
        producer_epoch: 0,
        timestamp_type: TimestampType::Creation,
        offset: 0,
        sequence,
        timestamp: event.at.timestamp_millis(),
        key: Some(Bytes::from(event.key.clone())),
        value: Some(Bytes::from(event.body.clone())),
        headers: std::iter::empty().collect(),
    };
    let headers = &mut record.headers;
    for (name, value) in &event.headers {
        // Kafka's binding of CloudEvents has another prefix (3.2.3).
        let name = name.strip_prefix("ce-").map_or_else(|| (*name).to_owned(), |name| format!("ce_{name}"));
        headers.insert(StrBytes::from_string(name), Some(Bytes::from(value.clone())));
    }
    headers.insert(StrBytes::from_static_str(NAME), Some(Bytes::from(event.name.clone())));
    let mut buffer = BytesMut::new();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    RecordBatchEncoder::encode(&mut buffer, [&record], &options)
        .map_err(|e| Fault::Refused(format!("it has no form as a record: {e}")))?;
    Ok(buffer.freeze())
}

/// A batch of records, as it is in the log.
struct RecordBatch {
    /// The offset after it.
    next: u64,
    bytes: Bytes,
}

/// Bytes before the length of a batch ends, and before its records.
const LENGTH_END: usize = 12;
const HEADER: usize = 61;

impl RecordBatch {
    /// Returns the names of events in it. What others wrote in another form, or compressed, has none.
    fn names(&self) -> Result<Vec<String>, Fault> {
        let version = self.bytes.get(16).copied();
        let compression = self.bytes.get(22).map(|low| low & 7);
        if version != Some(2) || compression != Some(0) {
            return Ok(Vec::new());
        }
        let set = RecordBatchDecoder::decode(&mut self.bytes.clone())
            .map_err(|e| Fault::Away(format!("its records cannot be read: {e}")))?;
        let name = |record: Record| {
            let value = record.headers.get(&StrBytes::from_static_str(NAME))?.clone()?;
            String::from_utf8(value.to_vec()).ok()
        };
        Ok(set.records.into_iter().filter_map(name).collect())
    }
}

/// Splits records into their batches; the last one may be cut off, and is left out.
fn batches(mut records: Bytes) -> impl Iterator<Item = RecordBatch> {
    std::iter::from_fn(move || {
        let number = |at: usize, bytes: usize| {
            let found = records.get(at..at + bytes)?;
            Some(found.iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte)))
        };
        let length = usize::try_from(number(8, 4)?).ok()?.checked_add(LENGTH_END)?;
        let base = number(0, 8)?;
        if records.len() < length {
            return None;
        }
        // Older forms have one offset for each message.
        let last = if length >= HEADER && records.get(16) == Some(&2) { number(23, 4)? } else { 0 };
        let bytes = records.split_to(length);
        Some(RecordBatch { next: base.saturating_add(last).saturating_add(1), bytes })
    })
}

/// Returns the partition of a key among so many, as Kafka's own clients choose it.
fn partition_of(key: &str, partitions: usize) -> Option<i32> {
    let chosen = (murmur2(key.as_bytes()) & 0x7fff_ffff).checked_rem(u32::try_from(partitions).ok()?)?;
    i32::try_from(chosen).ok()
}

/// The hash by which Kafka's clients choose the partition of a key.
fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ u32::try_from(key.len()).unwrap_or(u32::MAX);
    let mut words = key.chunks_exact(4);
    for word in words.by_ref() {
        let word = word.iter().rev().fold(0_u32, |all, byte| all << 8 | u32::from(*byte)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ (word ^ word >> 24).wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash =
            (hash ^ rest.iter().rev().fold(0_u32, |all, byte| all << 8 | u32::from(*byte))).wrapping_mul(M);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::murmur2;

    #[test]
    fn keys_have_the_hashes_of_other_clients() {
        // Of the tests of Apache Kafka and librdkafka.
        for (key, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()), u32::from_ne_bytes(hash.to_ne_bytes()), "{key}");
        }
    }
}
