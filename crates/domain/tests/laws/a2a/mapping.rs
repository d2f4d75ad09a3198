//! A2A over ARCP: messages as jobs and signals, results as artifacts, the state of a job as that of a task.

use entente_domain::a2a::artifacts::of_result;
use entente_domain::a2a::messages::{Message, Part};
use entente_domain::a2a::progress::{Happened, Progress, Update};
use entente_domain::a2a::requests::{PageToken, SendRequest, params};
use entente_domain::a2a::submissions::{self, CONTEXT, given};
use entente_domain::a2a::tasks::{Said, Standing, TaskState};
use entente_domain::a2a::{artifacts, speaks};
use entente_domain::arcp::jobs::JobStatus;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::any::{at, json as any_json, text};

fn part() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(|text| json!({ "text": text })),
        any_json().prop_map(|data| json!({ "data": data, "mediaType": "application/json" })),
        "[a-zA-Z0-9]{4}".prop_map(|raw| json!({ "raw": raw, "filename": "f" })),
        "https://[a-z]{1,9}\\.example".prop_map(|url| json!({ "url": url })),
    ]
}

fn message() -> impl Strategy<Value = Value> {
    let context = proptest::option::of("[a-z0-9äß -]{1,30}");
    ("[a-zA-Z0-9-]{1,40}", context, vec(part(), 1..4)).prop_map(|(id, context, parts)| {
        let mut message = json!({ "messageId": id, "role": "ROLE_USER", "parts": parts });
        if let Some(context) = context {
            message["contextId"] = json!(context);
        }
        message
    })
}

fn request(message: &Value) -> SendRequest {
    params(Some(&to_raw_value(&json!({ "message": message })).unwrap())).unwrap()
}

fn standing(status: JobStatus, attempt: u32, said: Option<&Said>, answered: Option<i64>) -> TaskState {
    Standing { status, attempt, said, answered, failure: None }.state()
}

proptest! {
    /// A repeated message is the same job; another agent, or another message, is another one.
    #[test]
    fn a_message_is_one_job(one in message(), other in message()) {
        let (first, again) = (submissions::job("echo", &request(&one)).unwrap(), submissions::job("echo", &request(&one)).unwrap());
        prop_assert_eq!(&first.idempotency_key, &again.idempotency_key);
        prop_assert_eq!(first.input.as_ref().unwrap().get(), again.input.as_ref().unwrap().get());
        prop_assert_eq!(&first.labels, &again.labels);
        let elsewhere = submissions::job("echo2", &request(&one)).unwrap();
        prop_assert_ne!(&first.idempotency_key, &elsewhere.idempotency_key);
        let different = submissions::job("echo", &request(&other)).unwrap();
        prop_assert_eq!(first.idempotency_key == different.idempotency_key, one == other);
    }

    /// A worker gets the message as it was sent, in a context, which is the client's if it named one.
    #[test]
    fn a_worker_gets_the_message(message in message()) {
        let job = submissions::job("echo", &request(&message)).unwrap();
        let input: Value = serde_json::from_str(job.input.as_ref().unwrap().get()).unwrap();
        let context = job.labels.unwrap()[CONTEXT].clone();
        prop_assert!(!context.is_empty());
        if let Some(named) = message.get("contextId") {
            prop_assert_eq!(named, &json!(context));
        }
        let mut expected = message;
        expected["contextId"] = json!(context);
        prop_assert_eq!(&input["message"], &expected);
        let read = given(job.input.as_ref().unwrap().get()).unwrap();
        prop_assert_eq!(serde_json::to_value(&read.message).unwrap(), expected);
    }

    /// A message is written as it was read.
    #[test]
    fn a_message_survives(message in message()) {
        let read: Message = serde_json::from_value(message.clone()).unwrap();
        prop_assert_eq!(serde_json::to_value(read.checked().unwrap()).unwrap(), message);
    }

    /// Every result but null is at least one lawful artifact, and none has a part without content.
    #[test]
    fn every_result_is_an_artifact(result in any_json()) {
        let raw: Box<RawValue> = to_raw_value(&result).unwrap();
        let found = of_result(&raw);
        prop_assert_eq!(found.is_empty(), result.is_null());
        for artifact in found {
            prop_assert!(!artifact.artifact_id.is_empty() && !artifact.parts.is_empty());
            prop_assert!(artifact.parts.iter().all(|part| part.check("").is_ok()));
        }
    }

    /// Whatever a worker writes into its events, followers get lawful updates and no panic.
    #[test]
    fn any_event_is_read(kind in select(vec!["status", "result_chunk", "artifact_ref", "log"]), body in any_json()) {
        let body = body.to_string();
        let mut progress = Progress::new("job_1".to_owned(), "c".to_owned(), TaskState::Submitted);
        let updates = progress.updates(&Happened { seq: 1, kind: Some(kind), at: at(0), body: &body });
        prop_assert!(matches!(updates.first(), Some(Update::StatusUpdate(begun)) if begun.status.state == TaskState::Working));
        prop_assert!(!progress.told.is_terminal());
    }

    /// A task is over exactly when its job is, and a question holds until a message comes after it.
    #[test]
    fn a_task_is_where_its_job_is(
        status in select(JobStatus::ALL.to_vec()), attempt in 0_u32..3, seq in 1_i64..9, answered in proptest::option::of(0_i64..9),
        phase in select(vec!["input_required", "auth-required", "running"]),
    ) {
        let said = Said::read(seq, at(0), &json!({ "phase": phase }).to_string());
        let state = standing(status, attempt, Some(&said), answered);
        prop_assert_eq!(state.is_terminal(), status.is_terminal());
        let is_open = answered.is_none_or(|answered| seq > answered);
        prop_assert_eq!(state.is_interrupted(), status == JobStatus::Running && is_open && phase != "running");
        prop_assert!(state.statuses().contains(&status));
        prop_assert_eq!(TaskState::parse(serde_json::to_value(state).unwrap().as_str().unwrap()), Some(state));
    }

    /// A place in a list is read as it was written.
    #[test]
    fn a_page_token_survives(at in any::<i64>(), id in "job_[0-9A-Z]{26}") {
        let token = PageToken(at, id);
        prop_assert_eq!(PageToken::read(&token.show()), Some(token));
    }

    /// Only 1.0 is spoken, with any patch level.
    #[test]
    fn versions_ignore_the_patch_level(major in 0_u8..4, minor in 0_u8..4, patch in proptest::option::of(0_u8..20)) {
        let said = patch.map_or_else(|| format!("{major}.{minor}"), |patch| format!("{major}.{minor}.{patch}"));
        prop_assert_eq!(speaks(Some(&said)), (major, minor) == (1, 0));
    }
}

#[test]
fn an_artifact_without_an_object_as_metadata_is_none() {
    for (metadata, is_artifact) in [(json!({ "n": 1 }), true), (json!([1]), false), (json!("x"), false)] {
        let artifact = json!({ "artifactId": "a", "parts": [{ "text": "1" }], "metadata": metadata });
        let found = of_result(&to_raw_value(&json!({ "artifacts": [artifact] })).unwrap());
        assert_eq!(found[0].artifact_id == "a", is_artifact, "{metadata}");
    }
}

#[test]
fn a_later_artifact_replaces_the_one_with_its_id() {
    let of = |id: &str, text: &str| artifacts::Artifact::of(id, vec![Part::text(text)]);
    let found = artifacts::latest(vec![of("a", "1"), of("b", "2"), of("a", "3")]);
    let told: Vec<_> =
        found.iter().map(|one| (one.artifact_id.as_str(), one.parts[0].text.as_deref().unwrap())).collect();
    assert_eq!(told, [("b", "2"), ("a", "3")]);
}

#[test]
fn artifacts_with_one_id_twice_are_no_artifacts() {
    let result = json!({ "artifacts": [
        { "artifactId": "a", "parts": [{ "text": "1" }] }, { "artifactId": "a", "parts": [{ "text": "2" }] },
    ] });
    let found = of_result(&to_raw_value(&result).unwrap());
    assert_eq!((found.len(), found[0].artifact_id.as_str()), (1, artifacts::RESULT));
    assert!(found[0].parts[0].data.is_some(), "it is structured data instead");
}
