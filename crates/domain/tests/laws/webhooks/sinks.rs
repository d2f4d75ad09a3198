//! Sinks: topics stay within what the operator allows, whatever an event is called.

use entente_domain::ids::IntentId;
use entente_domain::refusal::Code;
use entente_domain::webhooks::formats::BodyFormat;
use entente_domain::webhooks::sinks::{Sink, SinkRule, is_topic};
use entente_domain::webhooks::{EndpointAsk, EndpointChange};
use proptest::prelude::*;

use super::{ask, made};
use crate::any::{Dice, at};

fn sink(topic: &str) -> Sink {
    Sink { name: "events".to_owned(), topic: topic.to_owned() }
}

#[test]
fn a_topic_begins_as_the_operator_says() {
    let rule = SinkRule { prefix: "entente.".to_owned(), keyed: false };
    for topic in ["entente.all", "entente.{intent_id}.{type}", "entente.a-{type}_b"] {
        assert!(sink(topic).check(&rule).is_ok(), "{topic}");
    }
    for topic in [
        "entente",
        "entente.",
        "other.all",
        "{type}",
        "entente.*",
        "entente.a.",
        "entente.{other}",
        "entente.{{type}}",
    ] {
        assert!(sink(topic).check(&rule).is_err(), "{topic}");
    }
}

#[test]
fn an_address_is_a_sink_and_no_url_is() {
    let one = sink("entente.{intent_id}");
    assert_eq!(Sink::parse(&one.address()), Some(one));
    assert_eq!(Sink::parse("https://hooks.example/entente"), None);
}

#[test]
fn a_sink_has_one_form_and_keeps_its_topic() {
    let with = |format| made(EndpointAsk { url: None, sink: Some(sink("entente.all")), format, ..ask() });
    let endpoint = with(None).unwrap();
    assert_eq!((endpoint.format, endpoint.sink()), (BodyFormat::CloudEvents, Some(sink("entente.all"))));
    assert_eq!(with(Some(BodyFormat::Standard)).err(), Some(Code::Unprocessable));
    assert_eq!(
        made(EndpointAsk { sink: Some(sink("entente.all")), ..ask() }).err(),
        Some(Code::Unprocessable)
    );
    let moved =
        EndpointChange { url: Some("https://hooks.example/".to_owned()), ..EndpointChange::default() };
    assert!(endpoint.changed(moved, at(2)).is_err());
}

proptest! {
    #[test]
    fn every_event_has_a_topic_below_the_prefix(
        kind in ".{0,40}", n in any::<u8>(), of_intent in any::<bool>(), keyed in any::<bool>(),
    ) {
        let intent = of_intent.then(|| IntentId::mint(at(1), &Dice(n.into())));
        let topic = sink("entente.{intent_id}.{type}").topic_of(&kind, intent, keyed);
        prop_assert!(is_topic(&topic) && topic.starts_with("entente."), "{topic}");
    }
}

#[test]
fn a_topic_of_kafka_is_short_enough_with_any_type() {
    let rule = SinkRule { prefix: "entente-".to_owned(), keyed: true };
    assert!(sink("entente-{type}").check(&rule).is_ok());
    assert!(sink("entente-{intent_id}").check(&rule).is_err());
    let many = sink(&format!("entente-{}", "{type}".repeat(20)));
    assert!(many.check(&rule).is_err());
    assert!(many.check(&SinkRule { keyed: false, ..rule }).is_ok());
}

#[test]
fn clients_make_no_topics_where_topics_are_few() {
    let of = |kind: &str, keyed| sink("entente-{type}").topic_of(kind, None, keyed);
    for own in ["channel_message", "channel.message", "intent_created", "inbox.ring", "aee.envelope", "ping"]
    {
        assert_eq!(of(own, true), format!("entente-{own}"));
    }
    for posted in ["deploy.finished", "", ".", "entente", &".".repeat(200)] {
        assert_eq!(of(posted, true), "entente-posted");
    }
    assert_eq!(of("deploy.finished", false), "entente-deploy.finished");
}
