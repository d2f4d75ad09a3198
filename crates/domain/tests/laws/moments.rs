//! Binding moments: valid questions, who may answer them, and the effects of a refusal on an agent.

mod answers;
mod asking;
mod carried;
mod course;
mod lints;
mod look_alikes;
mod machine;
mod rates;
mod reading;
mod text;
mod veto;

use entente_domain::clock::Timestamp;
use entente_domain::identity::authority::{Authority, Basis};
use entente_domain::identity::principals::PrincipalKind;
use entente_domain::ids::{KeyId, MomentId};
use entente_domain::moments::{
    Answered, Brief, Circumstances, Decider, Moment, MomentAsk, Resolution, Speaker, Via,
};
use entente_domain::refusal::{Code, Refusal};
use serde_json::{Value, json};

use crate::any::{Dice, at};

pub const AGENT: &str = "agent.ship";
pub const ADA: &str = "human.ada";
pub const BOB: &str = "human.bob";

/// Returns a valid question.
pub fn sample() -> Value {
    json!({
        "synopsis": "Ship 1.4 today.",
        "findings": [
            "CI is green on every platform.",
            "Two of three reviewers approved.",
            "No open blocker is left."
        ],
        "recommendations": ["Tag v1.4.", "Publish the crate to the registry."],
        "offer": "Ask for detail on any item.",
        "question": {
            "stem": "When should release 1.4 go out?",
            "options": [
                { "label": "Ship today", "reasoning": "All checks pass." },
                { "label": "Wait a day", "reasoning": "The third reviewer is back tomorrow." }
            ],
            "recommended_idx": 0,
            "hatches": { "free_text": true, "dialogue": true }
        }
    })
}

/// Returns the sample with another value at a JSON Pointer whose parent exists.
pub fn with(pointer: &str, value: Value) -> Value {
    let mut changed = sample();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match changed.pointer_mut(parent).unwrap() {
        Value::Object(members) => {
            members.insert(name.to_owned(), value);
        }
        Value::Array(items) => items[name.parse::<usize>().unwrap()] = value,
        other => panic!("{other} has no members"),
    }
    changed
}

/// Returns the sample without a member.
pub fn without(pointer: &str) -> Value {
    let mut changed = sample();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    changed.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name).unwrap();
    changed
}

pub fn brief() -> Brief {
    Brief::emitted(&sample()).unwrap()
}

/// Returns another question with this stem and these labels.
pub fn asking(stem: &str, labels: &[&str]) -> Brief {
    let options: Vec<Value> =
        labels.iter().map(|label| json!({ "label": label, "reasoning": "So it is." })).collect();
    let mut value = with("/question/stem", json!(stem));
    value["question"]["options"] = json!(options);
    Brief::emitted(&value).unwrap()
}

/// Returns the time this many seconds after the question was asked.
pub fn later(seconds: i64) -> Timestamp {
    at((1_795_000_000 + seconds) * 1_000_000)
}

pub fn id(number: u128) -> MomentId {
    MomentId::mint(later(0), &Dice(number))
}

pub fn ask() -> MomentAsk {
    MomentAsk { agent_id: AGENT.to_owned(), principal_id: ADA.to_owned(), ..MomentAsk::default() }
}

/// Returns the sample question, asked of Ada.
pub fn asked() -> Moment {
    Moment::ask(ask(), brief(), PrincipalKind::Human, None, id(1), later(0)).unwrap()
}

/// The authority of a login with an own password.
pub static OWN: Authority = Authority { basis: Basis::OwnPassword, let_in_by: None };

/// Returns a person with their own key.
pub fn person(name: &str) -> Decider<'_> {
    let key_id = KeyId::mint(later(0), &Dice(7));
    let authority = Some(&OWN);
    Decider {
        principal_id: name,
        kind: PrincipalKind::Human,
        as_itself: true,
        key_id,
        via: Via::Web,
        authority,
    }
}

pub fn option(option_idx: usize) -> Resolution {
    Resolution::Option { option_idx }
}

pub fn own_words(answer: &str) -> Resolution {
    Resolution::FreeText { answer: answer.to_owned() }
}

pub fn refusal_of(objection: &str) -> Resolution {
    Resolution::Dialogue { objection: objection.to_owned() }
}

/// Answers as Ada at this second.
pub fn answer(moment: &Moment, resolution: Resolution, second: i64) -> Result<Answered, Refusal> {
    let digest = moment.digest.clone().unwrap_or_default();
    moment.resolve(&person(ADA), &digest, resolution, Circumstances::default(), later(second))
}

/// Answers as Ada and asserts that this is the first answer.
pub fn answered(moment: &Moment, resolution: Resolution, second: i64) -> Moment {
    match answer(moment, resolution, second).unwrap() {
        Answered::First(moment) => moment,
        Answered::Again(_) => panic!("it was answered before"),
    }
}

/// Returns the sample question, refused.
pub fn vetoed() -> Moment {
    answered(&asked(), refusal_of("Not a matter of when."), 10)
}

pub fn says(moment: &Moment, by: Speaker<'_>, second: i64) -> Moment {
    moment.word(by, "A word.", later(second)).unwrap().0
}

/// Asserts a refusal with this code, and that no client takes it for a lease conflict (OI-3.5.3).
pub fn is_refused<T: std::fmt::Debug>(outcome: Result<T, Refusal>, code: Code) -> String {
    let refusal = outcome.unwrap_err();
    assert_eq!(refusal.code, code, "{}", refusal.message);
    assert!(!refusal.message.to_lowercase().contains("lease"), "{}", refusal.message);
    assert!(refusal.message.ends_with(['.', ')']), "{}", refusal.message);
    refusal.message
}
