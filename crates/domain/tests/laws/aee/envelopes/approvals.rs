//! Approvals of AEE tasks: which tasks need one, who may decide, and the deadline.

use entente_domain::aee::envelopes::approvals::{needed, require_other, require_person, require_waiting};
use entente_domain::aee::envelopes::pairing::{Pair, PairStatus};
use entente_domain::aee::envelopes::{Envelope, check};
use entente_domain::clock::plus_seconds;
use entente_domain::identity::principals::PrincipalKind;
use entente_domain::refusal::Code;
use serde_json::json;

use crate::any::at;

fn envelope(kind: &str, to: &str, approval: bool) -> Envelope {
    let text = json!({
        "v": "1", "id": "envelope-1", "ts": "2026-11-21T08:00:00Z", "type": kind, "from": "agent.a", "to": to,
        "intent": "ops.x", "corr": "thread-1", "priority": "low", "requires": { "human_approval": approval }, "payload": {},
    });
    check(text.as_object().unwrap().clone()).unwrap()
}

#[test]
fn a_task_for_no_person_needs_a_person() {
    let task = |to: &str| envelope("task", to, true);
    assert!(needed(&task("agent.b"), None) && needed(&task("bus.ops"), None) && needed(&task("urn:x"), None));
    assert!(
        needed(&task("agent.b"), Some(PrincipalKind::Agent))
            && needed(&task("agent.b"), Some(PrincipalKind::Service))
    );
    assert!(!needed(&task("human.b"), None) && !needed(&task("ada"), Some(PrincipalKind::Human)));
    assert!(needed(&task("human.b"), Some(PrincipalKind::Agent)), "a name alone makes nobody a person");
    assert!(needed(&task("humans.b"), None) && needed(&task("human"), None));
    assert!(!needed(&envelope("task", "agent.b", false), None));
    assert!(!needed(&envelope("event", "agent.b", true), None));
}

#[test]
fn a_person_agrees_to_what_others_ask() {
    let code = |principal: &str, kind: PrincipalKind, approver: Option<&str>| {
        require_person(principal, kind, approver).err().map(|refusal| refusal.code)
    };
    assert_eq!(code("human.a", PrincipalKind::Human, None), None);
    assert_eq!(code("human.a", PrincipalKind::Human, Some("human.a")), None);
    assert_eq!(code("human.a", PrincipalKind::Human, Some("human.b")), Some(Code::Forbidden));
    for kind in [PrincipalKind::Agent, PrincipalKind::Service] {
        assert_eq!(code("human.a", kind, None), Some(Code::Forbidden));
        assert_eq!(code("human.a", kind, Some("human.a")), Some(Code::Forbidden));
    }
    assert!(require_other("human.a", "agent.b", Some("agent.b")).is_ok());
    assert!(require_other("human.a", "human.a", Some("service.gateway")).is_err());
    assert!(require_other("human.a", "agent.b", Some("human.a")).is_err());
    assert!(require_other("human.a", "agent.b", None).is_ok());
}

#[test]
fn there_is_one_decision_and_it_is_in_time() {
    let pair = |status: PairStatus| Pair {
        task_id: "envelope-1".to_owned(),
        respondent: "agent.b".to_owned(),
        asker: "agent.a".to_owned(),
        corr: "thread-1".to_owned(),
        status,
        deadline: Some(plus_seconds(at(1), 10)),
    };
    let code = |pairs: &[(Pair, Option<(String, _)>)], seconds| {
        require_waiting(pairs, plus_seconds(at(1), seconds)).err().map(|refusal| refusal.code)
    };
    assert_eq!(code(&[(pair(PairStatus::Held), None)], 9), None);
    assert_eq!(code(&[(pair(PairStatus::Held), None)], 10), Some(Code::TaskClosed));
    assert_eq!(code(&[(pair(PairStatus::TimedOut), None)], 0), Some(Code::TaskClosed));
    for status in [PairStatus::Open, PairStatus::Closed, PairStatus::TimedOut] {
        let decided = Some(("human.a".to_owned(), at(1)));
        assert_eq!(code(&[(pair(status), decided)], 0), Some(Code::InvalidTransition));
    }
}
