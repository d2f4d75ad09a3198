//! Escalations (RFC-0013): who may resolve which, and only once.

use entente_domain::access::{AccessLevel, Level};
use entente_domain::identity::authority::{Authority, Basis};
use entente_domain::identity::principals::{Author, PrincipalKind};
use entente_domain::ids::{EscalationId, IntentId};
use entente_domain::limits::{ESCALATIONS_WAITING, METADATA_BYTES, TEXT_BYTES};
use entente_domain::openintent::escalations::{
    Answerer, Escalation, EscalationAsk, EscalationStatus, Weight, escalate,
};
use entente_domain::refusal::Code;
use serde_json::{Map, json};
use uuid::Uuid;

use crate::any::at;

fn ask(to: Option<&str>) -> EscalationAsk {
    EscalationAsk {
        reason: "two sources".to_owned(),
        assigned_to: to.map(str::to_owned),
        ..EscalationAsk::default()
    }
}

fn made(to: Option<&str>) -> Escalation {
    let (intent, id) = (IntentId::from(Uuid::nil()), EscalationId::from(Uuid::nil()));
    escalate(ask(to), intent, Author { agent: "a", principal: "human.owner" }, id, 0, at(0)).unwrap()
}

static OWN: Authority = Authority { basis: Basis::OneTimeLink, let_in_by: None };

fn by<'a>(agent: &'a str, principal: &'a str, kind: PrincipalKind, level: Option<Level>) -> Answerer<'a> {
    let access = AccessLevel { level, granted: true, until: None };
    Answerer { agent, principal, kind, access, authority: Some(&OWN) }
}

#[test]
fn limits_are_kept() {
    let of = |ask: EscalationAsk, waiting| {
        let (intent, id) = (IntentId::from(Uuid::nil()), EscalationId::from(Uuid::nil()));
        escalate(ask, intent, Author { agent: "a", principal: "a" }, id, waiting, at(0)).unwrap_err().code
    };
    assert_eq!(of(EscalationAsk { reason: " ".to_owned(), ..ask(None) }, 0), Code::InvalidRequest);
    assert_eq!(of(EscalationAsk { reason: "x".repeat(TEXT_BYTES + 1), ..ask(None) }, 0), Code::TooLarge);
    let large = Map::from_iter([("a".to_owned(), json!("x".repeat(METADATA_BYTES)))]);
    assert_eq!(of(EscalationAsk { context: large, ..ask(None) }, 0), Code::TooLarge);
    assert_eq!(of(ask(None), ESCALATIONS_WAITING), Code::TooLarge);
    let admin = by("m", "m", PrincipalKind::Human, Some(Level::Admin));
    for (resolution, notes, code) in [
        (" ", None, Code::InvalidRequest),
        (&*"x".repeat(TEXT_BYTES + 1), None, Code::TooLarge),
        ("go", Some("x".repeat(TEXT_BYTES + 1)), Code::TooLarge),
    ] {
        assert_eq!(made(None).resolve(admin, resolution, notes, at(1)).unwrap_err().code, code);
    }
}

#[test]
fn only_the_person_itself_answers_what_names_it() {
    let named = made(Some("human.ada"));
    for (who, why) in [
        (by("agent.m", "agent.m", PrincipalKind::Agent, Some(Level::Admin)), "an admin"),
        (
            by("human.ada", "service.any", PrincipalKind::Service, Some(Level::Admin)),
            "a key that may act as the person",
        ),
        (
            by("human.ada", "human.bob", PrincipalKind::Human, Some(Level::Admin)),
            "another person in its name",
        ),
        (by("human.bob", "human.bob", PrincipalKind::Human, Some(Level::Admin)), "another person"),
        (by("human.ada", "human.ada", PrincipalKind::Agent, Some(Level::Admin)), "an agent of that name"),
    ] {
        let refused = named.clone().resolve(who, "go", None, at(1)).unwrap_err();
        assert_eq!(refused.code, Code::NotThePrincipal, "{why}");
    }
    // Even without access to the intent, because it was put before this person.
    let ada = by("human.ada", "human.ada", PrincipalKind::Human, None);
    assert!(ada.sees(&named) && !ada.sees(&made(None)));
    let done = named.resolve(ada, "go", Some("sure".to_owned()), at(1)).unwrap();
    assert_eq!((done.status, done.resolved_by.as_deref()), (EscalationStatus::Resolved, Some("human.ada")));
    assert_eq!((done.resolved_at, done.resolution.as_deref()), (Some(at(1)), Some("go")));
}

#[test]
fn what_names_nobody_is_for_people_but_who_raised_it() {
    let given = Authority { basis: Basis::GivenKey, let_in_by: Some("service.ops".to_owned()) };
    let reader = by("h", "h", PrincipalKind::Human, Some(Level::Read));
    for (who, why) in [
        (by("m", "m", PrincipalKind::Agent, Some(Level::Admin)), "an agent that administers the intent"),
        (by("s", "s", PrincipalKind::Service, Some(Level::Admin)), "a service that does"),
        (by("h", "s", PrincipalKind::Service, Some(Level::Admin)), "a service in a person's name"),
        (by("a", "a", PrincipalKind::Human, Some(Level::Admin)), "who raised it"),
        (
            by("human.owner", "human.owner", PrincipalKind::Human, Some(Level::Admin)),
            "whose key raised it under another name",
        ),
        (Answerer { authority: Some(&given), ..reader }, "who has a key that somebody else made"),
        (Answerer { authority: None, ..reader }, "who has a key of which nobody knows how it came about"),
    ] {
        let refused = made(None).resolve(who, "go", None, at(1)).unwrap_err();
        assert_eq!(refused.code, Code::NotThePrincipal, "{why}");
    }
    made(None).resolve(reader, "go", None, at(1)).unwrap();
}

#[test]
fn an_answer_stands() {
    let admin = by("m", "m", PrincipalKind::Human, Some(Level::Admin));
    let done = made(None).resolve(admin, "go", None, at(1)).unwrap();
    assert_eq!(done.clone().resolve(admin, "go", None, at(2)).unwrap(), done, "the same once more");
    let other = by("n", "n", PrincipalKind::Human, Some(Level::Admin));
    for (who, what) in [(admin, "stop"), (other, "go")] {
        assert_eq!(done.clone().resolve(who, what, None, at(2)).unwrap_err().code, Code::AlreadyDecided);
    }
    let over = Escalation { status: EscalationStatus::Expired, ..made(None) };
    assert_eq!(over.resolve(admin, "go", None, at(2)).unwrap_err().code, Code::AlreadyDecided);
}

#[test]
fn words_are_read_as_they_are_written() {
    for status in [EscalationStatus::Pending, EscalationStatus::Resolved, EscalationStatus::Expired] {
        assert_eq!(EscalationStatus::parse(status.as_str()), Some(status));
        assert_eq!(json!(status), status.as_str());
    }
    for weight in [Weight::Low, Weight::Medium, Weight::High, Weight::Critical] {
        assert_eq!(Weight::parse(weight.as_str()), Some(weight));
        assert_eq!(json!(weight), weight.as_str());
    }
    assert_eq!((EscalationStatus::parse("x"), Weight::parse("x")), (None, None));
}
