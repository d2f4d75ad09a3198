//! Publishing to sinks: a batch of one subscription, in sequence and each delivery once.
//!
//! A broker's acknowledgement can be lost, and this server can die or freeze between the publication and its own commit. So three
//! things hold: the end of the broker's log is committed before a delivery is first published (`deliveries::begin`); a delivery with
//! such a place is looked for behind it before it is published again; and the broker takes a publication only while the log ends
//! where the publisher saw it end. A server that lost its lease therefore writes nothing that its successor did not see.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use entente_domain::ids::EndpointId;
use entente_domain::webhooks::formats::BodyFormat;
use entente_domain::webhooks::retries::Failure;
use entente_domain::webhooks::signing::Secrets;
use entente_domain::webhooks::sinks::Sink;
use entente_kernel::Outcome;
use entente_kernel::webhooks::deliveries::{self, Attempted, Batch, Begun, Due, EndpointLease, Next};

use super::broker::{Broker, Ends, Event, Fault, Prepared, Search};
use super::{GRACE, TOGETHER, TURN, UNWRITTEN, WebhookSender, timely};

/// Time after which a search for events notes how far it is: a lease lasts longer.
const NOTED: Duration = Duration::from_secs(1);

/// Outcome of the searches for the events of a batch.
enum Searched {
    /// All were made; these events are there.
    Found(HashSet<String>),
    /// The broker failed.
    Failed(Fault),
    /// The server stops, or lost its lease.
    Ended(Next),
}

/// State of a broker and of the lease before a batch is published.
struct Publishing<'a> {
    broker: &'a Broker,
    /// Names of the events that it has.
    known: HashSet<String>,
    ends: Ends,
    /// A moment at which the lease was held: a server that was frozen since then publishes one event at most before it asks again.
    held_at: Instant,
    /// Time that the process had lost by then. A machine that sleeps stops the clock of `held_at`.
    lost: Duration,
}

/// Returns the searches for those events that have places.
fn searches(events: &[Event], ends: &Ends) -> Vec<Search> {
    let mut searches: BTreeMap<&str, Search> = BTreeMap::new();
    for (event, place) in events.iter().filter_map(|event| Some((event, event.position?))) {
        let end = ends.get(&event.log).copied().unwrap_or_default();
        // A stream that ends before the place was made anew, or has lost its messages: the place means nothing there.
        let from = if place > end { 0 } else { place };
        let new = || Search { log: event.log.clone(), at: from, ..Search::default() };
        let search = searches.entry(&event.log).or_insert_with(new);
        search.at = search.at.min(from);
        search.wanted.insert(event.name.clone());
    }
    searches.into_values().collect()
}

impl WebhookSender {
    /// Publishes a batch in sequence, until something fails: later events must not overtake it.
    pub(super) async fn publish(&self, lease: &EndpointLease, batch: Batch, sink: &Sink) -> Outcome<Next> {
        let Batch { format, secrets, due, .. } = batch;
        let broker = self.sinks.get(&sink.name);
        let event = |one: Due| {
            let topic = sink.topic_of(&one.kind, one.intent_id, broker.is_some_and(Broker::is_keyed));
            self.event(lease.endpoint_id, one, topic, format, &secrets)
        };
        let mut events: Vec<Event> = due.into_iter().map(event).collect();
        let began = Instant::now();
        let prepared = match broker {
            Some(broker) => broker.prepare(&mut events).await,
            None => Err(Fault::Away(format!("this server has no sink `{}` in its settings", sink.name))),
        };
        let Some(first) = events.first() else { return Ok(Next::Continue) };
        let (broker, Prepared { mut ends, numbering }) = match (broker, prepared) {
            (Some(broker), Ok(prepared)) => (broker, prepared),
            (_, prepared) => {
                let made = self.attempted(first, began, prepared.map(|_prepared| ()));
                return timely(TURN, deliveries::record(&self.ctx, lease, &[made])).await;
            }
        };
        let (held_at, lost) = (Instant::now(), self.standstill.lost());
        if !self.begin(lease, &events, &ends).await? {
            return Ok(Next::Lost);
        }
        broker.keep(numbering);
        let known = match self.search(lease, broker, &events, &mut ends).await? {
            Searched::Found(known) => known,
            Searched::Failed(fault) => {
                let made = self.attempted(first, began, Err(fault));
                return timely(TURN, deliveries::record(&self.ctx, lease, &[made])).await;
            }
            Searched::Ended(next) => return Ok(next),
        };
        let publishing = Publishing { broker, known, ends, held_at, lost };
        self.publish_all(lease, &events, publishing).await
    }

    /// Publishes those events that the broker does not have.
    async fn publish_all(
        &self,
        lease: &EndpointLease,
        events: &[Event],
        Publishing { broker, known, mut ends, mut held_at, mut lost }: Publishing<'_>,
    ) -> Outcome<Next> {
        let mut made = Vec::new();
        for (at, event) in events.iter().enumerate() {
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
            if let Err(Fault::Unnumbered(why)) = &taken {
                tracing::info!(subscription = %lease.endpoint_id, %why, "a broker's numbers begin anew");
                // A broker that refuses the first number of a producer is asked again after a pause.
                if event.number.is_none_or(|number| number.sequence == 0) {
                    made.push(self.attempted(event, began, taken));
                }
                return self.begin_anew(lease, &made, events.get(at..).unwrap_or_default()).await;
            }
            let failed = taken.is_err();
            made.push(self.attempted(event, began, taken));
            let is_late = held_at.elapsed() > UNWRITTEN || self.standstill.lost() > lost;
            if failed || made.len() >= TOGETHER || is_late {
                let before = (Instant::now(), self.standstill.lost());
                let next =
                    timely(TURN, deliveries::record(&self.ctx, lease, &std::mem::take(&mut made))).await?;
                if next != Next::Continue {
                    return Ok(next);
                }
                (held_at, lost) = before;
            }
        }
        if made.is_empty() {
            return Ok(Next::Continue);
        }
        timely(TURN, deliveries::record(&self.ctx, lease, &made)).await
    }

    /// Takes the numbers of the events that are left, which get others with the next batch, and records the attempts.
    async fn begin_anew(&self, lease: &EndpointLease, made: &[Attempted], left: &[Event]) -> Outcome<Next> {
        let ids: Vec<i64> = left.iter().map(|event| event.id).collect();
        if !timely(TURN, deliveries::discard_numbers(&self.ctx, lease, &ids)).await? {
            return Ok(Next::Lost);
        }
        if made.is_empty() {
            return Ok(Next::Continue);
        }
        timely(TURN, deliveries::record(&self.ctx, lease, made)).await
    }

    /// Looks for the events that may have arrived, once for each topic, from the smallest of their places on.
    async fn search(
        &self,
        lease: &EndpointLease,
        broker: &Broker,
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
            let end = ends.entry(search.log).or_default();
            *end = search.at.max(*end);
            known.extend(search.found);
        }
        Ok(Searched::Found(known))
    }

    /// Commits where the log ends for the events that are published for the first time.
    async fn begin(&self, lease: &EndpointLease, events: &[Event], ends: &Ends) -> Outcome<bool> {
        let place = |event: &Event| ends.get(&event.log).copied().unwrap_or_default();
        let begun = |event: &Event| Begun {
            id: event.id,
            position: i64::try_from(place(event)).unwrap_or(i64::MAX),
            number: event.number,
        };
        let begun: Vec<Begun> = events.iter().filter(|event| event.is_new).map(begun).collect();
        // Without a new one there is nothing to commit. A server that lost its lease finds this out by the log's end, but not by numbers.
        if begun.is_empty() && events.iter().all(|event| event.number.is_none()) {
            return Ok(true);
        }
        timely(TURN, deliveries::begin(&self.ctx, lease, &begun)).await
    }

    fn event(
        &self,
        subscription: EndpointId,
        mut one: Due,
        topic: String,
        format: BodyFormat,
        secrets: &Secrets,
    ) -> Event {
        let at = self.ctx.now();
        let mut headers = self.prepare(&mut one, format, secrets, at);
        headers.extend([
            ("ce-specversion", "1.0".to_owned()),
            ("ce-id", one.webhook_id.clone()),
            ("ce-source", BodyFormat::source(&self.origin, one.intent_id)),
            ("ce-type", one.kind.clone()),
        ]);
        Event {
            id: one.id,
            subscription,
            attempts: one.attempts,
            name: match one.replays {
                0 => format!("{}.{subscription}", one.webhook_id),
                // The broker would drop the name that it has.
                replays => format!("{}.{subscription}.{replays}", one.webhook_id),
            },
            log: topic.clone(),
            topic,
            key: Sink::key_of(one.intent_id),
            at,
            position: one.position.map(|place| u64::try_from(place).unwrap_or_default()),
            number: one.number,
            is_new: one.position.is_none(),
            headers,
            body: one.body,
        }
    }

    fn attempted(&self, event: &Event, began: Instant, taken: Result<(), Fault>) -> Attempted {
        let (failure, error) = match taken {
            Ok(()) => (None, None),
            Err(Fault::Away(why) | Fault::Unnumbered(why)) => (Some(Failure::Held), Some(why)),
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
