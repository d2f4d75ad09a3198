//! Envelopes that the gateway itself writes: valid, without warnings, and matching the envelope that they answer
//! (AEE §7.1, §11.1).

use entente_domain::aee::envelopes::drafts::{EnvelopeDraft, failure};
use entente_domain::aee::envelopes::pairing::{Known, Pair, PairStatus, Verdict, judge};
use entente_domain::aee::envelopes::{EnvelopeType, Priority, read};
use entente_domain::clock::{parse, rfc3339};
use entente_domain::traces::Trace;
use proptest::prelude::*;
use serde_json::Value;

use super::{FIELDS, accepted, sample};
use crate::any::{self, Dice};

const SYSTEM: &str = "service.entente";

#[test]
fn an_answer_closes_what_it_answers() {
    let at = parse("2026-11-21T10:00:00.000001Z").unwrap();
    let asked = accepted(sample(EnvelopeType::Task));
    for kind in [EnvelopeType::Result, EnvelopeType::Error] {
        let payload = failure("E_TIMEOUT", "Nobody answered in time.", true);
        let answer = EnvelopeDraft::answering(&asked, SYSTEM, kind, payload).write(at, &Dice(5)).unwrap();
        assert_eq!((answer.sender.as_str(), &answer.recipient), (SYSTEM, &asked.sender));
        assert_eq!((&answer.corr, &answer.purpose), (&asked.corr, &asked.purpose));
        assert_eq!((answer.ts, answer.sent_at, &answer.warnings[..]), (rfc3339(at), Some(at), &[][..]));
        let names: Vec<&String> = answer.members.keys().collect();
        assert_eq!(names.len(), FIELDS.len(), "all fourteen: {names:?}");
        let pair = Pair {
            task_id: asked.id.clone(),
            respondent: SYSTEM.to_owned(),
            asker: asked.sender.clone(),
            corr: asked.corr.clone(),
            status: PairStatus::Open,
            deadline: None,
        };
        let answer = accepted(answer.members);
        assert_eq!(judge(&answer, &Known::Task(Some(pair)), true, at), Ok(Verdict::Closes));
    }
}

proptest! {
    #[test]
    fn whatever_the_gateway_writes_is_valid_and_can_be_read(
        at in any::moment(), dice: u128, payload in any::object(), broadcast: bool, traced: bool,
    ) {
        let write = |dice| {
            let draft = EnvelopeDraft {
                kind: EnvelopeType::Event,
                sender: SYSTEM,
                recipient: if broadcast { "bus.ops" } else { "agent.a" },
                purpose: "entente.job.ended",
                corr: "job_01JFB2R1JZKQ9V3K8W8Y9W1F2A",
                reply_to: None,
                priority: Priority::Normal,
                payload: Value::from(payload.clone()),
                trace: traced.then(|| Trace::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap()),
            };
            draft.write(at, &Dice(dice)).unwrap()
        };
        let envelope = write(dice);
        prop_assert_eq!(envelope.is_broadcast(), broadcast);
        prop_assert_eq!(envelope.trace.is_some(), traced);
        prop_assert!(envelope.warnings.iter().all(|warning| warning.as_str() == "looks_like_nested_envelope"));
        let text = Value::from(envelope.members.clone()).to_string();
        prop_assume!(!text.contains("\\u0000"));
        prop_assert_eq!(read(text.as_bytes()).unwrap(), envelope.clone());
        // Other random bits give another id.
        prop_assert_ne!(&write(dice ^ 1).id, &envelope.id);
        prop_assert_eq!(envelope.payload(), &Value::from(payload.clone()));
    }
}
