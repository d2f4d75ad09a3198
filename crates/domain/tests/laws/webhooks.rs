//! Webhook receivers: event selection and when they are live.

mod retries;
mod signing;
mod sinks;

use entente_domain::clock::plus_seconds;
use entente_domain::ids::{EndpointId, IntentId};
use entente_domain::refusal::Code;
use entente_domain::webhooks::formats::BodyFormat;
use entente_domain::webhooks::signing::Scheme;
use entente_domain::webhooks::{DisabledReason, Endpoint, EndpointAsk, EndpointChange, item_id, receipt_id};
use proptest::prelude::*;

use crate::any::{Dice, at, moment};

fn ask() -> EndpointAsk {
    EndpointAsk {
        format: None,
        sink: None,
        mailbox: false,
        intent_id: None,
        channel_id: None,
        portfolio_id: None,
        event_types: Vec::new(),
        url: Some("https://hooks.example/".to_owned()),
        signature: Scheme::V1,
        expires_at: None,
    }
}

fn made(ask: EndpointAsk) -> Result<Endpoint, Code> {
    let id = EndpointId::mint(at(1), &Dice(7));
    Endpoint::subscribe(ask, id, "service.a", "agent.a", at(1)).map_err(|refusal| refusal.code)
}

#[test]
fn a_filter_names_types_and_globs() {
    let with = |types: &[&str]| {
        made(EndpointAsk { event_types: types.iter().map(|t| (*t).to_owned()).collect(), ..ask() }).unwrap()
    };
    assert!(with(&[]).wants("anything") && with(&["*"]).wants("anything"));
    let tasks = with(&["task.*", "state_patched"]);
    assert!(tasks.wants("task.created") && tasks.wants("state_patched"));
    assert!(!tasks.wants("tasks") && !tasks.wants("channel_message"));
    for name in ["channel_message", "channel.message", "channel.*"] {
        // Whichever of the two names the record has.
        assert!(with(&[name]).wants("channel_message") && with(&[name]).wants("channel.message"), "{name}");
    }
    assert!(!with(&["channel_message"]).wants("channel.closed"));
}

#[test]
fn what_happens_to_a_message_has_an_id_of_its_own() {
    let intent = |n| IntentId::mint(at(1), &Dice(n));
    let id = receipt_id(intent(1), 7);
    assert!(id.starts_with("rcpt_") && id.len() == 31 && !id.contains('.'), "{id}");
    assert_eq!(receipt_id(intent(1), 7), id);
    assert!(receipt_id(intent(1), 8) != id && receipt_id(intent(2), 7) != id);
}

#[test]
fn an_envelope_in_a_mailbox_has_an_id_of_its_own() {
    let id = item_id("agent.a", 7);
    assert!(id.starts_with("item_") && id.len() == 31 && !id.contains('.'), "{id}");
    assert_eq!(item_id("agent.a", 7), id);
    assert!(item_id("agent.a", 8) != id && item_id("agent.b", 7) != id);
}

#[test]
fn a_mailbox_is_received_whole() {
    let intent = Some(IntentId::mint(at(1), &Dice(1)));
    let types = vec!["aee.*".to_owned()];
    for narrowed in
        [EndpointAsk { intent_id: intent, ..ask() }, EndpointAsk { event_types: types.clone(), ..ask() }]
    {
        assert!(made(narrowed.clone()).is_ok());
        assert_eq!(made(EndpointAsk { mailbox: true, ..narrowed }).err(), Some(Code::Unprocessable));
    }
    let whole = made(EndpointAsk { mailbox: true, ..ask() }).unwrap();
    let narrower = EndpointChange { event_types: Some(types), ..EndpointChange::default() };
    assert_eq!(whole.changed(narrower, at(2)).unwrap_err().code, Code::Unprocessable);
}

#[test]
fn a_bad_ask_is_refused() {
    let types = |types: Vec<String>| made(EndpointAsk { event_types: types, ..ask() }).err();
    assert_eq!(types(vec!["a\nb".to_owned()]), Some(Code::InvalidRequest));
    assert_eq!(types(vec!["a".to_owned(); 201]), Some(Code::TooLarge));
    assert_eq!(made(EndpointAsk { expires_at: Some(at(1)), ..ask() }).err(), Some(Code::AlreadyExpired));
}

#[test]
fn an_agents_endpoint_moves_with_the_agent_only() {
    let endpoint = Endpoint::of_agent(
        EndpointId::mint(at(1), &Dice(7)),
        "agent.a",
        "agent.a",
        "https://a.example/",
        at(1),
    );
    let to = |url: &str| EndpointChange { url: Some(url.to_owned()), ..EndpointChange::default() };
    assert!(endpoint.changed(to("https://a.example/"), at(2)).is_ok());
    assert_eq!(endpoint.changed(to("https://b.example/"), at(2)).unwrap_err().code, Code::Unprocessable);
}

proptest! {
    #[test]
    fn it_is_live_until_it_ends_or_is_disabled(now in moment(), seconds in 1_u32..1_000_000) {
        let end = plus_seconds(at(1), seconds);
        let endpoint = made(EndpointAsk { expires_at: Some(end), ..ask() }).unwrap();
        prop_assert!(endpoint.live(at(1)) && !endpoint.live(end) && !endpoint.live(now.max(end)));
        let off = EndpointChange { active: Some(false), ..EndpointChange::default() };
        let disabled = endpoint.changed(off.clone(), at(2)).unwrap();
        prop_assert!(!disabled.live(at(2)));
        prop_assert_eq!(disabled.disabled, Some((at(2), DisabledReason::Asked)));
        // A repeated request does not change the time.
        prop_assert_eq!(disabled.changed(off, at(3)).unwrap().disabled, disabled.disabled);
        let on = EndpointChange { active: Some(true), ..EndpointChange::default() };
        prop_assert_eq!(disabled.changed(on, at(4)).unwrap(), endpoint.clone());
        let mute = Endpoint { url: None, ..endpoint };
        prop_assert!(mute.active(at(2)) && !mute.live(at(2)));
    }
}

#[test]
fn a_cloud_event_has_the_data_as_it_was_written() {
    let body = r#"{"type":"comment","timestamp":"2026-11-27T20:00:00Z","data":{"n":1.50,"big":12345678901234567890}}"#;
    let intent: IntentId = "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F".parse().unwrap();
    let same = BodyFormat::Standard.write(body.to_owned(), "evt_1", "https://x.example", Some(intent), None);
    assert_eq!(same, body);
    let event =
        BodyFormat::CloudEvents.write(body.to_owned(), "evt_1", "https://x.example", Some(intent), None);
    assert_eq!(
        event,
        r#"{"specversion":"1.0","id":"evt_1","source":"https://x.example/api/v1/intents/intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F","type":"comment","time":"2026-11-27T20:00:00Z","datacontenttype":"application/json","data":{"n":1.50,"big":12345678901234567890}}"#
    );
    // Without a public URL the source is relative; of no intent, it is the server.
    let event = BodyFormat::CloudEvents.write(body.to_owned(), "evt_1", "", None, Some("00-a-b-01"));
    assert!(
        event.contains(r#""source":"/api/v1","#) && event.contains(r#""traceparent":"00-a-b-01","#),
        "{event}"
    );
    let other = "not in the standard form";
    assert_eq!(BodyFormat::CloudEvents.write(other.to_owned(), "evt_1", "", None, None), other);
    for format in [BodyFormat::Standard, BodyFormat::CloudEvents] {
        assert_eq!(BodyFormat::parse(format.as_str()), Some(format));
    }
}
