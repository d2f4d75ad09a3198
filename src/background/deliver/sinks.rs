//! Publishing to sinks: a batch of one subscription, in sequence and each delivery once.
//!
//! A broker's acknowledgement can be lost, and this server can die or freeze between the publication and its own commit. So three
//! things hold: the end of the broker's log is committed before a delivery is first published (`deliveries::begin`); a delivery with
//! such a place is looked for behind it before it is published again; and the broker takes a publication only while the log ends
//! where the publisher saw it end. A server that lost its lease therefore writes nothing that its successor did not see.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use entente_domain::ids::EndpointId;
use entente_domain::webhooks::formats::BodyFormat;
use entente_domain::webhooks::retries::Failure;
use entente_domain::webhooks::signing::Secrets;
use entente_domain::webhooks::sinks::Sink;
use entente_kernel::Outcome;
use entente_kernel::webhooks::deliveries::{self, Attempted, Batch, Due, EndpointLease, Next};

use super::jetstream::JetStream;
use super::{GRACE, TOGETHER, TURN, UNWRITTEN, WebhookSender, timely};
use crate::config::sinks::SinkConfig;

/// Where the broker's log ends, by the part of it that has an order of its own (a subject).
pub(super) type Ends = HashMap<String, u64>;

/// Time after which a search for events notes how far it is: a lease lasts longer.
const NOTED: Duration = Duration::from_secs(1);

/// A search for events of one topic that may have arrived.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The topic.
    pub topic: String,
    /// The place up to which it has looked.
    pub at: u64,
    /// Names of events that were not found yet.
    pub wanted: HashSet<String>,
    /// Names of those that were.
    pub found: HashSet<String>,
}

/// Outcome of the searches for the events of a batch.
enum Searched {
    /// All were made; these events are there.
    Found(HashSet<String>),
    /// The broker failed.
    Failed(Fault),
    /// The server stops, or lost its lease.
    Ended(Next),
}

/// A delivery on its way to a broker.
pub(super) struct Event {
    /// The delivery.
    pub id: i64,
    /// Number of earlier attempts.
    attempts: u32,
    /// Its name at the broker: the event and the subscription, because two of them may publish an event to one stream.
    pub name: String,
    /// Its topic.
    pub topic: String,
    /// Where the log ended before its first attempt, if there was one.
    pub position: Option<u64>,
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
}

/// The brokers of the operator's settings, by name.
pub struct Sinks(BTreeMap<String, JetStream>);

impl Sinks {
    /// Prepares the brokers; each is connected when it is first needed.
    #[must_use]
    pub fn new(configs: &[SinkConfig], limit: Duration) -> Self {
        let named = |config: &SinkConfig| (config.name.clone(), JetStream::new(config, limit));
        Self(configs.iter().map(named).collect())
    }

    /// Asks each broker whether events can be published to it; returns the sinks with what is wrong with them.
    pub async fn check(&self) -> Vec<(String, Result<(), String>)> {
        let mut checked = Vec::new();
        for (name, broker) in &self.0 {
            checked.push((name.clone(), broker.check().await));
        }
        checked
    }
}

/// What is known of a broker before a batch is published to it.
struct Publishing<'a> {
    broker: &'a JetStream,
    /// Names of the events that it has.
    known: HashSet<String>,
    ends: Ends,
}

/// Returns the searches for those events that have places.
fn searches(events: &[Event], ends: &Ends) -> Vec<Search> {
    let mut searches: BTreeMap<&str, Search> = BTreeMap::new();
    for (event, place) in events.iter().filter_map(|event| Some((event, event.position?))) {
        let end = ends.get(&event.topic).copied().unwrap_or_default();
        // A stream that ends before the place was made anew, or has lost what it had: the place means nothing there.
        let from = if place > end { 0 } else { place };
        let new = || Search { topic: event.topic.clone(), at: from, ..Search::default() };
        let search = searches.entry(&event.topic).or_insert_with(new);
        search.at = search.at.min(from);
        search.wanted.insert(event.name.clone());
    }
    searches.into_values().collect()
}

impl WebhookSender {
    /// Publishes a batch in sequence, until something fails: what comes after it must not overtake it.
    pub(super) async fn publish(&self, lease: &EndpointLease, batch: Batch, sink: &Sink) -> Outcome<Next> {
        let Batch { format, secrets, due, .. } = batch;
        let event = |one| self.event(lease.endpoint_id, one, sink, format, &secrets);
        let events: Vec<Event> = due.into_iter().map(event).collect();
        let Some(first) = events.first() else { return Ok(Next::Continue) };
        let began = Instant::now();
        let broker = self.sinks.0.get(&sink.name);
        let ends = match broker {
            Some(broker) => broker.ends(&events).await,
            None => Err(Fault::Away(format!("this server has no sink `{}` in its settings", sink.name))),
        };
        let (broker, mut ends) = match (broker, ends) {
            (Some(broker), Ok(ends)) => (broker, ends),
            (_, ends) => {
                let made = self.attempted(first, began, ends.map(|_ends| ()));
                return timely(TURN, deliveries::record(&self.ctx, lease, &[made])).await;
            }
        };
        if !self.begin(lease, &events, &ends).await? {
            return Ok(Next::Lost);
        }
        let known = match self.search(lease, broker, &events, &mut ends).await? {
            Searched::Found(known) => known,
            Searched::Failed(fault) => {
                let made = self.attempted(first, began, Err(fault));
                return timely(TURN, deliveries::record(&self.ctx, lease, &[made])).await;
            }
            Searched::Ended(next) => return Ok(next),
        };
        let publishing = Publishing { broker, known, ends };
        self.publish_all(lease, &events, publishing).await
    }

    /// Publishes those events that the broker does not have.
    async fn publish_all(
        &self,
        lease: &EndpointLease,
        events: &[Event],
        Publishing { broker, known, mut ends }: Publishing<'_>,
    ) -> Outcome<Next> {
        let mut made = Vec::new();
        let mut since = Instant::now();
        for event in events {
            let began = Instant::now();
            let given_up = async {
                self.draining.cancelled().await;
                tokio::time::sleep(GRACE).await;
            };
            let taken = if known.contains(&event.name) {
                Ok(())
            } else {
                tokio::select! {
                    taken = broker.publish(event, &mut ends) => taken,
                    () = given_up => break,
                }
            };
            let failed = taken.is_err();
            made.push(self.attempted(event, began, taken));
            if failed || made.len() >= TOGETHER || since.elapsed() > UNWRITTEN {
                let next =
                    timely(TURN, deliveries::record(&self.ctx, lease, &std::mem::take(&mut made))).await?;
                if next != Next::Continue {
                    return Ok(next);
                }
                since = Instant::now();
            }
        }
        if made.is_empty() {
            return Ok(Next::Continue);
        }
        timely(TURN, deliveries::record(&self.ctx, lease, &made)).await
    }

    /// Looks for the events that may have arrived, once for each topic, from the smallest of their places on.
    async fn search(
        &self,
        lease: &EndpointLease,
        broker: &JetStream,
        events: &[Event],
        ends: &mut Ends,
    ) -> Outcome<Searched> {
        let mut known = HashSet::new();
        for mut search in searches(events, ends) {
            loop {
                match broker.search(&mut search, NOTED).await {
                    Ok(true) => break,
                    Ok(false) if self.draining.is_cancelled() => return Ok(Searched::Ended(Next::Continue)),
                    Ok(false) => {}
                    Err(fault) => return Ok(Searched::Failed(fault)),
                }
                let missing = events.iter().filter(|event| search.wanted.contains(&event.name));
                let at = i64::try_from(search.at).unwrap_or(i64::MAX);
                let places: Vec<(i64, i64)> = missing.map(|event| (event.id, at)).collect();
                if !timely(TURN, deliveries::advance(&self.ctx, lease, &places)).await? {
                    return Ok(Searched::Ended(Next::Lost));
                }
            }
            // The end was asked for before, and is that of the subject even if the message at it is older than the place.
            let end = ends.entry(search.topic).or_default();
            *end = search.at.max(*end);
            known.extend(search.found);
        }
        Ok(Searched::Found(known))
    }

    /// Commits where the log ends for the events that are published for the first time.
    async fn begin(&self, lease: &EndpointLease, events: &[Event], ends: &Ends) -> Outcome<bool> {
        let new = events.iter().filter(|event| event.position.is_none());
        let place = |event: &Event| ends.get(&event.topic).copied().unwrap_or_default();
        let places: Vec<(i64, i64)> =
            new.map(|event| (event.id, i64::try_from(place(event)).unwrap_or(i64::MAX))).collect();
        // Without a new one there is nothing to commit: a server that lost its lease finds this out by the log's end.
        if places.is_empty() {
            return Ok(true);
        }
        timely(TURN, deliveries::begin(&self.ctx, lease, &places)).await
    }

    fn event(
        &self,
        subscription: EndpointId,
        mut one: Due,
        sink: &Sink,
        format: BodyFormat,
        secrets: &Secrets,
    ) -> Event {
        let mut headers = self.prepare(&mut one, format, secrets, self.ctx.now());
        headers.extend([
            ("ce-specversion", "1.0".to_owned()),
            ("ce-id", one.webhook_id.clone()),
            ("ce-source", BodyFormat::source(&self.origin, one.intent_id)),
            ("ce-type", one.kind.clone()),
        ]);
        Event {
            id: one.id,
            attempts: one.attempts,
            name: match one.replays {
                0 => format!("{}.{subscription}", one.webhook_id),
                // The broker would drop the name that it has.
                replays => format!("{}.{subscription}.{replays}", one.webhook_id),
            },
            topic: sink.topic_of(&one.kind, one.intent_id),
            position: one.position.map(|place| u64::try_from(place).unwrap_or_default()),
            headers,
            body: one.body,
        }
    }

    fn attempted(&self, event: &Event, began: Instant, taken: Result<(), Fault>) -> Attempted {
        let (failure, error) = match taken {
            Ok(()) => (None, None),
            Err(Fault::Away(why)) => (Some(Failure::Held), Some(why)),
            Err(Fault::Refused(why)) => (Some(Failure::Refused), Some(why)),
        };
        Attempted {
            id: event.id,
            attempts: event.attempts + 1,
            at: self.ctx.now(),
            status: None,
            error,
            millis: u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX),
            response: None,
            failure,
            retry_after: None,
        }
    }
}
