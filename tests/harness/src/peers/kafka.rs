//! A broker that speaks Kafka's protocol on the loopback address, and a reader of its topics.
//!
//! `make test` takes the small one that `make setup` installs. `ENTENTE_TEST_TANSU` names the program of another one, Tansu, which keeps its
//! log on the disk and refuses repeated numbers: `make test-kafka`.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes, BytesMut};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{
    ApiKey, CreateTopicsRequest, CreateTopicsResponse, FetchRequest, FetchResponse, ListOffsetsRequest,
    ListOffsetsResponse, RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use kafka_protocol::records::RecordBatchDecoder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::Value;
use crate::peers::process::{Place, free_address};
use crate::peers::program::ROOT;

/// Upper bound for its start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A broker, running or killed.
pub struct KafkaBroker {
    child: Child,
    address: SocketAddr,
    place: Place,
}

/// A record of a topic.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub partition: i32,
    pub key: String,
    headers: Vec<(String, String)>,
    pub text: String,
}

impl Recorded {
    /// Returns a header.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// Returns the body.
    pub fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }
}

/// Returns the small broker's program.
fn small() -> PathBuf {
    let libraries = Path::new(ROOT).join(".venv/lib");
    let libraries = std::fs::read_dir(libraries).expect("no .venv: `make setup` makes it");
    let programs = libraries.map(|one| one.unwrap().path().join("site-packages/noida_db/noida-db"));
    programs.into_iter().find(|program| program.exists()).expect("no noida-db: `make setup` installs it")
}

fn spawn(address: SocketAddr, place: &Place) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(place.0.join("server.log")).unwrap();
    let tansu = std::env::var_os("ENTENTE_TEST_TANSU");
    let mut command = Command::new(tansu.clone().map_or_else(small, PathBuf::from));
    if tansu.is_some() {
        let url = format!("tcp://{address}");
        command.args(["broker", "--cluster-id", "entente", "--listener-url", &url]);
        command.args(["--advertised-listener-url", &url, "--storage-engine", "sqlite://tansu.db"]);
    } else {
        let port = address.port().to_string();
        command.args(["start", "--data-dir", "data", "--only", "kafka", "--kafka-port", &port]);
    }
    command.current_dir(&place.0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let child = command.spawn().unwrap();
    // Ends it if this process is killed.
    std::fs::write(place.0.join("server.pid"), child.id().to_string()).unwrap();
    child
}

impl KafkaBroker {
    /// Starts it.
    pub fn start() -> Self {
        let (place, address) = (Place::new("kafka"), free_address());
        let broker = Self { child: spawn(address, &place), address, place };
        broker.wait();
        broker
    }

    fn wait(&self) {
        let began = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            assert!(began.elapsed() < PATIENCE, "the broker does not start:\n{}", self.place.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again at the same address.
    pub fn restart(&mut self) {
        self.child = spawn(self.address, &self.place);
        self.wait();
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        format!("kafka://{}", self.address)
    }

    /// Makes a topic of so many partitions.
    pub async fn topic(&self, name: &str, partitions: i32) {
        // By the clock of a test its records are old, and would be deleted.
        let kept = CreatableTopicConfig::default()
            .with_name(StrBytes::from_static_str("retention.ms"))
            .with_value(Some(StrBytes::from_static_str("-1")));
        let topic = CreatableTopic::default()
            .with_name(named(name))
            .with_num_partitions(partitions)
            .with_replication_factor(1)
            .with_configs(vec![kept]);
        let ask = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
        let told: CreateTopicsResponse = self.ask(ApiKey::CreateTopics, &ask, 4).await;
        assert_eq!(told.topics[0].error_code, 0, "{told:?}");
    }

    /// Returns all records of a partition.
    async fn partition(&self, topic: &str, partition: i32) -> Vec<Recorded> {
        let (mut records, mut offset) = (Vec::new(), 0);
        loop {
            let wanted = FetchPartition::default()
                .with_partition(partition)
                .with_fetch_offset(offset)
                .with_partition_max_bytes(1 << 20);
            let wanted = FetchTopic::default().with_topic(named(topic)).with_partitions(vec![wanted]);
            let ask = FetchRequest::default()
                .with_replica_id((-1).into())
                .with_max_bytes(1 << 20)
                .with_session_epoch(-1)
                .with_topics(vec![wanted]);
            let told: FetchResponse = self.ask(ApiKey::Fetch, &ask, 11).await;
            let found = &told.responses[0].partitions[0];
            assert_eq!(found.error_code, 0, "{found:?}");
            let mut bytes = found.records.clone().unwrap_or_default();
            let mut page = Vec::new();
            while bytes.has_remaining() {
                // The last batch may be cut off.
                let Ok(set) = RecordBatchDecoder::decode(&mut bytes) else { break };
                page.extend(set.records.into_iter().filter(|record| record.offset >= offset));
            }
            let Some(last) = page.last() else { return records };
            offset = last.offset + 1;
            let text = |bytes: Option<Bytes>| String::from_utf8(bytes.unwrap_or_default().to_vec()).unwrap();
            records.extend(page.into_iter().map(|record| Recorded {
                partition,
                key: text(record.key),
                headers:
                    record.headers.into_iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
                text: text(record.value),
            }));
        }
    }

    /// Returns the number of records of a topic of so many partitions.
    pub async fn count(&self, topic: &str, partitions: i32) -> u64 {
        let wanted = (0..partitions).map(|partition| {
            ListOffsetsPartition::default().with_partition_index(partition).with_timestamp(-1)
        });
        let wanted = ListOffsetsTopic::default().with_name(named(topic)).with_partitions(wanted.collect());
        let ask = ListOffsetsRequest::default().with_replica_id((-1).into()).with_topics(vec![wanted]);
        let told: ListOffsetsResponse = self.ask(ApiKey::ListOffsets, &ask, 5).await;
        let ends = told.topics[0].partitions.iter().map(|end| {
            assert_eq!(end.error_code, 0, "{end:?}");
            u64::try_from(end.offset).unwrap()
        });
        ends.sum()
    }

    /// Returns all records of a topic of so many partitions, one partition after the other.
    pub async fn records(&self, topic: &str, partitions: i32) -> Vec<Recorded> {
        let mut records = Vec::new();
        for partition in 0..partitions {
            records.extend(self.partition(topic, partition).await);
        }
        records
    }

    async fn ask<R: Encodable + HeaderVersion, A: Decodable + HeaderVersion>(
        &self,
        key: ApiKey,
        request: &R,
        version: i16,
    ) -> A {
        let header =
            RequestHeader::default().with_request_api_key(key as i16).with_request_api_version(version);
        let mut frame = BytesMut::from(&[0; 4][..]);
        header.encode(&mut frame, R::header_version(version)).unwrap();
        request.encode(&mut frame, version).unwrap();
        let length = u32::try_from(frame.len() - 4).unwrap();
        frame[..4].copy_from_slice(&length.to_be_bytes());
        let mut stream = tokio::net::TcpStream::connect(self.address).await.unwrap();
        stream.write_all(&frame).await.unwrap();
        let length = stream.read_u32().await.unwrap();
        let mut answer = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut answer).await.unwrap();
        let mut answer = Bytes::from(answer);
        ResponseHeader::decode(&mut answer, A::header_version(version)).unwrap();
        A::decode(&mut answer, version).unwrap()
    }
}

fn named(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

impl Drop for KafkaBroker {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}
