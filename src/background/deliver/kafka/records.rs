//! Records of a partition: an event as one, and the names of events in those that are read.

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, Record, RecordBatchDecoder, RecordBatchEncoder,
    RecordEncodeOptions, TimestampType,
};

use super::super::broker::{Event, Fault};

/// Header by which a search recognises an event.
const NAME: &str = "entente-delivery";

/// Returns an event as a batch of one record.
pub(super) fn encoded(event: &Event, producer: i64, sequence: i32) -> Result<Bytes, Fault> {
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
pub(super) struct RecordBatch {
    /// The offset after it.
    pub next: u64,
    bytes: Bytes,
}

/// Bytes before the length of a batch ends, and before its records.
const LENGTH_END: usize = 12;
const HEADER: usize = 61;

impl RecordBatch {
    /// Returns the names of events in it. A batch that others wrote in another form, or compressed, has none.
    pub fn names(&self) -> Result<Vec<String>, Fault> {
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
pub(super) fn batches(mut records: Bytes) -> impl Iterator<Item = RecordBatch> {
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
